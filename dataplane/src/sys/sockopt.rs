//! Socket options that rustix lacks.
#![expect(unsafe_code, reason = "setsockopt for options without a safe wrapper")]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// `XDP_MAX_TX_SKB_BUDGET`, since Linux 6.18.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// `PACKET_MR_PROMISC`, in the record's own width.
const PACKET_MR_PROMISC: u16 = 1;

/// Sets how many frames one kick of a copy-mode AF_XDP socket sends at most.
///
/// # Errors
/// `ENOPROTOOPT` on a kernel without the option, `EACCES` when `frames` is below 32 or over the TX ring's size.
pub fn set_max_tx_budget(socket: BorrowedFd<'_>, frames: u32) -> io::Result<()> {
    set(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &frames)
}

/// Makes a device promiscuous for as long as the packet socket is open.
pub(super) fn add_promiscuous(socket: BorrowedFd<'_>, ifindex: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: i32::try_from(ifindex).map_err(io::Error::other)?,
        mr_type: PACKET_MR_PROMISC,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// `value` is plain data of the type the option takes.
fn set<T: Copy>(socket: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: `value` points to `length` live bytes, which the kernel copies.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
