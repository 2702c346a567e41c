//! What a file means to the packet core: rules as lowered, judged by an oracle that looks at every rule.
#![cfg(test)]

use config::{Ids, Model, load};
use flow_table::{
    field::{Field, Headers},
    id::{NetworkId, PortId, Priority},
    matching::{Match, Term},
    policy::{Policy, VlanMode},
    rule::{Action, Edit, Rule, TableId, Target},
};

const EXAMPLE: &str = include_str!("../examples/groups.yaml");

fn model(text: &str) -> Model {
    load(text, "test.yaml").unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn rules(policy: &Policy, table: TableId) -> &[Rule] {
    &policy.tables[TableId::ALL.iter().position(|t| *t == table).unwrap()]
}

/// The name and action of the rule that decides, as the pipeline's law has it.
fn decide<'p>(policy: &'p Policy, table: TableId, headers: &Headers) -> Option<(&'p str, &'p Action)> {
    let rule =
        rules(policy, table).iter().filter(|rule| rule.matches.holds(headers)).max_by_key(|rule| rule.priority)?;
    let name = policy.rules.iter().find(|name| name.id == rule.id)?;
    Some((&name.name, &rule.action))
}

fn headers(fields: &[(Field, u128)]) -> Headers {
    let mut headers = Headers::default();
    for (field, value) in fields {
        match field {
            Field::ArpSha => headers.packet.arp_sha = Some(u64::try_from(*value).unwrap()),
            Field::NdTarget => headers.packet.nd_target = Some(*value),
            _ => field.write(&mut headers.words, *value, u128::MAX),
        }
    }
    headers
}

fn v4(text: &str) -> u128 {
    u128::from(text.parse::<std::net::Ipv4Addr>().unwrap().to_bits())
}

fn v6(text: &str) -> u128 {
    text.parse::<std::net::Ipv6Addr>().unwrap().to_bits()
}

const IPV4: (Field, u128) = (Field::EthType, 0x0800);
const ARP: (Field, u128) = (Field::EthType, 0x0806);
const IPV6: (Field, u128) = (Field::EthType, 0x86dd);
const TCP: (Field, u128) = (Field::IpProto, 6);
const UDP: (Field, u128) = (Field::IpProto, 17);
const ICMPV6: (Field, u128) = (Field::IpProto, 58);

#[test]
fn a_flow_becomes_one_rule_for_each_ip_version_it_can_be_about_under_one_identifier() {
    let text = "apiVersion: sluice/v1
ports: [{ name: a, device: veth-a }]
flows:
  - { name: both, table: acl-from, priority: 7, match: { in: a, tcp.dst: [22, 80-90] }, action: deny }
  - { name: one, table: acl-from, match: { ip.dst: 10.0.0.0/8 }, action: deny }
";
    let policy = model(text).policy(&mut Ids::default());
    let both = |ether_type| {
        Match::any()
            .with_exact(Field::EthType, ether_type)
            .with_exact(Field::InPort, 1)
            .with(Field::L4Dst, [Term::exact(Field::L4Dst, 22), Term::Range { low: 80, high: 90 }])
            .with_exact(Field::IpProto, 6)
    };
    let one = Match::any()
        .with_exact(Field::EthType, 0x0800)
        .with(Field::Ip4Dst, [Term::prefix(Field::Ip4Dst, v4("10.0.0.0"), 8)]);
    let [first, second, third] = rules(&policy, TableId::AclFrom) else { panic!("{policy:?}") };
    assert_eq!((&first.matches, &second.matches, &third.matches), (&both(0x0800), &both(0x86dd), &one));
    assert!(first.id == second.id && first.id != third.id);
    assert_eq!((first.priority, third.priority), (Priority(7), Priority::DEFAULT));
    assert_eq!(policy.rules.iter().map(|rule| &*rule.name).collect::<Vec<_>>(), ["both", "one"]);
}

#[test]
fn groups_guard_their_members_in_the_directions_they_have_rules_for() {
    let policy = model(EXAMPLE).policy(&mut Ids::default());
    let [web, db] = &*policy.ports else { panic!() };
    assert!(web.guarded_from && web.guarded_to && db.guarded_to && db.guarded_from);
    let to_web = |port, more: &[(Field, u128)]| {
        let mut fields = vec![IPV4, TCP, (Field::OutPort, 1), (Field::Ip4Src, v4("10.0.0.99")), (Field::L4Dst, port)];
        fields.extend(more);
        decide(&policy, TableId::AclTo, &headers(&fields)).map(|(name, _)| name)
    };
    assert_eq!(to_web(80, &[]), Some("web/to/1"));
    assert_eq!(to_web(81, &[]), None);
    assert_eq!(to_web(40000, &[]), None);
    assert_eq!(to_web(40000, &[(Field::Ip4Src, v4("10.0.0.21"))]), Some("web/to/3"), "an address of group db");
    assert_eq!(to_web(80, &[(Field::OutPort, 2)]), None, "db is not in the group");
    let from_web = |fields: &[(Field, u128)]| {
        let all: Vec<_> = [IPV4, (Field::InPort, 1)].into_iter().chain(fields.iter().copied()).collect();
        decide(&policy, TableId::AclFrom, &headers(&all))
    };
    let metadata = [TCP, (Field::Ip4Dst, v4("169.254.169.254")), (Field::L4Dst, 80)];
    assert_eq!(from_web(&metadata), Some(("no-metadata", &Action::Drop)));
    let dns = [UDP, (Field::Ip4Dst, v4("10.0.0.53")), (Field::L4Dst, 53)];
    assert_eq!(from_web(&dns), Some(("web/from/1", &Action::Allow)));
    assert_eq!(from_web(&[TCP, (Field::L4Dst, 23)]), Some(("no-telnet", &Action::Drop)));
}

#[test]
fn a_group_with_an_empty_list_denies_everything_in_that_direction() {
    let text = "apiVersion: sluice/v1
ports: [{ name: a, device: veth-a, groups: [closed] }]
groups: [{ name: closed, to: [] }]
";
    let policy = model(text).policy(&mut Ids::default());
    assert!(policy.ports[0].guarded_to && !policy.ports[0].guarded_from);
}

#[test]
fn a_workload_sends_with_its_own_addresses_and_nothing_else() {
    let policy = model(EXAMPLE).policy(&mut Ids::default());
    let mac = (Field::EthSrc, 0x0200_0000_0011);
    let sha = (Field::ArpSha, 0x0200_0000_0011);
    let allowed = |fields: &[(Field, u128)]| {
        let all: Vec<_> = [(Field::InPort, 1), mac].into_iter().chain(fields.iter().copied()).collect();
        match decide(&policy, TableId::Security, &headers(&all)) {
            Some((name, Action::Allow)) => {
                assert!(name.starts_with("web-1/security/"), "{name}");
                true
            }
            Some((name, Action::Drop)) => {
                assert!(name.starts_with("web-1/security"), "{name}");
                false
            }
            other => panic!("{other:?}"),
        }
    };
    let other_mac = (Field::EthSrc, 0x0200_0000_0012);
    let own = (Field::Ip4Src, v4("10.0.0.11"));
    assert!(allowed(&[IPV4, own]));
    assert!(!allowed(&[IPV4, own, other_mac]));
    assert!(!allowed(&[IPV4, (Field::Ip4Src, v4("10.0.0.12"))]));
    for (sender, sha, expected) in [
        ("10.0.0.11", sha, true),
        ("0.0.0.0", sha, true),
        ("10.0.0.12", sha, false),
        ("10.0.0.11", (Field::ArpSha, 0x0200_0000_0012), false),
    ] {
        assert_eq!(allowed(&[ARP, (Field::ArpSpa, v4(sender)), sha]), expected, "{sender} {sha:?}");
    }
    for (source, expected) in
        [("2001:db8::11", true), ("fe80::ff:fe00:11", true), ("fe80::1", false), ("::", false), ("2001:db8::12", false)]
    {
        assert_eq!(allowed(&[IPV6, (Field::Ip6Src, v6(source))]), expected, "{source}");
    }
    let dhcp = |from: &str, to: &str, source, destination| {
        let addresses = [(Field::Ip4Src, v4(from)), (Field::Ip4Dst, v4(to))];
        let ports = [(Field::L4Src, source), (Field::L4Dst, destination)];
        allowed(&[[IPV4, UDP], addresses, ports].concat())
    };
    assert!(dhcp("0.0.0.0", "255.255.255.255", 68, 67));
    assert!(!dhcp("0.0.0.0", "10.0.0.1", 68, 67));
    assert!(!dhcp("0.0.0.0", "255.255.255.255", 69, 67));
    for source in [67, 68, 1067] {
        assert!(!dhcp("10.0.0.11", "10.0.0.12", source, 68), "a DHCP server's reply from port {source}");
        let ports = [(Field::L4Src, source), (Field::L4Dst, 546)];
        assert!(!allowed(&[&[IPV6, UDP, (Field::Ip6Src, v6("2001:db8::11"))], &ports[..]].concat()));
    }
    let nd = |kind, source: &str, target: Option<&str>| {
        let mut fields = vec![IPV6, ICMPV6, (Field::IcmpType, kind), (Field::Ip6Src, v6(source))];
        fields.extend(target.map(|target| (Field::NdTarget, v6(target))));
        allowed(&fields)
    };
    assert!(nd(135, "2001:db8::11", Some("2001:db8::99")), "it may ask for any");
    assert!(nd(136, "2001:db8::11", Some("2001:db8::11")) && nd(136, "fe80::ff:fe00:11", Some("fe80::ff:fe00:11")));
    assert!(
        !nd(136, "fe80::1", Some("fe80::1")) && !nd(136, "fe80::ff:fe00:11", Some("fe80::1")),
        "not made of its MAC"
    );
    assert!(!nd(136, "2001:db8::11", Some("2001:db8::99")) && !nd(136, "2001:db8::99", Some("2001:db8::11")));
    for (kind, expected) in
        [(131, true), (132, true), (133, true), (135, true), (143, true), (128, false), (136, false)]
    {
        assert_eq!(nd(kind, "::", None), expected, "ICMPv6 type {kind} from nowhere");
    }
    assert!(!nd(134, "fe80::ff:fe00:11", None), "a router advertisement");
    assert!(!allowed(&[(Field::EthType, 0x88cc)]));
}

#[test]
fn a_workload_with_a_mac_alone_is_no_router_and_no_server_and_has_no_other_mac_in_arp() {
    let text = "apiVersion: sluice/v1
ports: [{ name: a, device: veth-a, mac: 02:00:00:00:00:01 }]
";
    let policy = model(text).policy(&mut Ids::default());
    let decided = |fields: &[(Field, u128)]| {
        let all: Vec<_> =
            [(Field::InPort, 1), (Field::EthSrc, 0x0200_0000_0001)].into_iter().chain(fields.iter().copied()).collect();
        decide(&policy, TableId::Security, &headers(&all)).map(|(name, action)| (name, action.clone()))
    };
    let (allow, guard) = (Some(("a/security/allow", Action::Allow)), Some(("a/security/guard", Action::Drop)));
    assert_eq!(decided(&[IPV4, (Field::Ip4Src, v4("10.0.0.9"))]), allow);
    assert_eq!(decided(&[(Field::EthType, 0x88cc)]), allow);
    for (kind, expected) in [(134, &guard), (135, &allow), (136, &allow), (137, &guard)] {
        assert_eq!(&decided(&[IPV6, ICMPV6, (Field::IcmpType, kind)]), expected, "{kind}");
    }
    assert_eq!(decided(&[IPV4, UDP, (Field::L4Src, 67), (Field::L4Dst, 68)]), guard);
    assert_eq!(decided(&[IPV6, UDP, (Field::L4Src, 1), (Field::L4Dst, 546)]), guard);
    assert_eq!(decided(&[ARP, (Field::ArpSha, 0x0200_0000_0001)]), Some(("a/security/advertise", Action::Allow)));
    assert_eq!(decided(&[ARP, (Field::ArpSha, 0x0200_0000_0002)]), guard);
}

#[test]
fn of_link_local_addresses_a_workload_has_those_listed_and_without_a_mac_all() {
    let text = "apiVersion: sluice/v1
networks: [{ name: n, subnets: [{ cidr: \"2001:db8::/64\" }] }]
ports:
  - { name: a, device: veth-a, network: n, mac: 02:00:00:00:00:01, addresses: [\"2001:db8::1\", \"fe80::7\"] }
  - { name: b, device: veth-b, network: n, addresses: [\"2001:db8::2\"] }
";
    let policy = model(text).policy(&mut Ids::default());
    let allowed = |port, mac, source| {
        let fields = [(Field::InPort, port), (Field::EthSrc, mac), IPV6, (Field::Ip6Src, v6(source))];
        matches!(decide(&policy, TableId::Security, &headers(&fields)), Some((_, Action::Allow)))
    };
    let a = |source| allowed(1, 0x0200_0000_0001, source);
    assert!(a("fe80::7") && a("fe80::ff:fe00:1") && !a("fe80::8"));
    assert!(allowed(2, 9, "fe80::8"));
}

#[test]
fn security_is_off_where_the_port_says_so_and_for_uplinks_and_an_operators_rule_wins() {
    let text = "apiVersion: sluice/v1
ports:
  - { name: a, device: veth-a, mac: 02:00:00:00:00:01, security: off }
  - { name: up, device: eth1, kind: uplink, addresses: [192.0.2.1/24] }
  - { name: b, device: veth-b, mac: 02:00:00:00:00:03 }
flows:
  - { name: open, table: security, match: { in: b }, action: allow }
";
    let policy = model(text).policy(&mut Ids::default());
    let security = |port, mac| {
        decide(&policy, TableId::Security, &headers(&[(Field::InPort, port), (Field::EthSrc, mac)]))
            .map(|(name, _)| name)
    };
    assert_eq!((security(1, 9), security(2, 9), security(3, 9)), (None, None, Some("open")));
    assert!(policy.ports[1].addresses.is_empty(), "an uplink's addresses are the host's, not a workload's");
}

#[test]
fn forward_rules_name_ports_and_edit_headers_in_the_order_written() {
    let policy = model(include_str!("../examples/static-forwarding.yaml")).policy(&mut Ids::default());
    let decided = |destination: &str| {
        decide(&policy, TableId::Forward, &headers(&[IPV4, (Field::Ip4Dst, v4(destination))])).unwrap()
    };
    let to = |port| Action::Forward { to: Target::Port(PortId(port)), edits: vec![] };
    assert_eq!(decided("10.0.0.1"), ("ip-1", &to(1)));
    assert_eq!(decided("10.0.0.9"), ("others", &to(4)));
    let edits = vec![Edit::Set(Field::EthDst, 0x0200_0000_0003), Edit::DecrementTtl];
    assert_eq!(decided("10.0.0.3").1, &Action::Forward { to: Target::Port(PortId(3)), edits });
    let arp = headers(&[ARP, (Field::ArpTpa, v4("10.0.0.2"))]);
    assert_eq!(decide(&policy, TableId::Forward, &arp), Some(("arp-2", &to(2))));
}

#[test]
fn vlan_modes_are_access_trunk_and_all_but_the_native_one() {
    let policy = model(include_str!("../examples/vlan.yaml")).policy(&mut Ids::default());
    let mode = |index: usize| match &policy.ports[index].vlan {
        VlanMode::Access(id) => format!("access {id}"),
        VlanMode::Trunk { tagged, native } => format!("{} {:?}", tagged.len(), native.map(|id| id.get())),
        VlanMode::All => "all".to_owned(),
    };
    assert_eq!([mode(0), mode(2), mode(3)], ["access 10", "1 Some(10)", "4093 Some(1)"]);
}

#[test]
fn names_that_yaml_could_read_as_something_else_keep_their_text() {
    let text = "apiVersion: sluice/v1
ports:
  - { name: on, device: no }
  - { name: no, device: null }
  - { name: null, device: 1e3 }
  - { name: 1e3, device: 0x10 }
  - { name: 0x10, device: yes }
";
    let model = model(text);
    let names: Vec<&str> = model.ports.iter().map(|port| port.name.as_str()).collect();
    let devices: Vec<&str> = model.ports.iter().map(|port| port.device.as_str()).collect();
    assert_eq!(names, ["on", "no", "null", "1e3", "0x10"]);
    assert_eq!(devices, ["no", "null", "1e3", "0x10", "yes"]);
}

#[test]
fn a_name_keeps_its_identifier_when_lines_move_and_others_come_and_go() {
    let mut ids = Ids::default();
    let before = model(EXAMPLE).policy(&mut ids);
    let moved =
        EXAMPLE.replace("  - name: web-1\n", "  - { name: new, device: veth-new, network: blue }\n  - name: web-1\n");
    let after = model(&moved).policy(&mut ids);
    let id = |policy: &Policy, name: &str| policy.ports.iter().find(|port| port.name == name).unwrap().id;
    assert_eq!(id(&before, "db-1"), id(&after, "db-1"));
    assert_eq!((id(&after, "web-1"), id(&after, "new")), (PortId(1), PortId(3)));
    assert_eq!(before.rules, after.rules);
    assert_eq!(ids.network("blue"), Some(NetworkId(1)), "zero means none");
}

#[test]
fn a_rule_keeps_its_place_and_its_text_as_it_was_written() {
    let model = model(EXAMPLE);
    let rule = |name: &str| model.rules.iter().find(|rule| rule.name == name).unwrap();
    let text = &rule("no-telnet").text;
    assert_eq!((&*text.matches, &*text.action), ("{tcp.dst: 23}", "deny"));
    let place = rule("web/to/1").place;
    assert_eq!(
        EXAMPLE.lines().nth(place.line as usize - 1).unwrap().trim(),
        "- allow-stateless: { proto: tcp, ports: [80, 443] }"
    );
    let security = rule("web-1/security").place;
    assert_eq!(EXAMPLE.lines().nth(security.line as usize - 1).unwrap(), "  - name: web-1");
}

#[test]
fn the_order_of_rules_in_the_file_decides_nothing() {
    let header = "apiVersion: sluice/v1\nports: [{ name: a, device: veth-a }]\nflows:\n";
    let mut flows: Vec<String> = (0..40)
        .map(|n| {
            let (low, action) = (n * 25, if n % 2 == 0 { "deny" } else { "allow-stateless" });
            format!(
                "  - {{ name: r{n}, table: acl-from, priority: {}, match: {{ tcp.dst: {low}-{} }}, action: {action} }}\n",
                n % 3 * 10,
                low + 24 + n % 3 * 25
            )
        })
        .collect();
    // Of equal priority and action, and overlapping: allowed, and both say the same.
    flows.push(
        "  - { name: same-1, table: acl-from, priority: 50, match: { tcp.dst: 0-500 }, action: deny }\n".to_owned(),
    );
    flows.push(
        "  - { name: same-2, table: acl-from, priority: 50, match: { tcp.dst: 400-600 }, action: deny }\n".to_owned(),
    );
    let verdicts = |flows: &[String]| {
        let policy = model(&format!("{header}{}", flows.concat())).policy(&mut Ids::default());
        let verdict = |port| {
            let decided = decide(&policy, TableId::AclFrom, &headers(&[IPV4, TCP, (Field::L4Dst, port)]));
            decided.map(|(_, action)| action.clone())
        };
        (0..1100).map(verdict).collect::<Vec<_>>()
    };
    let wanted = verdicts(&flows);
    let contradiction =
        "  - { name: odd, table: acl-from, priority: 50, match: { tcp.dst: 450 }, action: allow-stateless }\n";
    let mut state = 1_u64;
    for _ in 0..100 {
        for end in (1..flows.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            flows.swap(end, (state >> 33) as usize % (end + 1));
        }
        assert_eq!(verdicts(&flows), wanted);
        let wrong = format!("{header}{contradiction}{}", flows.concat());
        assert!(load(&wrong, "x").unwrap_err().items().len() == 2, "refused wherever the lines stand");
    }
}
