//! The slow path: a packet whose flow is not known walks the tables once.

mod answer;

use std::{collections::VecDeque, sync::Arc};

use flow_table::{
    counters::DropCause,
    fate::DropReason,
    fdb::Learned,
    id::{NetworkId, PathId},
    packet::fields,
    pipeline::{Outcome, Pipeline, Walk},
    table::{FlowTable, Lookup, Slot},
    transposition::{self, Decision, Ip6Addresses, Transposition, Way},
};

use super::{
    State,
    burst::{Packet, Seen},
    execute, no_rule,
    ports::Ports,
};
use crate::port::umem::Umem;

/// What was decided for one packet alone.
#[derive(Debug)]
enum OneOff {
    /// This record, once.
    Run(Transposition, Ip6Addresses),
    /// The switch answers for this network.
    Answer(NetworkId, PathId),
}

/// State of the slow path, reused from packet to packet.
#[derive(Debug, Default)]
pub(super) struct SlowPath {
    walk: Walk,
    /// Decisions for the packets of this pass that have no entry, in their order.
    once: VecDeque<OneOff>,
}

impl SlowPath {
    /// Decides for a packet without an entry: installs one and sets the lookup's slot, or keeps the decision for
    /// [`run_once`](Self::run_once).
    #[cold]
    #[inline(never)]
    pub(super) fn upcall(
        &mut self,
        packet: Seen<'_>,
        lookup: &mut Lookup,
        policy: &Arc<Pipeline>,
        flows: &mut FlowTable,
        umem: &Umem,
        state: &mut State,
    ) {
        let key = &packet.parsed.key;
        // An earlier packet of this pass may have installed the entry.
        if let Some(slot) = Some(flows.find_valid(key, lookup.hash, &state.valid)).filter(|slot| slot.is_some()) {
            lookup.slot = slot;
            return;
        }
        state.counters.misses += 1;
        // What is learned from this packet may already contradict what is decided for it.
        let epoch = state.epoch;
        let bytes = umem.bytes(packet.frame);
        let outcome = policy.walk(packet.parsed, fields::read(bytes, packet.parsed), &state.fdb, &mut self.walk);
        self.learn(packet, policy, state);
        let path = state.paths.intern(self.walk.rules());
        let way = match outcome {
            Outcome::Local(network) => {
                self.once.push_back(OneOff::Answer(network, path.unwrap_or(PathId::NONE)));
                return;
            }
            Outcome::Forward => self.way(state),
            Outcome::Drop { reason, rule } => {
                state.way_of_drop(DropCause { reason, port: key.in_port(), rule }, self.walk.toward())
            }
        };
        let decision = Decision {
            before: key,
            after: self.walk.words(),
            decrement_ttl: self.walk.decrements_ttl(),
            way: way.unwrap_or(Way::Drop { reason: DropReason::NoDestination, counter: u32::MAX, toward: None }),
            path: path.unwrap_or(PathId::NONE),
        };
        let (record, wide) = transposition::compile(&decision);
        if self.walk.is_cacheable() && path.is_some() && way.is_some() {
            lookup.slot = flows.insert(key, lookup.hash, &record, &wide, epoch, state.now);
        } else {
            state.counters.uncached += 1;
            self.once.push_back(OneOff::Run(record, wide));
        }
    }

    /// Runs the next decision that was made for one packet alone.
    #[cold]
    #[inline(never)]
    pub(super) fn run_once(
        &mut self,
        packet: Packet<'_>,
        policy: &Pipeline,
        umem: &mut Umem,
        ports: &mut Ports,
        state: &mut State,
    ) {
        let bytes = packet.frame.len() as u64;
        match self.once.pop_front() {
            Some(OneOff::Run(record, wide)) => {
                state.paths.count(PathId(record.path), bytes);
                execute::run(&record, &wide, packet, umem, ports, state);
            }
            Some(OneOff::Answer(network, path)) => {
                state.paths.count(path, bytes);
                answer::answer(packet, network, path, policy, umem, ports, state);
            }
            None => {
                let source = packet.parsed.key.in_port();
                umem.discard(packet.frame);
                state.drop_received(no_rule(DropReason::NoDestination, source));
            }
        }
    }

    /// Decides anew for a packet whose entry was evicted for another flow in the same pass: its turn is now.
    #[cold]
    #[inline(never)]
    pub(super) fn decide_again(
        &mut self,
        packet: Seen<'_>,
        lookup: &mut Lookup,
        policy: &Arc<Pipeline>,
        flows: &mut FlowTable,
        umem: &Umem,
        state: &mut State,
    ) {
        lookup.slot = Slot::NONE;
        let (waiting, walks) = (self.once.len(), state.counters.misses);
        self.upcall(packet, lookup, policy, flows, umem, state);
        if self.once.len() > waiting {
            self.once.rotate_right(1); // ahead of the decisions for packets still to come
        }
        state.walked_again += state.counters.misses - walks;
    }

    /// Where the walk's outputs lie: one port, or a set. `None` when no further set can be kept.
    fn way(&self, state: &mut State) -> Option<Way> {
        match self.walk.outputs() {
            [output] => Some(Way::Port(output.port, output.vlan)),
            outputs => state.sets.intern(outputs).map(Way::Set),
        }
    }

    /// Learns the sender's place, where the policy allows it.
    fn learn(&self, packet: Seen<'_>, policy: &Pipeline, state: &mut State) {
        let (port, mac) = (packet.parsed.key.in_port(), packet.parsed.key.eth_src());
        let Some(domain) = self.walk.learnable().filter(|domain| policy.may_learn(*domain, mac)) else { return };
        let limit = policy.network(domain.network).map_or(0, |network| network.mac_limit);
        if let Learned::Moved(old) = state.fdb.learn(domain, mac, port, limit, state.now) {
            state.invalidate(old);
            state.invalidate(port);
        }
    }
}
