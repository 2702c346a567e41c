//! What the tables promise, on frames built by another library.

use etherparse::{PacketBuilder, VlanId as EtherVlan};

use super::*;
use crate::{
    fate::DropReason,
    id::{Priority, RuleId, VlanId},
    output::Output,
    packet::{fields, parse, vlan::VlanEdit},
    policy::{PortKind, VlanMode},
    rule::{Action, Edit, Rule, Target},
    time::Instant,
};
use crate::{
    field::Field,
    matching::{Match, Term},
};

const BLUE: NetworkId = NetworkId(1);
const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xfe]);

fn port(id: u16) -> PortPolicy {
    PortPolicy {
        id: PortId(id),
        name: format!("p{id}"),
        kind: PortKind::Workload,
        network: Some(BLUE),
        vlan: VlanMode::All,
        mac: None,
        addresses: Vec::new(),
        guarded_from: false,
        guarded_to: false,
    }
}

/// Three ports of one network with a gateway.
fn policy() -> Policy {
    let network = NetworkPolicy {
        id: BLUE,
        name: "blue".into(),
        vni: None,
        gateways: vec!["10.0.0.254".parse().unwrap(), "fd00::fe".parse().unwrap()],
        gateway_mac: GATEWAY,
        aging: Duration::from_secs(300),
        mac_limit: 100,
    };
    Policy { ports: vec![port(1), port(2), port(3)], networks: vec![network], ..Policy::default() }
}

fn rule(id: u32, table: TableId, matches: Match, action: Action, policy: &mut Policy) {
    let rule = Rule { id: RuleId(id), priority: Priority::DEFAULT, matches, action };
    policy.tables[TableId::ALL.iter().position(|t| *t == table).unwrap()].push(rule);
}

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn udp(from: u8, to: MacAddr, port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(mac(from).0, to.0).ipv4([10, 0, 0, from], [10, 0, 0, to.0[5]], 64);
    builder.udp(4000, port).write(&mut frame, b"payload").unwrap();
    frame
}

fn tagged(from: u8, to: MacAddr, vlan: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(mac(from).0, to.0).single_vlan(EtherVlan::try_new(vlan).unwrap());
    builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(1, 2).write(&mut frame, b"payload").unwrap();
    frame
}

fn tcp_syn(from: u8, to: u8, port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(mac(from).0, mac(to).0).ipv4([10, 0, 0, from], [10, 0, 0, to], 64);
    builder.tcp(4000, port, 1, 1000).syn().write(&mut frame, &[]).unwrap();
    frame
}

struct Bench {
    pipeline: Pipeline,
    fdb: Fdb,
    walk: Walk,
}

impl Bench {
    fn new(policy: &Policy) -> Self {
        let seed = Seed::new(1);
        let mut fdb = Fdb::new(seed);
        let domain = Domain { network: BLUE, vlan: 0 };
        for n in 1..=3 {
            fdb.learn(domain, mac(n), PortId(u16::from(n)), 100, Instant::default());
        }
        Self { pipeline: Pipeline::new(policy, seed), fdb, walk: Walk::default() }
    }

    fn walk(&mut self, in_port: u16, frame: &[u8]) -> Outcome {
        let parsed = parse(frame, PortId(in_port)).unwrap();
        self.pipeline.walk(&parsed, fields::read(frame, &parsed), &self.fdb, &mut self.walk)
    }

    fn ports(&self) -> Vec<u16> {
        self.walk.outputs().iter().map(|output| output.port.0).collect()
    }
}

fn dropped(reason: DropReason, rule: Option<u32>) -> Outcome {
    Outcome::Drop { reason, rule: rule.map(RuleId) }
}

#[test]
fn a_known_station_gets_the_frame_alone_and_the_decision_may_be_cached() {
    let mut bench = Bench::new(&policy());
    assert_eq!(bench.walk(1, &udp(1, mac(2), 53)), Outcome::Forward);
    assert_eq!((bench.ports(), bench.walk.is_cacheable()), (vec![2], true));
    assert_eq!(bench.walk(2, &udp(1, mac(2), 53)), dropped(DropReason::SamePort, None));
}

#[test]
fn an_unknown_station_is_flooded_for_and_the_decision_is_not_cached() {
    let mut bench = Bench::new(&policy());
    assert_eq!(bench.walk(1, &udp(1, mac(99), 53)), Outcome::Forward);
    assert_eq!((bench.ports(), bench.walk.is_cacheable()), (vec![2, 3], false));
    assert_eq!(bench.walk(1, &udp(1, MacAddr::BROADCAST, 53)), Outcome::Forward);
    assert_eq!((bench.ports(), bench.walk.is_cacheable()), (vec![2, 3], true), "a broadcast always goes to all");
}

#[test]
fn bridge_control_frames_and_impossible_senders_are_dropped() {
    let mut bench = Bench::new(&policy());
    let stp = MacAddr([1, 0x80, 0xc2, 0, 0, 0]);
    assert_eq!(bench.walk(1, &udp(1, stp, 53)), dropped(DropReason::LinkLocalControl, None));
    let mut frame = udp(1, mac(2), 53);
    frame[6] = 3;
    assert_eq!(bench.walk(1, &frame), dropped(DropReason::BadSource, None));
    frame[6..12].fill(0);
    assert_eq!(bench.walk(1, &frame), dropped(DropReason::BadSource, None));
}

#[test]
fn a_port_in_a_group_may_only_send_and_receive_what_a_rule_allows() {
    let mut policy = policy();
    policy.ports[0].guarded_from = true;
    policy.ports[1].guarded_to = true;
    let dns =
        || Match::any().with_exact(Field::EthType, 0x0800).with_exact(Field::IpProto, 17).with_exact(Field::L4Dst, 53);
    rule(7, TableId::AclFrom, dns(), Action::Allow, &mut policy);
    let mut bench = Bench::new(&policy);
    assert_eq!(bench.walk(1, &udp(1, mac(3), 53)), Outcome::Forward);
    assert_eq!(bench.walk.rules(), [RuleId(7)]);
    assert_eq!(bench.walk(1, &udp(1, mac(3), 54)), dropped(DropReason::AclFromDefault, None));
    assert_eq!(bench.walk(1, &udp(1, mac(2), 53)), dropped(DropReason::AclToDefault, None));
    assert_eq!(bench.walk(3, &udp(3, mac(1), 54)), Outcome::Forward, "a port in no group is not judged");
    rule(8, TableId::AclTo, Match::any().with_exact(Field::OutPort, 2), Action::Allow, &mut policy);
    let mut bench = Bench::new(&policy);
    assert_eq!(bench.walk(1, &udp(1, mac(2), 53)), Outcome::Forward);
    assert_eq!(bench.walk.rules(), [RuleId(7), RuleId(8)]);
}

#[test]
fn a_flood_reaches_only_the_ports_that_may_be_reached() {
    let mut policy = policy();
    rule(4, TableId::AclTo, Match::any().with_exact(Field::OutPort, 3), Action::Drop, &mut policy);
    let mut bench = Bench::new(&policy);
    assert_eq!(bench.walk(1, &udp(1, MacAddr::BROADCAST, 53)), Outcome::Forward);
    assert_eq!(bench.ports(), [2]);
    rule(5, TableId::AclTo, Match::any().with_exact(Field::OutPort, 2), Action::Drop, &mut policy);
    let mut bench = Bench::new(&policy);
    assert_eq!(bench.walk(1, &udp(1, MacAddr::BROADCAST, 53)), dropped(DropReason::AclTo, Some(5)));
}

#[test]
fn a_drop_names_the_rule_of_its_table() {
    for (table, reason) in [
        (TableId::Classify, DropReason::Classify),
        (TableId::Security, DropReason::Security),
        (TableId::AclFrom, DropReason::AclFrom),
        (TableId::Forward, DropReason::Forward),
        (TableId::AclTo, DropReason::AclTo),
        (TableId::Output, DropReason::Output),
    ] {
        let mut policy = policy();
        rule(9, table, Match::any().with_exact(Field::L4Dst, 23), Action::Drop, &mut policy);
        let mut bench = Bench::new(&policy);
        assert_eq!(bench.walk(1, &tcp_syn(1, 2, 23)), dropped(reason, Some(9)));
        assert_eq!(bench.walk(1, &tcp_syn(1, 2, 24)), Outcome::Forward);
    }
}

#[test]
fn a_rule_on_tcp_flags_makes_only_packets_it_could_apply_to_uncacheable() {
    let mut policy = policy();
    let syn = Match::any()
        .with_exact(Field::EthType, 0x0800)
        .with_exact(Field::IpProto, 6)
        .with(Field::TcpFlags, [Term::Masked { value: 2, mask: 0x12 }]);
    rule(9, TableId::AclFrom, syn, Action::Drop, &mut policy);
    let mut bench = Bench::new(&policy);
    assert_eq!(bench.walk(1, &tcp_syn(1, 2, 80)), dropped(DropReason::AclFrom, Some(9)));
    assert!(!bench.walk.is_cacheable());
    assert_eq!(bench.walk(1, &udp(1, mac(2), 80)), Outcome::Forward);
    assert!(bench.walk.is_cacheable());
}

#[test]
fn a_mark_set_in_classify_is_seen_by_later_tables() {
    let mut policy = policy();
    rule(1, TableId::Classify, Match::any().with_exact(Field::L4Dst, 53), Action::Mark(7), &mut policy);
    rule(2, TableId::AclTo, Match::any().with_exact(Field::Mark, 7), Action::Drop, &mut policy);
    let mut bench = Bench::new(&policy);
    assert_eq!(bench.walk(1, &udp(1, mac(2), 53)), dropped(DropReason::AclTo, Some(2)));
    assert_eq!(bench.walk(1, &udp(1, mac(2), 54)), Outcome::Forward);
}

#[test]
fn acl_to_sees_the_destination_that_a_forward_rule_wrote() {
    let mut policy = policy();
    let edits = vec![Edit::Set(Field::Ip4Dst, 0x0a00_0009), Edit::Set(Field::L4Dst, 8080)];
    let to = Action::Forward { to: Target::Port(PortId(3)), edits };
    rule(1, TableId::Forward, Match::any().with_exact(Field::L4Dst, 80), to, &mut policy);
    rule(2, TableId::AclTo, Match::any().with_exact(Field::L4Dst, 8080), Action::Drop, &mut policy);
    let mut bench = Bench::new(&policy);
    assert_eq!(bench.walk(1, &tcp_syn(1, 2, 80)), dropped(DropReason::AclTo, Some(2)));
    assert_eq!(bench.walk(1, &tcp_syn(1, 2, 8080)), dropped(DropReason::AclTo, Some(2)));
    assert_eq!(bench.walk(1, &tcp_syn(1, 2, 81)), Outcome::Forward);
}

#[test]
fn tags_are_pushed_popped_and_kept_as_the_ports_say_and_vlans_do_not_mix() {
    let vlan = |id| VlanId::new(id).unwrap();
    let mut policy = policy();
    policy.ports[0].vlan = VlanMode::Access(vlan(10));
    policy.ports[1].vlan = VlanMode::Trunk { tagged: vec![vlan(10), vlan(20)], native: Some(vlan(30)) };
    policy.ports[2].vlan = VlanMode::Access(vlan(20));
    policy.ports.push(PortPolicy { vlan: VlanMode::Access(vlan(10)), ..port(4) });
    let mut bench = Bench::new(&policy);
    let outputs = |bench: &Bench| -> Vec<(u16, VlanEdit)> {
        bench.walk.outputs().iter().map(|Output { port, vlan, .. }| (port.0, *vlan)).collect()
    };
    bench.walk(1, &udp(1, MacAddr::BROADCAST, 53));
    assert_eq!(outputs(&bench), [(2, VlanEdit::Push(10)), (4, VlanEdit::Keep)]);
    bench.walk(2, &tagged(2, MacAddr::BROADCAST, 10));
    assert_eq!(outputs(&bench), [(1, VlanEdit::Pop), (4, VlanEdit::Pop)]);
    bench.walk(2, &tagged(2, MacAddr::BROADCAST, 20));
    assert_eq!(outputs(&bench), [(3, VlanEdit::Pop)]);
    assert_eq!(
        bench.walk(2, &udp(2, MacAddr::BROADCAST, 53)),
        dropped(DropReason::NoDestination, None),
        "nobody else is in 30"
    );
    assert_eq!(bench.walk(2, &tagged(2, MacAddr::BROADCAST, 40)), dropped(DropReason::Vlan, None));
    assert_eq!(
        bench.walk(1, &tagged(1, MacAddr::BROADCAST, 10)),
        dropped(DropReason::Vlan, None),
        "access ports take no tags"
    );
    assert_eq!(bench.walk(1, &tagged(1, MacAddr::BROADCAST, 0)), Outcome::Forward, "but a priority tag is no tag");
}

#[test]
fn questions_and_packets_for_the_gateway_are_the_switchs_own() {
    let mut bench = Bench::new(&policy());
    let mut ping = Vec::new();
    let builder = PacketBuilder::ethernet2(mac(1).0, GATEWAY.0).ipv4([10, 0, 0, 1], [10, 0, 0, 254], 64);
    builder.icmpv4_echo_request(1, 1).write(&mut ping, b"ping").unwrap();
    assert_eq!(bench.walk(1, &ping), Outcome::Local(BLUE));
    assert_eq!(bench.walk(1, &udp(1, GATEWAY, 53)), dropped(DropReason::NotAnswered, None));
    assert!(bench.walk.is_cacheable(), "what is never answered is known by the key alone");
    let mut arp = vec![0xff; 6];
    arp.extend_from_slice(&mac(1).0);
    arp.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend_from_slice(&mac(1).0);
    arp.extend_from_slice(&[10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 254]);
    assert_eq!(bench.walk(1, &arp), Outcome::Local(BLUE));
    arp[41] = 2;
    assert_eq!(bench.walk(1, &arp), Outcome::Forward);
    assert!(!bench.walk.is_cacheable(), "ARP is never cached");
}

#[test]
fn a_configured_station_is_found_without_being_learned_and_never_moves() {
    let mut policy = policy();
    policy.ports[2].mac = Some(mac(77));
    let mut bench = Bench::new(&policy);
    bench.walk(1, &udp(1, mac(77), 53));
    assert_eq!(bench.ports(), [3]);
    assert!(!bench.pipeline.may_learn(Domain { network: BLUE, vlan: 0 }, mac(77)));
    assert!(bench.pipeline.may_learn(Domain { network: BLUE, vlan: 0 }, mac(78)));
}

#[test]
fn dscp_set_on_the_way_out_of_one_port_is_not_set_for_the_others() {
    let mut policy = policy();
    let edit = Action::Edit(vec![Edit::Set(Field::IpDscp, 46)]);
    rule(1, TableId::Output, Match::any().with_exact(Field::OutPort, 2), edit, &mut policy);
    let mut bench = Bench::new(&policy);
    bench.walk(1, &udp(1, MacAddr::BROADCAST, 53));
    let dscp: Vec<_> = bench.walk.outputs().iter().map(|output| (output.port.0, output.dscp)).collect();
    assert_eq!(dscp, [(2, Some(46)), (3, None)]);
    bench.walk(1, &udp(1, mac(2), 53));
    assert_eq!(Field::IpDscp.read(bench.walk.words()), 46);
}
