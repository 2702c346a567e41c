//! Somebody else's XDP program: two instructions that pass every frame.
#![expect(unsafe_code, reason = "a program without an object file is loaded by bpf(2) alone")]

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
};

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TYPE_XDP: u32 = 6;

/// `r0 = XDP_PASS; exit`.
static INSTRUCTIONS: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
static LICENCE: [u8; 4] = *b"GPL\0";

/// The part of `union bpf_attr` that `BPF_PROG_LOAD` reads, up to the name, host order.
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: *const [[u8; 8]; 2],
    license: *const [u8; 4],
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
}

/// Loads a program of that name (at most 15 bytes) that passes every frame.
///
/// # Errors
/// The kernel's.
pub fn load_passing(name: &str) -> io::Result<OwnedFd> {
    let mut prog_name = [0; 16];
    for (to, from) in prog_name.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    let attr = ProgLoad {
        prog_type: BPF_PROG_TYPE_XDP,
        insn_cnt: 2,
        insns: &raw const INSTRUCTIONS,
        license: &raw const LICENCE,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
        prog_name,
    };
    // SAFETY: the record and what it points to live over the call, and its length is given.
    let made = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const attr, size_of::<ProgLoad>()) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(made).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
