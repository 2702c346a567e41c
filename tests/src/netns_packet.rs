//! Raw frames of a device inside a namespace, as a tenant or a neighbour would send and see them.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test whose world can not be made must fail at once"
)]

use std::{io, time::Duration};

use bench::packet_socket::PacketSocket as Fallible;

use crate::netns::Netns;

/// A packet socket on one device: sends whole frames, receives those that arrive there.
#[derive(Debug)]
pub struct PacketSocket(Fallible);

impl PacketSocket {
    /// Opens one on `device` of `netns`.
    #[must_use]
    pub fn open(netns: &Netns, device: &str) -> Self {
        Self(netns.run(|| Fallible::open(device)).expect("a packet socket"))
    }

    /// Sends one frame, waiting while the socket's buffer is full.
    ///
    /// # Errors
    /// The kernel's: `EMSGSIZE` for a frame over the MTU.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame)
    }

    /// The next frame that arrives within `timeout`, with its VLAN tag where it had one on the wire.
    #[must_use]
    pub fn receive(&self, timeout: Duration) -> Option<Vec<u8>> {
        self.0.receive(timeout).ok()?
    }
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
