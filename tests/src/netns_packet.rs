//! Raw frames of a device inside a namespace, as a tenant or a neighbour would send and see them.
#![expect(unsafe_code, reason = "packet sockets have no safe wrapper")]
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test whose world can not be made must fail at once"
)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with},
};

use crate::netns::Netns;

/// `ETH_P_ALL`.
const EVERY_PROTOCOL: u16 = 3;
/// `PACKET_IGNORE_OUTGOING`.
const IGNORE_OUTGOING: libc::c_int = 23;

/// A packet socket on one device: sends whole frames, receives those that arrive there.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// Opens one on `device` of `netns`.
    #[must_use]
    pub fn open(netns: &Netns, device: &str) -> Self {
        netns.run(|| Self::open_here(device)).expect("a packet socket")
    }

    fn open_here(device: &str) -> io::Result<Self> {
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        set(&fd, libc::SOL_PACKET, IGNORE_OUTGOING, 1)?;
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 32 << 20)?;
        set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 4 << 20)?;
        let ifindex = netdevice::name_to_index(&fd, device)?;
        let address = libc::sockaddr_ll {
            sll_family: u16::try_from(libc::AF_PACKET).map_err(io::Error::other)?,
            sll_protocol: EVERY_PROTOCOL.to_be(),
            sll_ifindex: i32::try_from(ifindex).map_err(io::Error::other)?,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).map_err(io::Error::other)?;
        // SAFETY: the address is a live sockaddr_ll of the length given.
        let done = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(Self { fd }) }
    }

    /// Sends one frame, waiting while the socket's buffer is full.
    ///
    /// # Errors
    /// The kernel's: `EMSGSIZE` for a frame over the MTU.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        Ok(send(&self.fd, frame, SendFlags::empty()).map(drop)?)
    }

    /// The next frame that arrives within `timeout`. VLAN tags are the kernel's and not shown.
    #[must_use]
    pub fn receive(&self, timeout: Duration) -> Option<Vec<u8>> {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).ok()?;
        if poll(&mut fds, Some(&timeout)).ok()? == 0 {
            return None;
        }
        let mut buffer = vec![0; 65536];
        let (_, length) = recv(self.fd.as_fd(), buffer.as_mut_slice(), RecvFlags::DONTWAIT).ok()?;
        buffer.truncate(length);
        Some(buffer)
    }
}

fn set(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).map_err(io::Error::other)?;
    // SAFETY: the option's value is a live int of the length given.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A frame of `length` bytes from `from` to `to`, of an experimental EtherType (IEEE 802: 0x88b5), whose payload is told by
/// `seed`. Shorter than 14 bytes it is cut.
#[must_use]
pub fn frame(to: [u8; 6], from: [u8; 6], length: usize, seed: u32) -> Vec<u8> {
    let mut bytes = [to.as_slice(), &from, &[0x88, 0xb5]].concat();
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
