//! The worker's numbers, gathered when somebody asks.

use std::collections::BTreeMap;

use flow_table::{
    id::{OutputSetId, PathId, PortId, RuleId},
    time::Instant,
    transposition::kind,
};

use super::Worker;
use crate::{
    port::Port,
    report::{Count, DropReport, FdbReport, FlowReport, FlowVerdict, PortReport, Report, WorkerReport},
};

impl Worker {
    /// Everything counted so far.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut rules: BTreeMap<RuleId, Count> = BTreeMap::new();
        for (path, count) in self.state.paths.iter() {
            for rule in path {
                rules.entry(*rule).or_default().merge(count);
            }
        }
        let mut drops: Vec<DropReport> = self
            .state
            .drops
            .iter()
            .filter(|(_, packets)| *packets > 0)
            .map(|(cause, packets)| DropReport { reason: cause.reason, port: cause.port, rule: cause.rule, packets })
            .collect();
        drops.sort_by_key(|drop| (drop.reason, drop.port, drop.rule));
        let mut dropped_from: BTreeMap<PortId, u64> = BTreeMap::new();
        for drop in &drops {
            *dropped_from.entry(drop.port).or_default() += drop.packets;
        }
        let ports = self
            .ports
            .slots()
            .map(|slot| PortReport {
                id: slot.id,
                status: slot.port.as_deref().map(Port::status),
                rx: slot.rx,
                tx: slot.tx,
                drops: dropped_from.get(&slot.id).copied().unwrap_or_default(),
            })
            .collect();
        Report { ports, rules: rules.into_iter().collect(), drops, worker: self.worker_report() }
    }

    fn worker_report(&self) -> WorkerReport {
        WorkerReport {
            law: self.state.law,
            hits: self.state.law.rx + self.state.walked_again
                - self.state.counters.misses
                - self.state.counters.unreadable,
            flows: u64::from(self.flows.len()),
            flow_capacity: self.flows.capacity() as u64,
            expired: self.flows.expired(),
            evicted: self.flows.evicted(),
            chunks: u64::from(self.umem.chunks()),
            chunks_free: self.umem.free_chunks() as u64,
            chunks_lent: u64::from(self.umem.lent_chunks()),
            ..self.state.counters
        }
    }

    /// At most `limit` flow entries, the busiest first.
    #[must_use]
    pub fn flows(&self, limit: usize, now: Instant) -> Vec<FlowReport> {
        let reported = self.flows.busiest(limit, now).into_iter().map(|view| {
            let verdict = match view.record.kind {
                kind::PORT => FlowVerdict::Forward(vec![PortId(view.record.out_port)]),
                kind::SET => {
                    let set = self.state.sets.get(OutputSetId(view.record.out_set));
                    FlowVerdict::Forward(set.iter().map(|output| output.port).collect())
                }
                _ => self
                    .state
                    .drops
                    .cause(view.record.drop_counter)
                    .map_or(FlowVerdict::Forward(Vec::new()), |cause| FlowVerdict::Drop(cause.reason)),
            };
            FlowReport {
                key: view.key,
                verdict,
                rules: self.rules(PathId(view.record.path)).to_vec(),
                count: Count { packets: view.packets, bytes: view.bytes },
                idle: view.idle,
            }
        });
        reported.collect()
    }

    /// The forwarding database, configured stations included, sorted.
    #[must_use]
    pub fn fdb(&self, now: Instant) -> Vec<FdbReport> {
        let learned = self.state.fdb.iter().map(|(domain, mac, station)| FdbReport {
            network: domain.network,
            vlan: domain.vlan,
            mac,
            port: station.port,
            age: Some(now.since(station.seen)),
        });
        let configured = self.policy.ports().filter_map(|port| {
            let (network, mac) = (port.network?, port.mac?);
            let vlan = self.policy.domain(port.id, 0).map_or(0, |domain| domain.vlan);
            Some(FdbReport { network, vlan, mac, port: port.id, age: None })
        });
        let mut all: Vec<_> = learned.chain(configured).collect();
        all.sort_by_key(|entry| (entry.network, entry.vlan, entry.mac));
        all
    }
}
