//! Promiscuous mode that ends with the process.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::sockopt;

/// A device receives every frame for as long as this lives.
///
/// The kernel counts such requests and drops ours when the socket is closed, also when the process is killed; a promiscuous
/// mode somebody else asked for stays.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Asks for it.
    ///
    /// # Errors
    /// The kernel's: `EPERM` without CAP_NET_RAW, `ENODEV` for an unknown index.
    pub fn on(ifindex: u32) -> io::Result<Self> {
        // Protocol 0: the socket receives nothing.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        sockopt::add_promiscuous(socket.as_fd(), ifindex)?;
        Ok(Self { _socket: socket })
    }
}
