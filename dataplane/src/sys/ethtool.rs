//! Questions of the ethtool ioctl: queues in use and VLAN offload.
#![expect(unsafe_code, reason = "SIOCETHTOOL has no safe wrapper")]

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;

/// `struct ethtool_channels`, host order.
#[repr(C)]
#[derive(Default)]
struct Channels {
    cmd: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_value`, host order.
#[repr(C)]
#[derive(Default)]
struct Value {
    cmd: u32,
    data: u32,
}

/// `struct ifreq` with the union's pointer member.
#[repr(C)]
struct Request {
    name: [u8; 16],
    argument: *mut libc::c_void,
    rest: [u8; 16],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

/// Receive and transmit queues a device uses now, `None` when its driver does not say.
#[must_use]
pub fn queues(device: &str) -> Option<(u32, u32)> {
    let mut channels = Channels { cmd: ETHTOOL_GCHANNELS, ..Channels::default() };
    ask(device, &mut channels).ok()?;
    Some((channels.rx.saturating_add(channels.combined), channels.tx.saturating_add(channels.combined)))
}

/// Whether the device takes VLAN tags off received frames before XDP sees them. `None` when its driver does not say.
#[must_use]
pub fn rx_vlan_offload(device: &str) -> Option<bool> {
    let mut value = Value { cmd: ETHTOOL_GFLAGS, data: 0 };
    ask(device, &mut value).ok()?;
    Some(value.data & ETH_FLAG_RXVLAN != 0)
}

/// `argument` must be the `repr(C)` record its own first field, the command, calls for: this module's two are.
fn ask<T>(device: &str, argument: &mut T) -> io::Result<()> {
    let mut name = [0; 16];
    let (text, zeros) = name.split_at_mut_checked(device.len()).ok_or(io::ErrorKind::InvalidInput)?;
    if zeros.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    text.copy_from_slice(device.as_bytes());
    let socket: OwnedFd = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut request = Request { name, argument: std::ptr::from_mut(argument).cast(), rest: [0; 16] };
    // SAFETY: the request has ifreq's layout (asserted), and its pointer is to a live record as long as the command's.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
