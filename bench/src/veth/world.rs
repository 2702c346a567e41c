//! Three namespaces and two veth pairs.

use std::num::NonZeroU32;

use dataplane::port::{
    Port,
    afxdp::{AfXdpPort, Attachment, Mode, Options, Steer, attach},
    umem::{Borrower, Umem, UmemArea},
};

use crate::{error::BenchError, netns::Netns, subject::Wiring};

const MTU: u32 = 1500;
/// Slots of every ring.
const RING: u32 = 1024;
/// Chunks of the subject's frame memory: as many for receiving on each port as its ring has slots.
const CHUNKS: u32 = 4 * RING;

/// Where frames are sent, pass through, and end.
#[derive(Debug)]
pub(super) struct World {
    // Dropped first: what holds devices, then the namespaces.
    end: Attachment,
    pub(super) start: Netns,
    middle: Netns,
    _sink: Netns,
}

/// The subject's ports.
#[derive(Debug)]
pub(super) struct Plugged {
    pub(super) wiring: Wiring,
    pub(super) attachments: [Attachment; 2],
}

impl World {
    pub(super) fn new() -> Result<Self, BenchError> {
        let (start, middle, sink) = (Netns::new()?, Netns::new()?, Netns::new()?);
        middle.veth("in", &start, "source", MTU)?;
        middle.veth("out", &sink, "sink", MTU)?;
        // The steering program drops, and counts, what it has no socket for.
        let umem = Umem::new(64)?;
        let (port, end) = attached(&sink, "sink", &umem.area(), 1)?;
        Box::new(port).close();
        Ok(Self { end, start, middle, _sink: sink })
    }

    /// Frames that reached the end.
    pub(super) fn delivered(&self) -> Result<u64, BenchError> {
        let counted = self
            .end
            .counters()
            .map_err(|error| BenchError::io("reading the counters")(std::io::Error::other(error)))?;
        Ok(counted.dropped)
    }

    /// Opens the subject's sockets.
    pub(super) fn plug(&self) -> Result<Plugged, BenchError> {
        let umem = Umem::new(CHUNKS)?;
        let (from, first) = attached(&self.middle, "in", &umem.area(), 1)?;
        let (to, second) = attached(&self.middle, "out", &umem.area(), 2)?;
        let wiring = Wiring { umem, from: Box::new(from), to: Box::new(to) };
        Ok(Plugged { wiring, attachments: [first, second] })
    }
}

/// Takes the programs off, then closes the sockets.
pub(super) fn unplug(attachments: [Attachment; 2], ports: impl Iterator<Item = Box<dyn Port>>) {
    drop(attachments);
    for port in ports {
        port.close();
    }
}

/// An AF_XDP port on a device, taking every frame.
pub(super) fn attached(
    netns: &Netns,
    device: &str,
    area: &UmemArea,
    borrower: u32,
) -> Result<(AfXdpPort, Attachment), BenchError> {
    let options = Options {
        device: device.to_owned(),
        queues: None,
        ring: RING,
        steer: Steer::All,
        promiscuous: false,
        mode: Mode::Best,
    };
    let borrower = Borrower(NonZeroU32::new(borrower).unwrap_or(NonZeroU32::MIN));
    Ok(netns.run(|| attach(&options, area, borrower))??)
}
