//! XDP links, and whose program is attached to a device.
#![expect(unsafe_code, reason = "bpf(2) has no safe wrapper that never falls back to netlink")]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use aya::programs::loaded_programs;

/// Which of a device's XDP hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpHook {
    /// In the driver (`XDP_FLAGS_DRV_MODE`).
    Native,
    /// Before the stack, on socket buffers (`XDP_FLAGS_SKB_MODE`).
    Generic,
}

/// The part of `union bpf_attr` that `BPF_LINK_CREATE` reads for XDP, host order.
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

const _: () = assert!(size_of::<LinkCreate>() == 16);

const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Attaches an XDP program to a device by a link: it is detached when the descriptor is closed, also by the death of this
/// process. Never replaces a program.
///
/// # Errors
/// The kernel's: `EBUSY` or `EEXIST` when another program holds the hook, `EPERM` without CAP_NET_ADMIN and CAP_BPF, and
/// whatever the driver says of its own.
pub fn attach_xdp(program: BorrowedFd<'_>, ifindex: u32, hook: XdpHook) -> io::Result<OwnedFd> {
    let flags = match hook {
        XdpHook::Native => XDP_FLAGS_DRV_MODE,
        XdpHook::Generic => XDP_FLAGS_SKB_MODE,
    };
    let attr = LinkCreate {
        prog_fd: program.as_raw_fd().cast_unsigned(),
        target_ifindex: ifindex,
        attach_type: BPF_XDP,
        flags,
    };
    // SAFETY: `attr` is as long as said and lives over the call; the kernel reads missing fields as zero.
    let made = unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_CREATE, &raw const attr, size_of::<LinkCreate>()) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(made).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The name of a loaded program, as the kernel keeps it (at most 15 bytes). `None` when there is no such program any more,
/// it has no name, or this process may not ask.
#[must_use]
pub fn program_name(id: u32) -> Option<String> {
    loaded_programs()
        .filter_map(Result::ok)
        .find(|program| program.id() == id)
        .and_then(|program| program.name_as_str().map(str::to_owned))
}
