//! Ports: every attachment of the switch, behind one trait that never blocks.

pub mod afxdp;
pub mod fault;
pub mod memory;
pub mod pcap;
pub mod umem;

use std::{fmt, os::fd::BorrowedFd};

use umem::{Borrower, Frame, Umem};

/// Most frames taken from one port in one pass.
pub const BURST: usize = 64;

/// How many chunks each queue of a port may hold for receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// At most this many.
    pub most: u32,
    /// This many whatever the others took, as far as chunks are free.
    pub least: u32,
    /// Free chunks that are left for frames on their way.
    pub reserve: u32,
}

impl Quota {
    /// At most so many, and nothing left for others.
    #[must_use]
    pub const fn most(chunks: u32) -> Self {
        Self { most: chunks, least: chunks, reserve: 0 }
    }
}

/// One attachment of the switch. Owned by one worker; never blocks, allocates or panics.
pub trait Port: Send + fmt::Debug {
    /// Appends received frames to `into`, at most `room` of them, which is at most [`BURST`] and fits its capacity.
    ///
    /// Each frame's chunk is the caller's from then on.
    fn rx(&mut self, umem: &mut Umem, into: &mut Vec<Frame>, room: usize);

    /// Sends frames from the front of `queue`, removing each one taken. What it leaves there, the port had no room for.
    ///
    /// Called every pass, also with an empty queue: a port finishes earlier work then.
    fn tx(&mut self, umem: &mut Umem, queue: &mut Vec<Frame>);

    /// True while frames given to [`tx`](Self::tx) are still to be pushed out by further calls.
    fn is_busy(&self) -> bool {
        false
    }

    /// Sets what each of its queues may hold for receiving. A port that holds nothing ignores it.
    fn set_quota(&mut self, _quota: Quota) {}

    /// Queues it receives on.
    fn queues(&self) -> u16 {
        1
    }

    /// Readable when frames wait to be received; `None` for a port that must be asked.
    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// How the port is attached and what the kernel counted for it.
    fn status(&self) -> PortStatus {
        PortStatus::default()
    }

    /// Closes the port. May block: called off the worker's thread.
    ///
    /// Chunks lent to the returned borrower are free once this has returned; the worker takes them back by
    /// [`Umem::reclaim_all`].
    fn close(self: Box<Self>) -> Option<Borrower>;
}

/// How a port is attached, and what happened below it where the worker can not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortStatus {
    /// How frames reach it.
    pub mode: PortMode,
    /// Queues bound.
    pub queues: u16,
    /// Counts from below the port; they only rise while it is attached.
    pub below: BelowCounters,
}

/// Frames the kernel dropped or refused under a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BelowCounters {
    /// Dropped for want of a chunk that fits (`rx_dropped`): the frame was longer than a chunk.
    pub rx_dropped: u64,
    /// Dropped because the RX ring was full (`rx_ring_full`).
    pub rx_ring_full: u64,
    /// Times the fill ring was found empty (`rx_fill_ring_empty_descs`).
    pub rx_fill_ring_empty: u64,
    /// Fill descriptors the kernel refused.
    pub rx_invalid: u64,
    /// TX descriptors the kernel refused.
    pub tx_invalid: u64,
    /// Descriptors from the kernel that named a chunk it did not hold, or no bytes. Always zero on a sane kernel.
    pub bad_descriptors: u64,
}

impl BelowCounters {
    /// Adds what was counted elsewhere: by another queue, or by earlier sockets.
    pub const fn merge(&mut self, other: Self) {
        self.rx_dropped += other.rx_dropped;
        self.rx_ring_full += other.rx_ring_full;
        self.rx_fill_ring_empty += other.rx_fill_ring_empty;
        self.rx_invalid += other.rx_invalid;
        self.tx_invalid += other.tx_invalid;
        self.bad_descriptors += other.bad_descriptors;
    }
}

/// How frames reach a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PortMode {
    /// In memory.
    #[default]
    Memory,
    /// From a capture file.
    Pcap,
    /// AF_XDP, native XDP, the NIC reads and writes the UMEM itself.
    ZeroCopy,
    /// AF_XDP, native XDP, the kernel copies.
    Copy,
    /// AF_XDP behind generic XDP, the kernel copies from socket buffers.
    Generic,
}

impl PortMode {
    /// The name used in every report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pcap => "pcap",
            Self::ZeroCopy => "zero-copy",
            Self::Copy => "copy",
            Self::Generic => "generic",
        }
    }
}
