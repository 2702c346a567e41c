//! Rules made from a port's `mac` and `addresses`: a workload sends with these and no others.
//!
//! They are below the priority that rules have by default, so that an operator's rule in table `security` wins.
//!
//! With a `mac`, the only link-local address not listed that may be used is the one made from it. A workload that makes
//! them otherwise (RFC 7217, RFC 8981) lists them in `addresses` or has `security: off`.

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

/// A neighbour advertisement of a port's own address, or ARP with its own MAC, which [`GUARD`] would drop.
const ADVERTISE: Priority = Priority(130);
/// What only routers and servers send.
const GUARD: Priority = Priority(120);
/// The port's own addresses.
const ALLOW: Priority = Priority(110);
/// Everything else.
const DROP: Priority = Priority(100);

const ROUTER_SOLICITATION: u128 = 133;
const ROUTER_ADVERTISEMENT: u128 = 134;
const NEIGHBOUR_SOLICITATION: u128 = 135;
const NEIGHBOUR_ADVERTISEMENT: u128 = 136;
const REDIRECT: u128 = 137;
const MLD_REPORT: u128 = 131;
const MLD_DONE: u128 = 132;
const MLDV2_REPORT: u128 = 143;
const DHCP_SERVER: u128 = 67;
const DHCP_CLIENT: u128 = 68;
const DHCPV6_CLIENT: u128 = 546;

/// Adds the rules of one port; none for an uplink, without `mac` and addresses, or with `security: off`.
pub(super) fn rules(port: &At<Port>, rules: &mut Rules<'_>) {
    if port.kind == PortKind::Uplink || !port.security || (port.mac.is_none() && port.addresses.is_empty()) {
        return;
    }
    let named = |part: &str| format!("{}/security{part}", port.name.value);
    let mut guard = servers_and_routers(port);
    let (allowed, advertised) = if port.addresses.is_empty() {
        // Any address, but none under another's MAC.
        guard.push(vec![from(port), ether_type(ethertype::ARP)]);
        (vec![sender(port)], with(with(sender(port), [ether_type(ethertype::ARP)]), arp_mac(port)))
    } else {
        guard.push(with(vec![from(port)], icmpv6([NEIGHBOUR_ADVERTISEMENT])));
        (allowed_addresses(port), own_advertisement(port))
    };
    rules.add(port, &named("/allow"), ALLOW, allowed, Action::Allow);
    rules.add(port, &named("/advertise"), ADVERTISE, vec![advertised], Action::Allow);
    rules.add(port, &named("/guard"), GUARD, guard, Action::Drop);
    rules.add(port, &named(""), DROP, vec![vec![from(port)]], Action::Drop);
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

/// Link-local addresses it may use beside those listed: the one made from its MAC (RFC 4291, appendix A), which is what
/// Linux gives a device by default; without a MAC all of them (2.5.6).
fn link_local(port: &Port) -> IpNet {
    let Some(mac) = &port.mac else {
        return IpNet::new_assert(IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10);
    };
    let [a, b, c, d, e, f] = mac.value.0;
    IpAddr::V6(Ipv6Addr::from_octets([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])).into()
}

fn ether_type(ether_type: u16) -> Condition {
    exact(Field::EthType, ether_type.into())
}

/// In ARP, the MAC of its sender.
fn arp_mac(port: &Port) -> Option<Condition> {
    port.mac.as_ref().map(|mac| exact(Field::ArpSha, mac.to_u64().into()))
}

fn allowed_addresses(port: &Port) -> Vec<Vec<Condition>> {
    let sources = own(port, &[link_local(port)], Field::Ip4Src, Field::Ip6Src);
    // Before it has an address, a host asks from 0.0.0.0 (RFC 5227, 2.1.1; RFC 2131, 4.1) and :: (RFC 4862, 5.4.2).
    let arp_senders = own(port, &[IpAddr::V4(Ipv4Addr::UNSPECIFIED).into()], Field::ArpSpa, Field::Ip6Src);
    // Solicitations (RFC 4861, 4.1 and 4.3) and what says which groups it is in (RFC 3590; RFC 3810, 5.2.13).
    let from_nowhere =
        icmpv6([MLD_REPORT, MLD_DONE, ROUTER_SOLICITATION, NEIGHBOUR_SOLICITATION, MLDV2_REPORT]).into_iter();
    let mut allowed = vec![
        with(sender(port), [ether_type(ethertype::IPV6), condition(sources.v6)]),
        with(sender(port), from_nowhere.chain([exact(Field::Ip6Src, 0)])),
        with(with(sender(port), [ether_type(ethertype::ARP), condition(arp_senders.v4)]), arp_mac(port)),
        with(
            sender(port),
            [
                ether_type(ethertype::IPV4),
                exact(Field::IpProto, protocol::UDP.into()),
                exact(Field::Ip4Src, bits4(Ipv4Addr::UNSPECIFIED)),
                exact(Field::Ip4Dst, bits4(Ipv4Addr::BROADCAST)),
                exact(Field::L4Src, DHCP_CLIENT),
                exact(Field::L4Dst, DHCP_SERVER),
            ],
        ),
    ];
    if !sources.v4.1.is_empty() {
        allowed.push(with(sender(port), [ether_type(ethertype::IPV4), condition(sources.v4)]));
    }
    allowed
}

/// A neighbour advertisement whose source and target are the port's own (RFC 4861, 4.4).
fn own_advertisement(port: &Port) -> Vec<Condition> {
    let sources = own(port, &[link_local(port)], Field::Ip4Src, Field::Ip6Src);
    let targets = own(port, &[link_local(port)], Field::Ip4Src, Field::NdTarget);
    with(with(sender(port), icmpv6([NEIGHBOUR_ADVERTISEMENT])), [condition(sources.v6), condition(targets.v6)])
}

fn icmpv6<const N: usize>(kinds: [u128; N]) -> [Condition; 3] {
    [
        ether_type(ethertype::IPV6),
        exact(Field::IpProto, protocol::ICMPV6.into()),
        Condition::Field(Field::IcmpType, kinds.map(|kind| Term::exact(Field::IcmpType, kind)).to_vec()),
    ]
}

/// What routers advertise and DHCP servers send. A client takes an answer from any source port (RFC 2131, 4.1).
fn servers_and_routers(port: &Port) -> Vec<Vec<Condition>> {
    let udp_to = |ethertype, client| {
        [ether_type(ethertype), exact(Field::IpProto, protocol::UDP.into()), exact(Field::L4Dst, client)]
    };
    vec![
        with(vec![from(port)], icmpv6([ROUTER_ADVERTISEMENT])),
        with(vec![from(port)], icmpv6([REDIRECT])),
        with(vec![from(port)], udp_to(ethertype::IPV4, DHCP_CLIENT)),
        with(vec![from(port)], udp_to(ethertype::IPV6, DHCPV6_CLIENT)),
    ]
}
