//! The laws, by property: nothing is lost, nothing panics, and a cached decision is the decision.

use super::*;

/// Every ready frame of the cases, and every prefix of each.
fn case_frames() -> Vec<Vec<u8>> {
    let text = include_str!("../../../../tests/cases/packets.json");
    let cases: serde_json::Value = serde_json::from_str(text).unwrap();
    let hex =
        |text: &str| (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect();
    cases.as_object().unwrap().values().map(|case| hex(case["hex"].as_str().unwrap())).collect()
}

/// A policy whose rules look at every kind of field.
fn nosy_policy() -> Policy {
    let port = |n| Match::any().with_exact(Field::L4Dst, n);
    let mut policy = policy();
    policy.ports[1].guarded_to = true;
    policy.ports[0].guarded_from = true;
    let policy = with_rule(
        policy,
        1,
        TableId::AclFrom,
        Match::any().with(Field::IpTtl, [Term::Range { low: 0, high: 31 }]),
        Action::Drop,
    );
    let any = || Match::any().with(Field::L4Dst, [Term::Range { low: 0, high: 0xffff }]);
    let low = Rule { id: RuleId(2), priority: Priority(5), matches: any(), action: Action::Allow };
    let mut policy = with_rule(policy, 3, TableId::AclTo, port(53), Action::Allow);
    policy.tables[2].push(low);
    let edits = vec![Edit::Set(Field::L4Dst, 99), Edit::DecrementTtl];
    let to = Action::Forward { to: Target::Normal, edits };
    let udp80 = port(80).with_exact(Field::EthType, 0x0800).with_exact(Field::IpProto, 17);
    let policy = with_rule(policy, 4, TableId::Forward, udp80, to);
    let syn = Match::any().with(Field::TcpFlags, [Term::Masked { value: 2, mask: 2 }]);
    with_rule(policy, 5, TableId::Security, syn, Action::Drop)
}

fn any_packet() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let ports = prop::sample::select(vec![53_u16, 80, 443]);
    (0..3_usize, 1..4_u8, 1..6_u8, ports, 0..6_u8, prop::sample::select(vec![1_u8, 30, 64])).prop_map(
        |(port, from, to, dport, kind, ttl)| {
            let to_mac = if to == 5 { [0xff; 6] } else { mac(to).0 };
            let ethernet = PacketBuilder::ethernet2(mac(from).0, to_mac);
            let ip = if kind < 4 {
                ethernet.ipv4([10, 0, 0, from], [10, 0, 0, to], ttl)
            } else {
                ethernet.ipv6([from; 16], [to; 16], ttl)
            };
            let mut frame = Vec::new();
            match kind {
                0 | 4 => ip.udp(4000, dport).write(&mut frame, b"payload").unwrap(),
                1 => ip.tcp(4000, dport, 1, 1).syn().write(&mut frame, b"").unwrap(),
                2 | 5 => ip.tcp(4000, dport, 1, 1).ack(1).write(&mut frame, b"data").unwrap(),
                _ => ip.icmpv4_echo_request(1, 1).write(&mut frame, b"ping").unwrap(),
            }
            (port, frame)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The consulted-fields law: what flow entries do is what walking the tables anew for every packet does.
    #[test]
    fn a_cached_decision_is_what_walking_the_tables_again_decides(
        packets in prop::collection::vec(any_packet(), 1..120), changed in prop::collection::vec(any::<bool>(), 120),
    ) {
        let policies = [nosy_policy(), policy()];
        let (mut cached, mut anew) = (Rig::new(&policies[0]), Rig::new(&policies[0]));
        let mut which = 0;
        for ((port, frame), change) in packets.into_iter().zip(changed) {
            if change && port == 2 {
                which = 1 - which;
                cached.publish(&policies[which]);
            }
            anew.publish(&policies[which]); // no entry is valid any more
            prop_assert_eq!(cached.pass(port, &frame), anew.pass(port, &frame));
            let (a, b) = (cached.fate(), anew.fate());
            match (a, b) {
                (Fate::Dropped(a), Fate::Dropped(b)) => prop_assert_eq!(a, b),
                (Fate::Sent(a), Fate::Sent(b)) | (Fate::Answered(a), Fate::Answered(b)) => {
                    prop_assert_eq!(cached.worker.rules(a), anew.worker.rules(b));
                }
                _ => prop_assert!(false, "{:?} and {:?}", a, b),
            }
        }
    }

    /// The law of `poll`, on ports that cut, corrupt, duplicate and refuse: it is asserted in every pass, and the memory's
    /// census is exact afterwards.
    #[test]
    fn nothing_is_lost_or_made_up_whatever_the_ports_do(
        seed in any::<u64>(), faults in any::<(u8, u8, u8, u8, u8)>(),
        packets in prop::collection::vec(any_packet(), 1..200), case in 0..31_usize,
    ) {
        let seed_of = Seed::new(1);
        let mut worker = Worker::new(Arc::new(Pipeline::new(&nosy_policy(), seed_of)), Umem::new(64).unwrap(), 64, seed_of);
        let faults = Faults { truncate: faults.0, corrupt: faults.1, duplicate: faults.2, refuse: faults.3, silence: faults.4 / 2 };
        let mut wires = Vec::new();
        for id in 0..3 {
            let (port, wire) = MemoryPort::new();
            worker.attach(PortId(id), Box::new(FaultPort::new(port, faults, seed ^ u64::from(id))), 1500).unwrap();
            wires.push(wire);
        }
        let extra = case_frames();
        let mut now = Instant::from_nanos(1);
        for (n, (port, frame)) in packets.into_iter().enumerate() {
            wires[port].send(&frame);
            wires[port].send(&extra[case]);
            if n % 7 == 0 {
                now = now + Duration::from_millis(300);
                worker.poll(now);
                wires.iter().for_each(|wire| drop(wire.drain()));
            }
        }
        for _ in 0..100 {
            worker.poll(now);
        }
        let report = worker.report();
        prop_assert!(report.worker.law.holds());
        let dropped: u64 = report.drops.iter().map(|drop| drop.packets).sum();
        prop_assert_eq!(dropped, report.worker.law.dropped, "every drop has a reason");
        prop_assert_eq!(report.ports.iter().map(|port| port.rx.packets).sum::<u64>(), report.worker.law.rx);
        prop_assert_eq!(report.ports.iter().map(|port| port.tx.packets).sum::<u64>(), report.worker.law.tx);
        prop_assert_eq!((report.worker.chunks_free, report.worker.chunks_lent), (64, 0));
    }
}

#[test]
fn every_prefix_of_every_case_is_read_without_panic_and_never_allowed_by_a_port_rule() {
    let mut policy = policy();
    policy.ports[0].guarded_from = true;
    let tcp22 = Match::any().with_exact(Field::IpProto, 6).with_exact(Field::L4Dst, 22);
    let policy = with_rule(policy, 1, TableId::AclFrom, tcp22, Action::Allow);
    let mut rig = Rig::new(&policy);
    for frame in case_frames() {
        for length in 0..frame.len() {
            let sent = rig.pass(0, &frame[..length]);
            let fate = rig.fate();
            let whole = flow_table::packet::parse(&frame[..length], PortId(0));
            match fate {
                Fate::Dropped(cause) => {
                    prop_reason(length, cause.reason);
                    assert!(sent.iter().all(Vec::is_empty));
                }
                Fate::Sent(_) | Fate::Answered(_) => assert!(whole.is_ok_and(|parsed| is_plausible(&parsed.key))),
            }
        }
    }
}

/// What a guarded port may have forwarded: not IP at all, what is never judged, or the one port allowed.
fn is_plausible(key: &FlowKey) -> bool {
    !key.is_ip() || key.protocol() == 58 || (key.protocol() == 6 && key.l4_dst() == 22 && !key.is_later_fragment())
}

fn prop_reason(length: usize, reason: DropReason) {
    if length < 14 {
        assert_eq!(reason, DropReason::Runt);
    }
}
