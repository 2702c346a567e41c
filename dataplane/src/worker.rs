//! The worker: owns its ports, its flows and its frames, and moves packets.
//!
//! The central law, checked after every pass in debug builds: received + generated + copies = sent + consumed + dropped +
//! held. And for the memory: every chunk is free, in the kernel, or held by name.

mod burst;
mod execute;
mod ports;
mod report;
mod slow_path;

use std::sync::Arc;

use flow_table::{
    counters::{DropCause, DropCounters, RulePaths},
    fate::DropReason,
    fdb::Fdb,
    hash::Seed,
    id::{Epoch, NetworkId, PathId, PortId},
    output::OutputSets,
    pipeline::Pipeline,
    table::{FlowTable, ValidFrom},
    time::Instant,
    transposition::Way,
};

use crate::{
    port::{Port, umem::Umem},
    report::{Law, WorkerReport},
    sys,
};
use burst::Burst;
use ports::Ports;
use slow_path::SlowPath;

/// How long a flow entry stays without a packet.
pub const FLOW_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// Most flow entries that one pass visits to expire them while frames come.
const EXPIRE_BUDGET: u32 = 256;
/// The same in a pass that received nothing: a quarter of a millisecond's work.
const IDLE_EXPIRE_BUDGET: u32 = 16_384;

/// One poll-mode worker.
#[derive(Debug)]
pub struct Worker {
    policy: Arc<Pipeline>,
    umem: Umem,
    ports: Ports,
    burst: Burst,
    flows: FlowTable,
    slow: SlowPath,
    state: State,
    aged: Instant,
}

/// What hits and misses share: everything a decision counts into or depends on.
#[derive(Debug)]
pub(crate) struct State {
    now: Instant,
    epoch: Epoch,
    valid: ValidFrom,
    fdb: Fdb,
    paths: RulePaths,
    drops: DropCounters,
    sets: OutputSets,
    law: Law,
    counters: WorkerReport,
    /// Walks for packets that a lookup or an earlier walk had settled already.
    walked_again: u64,
    fates: Option<Vec<Fate>>,
}

/// What became of a received frame, recorded when [`Worker::record_fates`] asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Sent, or handed to output ports as copies, by these rules.
    Sent(PathId),
    /// Answered by the switch itself, after these rules.
    Answered(PathId),
    /// Dropped.
    Dropped(DropCause),
}

impl State {
    fn new(seed: Seed) -> Self {
        Self {
            now: Instant::default(),
            epoch: Epoch(1),
            valid: ValidFrom::default(),
            fdb: Fdb::new(seed),
            paths: RulePaths::new(seed),
            drops: DropCounters::new(seed),
            sets: OutputSets::new(seed),
            law: Law::default(),
            counters: WorkerReport::default(),
            walked_again: 0,
            fates: None,
        }
    }

    /// Counts a frame or copy that was dropped.
    #[cold]
    fn count_drop(&mut self, cause: DropCause) {
        self.law.dropped += 1;
        if let Some(counter) = self.drops.intern(cause) {
            self.drops.count(counter);
        }
    }

    /// Counts and notes a received frame that was dropped.
    #[cold]
    fn drop_received(&mut self, cause: DropCause) {
        self.count_drop(cause);
        self.note(Fate::Dropped(cause));
    }

    /// Counts and notes a received frame whose flow is dropped.
    #[inline]
    fn drop_by_counter(&mut self, counter: u32) {
        self.law.dropped += 1;
        self.drops.count(counter);
        if self.fates.is_some()
            && let Some(cause) = self.drops.cause(counter)
        {
            self.note(Fate::Dropped(cause));
        }
    }

    /// The way of a flow that is dropped. `None` when no further counter can be kept.
    fn way_of_drop(&mut self, cause: DropCause, toward: Option<PortId>) -> Option<Way> {
        self.drops.intern(cause).map(|counter| Way::Drop { reason: cause.reason, counter, toward })
    }

    /// Notes what became of a received frame.
    #[inline]
    fn note(&mut self, fate: Fate) {
        if let Some(fates) = &mut self.fates {
            fates.push(fate);
        }
    }

    /// Makes decisions that involve `port` be taken anew.
    fn invalidate(&mut self, port: PortId) {
        self.epoch = Epoch(self.epoch.0 + 1);
        self.valid.raise(port, self.epoch);
    }
}

impl Worker {
    /// A worker without ports, with this policy, memory and room for flows.
    #[must_use]
    pub fn new(policy: Arc<Pipeline>, umem: Umem, flows: u32, seed: Seed) -> Self {
        let mut worker = Self {
            policy: Arc::clone(&policy),
            umem,
            ports: Ports::default(),
            burst: Burst::new(),
            flows: flow_table(flows, seed),
            slow: SlowPath::default(),
            state: State::new(seed),
            aged: Instant::default(),
        };
        worker.ports.adopt(&policy);
        worker
    }

    /// One pass over the ports. Bounded: at most [`BURST`](crate::port::BURST) frames a port. Never blocks or panics, and
    /// allocates only for flows it has not seen. Returns how many frames it received.
    pub fn poll(&mut self, now: Instant) -> usize {
        let Self { policy, umem, ports, burst, flows, slow, state, .. } = self;
        state.now = now;
        let received = ports.receive(umem, burst, state); // enter
        burst.parse(umem, flows, state); // bytes -> key, offsets, hash
        burst.look_up(flows, &state.valid); // prefetch, then one lookup each
        let evicted = flows.evicted();
        for (miss, lookup) in burst.misses() {
            slow.upcall(miss, lookup, policy, flows, umem, state);
        }
        for (packet, mut lookup) in burst.drain() {
            if flows.evicted() != evicted && lookup.slot.is_some() && !flows.holds(lookup.slot, &packet.parsed.key) {
                slow.decide_again(packet.seen(), &mut lookup, policy, flows, umem, state);
            }
            if lookup.slot.is_some() {
                execute::hit(packet, lookup.slot, flows, umem, ports, state);
            } else {
                slow.run_once(packet, policy, umem, ports, state);
            }
        }
        ports.send(umem, state); // leave
        self.expire(now, if received == 0 { IDLE_EXPIRE_BUDGET } else { EXPIRE_BUDGET });
        self.finish(received)
    }

    fn expire(&mut self, now: Instant, budget: u32) {
        let (fdb, policy) = (&mut self.state.fdb, &self.policy);
        self.flows.expire(now, budget, FLOW_TIMEOUT, |key, seen| {
            if let Some(domain) = policy.domain(key.in_port(), key.vlan_tci()) {
                fdb.touch(domain, key.eth_src(), key.in_port(), seen);
            }
        });
        if now.since(self.aged).as_secs() >= 1 {
            self.aged = now;
            self.age_stations(now);
        }
    }

    #[cold]
    fn age_stations(&mut self, now: Instant) {
        let mut silent = Vec::new();
        self.state.fdb.age(now, |network| self.policy.aging(network), |port| silent.push(port));
        self.invalidate_all(silent);
        self.renew_epochs();
    }

    /// Makes decisions that involve these ports be taken anew, and those of networks that have room for stations again.
    fn invalidate_all(&mut self, mut ports: Vec<PortId>) {
        let reopened = self.state.fdb.take_reopened();
        let theirs = self.policy.ports().filter(|port| port.network.is_some_and(|network| reopened.contains(&network)));
        ports.extend(theirs.map(|port| port.id));
        ports.sort_unstable();
        ports.dedup();
        for port in ports {
            self.state.invalidate(port);
        }
    }

    /// Starts the epochs again before they run out; every decision is taken anew then.
    fn renew_epochs(&mut self) {
        if self.state.epoch.0 > u32::MAX / 2 {
            self.flows.clear();
            self.state.epoch = Epoch(1);
            self.state.valid = ValidFrom::default();
        }
    }

    fn finish(&mut self, received: usize) -> usize {
        self.state.counters.polls += 1;
        self.state.counters.busy_polls += u64::from(received > 0);
        debug_assert!(self.state.law.holds(), "frames lost or made up: {:?}", self.state.law);
        debug_assert_eq!(
            u64::from(self.umem.chunks()),
            self.umem.free_chunks() as u64 + u64::from(self.umem.lent_chunks()),
            "chunks leaked"
        );
        received
    }

    /// True while a port has work left that further passes finish.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.ports.attached().any(Port::is_busy)
    }

    /// Puts a new policy in force: every decision is taken anew on its flow's next packet. Returns its generation.
    pub fn publish(&mut self, policy: Arc<Pipeline>) -> u64 {
        for port in self.policy.ports().chain(policy.ports()) {
            self.state.valid.raise(port.id, Epoch(self.state.epoch.0 + 1));
        }
        self.state.epoch = Epoch(self.state.epoch.0 + 1);
        self.state
            .fdb
            .forget(|domain, mac, station| !policy.is_member(station.port, domain) || !policy.may_learn(domain, mac));
        if self.state.sets.is_crowded() {
            self.flows.clear();
            self.state.sets.clear();
        }
        self.ports.adopt(&policy);
        self.policy = policy;
        self.renew_epochs();
        self.state.counters.generation += 1;
        self.state.counters.generation
    }

    /// Forgets the learned stations of a network, or of all: how many.
    pub fn flush_fdb(&mut self, network: Option<NetworkId>) -> u64 {
        let mut gone = Vec::new();
        self.state.fdb.forget(|domain, _, station| {
            let forget = network.is_none_or(|network| network == domain.network);
            if forget {
                gone.push(station.port);
            }
            forget
        });
        let count = gone.len() as u64;
        self.invalidate_all(gone);
        count
    }

    /// Attaches a port that the policy has; frames longer than `mtu` beyond their Ethernet header and tag do not leave by
    /// it. Gives the port back when the policy has none of that identifier, or one is attached already.
    ///
    /// # Errors
    /// The port itself.
    pub fn attach(&mut self, id: PortId, port: Box<dyn Port>, mtu: u16) -> Result<(), Box<dyn Port>> {
        self.ports.attach(id, port, mtu, self.umem.chunks())
    }

    /// Detaches a port: it is to be closed, off this thread, and then [`reclaim`](Self::reclaim)ed. Frames for it are
    /// dropped until another is attached. Its stations are forgotten.
    pub fn detach(&mut self, id: PortId) -> Option<Box<dyn Port>> {
        let port = self.ports.detach(id, self.umem.chunks())?;
        self.state.fdb.forget(|_, _, station| station.port == id);
        self.invalidate_all(vec![id]);
        self.ports.forget_unknown(&self.policy);
        Some(port)
    }

    /// Takes back the chunks of a closed port.
    pub fn reclaim(&mut self, from: crate::port::umem::Borrower) {
        self.umem.reclaim_all(from);
    }

    /// The frame memory.
    #[must_use]
    pub const fn umem(&self) -> &Umem {
        &self.umem
    }

    /// The descriptors that become readable when a port has frames.
    pub fn readiness(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        self.ports.attached().filter_map(Port::readiness)
    }

    /// Starts to record what becomes of each received frame, in the order received; read with [`fates`](Self::fates).
    pub fn record_fates(&mut self) {
        self.state.fates = Some(Vec::new());
    }

    /// Takes the fates recorded since the last call. Frames of one pass are in this order: malformed ones first, the others
    /// in the order they came.
    pub fn fates(&mut self) -> Vec<Fate> {
        self.state.fates.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The rules behind a path.
    #[must_use]
    pub fn rules(&self, path: PathId) -> &[flow_table::id::RuleId] {
        self.state.paths.rules(path)
    }
}

/// A flow table on huge pages where they can be had.
fn flow_table(flows: u32, seed: Seed) -> FlowTable {
    FlowTable::with_advice(flows, seed, |range| {
        if let Err(error) = sys::huge_pages::advise(&range) {
            tracing::debug!(%error, "the flow table stays on small pages");
        }
    })
}

/// A drop of `reason` that no rule decided.
const fn no_rule(reason: DropReason, port: PortId) -> DropCause {
    DropCause { reason, port, rule: None }
}

#[cfg(test)]
mod tests;
