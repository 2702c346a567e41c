//! Rules made from a port's `mac` and `addresses`: a workload sends with these and no others.
//!
//! They are below the priority that rules have by default, so that an operator's rule in table `security` wins.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow_table::{
    field::Field,
    id::Priority,
    key::{ethertype, protocol},
    matching::Term,
    policy::PortKind,
    rule::TableId,
};
use ipnet::IpNet;

use crate::{
    model::{Action, Addresses, Condition, Port, Rule, RuleText, bits4},
    place::At,
    read::Rules,
};

/// An advertisement of a port's own address, which [`GUARD`] would drop.
const ADVERTISE: Priority = Priority(130);
/// What only routers and servers send.
const GUARD: Priority = Priority(120);
/// The port's own addresses.
const ALLOW: Priority = Priority(110);
/// Everything else.
const DROP: Priority = Priority(100);

const ROUTER_ADVERTISEMENT: u128 = 134;
const NEIGHBOUR_ADVERTISEMENT: u128 = 136;
const REDIRECT: u128 = 137;
const DHCP_SERVER: u128 = 67;
const DHCP_CLIENT: u128 = 68;
const DHCPV6_SERVER: u128 = 547;
const DHCPV6_CLIENT: u128 = 546;

/// Adds the rules of one port; none for an uplink, without addresses, or with `security: off`.
pub(super) fn rules(port: &At<Port>, rules: &mut Rules<'_>) {
    if port.kind == PortKind::Uplink || !port.security || (port.mac.is_none() && port.addresses.is_empty()) {
        return;
    }
    let allowed = if port.addresses.is_empty() { vec![sender(port)] } else { allowed_addresses(port) };
    let allow = format!("{}/security/allow", port.name.value);
    let drop = format!("{}/security", port.name.value);
    rules.add(port, &allow, ALLOW, allowed, Action::Allow);
    if !port.addresses.is_empty() {
        let advertise = format!("{}/security/advertise", port.name.value);
        rules.add(port, &advertise, ADVERTISE, vec![own_advertisement(port)], Action::Allow);
        let guard = format!("{}/security/guard", port.name.value);
        rules.add(port, &guard, GUARD, servers_and_routers(port), Action::Drop);
    }
    rules.add(port, &drop, DROP, vec![vec![from(port)]], Action::Drop);
}

impl Rules<'_> {
    fn add(&mut self, port: &At<Port>, name: &str, priority: Priority, matches: Vec<Vec<Condition>>, action: Action) {
        let word = if action == Action::Drop { "drop" } else { "allow" };
        let text = RuleText {
            matches: format!("made from mac and addresses of port {}", port.name.value),
            action: word.to_owned(),
        };
        let name = name.to_owned();
        self.push(Rule { name, table: TableId::Security, priority, matches, action, text }, port.place);
    }
}

fn exact(field: Field, value: u128) -> Condition {
    Condition::Field(field, vec![Term::exact(field, value)])
}

fn from(port: &Port) -> Condition {
    Condition::In(vec![port.name.value.clone()])
}

/// From the port and, where it has one, its MAC.
fn sender(port: &Port) -> Vec<Condition> {
    let mac = port.mac.as_ref().map(|mac| exact(Field::EthSrc, mac.to_u64().into()));
    core::iter::once(from(port)).chain(mac).collect()
}

fn with(mut conditions: Vec<Condition>, more: impl IntoIterator<Item = Condition>) -> Vec<Condition> {
    conditions.extend(more);
    conditions
}

/// The port's addresses of both families as terms; `also` are allowed beside them.
fn own(port: &Port, also: &[IpNet], v4: Field, v6: Field) -> Addresses {
    let nets: Vec<IpNet> = port.hosts().map(IpNet::from).chain(also.iter().copied()).collect();
    Addresses::of(&nets, v4, v6)
}

fn condition((field, terms): (Field, Vec<Term>)) -> Condition {
    Condition::Field(field, terms)
}

/// fe80::/10 (RFC 4291, 2.5.6).
fn link_local() -> IpNet {
    let address = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);
    IpNet::new_assert(IpAddr::V6(address), 10)
}

fn allowed_addresses(port: &Port) -> Vec<Vec<Condition>> {
    // Before it has an address, a host asks from :: (RFC 4862, 5.4.2) and 0.0.0.0 (RFC 5227, 2.1.1; RFC 2131, 4.1).
    let nowhere: [IpNet; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED).into(), IpAddr::V6(Ipv6Addr::UNSPECIFIED).into()];
    let sources = own(port, &[nowhere[1], link_local()], Field::Ip4Src, Field::Ip6Src);
    let arp_senders = own(port, &[nowhere[0]], Field::ArpSpa, Field::Ip6Src);
    let arp_mac = port.mac.as_ref().map(|mac| exact(Field::ArpSha, mac.to_u64().into()));
    let mut allowed = vec![
        with(sender(port), [exact(Field::EthType, ethertype::IPV6.into()), condition(sources.v6)]),
        with(with(sender(port), [exact(Field::EthType, ethertype::ARP.into()), condition(arp_senders.v4)]), arp_mac),
        with(
            sender(port),
            [
                exact(Field::EthType, ethertype::IPV4.into()),
                exact(Field::IpProto, protocol::UDP.into()),
                exact(Field::Ip4Src, bits4(Ipv4Addr::UNSPECIFIED)),
                exact(Field::Ip4Dst, bits4(Ipv4Addr::BROADCAST)),
                exact(Field::L4Src, DHCP_CLIENT),
                exact(Field::L4Dst, DHCP_SERVER),
            ],
        ),
    ];
    if !sources.v4.1.is_empty() {
        allowed.push(with(sender(port), [exact(Field::EthType, ethertype::IPV4.into()), condition(sources.v4)]));
    }
    allowed
}

/// A neighbour advertisement whose source and target are the port's own (RFC 4861, 4.4).
fn own_advertisement(port: &Port) -> Vec<Condition> {
    let sources = own(port, &[link_local()], Field::Ip4Src, Field::Ip6Src);
    let targets = own(port, &[link_local()], Field::Ip4Src, Field::NdTarget);
    with(with(sender(port), icmpv6(NEIGHBOUR_ADVERTISEMENT)), [condition(sources.v6), condition(targets.v6)])
}

fn icmpv6(kind: u128) -> [Condition; 3] {
    [
        exact(Field::EthType, ethertype::IPV6.into()),
        exact(Field::IpProto, protocol::ICMPV6.into()),
        exact(Field::IcmpType, kind),
    ]
}

/// Advertisements of routers and of addresses that are not the port's, and what DHCP servers send.
fn servers_and_routers(port: &Port) -> Vec<Vec<Condition>> {
    let udp = |ether_type: u16, source, destination| {
        [
            exact(Field::EthType, ether_type.into()),
            exact(Field::IpProto, protocol::UDP.into()),
            exact(Field::L4Src, source),
            exact(Field::L4Dst, destination),
        ]
    };
    vec![
        with(vec![from(port)], icmpv6(ROUTER_ADVERTISEMENT)),
        with(vec![from(port)], icmpv6(NEIGHBOUR_ADVERTISEMENT)),
        with(vec![from(port)], icmpv6(REDIRECT)),
        with(vec![from(port)], udp(ethertype::IPV4, DHCP_SERVER, DHCP_CLIENT)),
        with(vec![from(port)], udp(ethertype::IPV6, DHCPV6_SERVER, DHCPV6_CLIENT)),
    ]
}
