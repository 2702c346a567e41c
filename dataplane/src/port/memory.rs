//! A port in memory: frames go in and come out by a handle. For tests.

use std::{collections::VecDeque, sync::Arc};

use crossbeam_queue::ArrayQueue;

use super::{
    Port,
    umem::{Borrower, Frame, Umem},
};

/// Frames each way that wait.
const QUEUE: usize = 4096;

/// The port's end, given to a worker.
#[derive(Debug)]
pub struct MemoryPort {
    wire: Wire,
}

/// The other end.
#[derive(Debug, Clone)]
pub struct Wire {
    to_switch: Arc<ArrayQueue<Vec<u8>>>,
    from_switch: Arc<ArrayQueue<Vec<u8>>>,
}

impl MemoryPort {
    /// A port and its wire.
    #[must_use]
    pub fn new() -> (Self, Wire) {
        let queue = || Arc::new(ArrayQueue::new(QUEUE));
        let wire = Wire { to_switch: queue(), from_switch: queue() };
        (Self { wire: wire.clone() }, wire)
    }
}

impl Wire {
    /// Sends a frame to the switch. False when 4,096 wait already.
    pub fn send(&self, frame: &[u8]) -> bool {
        self.to_switch.push(frame.to_vec()).is_ok()
    }

    /// The next frame that the switch sent.
    #[must_use]
    pub fn receive(&self) -> Option<Vec<u8>> {
        self.from_switch.pop()
    }

    /// Every frame that the switch sent and nobody took yet.
    #[must_use]
    pub fn drain(&self) -> VecDeque<Vec<u8>> {
        std::iter::from_fn(|| self.receive()).collect()
    }
}

impl Port for MemoryPort {
    fn rx(&mut self, umem: &mut Umem, into: &mut Vec<Frame>, room: usize) {
        for _ in 0..room.min(umem.free_chunks()) {
            let Some(bytes) = self.wire.to_switch.pop() else { break };
            // A frame that no chunk holds never reaches the switch, as with any device.
            into.extend(umem.copy_in(&bytes));
        }
    }

    fn tx(&mut self, umem: &mut Umem, queue: &mut Vec<Frame>) {
        let room = QUEUE - self.wire.from_switch.len();
        for frame in queue.drain(..room.min(queue.len())) {
            let pushed = self.wire.from_switch.push(umem.bytes(&frame).to_vec());
            debug_assert!(pushed.is_ok(), "the only sender saw room");
            umem.discard(frame);
        }
    }

    fn close(self: Box<Self>) -> Option<Borrower> {
        None
    }
}
