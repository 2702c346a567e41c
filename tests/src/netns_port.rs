//! An AF_XDP port with a UMEM of its own, worked by the test instead of a worker.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test whose world can not be made must fail at once"
)]

use std::{num::NonZeroU32, time::Duration};

use dataplane::port::{
    BURST, Port, PortStatus,
    afxdp::{AfXdpPort, AttachError, Attachment, Options, Steer, attach},
    umem::{Borrower, Frame, Umem},
};

use crate::{netns::Netns, wait::wait_until};

/// Options with which a test begins: every frame, the best mode, a ring of 256.
#[must_use]
pub fn options(device: &str) -> Options {
    Options { ring: 256, ..Options::new(device, Steer::All) }
}

/// The name ports of tests lend chunks to.
#[must_use]
pub const fn borrower() -> Borrower {
    Borrower(NonZeroU32::MIN)
}

/// A port, its memory and its attachment.
#[derive(Debug)]
pub struct TestPort {
    /// Frame memory.
    pub umem: Umem,
    /// The worker's half.
    pub port: Box<AfXdpPort>,
    /// Control's half; `None` once detached.
    pub attachment: Option<Attachment>,
    received: Vec<Frame>,
}

impl TestPort {
    /// Attaches in `netns` with a UMEM of `chunks`.
    ///
    /// # Errors
    /// As `attach`.
    pub fn attach(netns: &Netns, options: &Options, chunks: u32) -> Result<Self, AttachError> {
        let umem = Umem::new(chunks).expect("memory for a UMEM");
        let area = umem.area();
        let (port, attachment) = netns.run(|| attach(options, &area, borrower()))?;
        let mut port =
            Self { umem, port: Box::new(port), attachment: Some(attachment), received: Vec::with_capacity(BURST) };
        // The first call gives the kernel chunks to receive into.
        port.receive();
        Ok(port)
    }

    /// Takes what has arrived, at most a burst.
    pub fn receive(&mut self) -> Vec<Vec<u8>> {
        self.port.rx(&mut self.umem, &mut self.received, BURST);
        self.received
            .drain(..)
            .map(|frame| {
                let bytes = self.umem.bytes(&frame).to_vec();
                self.umem.discard(frame);
                bytes
            })
            .collect()
    }

    /// Receives until `count` frames have arrived or two seconds have passed without all of them.
    pub fn receive_all(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        wait_until(Duration::from_secs(2), || {
            all.extend(self.receive());
            all.len() >= count
        });
        all
    }

    /// Sends these frames and waits, at most two seconds, until the kernel has taken and completed them all.
    pub fn send_all(&mut self, frames: &[Vec<u8>]) -> bool {
        let mut waiting = frames.iter();
        let mut queue = Vec::with_capacity(BURST);
        wait_until(Duration::from_secs(2), || {
            while queue.len() < BURST
                && let Some(bytes) = waiting.as_slice().first()
                && let Some(frame) = self.umem.copy_in(bytes)
            {
                queue.push(frame);
                waiting.next();
            }
            self.port.tx(&mut self.umem, &mut queue);
            queue.is_empty() && waiting.as_slice().is_empty() && !self.port.is_busy()
        })
    }

    /// The port's state.
    #[must_use]
    pub fn status(&self) -> PortStatus {
        self.port.status()
    }

    /// Detaches and closes, and gives the memory back with every chunk the port held.
    #[must_use]
    pub fn close(self) -> Umem {
        let Self { mut umem, port, attachment, .. } = self;
        drop(attachment);
        if let Some(borrower) = port.close() {
            umem.reclaim_all(borrower);
        }
        umem
    }
}
