//! What the data plane says of itself: plain numbers under identifiers, named by whoever asks.

use std::time::Duration;

pub use flow_table::counters::Count;
use flow_table::{
    fate::DropReason,
    id::{NetworkId, PortId, RuleId},
    key::FlowKey,
    mac::MacAddr,
};

use crate::port::PortStatus;

/// Everything counted since start. Never decreases while the process lives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The ports, in ascending order of identifier; a port that was removed is gone.
    pub ports: Vec<PortReport>,
    /// Rules that were hit, in ascending order of identifier.
    pub rules: Vec<(RuleId, Count)>,
    /// Drops by reason, input port and rule, ascending; only those that happened.
    pub drops: Vec<DropReport>,
    /// The worker.
    pub worker: WorkerReport,
}

/// One port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortReport {
    /// Identifier.
    pub id: PortId,
    /// How it is attached; `None` while its device is missing.
    pub status: Option<PortStatus>,
    /// Received by the worker.
    pub rx: Count,
    /// Given to the port and taken.
    pub tx: Count,
    /// Of what it sent, dropped.
    pub drops: u64,
}

/// Drops of one reason, from one port, by one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropReport {
    /// Why.
    pub reason: DropReason,
    /// Input port.
    pub port: PortId,
    /// The rule that decided it, where one did.
    pub rule: Option<RuleId>,
    /// How many.
    pub packets: u64,
}

/// The worker's own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerReport {
    /// Generation of the policy in force; it rises by one a publication.
    pub generation: u64,
    /// Passes over the ports.
    pub polls: u64,
    /// Passes that found a frame.
    pub busy_polls: u64,
    /// Times the worker slept because nothing came.
    pub sleeps: u64,
    /// Frames: each term of the conservation law.
    pub law: Law,
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that did not: walks of the pipeline.
    pub misses: u64,
    /// Frames that could not be read: runts, malformed ones.
    pub unreadable: u64,
    /// Walks whose outcome was not cached, because they looked at a field outside the key or at state that may change.
    pub uncached: u64,
    /// Flow entries now.
    pub flows: u64,
    /// Room for flow entries.
    pub flow_capacity: u64,
    /// Entries removed because they were idle.
    pub expired: u64,
    /// Entries removed to make room.
    pub evicted: u64,
    /// Partial checksums completed.
    pub checksums_completed: u64,
    /// UMEM chunks: in all, free, in the kernel. What is missing is in the worker's hands.
    pub chunks: u64,
    /// Free chunks.
    pub chunks_free: u64,
    /// Chunks in the rings of sockets.
    pub chunks_lent: u64,
}

/// The conservation law: received + generated + copies = sent + consumed + dropped + held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Law {
    /// Received from ports.
    pub rx: u64,
    /// Made by the worker: answers.
    pub generated: u64,
    /// Copies for further outputs of one frame.
    pub copies: u64,
    /// Taken by ports.
    pub tx: u64,
    /// Ended in an answer.
    pub consumed: u64,
    /// Dropped, all reasons.
    pub dropped: u64,
    /// Kept for later.
    pub held: u64,
}

impl Law {
    /// True when every frame is accounted for.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.rx + self.generated + self.copies == self.tx + self.consumed + self.dropped + self.held
    }
}

/// One flow entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowReport {
    /// The key.
    pub key: FlowKey,
    /// What happens to its packets.
    pub verdict: FlowVerdict,
    /// The rules that decided it, in the order of the tables.
    pub rules: Vec<RuleId>,
    /// Packets and bytes.
    pub count: Count,
    /// Time since its last packet.
    pub idle: Duration,
}

/// What happens to the packets of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowVerdict {
    /// Sent out by these ports.
    Forward(Vec<PortId>),
    /// Dropped.
    Drop(DropReason),
}

/// One entry of the forwarding database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FdbReport {
    /// Network.
    pub network: NetworkId,
    /// VLAN in it; zero for untagged.
    pub vlan: u16,
    /// Station.
    pub mac: MacAddr,
    /// Port it is behind.
    pub port: PortId,
    /// Time since its last packet; `None` for a static entry.
    pub age: Option<Duration>,
}
