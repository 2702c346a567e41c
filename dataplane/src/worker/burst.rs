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

/// A frame and what was read from it.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) parsed: Parsed,
    pub(super) frame: Frame,
}

/// The frames of one pass, in the order they came. Its lists never grow beyond their first memory.
#[derive(Debug)]
pub(super) struct Burst {
    /// As received: frames and the ports they came from, side by side.
    pub(super) frames: Vec<Frame>,
    pub(super) sources: Vec<PortId>,
    /// As parsed: packets and their lookups, side by side.
    packets: Vec<Packet>,
    lookups: Vec<Lookup>,
}

impl Burst {
    pub(super) fn new() -> Self {
        Self {
            frames: Vec::with_capacity(CAPACITY),
            sources: Vec::with_capacity(CAPACITY),
            packets: Vec::with_capacity(CAPACITY),
            lookups: Vec::with_capacity(CAPACITY),
        }
    }

    /// Reads every frame; those that can not be read are dropped here.
    pub(super) fn parse(&mut self, umem: &mut Umem, flows: &FlowTable, state: &mut State) {
        for (frame, source) in self.frames.drain(..).zip(self.sources.drain(..)) {
            match packet::parse(umem.bytes(&frame), source) {
                Ok(parsed) => {
                    self.lookups.push(Lookup { hash: flows.hash(&parsed.key), slot: Slot::NONE });
                    self.packets.push(Packet { parsed, frame });
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
        let keys = self.packets.iter().map(|packet: &Packet| -> &FlowKey { &packet.parsed.key });
        flows.get_burst(keys, &mut self.lookups, valid);
    }

    /// The packets without an entry, each with its lookup to be answered.
    pub(super) fn misses(&mut self) -> impl Iterator<Item = (&Packet, &mut Lookup)> {
        self.packets.iter().zip(&mut self.lookups).filter(|(_, lookup)| !lookup.slot.is_some())
    }

    /// Every packet with its lookup; the burst is empty afterwards.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (Packet, Lookup)> {
        self.packets.drain(..).zip(self.lookups.drain(..))
    }
}
