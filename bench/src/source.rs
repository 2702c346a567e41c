//! Ports in memory that cost as little as a port can: one hands out prepared frames, one takes frames.

use std::sync::Arc;

use dataplane::port::{
    Port,
    umem::{Borrower, Frame, Umem},
};
use flow_table::idx;

use crate::{
    rng::Rng,
    scenario::{self, FRAME_BYTES},
};

/// Frames a source hands out in one pass.
pub const BURST: usize = 32;

/// The frames of a number of flows, one each, in an order unlike that in which a switch first sees them.
#[derive(Debug)]
pub struct Traffic {
    /// In the order of measurement: random, the same every time round.
    frames: Box<[[u8; FRAME_BYTES]]>,
    /// In which order they come the first time round: another random order, so that memory which the switch hands out as
    /// it meets flows is later touched at random.
    first: Box<[u32]>,
}

impl Traffic {
    /// Of flows 0 to `flows`.
    #[must_use]
    pub fn new(flows: u32, seed: u64) -> Arc<Self> {
        let mut rng = Rng::new(seed);
        let mut order: Vec<u32> = (0..flows).collect();
        rng.shuffle(&mut order);
        let frames = order.iter().map(|flow| scenario::frame(*flow)).collect();
        rng.shuffle(&mut order);
        Arc::new(Self { frames, first: order.into() })
    }

    /// How many there are.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.frames.len()
    }

    /// The frames, in the order of measurement.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().map(<[u8; FRAME_BYTES]>::as_slice)
    }
}

/// A port that hands out every flow's frame in turn, [`BURST`] a pass, for ever. What is sent to it is dropped.
#[derive(Debug)]
pub struct Source {
    traffic: Arc<Traffic>,
    /// How many came of the first time round.
    begun: usize,
    next: usize,
}

impl Source {
    /// From the beginning.
    #[must_use]
    pub const fn new(traffic: Arc<Traffic>) -> Self {
        Self { traffic, begun: 0, next: 0 }
    }

    #[inline]
    fn next(&mut self) -> &[u8] {
        let at = match self.traffic.first.get(self.begun) {
            Some(at) => {
                self.begun += 1;
                idx(u64::from(*at))
            }
            None => {
                self.next = if self.next + 1 >= self.traffic.frames.len() { 0 } else { self.next + 1 };
                self.next
            }
        };
        self.traffic.frames.get(at).map_or(&[], <[u8; FRAME_BYTES]>::as_slice)
    }
}

impl Port for Source {
    fn rx(&mut self, umem: &mut Umem, into: &mut Vec<Frame>, room: usize) {
        for _ in 0..room.min(BURST) {
            let Some(frame) = umem.copy_in(self.next()) else { return };
            into.push(frame);
        }
    }

    fn tx(&mut self, umem: &mut Umem, queue: &mut Vec<Frame>) {
        discard(umem, queue);
    }

    fn close(self: Box<Self>) -> Option<Borrower> {
        None
    }
}

/// A port that takes every frame and gives its chunk back. Nothing comes from it.
#[derive(Debug, Default)]
pub struct Sink;

impl Port for Sink {
    fn rx(&mut self, _: &mut Umem, _: &mut Vec<Frame>, _: usize) {}

    fn tx(&mut self, umem: &mut Umem, queue: &mut Vec<Frame>) {
        discard(umem, queue);
    }

    fn close(self: Box<Self>) -> Option<Borrower> {
        None
    }
}

fn discard(umem: &mut Umem, queue: &mut Vec<Frame>) {
    for frame in queue.drain(..) {
        umem.discard(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_hands_out_every_flow_once_in_each_round() {
        let traffic = Traffic::new(96, 1);
        let mut umem = Umem::new(128).unwrap();
        let mut source = Source::new(traffic);
        for _ in 0..3 {
            let mut frames = Vec::new();
            for _ in 0..3 {
                source.rx(&mut umem, &mut frames, 64);
            }
            let mut seen: Vec<_> = frames.iter().map(|frame| umem.bytes(frame).to_vec()).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 96);
            Sink.tx(&mut umem, &mut frames);
        }
    }
}
