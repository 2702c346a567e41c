//! The worker on memory ports: what goes in, what comes out, and that every frame is accounted for.

use std::time::Duration;

use etherparse::PacketBuilder;
use flow_table::{
    field::Field,
    id::{NetworkId, Priority, RuleId, VlanId},
    key::FlowKey,
    mac::MacAddr,
    matching::{Match, Term},
    policy::{NetworkPolicy, Policy, PortKind, PortPolicy, VlanMode},
    rule::{Action, Edit, Rule, TableId, Target},
};
use proptest::prelude::*;

use super::*;
use crate::{
    port::{
        fault::{FaultPort, Faults},
        memory::{MemoryPort, Wire},
    },
    report::FlowVerdict,
};

const BLUE: NetworkId = NetworkId(1);
const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xfe]);

fn policy() -> Policy {
    let port = |id| PortPolicy {
        id: PortId(id),
        name: format!("p{id}"),
        kind: PortKind::Workload,
        network: Some(BLUE),
        vlan: VlanMode::All,
        mac: None,
        addresses: Vec::new(),
        guarded_from: false,
        guarded_to: false,
    };
    let network = NetworkPolicy {
        id: BLUE,
        name: "blue".into(),
        vni: None,
        gateways: vec!["10.0.0.254".parse().unwrap(), "fd00::fe".parse().unwrap()],
        gateway_mac: GATEWAY,
        aging: Duration::from_secs(300),
        mac_limit: 100,
    };
    Policy { ports: vec![port(0), port(1), port(2)], networks: vec![network], ..Policy::default() }
}

fn with_rule(mut policy: Policy, id: u32, table: TableId, matches: Match, action: Action) -> Policy {
    let at = TableId::ALL.iter().position(|t| *t == table).unwrap();
    policy.tables[at].push(Rule { id: RuleId(id), priority: Priority::DEFAULT, matches, action });
    policy
}

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn udp(from: u8, to: u8, port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(mac(from).0, mac(to).0).ipv4([10, 0, 0, from], [10, 0, 0, to], 64);
    builder.udp(4000, port).write(&mut frame, b"some payload that is not short").unwrap();
    frame
}

/// A worker with a memory port for every port of the policy.
struct Rig {
    worker: Worker,
    wires: Vec<Wire>,
    now: Instant,
}

impl Rig {
    fn new(policy: &Policy) -> Self {
        Self::with_chunks(policy, 256)
    }

    fn with_chunks(policy: &Policy, chunks: u32) -> Self {
        Self::with_room(policy, chunks, 1024)
    }

    fn with_room(policy: &Policy, chunks: u32, flows: u32) -> Self {
        let seed = Seed::new(1);
        let pipeline = Arc::new(Pipeline::new(policy, seed));
        let mut worker = Worker::new(pipeline, Umem::new(chunks).unwrap(), flows, seed);
        worker.record_fates();
        let mut wires = Vec::new();
        for port in &policy.ports {
            let (end, wire) = MemoryPort::new();
            worker.attach(port.id, Box::new(end), 1500).unwrap();
            wires.push(wire);
        }
        Self { worker, wires, now: Instant::from_nanos(1_000_000_000) }
    }

    fn publish(&mut self, policy: &Policy) {
        self.worker.publish(Arc::new(Pipeline::new(policy, Seed::new(1))));
    }

    /// Sends one frame, makes a pass, and returns what each port sent.
    fn pass(&mut self, port: usize, frame: &[u8]) -> Vec<Vec<Vec<u8>>> {
        assert!(self.wires[port].send(frame));
        self.poll()
    }

    fn poll(&mut self) -> Vec<Vec<Vec<u8>>> {
        self.now = self.now + Duration::from_millis(1);
        self.worker.poll(self.now);
        self.wires.iter().map(|wire| wire.drain().into()).collect()
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while end.since(self.now) > Duration::ZERO {
            self.now = self.now + Duration::from_millis(500);
            self.worker.poll(self.now);
        }
    }

    fn fate(&mut self) -> Fate {
        let fates = self.worker.fates();
        assert_eq!(fates.len(), 1, "{fates:?}");
        fates[0]
    }

    fn reason(&mut self) -> Option<DropReason> {
        match self.fate() {
            Fate::Dropped(cause) => Some(cause.reason),
            _ => None,
        }
    }
}

#[test]
fn hosts_find_each_other_by_learning_and_then_talk_through_flow_entries() {
    let mut rig = Rig::new(&policy());
    let (there, back) = (udp(1, 2, 53), udp(2, 1, 4000));
    assert_eq!(rig.pass(0, &there), [vec![], vec![there.clone()], vec![there.clone()]], "unknown: flooded");
    assert_eq!(rig.pass(1, &back), [vec![back.clone()], vec![], vec![]], "learned");
    for _ in 0..3 {
        assert_eq!(rig.pass(0, &there), [vec![], vec![there.clone()], vec![]]);
    }
    let report = rig.worker.report();
    assert_eq!((report.worker.hits, report.worker.misses, report.worker.uncached, report.worker.flows), (2, 3, 1, 2));
    assert_eq!((report.ports[0].rx.packets, report.ports[1].tx.packets, report.ports[2].tx.packets), (4, 4, 1));
    assert_eq!(report.ports[0].rx.bytes, 4 * there.len() as u64);
    assert_eq!(report.worker.law.copies, 1);
}

#[test]
fn packets_of_one_new_flow_in_one_pass_walk_the_tables_once_and_keep_their_order() {
    let mut rig = Rig::new(&policy());
    rig.pass(1, &udp(2, 1, 1));
    for n in 0..40_u8 {
        let mut frame = udp(1, 2, 53);
        *frame.last_mut().unwrap() = n;
        assert!(rig.wires[0].send(&frame));
    }
    let sent = rig.poll();
    assert_eq!(sent[1].iter().map(|frame| *frame.last().unwrap()).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
    assert_eq!(rig.worker.report().worker.misses, 2);
}

#[test]
fn a_new_policy_holds_for_flows_that_are_known() {
    let mut rig = Rig::new(&policy());
    rig.pass(1, &udp(2, 1, 1));
    rig.pass(0, &udp(1, 2, 53));
    let deny = Match::any().with_exact(Field::IpProto, 17).with_exact(Field::L4Dst, 53);
    rig.publish(&with_rule(policy(), 9, TableId::AclFrom, deny, Action::Drop));
    rig.worker.fates();
    assert_eq!(rig.pass(0, &udp(1, 2, 53))[1].len(), 0);
    assert_eq!(
        rig.fate(),
        Fate::Dropped(DropCause { reason: DropReason::AclFrom, port: PortId(0), rule: Some(RuleId(9)) })
    );
    rig.publish(&policy());
    assert_eq!(rig.pass(0, &udp(1, 2, 53))[1].len(), 1);
    let flows = rig.worker.flows(10, rig.now);
    let kept = flows.iter().find(|flow| flow.key.l4_dst() == 53).unwrap();
    assert_eq!((kept.count.packets, &kept.verdict), (3, &FlowVerdict::Forward(vec![PortId(1)])), "restamped in place");
}

#[test]
fn a_rule_counts_every_packet_it_decided_hit_or_miss() {
    let allow = Match::any().with_exact(Field::L4Dst, 53);
    let mut rig = Rig::new(&with_rule(policy(), 9, TableId::AclFrom, allow, Action::Allow));
    for _ in 0..5 {
        rig.pass(0, &udp(1, 2, 53));
        rig.pass(1, &udp(2, 1, 7));
    }
    let bytes = udp(1, 2, 53).len() as u64;
    assert_eq!(rig.worker.report().rules, [(RuleId(9), crate::report::Count { packets: 5, bytes: 5 * bytes })]);
}

#[test]
fn a_station_that_moves_gets_its_packets_at_its_new_place_at_once() {
    let mut rig = Rig::new(&policy());
    rig.pass(1, &udp(2, 1, 1));
    assert_eq!(rig.pass(0, &udp(1, 2, 53))[1].len(), 1);
    rig.pass(2, &udp(2, 1, 1)); // moved to the third port
    let sent = rig.pass(0, &udp(1, 2, 53));
    assert_eq!((sent[1].len(), sent[2].len()), (0, 1));
}

#[test]
fn a_silent_station_is_forgotten_and_one_with_a_live_flow_is_not() {
    let mut rig = Rig::new(&policy());
    rig.pass(1, &udp(2, 1, 1));
    rig.pass(2, &udp(3, 1, 1));
    rig.pass(0, &udp(1, 2, 53));
    for _ in 0..40 {
        rig.wait(Duration::from_secs(10));
        rig.pass(1, &udp(2, 1, 1)); // a hit, which does not walk the tables
    }
    let known: Vec<_> = rig.worker.fdb(rig.now).into_iter().map(|entry| entry.mac).collect();
    assert_eq!(known, [mac(2)]);
}

#[test]
fn frames_longer_than_the_output_ports_mtu_are_dropped_and_counted() {
    let mut rig = Rig::new(&policy());
    rig.pass(1, &udp(2, 1, 1));
    rig.worker.fates();
    for (payload, fits) in [(1500 - 28, true), (1500 - 27, false)] {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2(mac(1).0, mac(2).0).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        builder.udp(1, 2).write(&mut frame, &vec![0; payload]).unwrap();
        let sent = rig.pass(0, &frame);
        assert_eq!(sent[1].len(), usize::from(fits));
        assert_eq!(rig.reason(), (!fits).then_some(DropReason::Oversize));
        // The same with a tag: it does not count against the MTU.
        frame.splice(12..12, [0x81, 0, 0, 0]);
        let sent = rig.pass(0, &frame);
        assert_eq!(sent[1].len(), usize::from(fits), "tagged");
        assert_eq!(rig.reason(), (!fits).then_some(DropReason::Oversize));
    }
}

#[test]
fn frames_for_a_port_that_is_not_attached_are_counted_and_flow_again_when_it_is_back() {
    let mut rig = Rig::new(&policy());
    rig.pass(1, &udp(2, 1, 1));
    rig.pass(0, &udp(1, 2, 53));
    let port = rig.worker.detach(PortId(1)).unwrap();
    assert!(rig.worker.detach(PortId(1)).is_none());
    rig.worker.fates();
    rig.pass(0, &udp(1, 2, 53));
    assert_eq!(
        rig.fate(),
        Fate::Sent(PathId(0)),
        "its place is forgotten: flooded, and the copy for the lost port is dropped"
    );
    assert_eq!(
        rig.worker.report().drops.iter().map(|drop| (drop.reason, drop.packets)).collect::<Vec<_>>(),
        [(DropReason::PortMissing, 1)]
    );
    rig.worker.attach(PortId(1), port, 1500).unwrap();
    rig.pass(1, &udp(2, 1, 1));
    assert_eq!(rig.pass(0, &udp(1, 2, 53))[1].len(), 1);
    assert_eq!(rig.worker.report().ports[1].tx.packets, 2, "counters go on");
}

#[test]
fn a_partial_checksum_is_completed_on_the_way() {
    use flow_table::packet::{checksum, parse};
    let mut rig = Rig::new(&policy());
    rig.pass(1, &udp(2, 1, 1));
    let right = udp(1, 2, 53);
    let parsed = parse(&right, PortId(0)).unwrap();
    let mut partial = right.clone();
    partial[40..42].copy_from_slice(&checksum::fold(checksum::pseudo_header(&parsed)).to_be_bytes());
    for _ in 0..2 {
        assert_eq!(rig.pass(0, &partial)[1], std::slice::from_ref(&right));
    }
    assert_eq!(rig.worker.report().worker.checksums_completed, 2);
}

#[test]
fn tags_are_pushed_and_popped_byte_for_byte() {
    let mut policy = policy();
    policy.ports[0].vlan = VlanMode::Access(VlanId::new(10).unwrap());
    policy.ports[1].vlan = VlanMode::Trunk { tagged: vec![VlanId::new(10).unwrap()], native: None };
    policy.ports[2].vlan = VlanMode::Access(VlanId::new(10).unwrap());
    let mut rig = Rig::new(&policy);
    let plain = udp(1, 2, 53);
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x81, 0, 0, 10]);
    assert_eq!(rig.pass(0, &plain), [vec![], vec![tagged.clone()], vec![plain.clone()]]);
    let mut back = udp(2, 1, 4000);
    let untagged = back.clone();
    back.splice(12..12, [0x81, 0, 0xa0, 10]);
    assert_eq!(rig.pass(1, &back), [vec![untagged], vec![], vec![]]);
    assert_eq!(rig.pass(0, &plain), [vec![], vec![tagged], vec![]]);
}

#[test]
fn a_rule_that_rewrites_sends_what_recomputing_would_send() {
    let edits = vec![
        Edit::Set(Field::EthDst, u128::from(mac(9).to_u64())),
        Edit::Set(Field::Ip4Dst, 0x0a00_0009),
        Edit::Set(Field::L4Dst, 8080),
        Edit::DecrementTtl,
    ];
    let matches = Match::any().with_exact(Field::EthType, 0x0800).with_exact(Field::L4Dst, 80);
    let action = Action::Forward { to: Target::Port(PortId(2)), edits };
    let mut rig = Rig::new(&with_rule(policy(), 1, TableId::Forward, matches, action));
    let mut expected = Vec::new();
    let builder = PacketBuilder::ethernet2(mac(1).0, mac(9).0).ipv4([10, 0, 0, 1], [10, 0, 0, 9], 63);
    builder.udp(4000, 8080).write(&mut expected, b"some payload that is not short").unwrap();
    for _ in 0..2 {
        assert_eq!(rig.pass(0, &udp(1, 2, 80)), [vec![], vec![], vec![expected.clone()]]);
    }
}

#[test]
fn when_no_chunk_is_free_copies_are_dropped_and_the_rest_goes_on() {
    let mut rig = Rig::with_chunks(&policy(), 4);
    for _ in 0..4 {
        assert!(rig.wires[0].send(&udp(1, 2, 53)));
    }
    let sent = rig.poll();
    assert_eq!(sent[1].len() + sent[2].len() + usize::try_from(rig.worker.report().worker.law.dropped).unwrap(), 8);
    let drops = rig.worker.report().drops;
    assert_eq!(drops.iter().map(|drop| drop.reason).collect::<Vec<_>>(), [DropReason::NoChunk]);
    assert_eq!(rig.worker.umem().free_chunks(), 4);
}

#[test]
fn a_packet_whose_entry_is_evicted_in_its_own_pass_still_goes_where_it_must() {
    let mut policy = policy();
    policy.ports[1].mac = Some(mac(2));
    policy.ports[2].mac = Some(mac(3));
    let mut rig = Rig::with_room(&policy, 256, 64);
    rig.pass(0, &udp(1, 2, 1));
    for round in 0..50_u16 {
        let slow = udp(1, 2, 1);
        assert!(rig.wires[0].send(&slow));
        for n in 0..60 {
            assert!(rig.wires[0].send(&udp(1, 3, 1000 + 60 * round + n)));
        }
        let sent = rig.poll();
        assert_eq!((sent[1].as_slice(), sent[2].len()), (std::slice::from_ref(&slow), 60), "round {round}");
    }
    assert!(rig.worker.report().worker.evicted > 1000);
}

#[test]
fn a_denied_flow_is_judged_anew_when_its_destination_moves() {
    let mut policy = policy();
    policy.ports[1].guarded_to = true;
    let mut rig = Rig::new(&policy);
    rig.pass(1, &udp(2, 9, 1));
    rig.worker.fates();
    rig.pass(0, &udp(1, 2, 53));
    assert_eq!(rig.reason(), Some(DropReason::AclToDefault));
    rig.pass(2, &udp(2, 9, 1)); // to a port that anybody may reach
    assert_eq!(rig.pass(0, &udp(1, 2, 53))[2].len(), 1);
}

#[test]
fn a_rule_asked_for_several_outputs_counts_a_broadcast_once() {
    let allow = Match::any().with_exact(Field::L4Dst, 53);
    let mut rig = Rig::new(&with_rule(policy(), 9, TableId::AclTo, allow, Action::Allow));
    let mut frame = udp(1, 2, 53);
    frame[..6].fill(0xff);
    assert_eq!(rig.pass(0, &frame).iter().map(Vec::len).sum::<usize>(), 2);
    assert_eq!(rig.worker.report().rules[0].1.packets, 1);
}

#[test]
fn a_second_tag_hides_nothing_from_the_tables() {
    let mut policy = policy();
    policy.ports[0].vlan = VlanMode::Access(VlanId::new(10).unwrap());
    policy.ports[0].guarded_from = true;
    let mut rig = Rig::new(&policy);
    let plain = udp(1, 2, 53);
    for tags in [
        &[0x81, 0, 0, 0, 0x81, 0, 0, 0][..],
        &[0x81, 0, 0, 0, 0x81, 0, 0, 20],
        &[0x88, 0xa8, 0, 0],
        &[0x81, 0, 0, 0, 0x88, 0xa8, 0, 0],
        &[0x91, 0, 0, 0],
        &[0x81, 0, 0x0f, 0xff],
    ] {
        let mut frame = plain.clone();
        frame.splice(12..12, tags.iter().copied());
        rig.pass(0, &frame);
        assert_eq!(rig.reason(), Some(DropReason::Vlan), "{tags:02x?}");
    }
}

#[test]
fn a_port_that_changes_its_vlan_takes_its_stations_with_it() {
    let vlan = |id| VlanMode::Access(VlanId::new(id).unwrap());
    let mut policy = policy();
    policy.ports.iter_mut().for_each(|port| port.vlan = vlan(10));
    let mut rig = Rig::new(&policy);
    rig.pass(1, &udp(2, 1, 1));
    policy.ports[1].vlan = vlan(20);
    rig.publish(&policy);
    assert_eq!(rig.pass(0, &udp(1, 2, 53))[2].len(), 1, "flooded in its old VLAN, not lost");
}

#[test]
fn a_broadcast_is_sent_when_one_port_takes_it_and_dropped_when_none_does() {
    for lost in [1, 2] {
        let mut rig = Rig::new(&policy());
        drop(rig.worker.detach(PortId(lost)));
        rig.pass(0, &udp(1, 99, 53));
        assert!(matches!(rig.fate(), Fate::Sent(_)), "port {lost} is away");
        drop(rig.worker.detach(PortId(3 - lost)));
        rig.pass(0, &udp(1, 99, 53));
        assert_eq!(rig.reason(), Some(DropReason::PortMissing));
    }
}

#[test]
fn a_station_turned_away_by_a_full_network_is_learned_once_there_is_room() {
    let mut policy = policy();
    policy.networks[0].mac_limit = 1;
    policy.networks[0].aging = Duration::from_secs(60);
    let mut rig = Rig::new(&policy);
    rig.pass(2, &udp(3, 9, 1));
    for _ in 0..140 {
        rig.pass(0, &udp(1, 3, 7)); // a flow that is remembered, and so does not learn
        rig.wait(Duration::from_secs(1));
    }
    let known: Vec<_> = rig.worker.fdb(rig.now).into_iter().map(|entry| entry.mac).collect();
    assert_eq!(known, [mac(1)]);
}

mod answers;
mod laws;
