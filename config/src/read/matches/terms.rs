//! The terms that a key's values stand for.

use flow_table::{field::Field, matching::Term};
use ipnet::IpNet;

use crate::{
    model::{bits4, bits6},
    tree::{Node, Scalar},
    value::{address, mac, number, packet},
};

/// The field of `key` and the terms of its values; `None` when the form of one is wrong.
pub(super) fn of_key(key: &str, node: &Node) -> Option<(Field, Vec<Term>)> {
    let field = field_of(key)?;
    let mut terms = Vec::new();
    for item in node.items() {
        match key {
            "ip.fragment" => terms.extend(fragment(item.text()?)),
            _ => terms.push(term(key, field, item.scalar()?)?),
        }
    }
    Some((field, terms))
}

fn field_of(key: &str) -> Option<Field> {
    Some(match key {
        "mark" => Field::Mark,
        "eth.src" => Field::EthSrc,
        "eth.dst" => Field::EthDst,
        "vlan.id" => Field::VlanId,
        "vlan.pcp" => Field::VlanPcp,
        "ip.dscp" => Field::IpDscp,
        "ip.ecn" => Field::IpEcn,
        "ip.ttl" => Field::IpTtl,
        "ip.length" => Field::IpLength,
        "ip.fragment" => Field::IpFragment,
        "tcp.src" | "udp.src" => Field::L4Src,
        "tcp.dst" | "udp.dst" => Field::L4Dst,
        "tcp.flags" => Field::TcpFlags,
        "icmp.type" | "icmp6.type" => Field::IcmpType,
        "icmp.code" | "icmp6.code" => Field::IcmpCode,
        "arp.op" => Field::ArpOp,
        "arp.spa" => Field::ArpSpa,
        "arp.tpa" => Field::ArpTpa,
        "arp.sha" => Field::ArpSha,
        "nd.target" => Field::NdTarget,
        _ => return None,
    })
}

fn term(key: &str, field: Field, scalar: &Scalar) -> Option<Term> {
    let text = &*scalar.text;
    Some(match key {
        "eth.src" | "eth.dst" => {
            let (value, mask) = mac::masked(text).ok()?;
            Term::Masked { value: value.to_u64().into(), mask: mask.to_u64().into() }
        }
        "arp.sha" => Term::exact(field, mac::mac(text).ok()?.to_u64().into()),
        "arp.spa" | "arp.tpa" | "nd.target" => of_net(field, address::prefix(text).ok()?),
        "arp.op" => Term::exact(field, packet::arp_operation(scalar).ok()?.into()),
        "tcp.flags" => {
            let (value, mask) = packet::tcp_flags(text).ok()?;
            Term::Masked { value: value.into(), mask: mask.into() }
        }
        "vlan.id" => of_span(field, packet::vlan_or_none(scalar).ok()?),
        _ => of_span(field, number::span(scalar, 0, u64::MAX).ok()?),
    })
}

/// From the first number to the second, both included.
pub(super) fn of_span(field: Field, (low, high): (u64, u64)) -> Term {
    if low == high { Term::exact(field, low.into()) } else { Term::Range { low: low.into(), high: high.into() } }
}

fn of_net(field: Field, net: IpNet) -> Term {
    let length = u32::from(net.prefix_len());
    match net {
        IpNet::V4(net) => Term::prefix(field, bits4(net.network()), length),
        IpNet::V6(net) => Term::prefix(field, bits6(net.network()), length),
    }
}

/// Fragment states as the key has them (`flow_table::key::Fragment`).
fn fragment(word: &str) -> Vec<Term> {
    let states: &[u128] = match word {
        "first" => &[1],
        "later" => &[2],
        "yes" => &[1, 2],
        _ => &[0],
    };
    states.iter().map(|state| Term::exact(Field::IpFragment, *state)).collect()
}
