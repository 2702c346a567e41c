//! The shapes, made from what the agent knows and what the data plane counted.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    process,
    time::Duration,
};

use dataplane::{
    port::BelowCounters,
    report::{Count, DropReport, FdbReport, FlowReport, FlowVerdict, PortReport, Report, WorkerReport},
};
use flow_table::{
    fate::DropReason,
    id::{PortId, RuleId},
    policy::PortKind,
};

use super::{
    key,
    names::Names,
    shape::{Counts, Drop, Flow, Frames, Kernel, List, Port, Rule, RuleRef, Station, Status, Worker},
};
use crate::agent::{
    desired::RuleRow,
    view::{PortRecord, PortState, View},
};

/// `sluice get ports`: every configured port, in the order of the file's identifiers.
pub(crate) fn ports(view: &View, report: &Report) -> List<Port> {
    let counted: BTreeMap<PortId, &PortReport> = report.ports.iter().map(|port| (port.id, port)).collect();
    List::new(view.ports.iter().map(|(id, record)| port(record, counted.get(id).copied())).collect())
}

fn port(record: &PortRecord, counted: Option<&PortReport>) -> Port {
    let attached = match record.state {
        PortState::Attached(device) => Some(device),
        _ => None,
    };
    let status = counted.and_then(|counted| counted.status).filter(|_| attached.is_some());
    let spec = &record.spec;
    Port {
        name: spec.name.clone(),
        device: spec.attach.device.clone(),
        kind: kind(spec.kind).to_owned(),
        network: spec.network.clone(),
        state: record.state.name().to_owned(),
        why: record.state.why().map(str::to_owned),
        mode: status.map(|status| status.mode.name().to_owned()),
        queues: status.map_or(0, |status| status.queues),
        mtu: attached.map(|device| spec.attach.mtu.map_or(device.mtu, u32::from)),
        rx: counted.map(|counted| counts(counted.rx)).unwrap_or_default(),
        tx: counted.map(|counted| counts(counted.tx)).unwrap_or_default(),
        drops: counted.map(|counted| counted.drops).unwrap_or_default(),
        kernel: counted.and_then(|counted| counted.status).map(|status| kernel(status.below)).unwrap_or_default(),
    }
}

/// The word used in the file.
pub(crate) const fn kind(kind: PortKind) -> &'static str {
    match kind {
        PortKind::Uplink => "uplink",
        _ => "workload",
    }
}

const fn counts(count: Count) -> Counts {
    Counts { packets: count.packets, bytes: count.bytes }
}

const fn kernel(below: BelowCounters) -> Kernel {
    Kernel {
        rx_dropped: below.rx_dropped,
        rx_ring_full: below.rx_ring_full,
        rx_fill_ring_empty: below.rx_fill_ring_empty,
        rx_invalid: below.rx_invalid,
        tx_invalid: below.tx_invalid,
        bad_descriptors: below.bad_descriptors,
    }
}

/// `sluice get flows`, busiest first.
pub(crate) fn flows(names: &Names, mut flows: Vec<FlowReport>) -> List<Flow> {
    flows.sort_by_key(|flow| (std::cmp::Reverse(flow.count.packets), flow.key.0));
    List::new(flows.iter().map(|one| flow(names, one)).collect())
}

fn flow(names: &Names, flow: &FlowReport) -> Flow {
    let (verdict, out, reason) = match &flow.verdict {
        FlowVerdict::Forward(ports) => ("forward", ports.iter().map(|port| names.port(*port)).collect(), None),
        FlowVerdict::Drop(reason) => ("drop", Vec::new(), Some(reason.name().to_owned())),
    };
    let rule = |id: &RuleId| {
        let (table, name) = names.rule(*id);
        RuleRef { table: table.map_or("?", |table| table.name()).to_owned(), name }
    };
    Flow {
        key: key::fields(&flow.key, names),
        verdict: verdict.to_owned(),
        out,
        reason,
        rules: flow.rules.iter().map(rule).collect(),
        packets: flow.count.packets,
        bytes: flow.count.bytes,
        idle_ms: millis(flow.idle),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// `sluice get tables`: every configured rule, those without a hit too.
pub(crate) fn tables(rules: &[RuleRow], counted: &[(RuleId, Count)]) -> List<Rule> {
    let counted: BTreeMap<RuleId, Count> = counted.iter().copied().collect();
    let row = |rule: &RuleRow| {
        let count = counted.get(&rule.id).copied().unwrap_or_default();
        Rule {
            table: rule.table.name().to_owned(),
            priority: rule.priority,
            name: rule.name.clone(),
            matches: rule.matches.clone(),
            action: rule.action.clone(),
            place: rule.place.clone(),
            packets: count.packets,
            bytes: count.bytes,
        }
    };
    List::new(rules.iter().map(row).collect())
}

/// `sluice get fdb`.
pub(crate) fn fdb(names: &Names, stations: &[FdbReport]) -> List<Station> {
    let station = |entry: &FdbReport| Station {
        network: names.network(entry.network),
        vlan: entry.vlan,
        mac: entry.mac.to_string(),
        port: names.port(entry.port),
        origin: if entry.age.is_some() { "learned" } else { "static" }.to_owned(),
        age_ms: entry.age.map(millis),
    };
    let mut stations: Vec<Station> = stations.iter().map(station).collect();
    stations.sort_by(|a, b| (&a.network, a.vlan, &a.mac).cmp(&(&b.network, b.vlan, &b.mac)));
    List::new(stations)
}

/// `sluice get drops`, most first, with their total.
pub(crate) fn drops(names: &Names, report: &Report) -> List<Drop> {
    // By name: a port that was removed and is there again has another number, and to its operator is the same.
    let mut rows: BTreeMap<(String, String, Option<String>), Drop> = BTreeMap::new();
    for one in report.drops.iter().map(|one| dropped(names, one)) {
        match rows.entry((one.reason.clone(), one.port.clone(), one.rule.clone())) {
            Entry::Vacant(row) => {
                row.insert(one);
            }
            Entry::Occupied(mut row) => row.get_mut().packets += one.packets,
        }
    }
    let mut drops: Vec<Drop> = rows.into_values().collect();
    // Stable: equal ones stay in the order of their names.
    drops.sort_by_key(|row| std::cmp::Reverse(row.packets));
    let total = drops.iter().map(|drop| drop.packets).sum();
    List::with_total(drops, total)
}

fn dropped(names: &Names, drop: &DropReport) -> Drop {
    Drop {
        reason: drop.reason.name().to_owned(),
        explanation: drop.reason.explain().to_owned(),
        port: names.port(drop.port),
        rule: deciding_rule(names, drop.reason, drop.rule),
        packets: drop.packets,
    }
}

/// The name of the rule that dropped a packet; `default` where a table's default did, nothing where no table was asked.
pub(crate) fn deciding_rule(names: &Names, reason: DropReason, rule: Option<RuleId>) -> Option<String> {
    match (rule, reason) {
        (Some(rule), _) => Some(names.rule(rule).1),
        (None, DropReason::AclFromDefault | DropReason::AclToDefault) => Some("default".to_owned()),
        (None, _) => None,
    }
}

/// `sluice get workers`.
pub(crate) fn workers(worker: &WorkerReport) -> List<Worker> {
    let law = worker.law;
    List::new(vec![Worker {
        generation: worker.generation,
        polls: worker.polls,
        busy_polls: worker.busy_polls,
        sleeps: worker.sleeps,
        hits: worker.hits,
        misses: worker.misses,
        uncached: worker.uncached,
        flows: worker.flows,
        flow_capacity: worker.flow_capacity,
        expired: worker.expired,
        evicted: worker.evicted,
        checksums_completed: worker.checksums_completed,
        chunks: worker.chunks,
        chunks_free: worker.chunks_free,
        chunks_lent: worker.chunks_lent,
        frames: Frames {
            rx: law.rx,
            generated: law.generated,
            copies: law.copies,
            tx: law.tx,
            consumed: law.consumed,
            dropped: law.dropped,
            held: law.held,
            balanced: law.holds(),
        },
    }])
}

/// `sluice get status`.
pub(crate) fn status(view: &View) -> List<Status> {
    let attached = view.ports.values().filter(|record| matches!(record.state, PortState::Attached(_))).count();
    List::new(vec![Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: process::id(),
        node: view.desired.node.clone(),
        config: view.desired.origin.clone(),
        hash: view.desired.hash.clone(),
        generation: view.generation,
        started: view.started.clone(),
        ports: view.ports.len() as u64,
        ports_attached: attached as u64,
        last_reload: view.last_reload.clone(),
    }])
}
