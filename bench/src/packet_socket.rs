//! Whole frames of a device, as a host that speaks no protocol would send and see them.
#![expect(unsafe_code, reason = "packet sockets have no safe wrapper")]

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{AddressFamily, SendFlags, SocketFlags, SocketType, netdevice, send, socket_with},
};

/// `ETH_P_ALL`.
const EVERY_PROTOCOL: u16 = 3;
/// `PACKET_IGNORE_OUTGOING`.
const IGNORE_OUTGOING: libc::c_int = 23;
/// Room for one control message, aligned as its header must be.
#[repr(align(8))]
struct Control([u8; 64]);

/// A packet socket on one device: sends whole frames, receives those that arrive there.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// Opens one on `device` of the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's: `EPERM` without CAP_NET_RAW, `ENODEV` for a device that is not there.
    pub fn open(device: &str) -> io::Result<Self> {
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        set(&fd, libc::SOL_PACKET, IGNORE_OUTGOING, 1)?;
        set(&fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 32 << 20)?;
        set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 4 << 20)?;
        let address = libc::sockaddr_ll {
            sll_family: u16::try_from(libc::AF_PACKET).map_err(io::Error::other)?,
            sll_protocol: EVERY_PROTOCOL.to_be(),
            sll_ifindex: i32::try_from(netdevice::name_to_index(&fd, device)?).map_err(io::Error::other)?,
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

    /// The next frame that arrives within `timeout`, with its VLAN tag where it had one on the wire.
    ///
    /// # Errors
    /// The kernel's.
    pub fn receive(&self, timeout: Duration) -> io::Result<Option<Vec<u8>>> {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        if poll(&mut fds, Some(&timeout))? == 0 {
            return Ok(None);
        }
        let mut frame = vec![0; 65_536];
        let mut control = Control([0; 64]);
        let mut part = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        // SAFETY: all zeros is a message header without a name, parts or control.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len();
        // SAFETY: the header's pointers are to live buffers of the lengths it gives.
        let length = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        let length = usize::try_from(length).map_err(|_negative| io::Error::last_os_error())?;
        frame.truncate(length);
        if let Some(tag) = vlan_tag(control.0.get(..message.msg_controllen).unwrap_or_default())
            && frame.len() >= 12
        {
            frame.splice(12..12, tag);
        }
        Ok(Some(frame))
    }

    /// The first frame that arrives within `patience` and is `wanted`; others are passed over.
    ///
    /// # Errors
    /// The kernel's.
    pub fn find(&self, patience: Duration, mut wanted: impl FnMut(&[u8]) -> bool) -> io::Result<Option<Vec<u8>>> {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.receive(left)? {
                Some(frame) if wanted(&frame) => return Ok(Some(frame)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}

/// The tag that the kernel keeps beside the frame, from a control message with `struct tpacket_auxdata`.
fn vlan_tag(control: &[u8]) -> Option<[u8; 4]> {
    // cmsg_len, cmsg_level, cmsg_type; tp_status, tp_len, tp_snaplen, tp_mac, tp_net, tp_vlan_tci, tp_vlan_tpid.
    let (header, data) = control.split_first_chunk::<16>()?;
    let kind = i32::from_ne_bytes(*header.last_chunk::<4>()?);
    let status = u32::from_ne_bytes(*data.first_chunk::<4>()?);
    let [tci0, tci1, tpid0, tpid1] = *data.get(16..20)?.first_chunk::<4>()?;
    let (tci, tpid) = (u16::from_ne_bytes([tci0, tci1]), u16::from_ne_bytes([tpid0, tpid1]));
    let [tpid0, tpid1] = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { tpid } else { 0x8100 }.to_be_bytes();
    let [tci0, tci1] = tci.to_be_bytes();
    (kind == libc::PACKET_AUXDATA && status & libc::TP_STATUS_VLAN_VALID != 0).then_some([tpid0, tpid1, tci0, tci1])
}

fn set(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).map_err(io::Error::other)?;
    // SAFETY: the option's value is a live int of the length given.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
