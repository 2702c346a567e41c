//! A port that fails on purpose: wraps another one. For tests.

use std::os::fd::BorrowedFd;

use super::{
    Port, PortStatus, Quota,
    umem::{Borrower, Frame, Umem},
};

/// How often what goes wrong, each in 256ths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// A received frame is cut short at a random length.
    pub truncate: u8,
    /// A received frame has one byte changed.
    pub corrupt: u8,
    /// A received frame comes twice.
    pub duplicate: u8,
    /// A pass in which the port takes no frame to send.
    pub refuse: u8,
    /// A pass in which nothing is received.
    pub silence: u8,
}

/// A port with faults.
#[derive(Debug)]
pub struct FaultPort<P> {
    inner: P,
    faults: Faults,
    state: u64,
}

impl<P: Port> FaultPort<P> {
    /// Wraps `inner`; the same `seed` gives the same faults.
    pub const fn new(inner: P, faults: Faults, seed: u64) -> Self {
        Self { inner, faults, state: seed | 1 }
    }

    /// The next random number (xorshift64, Marsaglia 2003).
    const fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn happens(&mut self, often: u8) -> bool {
        self.next() >> 56 < u64::from(often)
    }

    fn below(&mut self, limit: usize) -> usize {
        flow_table::idx(self.next() % (limit.max(1) as u64))
    }
}

impl<P: Port> Port for FaultPort<P> {
    fn rx(&mut self, umem: &mut Umem, into: &mut Vec<Frame>, room: usize) {
        if self.happens(self.faults.silence) {
            return;
        }
        let before = into.len();
        // Half the room, so that every frame may come twice.
        self.inner.rx(umem, into, room / 2);
        for at in before..into.len() {
            let duplicate = self.happens(self.faults.duplicate);
            let Some(frame) = into.get_mut(at) else { break };
            if duplicate && let Some(copy) = umem.duplicate(frame) {
                into.push(copy);
            }
            let Some(frame) = into.get_mut(at) else { break };
            if self.happens(self.faults.truncate) {
                let length = self.below(frame.len() + 1);
                let shortened = umem.set_len(frame, length);
                debug_assert!(shortened, "shorter always fits");
            }
            if self.happens(self.faults.corrupt) {
                let (at, value) = (self.below(frame.len()), self.next());
                if let Some(byte) = umem.bytes_mut(frame).get_mut(at) {
                    *byte ^= value.to_le_bytes()[0] | 1;
                }
            }
        }
    }

    fn tx(&mut self, umem: &mut Umem, queue: &mut Vec<Frame>) {
        if !self.happens(self.faults.refuse) {
            self.inner.tx(umem, queue);
        }
    }

    fn is_busy(&self) -> bool {
        self.inner.is_busy()
    }

    fn set_quota(&mut self, quota: Quota) {
        self.inner.set_quota(quota);
    }

    fn queues(&self) -> u16 {
        self.inner.queues()
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }

    fn status(&self) -> PortStatus {
        self.inner.status()
    }

    fn close(self: Box<Self>) -> Option<Borrower> {
        Box::new(self.inner).close()
    }
}
