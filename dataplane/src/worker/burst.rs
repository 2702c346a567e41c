//! A burst: the frames of one pass, on their way from bytes to lookups.

use flow_table::{
    id::PortId,
    key::FlowKey,
    packet::{self, Parsed},
    table::{FlowTable, Lookup, Slot, ValidFrom},
};

use super::{State, no_rule};
use crate::port::umem::{Frame, Umem};

/// Most frames of one pass, all ports together.
pub(super) const CAPACITY: usize = 256;

/// A frame in hand, and what was read from it.
#[derive(Debug)]
pub(super) struct Packet<'a> {
    pub(super) parsed: &'a Parsed,
    pub(super) frame: Frame,
}

impl Packet<'_> {
    /// The packet, to look at.
    pub(super) const fn seen(&self) -> Seen<'_> {
        Seen { parsed: self.parsed, frame: &self.frame }
    }
}

/// A frame to look at, and what was read from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) parsed: &'a Parsed,
    pub(super) frame: &'a Frame,
}

/// The frames of one pass, in the order they came. Its lists never grow beyond their first memory.
#[derive(Debug)]
pub(super) struct Burst {
    /// As received: frames and the ports they came from, side by side.
    pub(super) frames: Vec<Frame>,
    pub(super) sources: Vec<PortId>,
    /// Those that could be read: what was read, their frames and their lookups, side by side.
    parsed: Vec<Parsed>,
    readable: Vec<Frame>,
    lookups: Vec<Lookup>,
}

impl Burst {
    pub(super) fn new() -> Self {
        Self {
            frames: Vec::with_capacity(CAPACITY),
            sources: Vec::with_capacity(CAPACITY),
            parsed: Vec::with_capacity(CAPACITY),
            readable: Vec::with_capacity(CAPACITY),
            lookups: Vec::with_capacity(CAPACITY),
        }
    }

    /// Reads every frame; those that can not be read are dropped here.
    pub(super) fn parse(&mut self, umem: &mut Umem, flows: &FlowTable, state: &mut State) {
        self.parsed.clear();
        for (frame, source) in self.frames.drain(..).zip(self.sources.drain(..)) {
            match packet::parse(umem.bytes(&frame), source) {
                Ok(parsed) => {
                    self.lookups.push(Lookup { hash: flows.hash(&parsed.key), slot: Slot::NONE });
                    self.parsed.push(parsed);
                    self.readable.push(frame);
                }
                Err(reason) => {
                    umem.discard(frame);
                    state.counters.unreadable += 1;
                    state.drop_received(no_rule(reason, source));
                }
            }
        }
    }

    /// Finds each packet's flow entry.
    pub(super) fn look_up(&mut self, flows: &FlowTable, valid: &ValidFrom) {
        let keys = self.parsed.iter().map(|parsed: &Parsed| -> &FlowKey { &parsed.key });
        flows.get_burst(keys, &mut self.lookups, valid);
    }

    /// The packets without an entry, each with its lookup to be answered.
    pub(super) fn misses(&mut self) -> impl Iterator<Item = (Seen<'_>, &mut Lookup)> {
        let seen = self.parsed.iter().zip(&self.readable).map(|(parsed, frame)| Seen { parsed, frame });
        seen.zip(&mut self.lookups).filter(|(_, lookup)| !lookup.slot.is_some())
    }

    /// Every packet with its lookup; none is left afterwards.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (Packet<'_>, Lookup)> {
        let packets = self.parsed.iter().zip(self.readable.drain(..)).map(|(parsed, frame)| Packet { parsed, frame });
        packets.zip(self.lookups.drain(..))
    }
}
