//! What a rule matches.
//!
//! A key may imply others (`tcp.dst` implies the IP protocol TCP, which implies IPv4 or IPv6). What is implied is added,
//! and two keys that no packet can satisfy at once are refused with both their places.

mod draft;
mod terms;

use flow_table::{field::Field, key::protocol, rule::TableId};

use crate::{
    diagnostics::{Diagnostic, Sink},
    model::Condition,
    place::Place,
    read::names::Names,
    tree::{Entry, Map, Node, Scalar},
    value::{number, packet},
};
use draft::Draft;
pub(super) use draft::{Families, Read};

/// An address a packet has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
}

impl Side {
    const fn fields(self) -> (Field, Field) {
        match self {
            Self::Source => (Field::Ip4Src, Field::Ip6Src),
            Self::Destination => (Field::Ip4Dst, Field::Ip6Dst),
        }
    }
}

/// Reads the value of a flow's `match`; `None` when it was reported to be wrong.
pub(super) fn of_flow(node: &Node, table: TableId, names: &Names, sink: &mut Sink) -> Option<Read> {
    let mut draft = Draft::default();
    for entry in &node.map()?.entries {
        if !known_in(entry, table, sink) {
            draft.fail();
            continue;
        }
        key_of_flow(entry, &mut draft, names, sink);
    }
    draft.finish(sink)
}

/// Some fields are not known yet in the first tables.
fn known_in(entry: &Entry, table: TableId, sink: &mut Sink) -> bool {
    let (from, where_known): (TableId, _) = match &*entry.key {
        "out" => (TableId::AclTo, "acl-to and output, since table forward decides it"),
        "mark" => (TableId::Security, "the tables after classify, which sets it"),
        _ => return true,
    };
    if table >= from {
        return true;
    }
    let (key, table) = (&entry.key, table.name());
    let message = format!("\"{key}\" is not known in table {table}");
    sink.push(Diagnostic::at(entry.key_place, message).hint(format!("it may be used in {where_known}")));
    false
}

fn key_of_flow(entry: &Entry, draft: &mut Draft, names: &Names, sink: &mut Sink) {
    let (key, place, node) = (&*entry.key, entry.key_place, &entry.node);
    match key {
        "in" => objects(node, draft, Condition::In, |name, place| names.has_port(name, place, sink)),
        "out" => objects(node, draft, Condition::Out, |name, place| names.has_port(name, place, sink)),
        "network" => objects(node, draft, Condition::Network, |name, place| names.has_network(name, place, sink)),
        "ip.src" => addresses(key, place, node, Side::Source, draft, names, sink),
        "ip.dst" => addresses(key, place, node, Side::Destination, draft, names, sink),
        "ip.proto" => draft.protocols(key, place, protocols(node), sink),
        "eth.type" => draft.ether_types(key, place, numbers(node, packet::ether_type), sink),
        _ => {
            let Some((field, terms)) = terms::of_key(key, node) else { return draft.fail() };
            draft.imply(key, place, field, sink);
            draft.add(Condition::Field(field, terms));
        }
    }
}

/// A condition on names, all of which must exist.
fn objects(
    node: &Node,
    draft: &mut Draft,
    condition: fn(Vec<String>) -> Condition,
    mut exists: impl FnMut(&str, Place) -> bool,
) {
    let mut found = Vec::new();
    for item in node.items() {
        match item.text() {
            Some(name) if exists(name, item.place) => found.push(name.to_owned()),
            _ => draft.fail(),
        }
    }
    draft.add(condition(found));
}

fn addresses(key: &str, place: Place, node: &Node, side: Side, draft: &mut Draft, names: &Names, sink: &mut Sink) {
    let mut nets = Vec::new();
    for item in node.items() {
        match item.text().and_then(|text| names.prefixes(text, item.place, sink)) {
            Some(more) => nets.extend(more),
            None => draft.fail(),
        }
    }
    if !nets.is_empty() {
        draft.addresses(key, place, &nets, side.fields(), sink);
    }
}

fn protocols(node: &Node) -> Vec<u64> {
    numbers(node, packet::ip_protocol)
}

fn numbers(node: &Node, read: fn(&Scalar) -> Result<u64, crate::value::Fault>) -> Vec<u64> {
    node.items().iter().filter_map(|item| read(item.scalar()?).ok()).collect()
}

/// Reads the match of a group's rule, whose `peers` are on `side`.
pub(super) fn of_group(node: &Node, side: Side, names: &Names, sink: &mut Sink) -> Option<Read> {
    let map = node.map()?;
    let mut draft = Draft::default();
    if let Some(entry) = map.entry("proto") {
        draft.protocols("proto", entry.key_place, protocols(&entry.node), sink);
    }
    if let Some(entry) = map.entry("peers") {
        addresses("peers", entry.key_place, &entry.node, side, &mut draft, names, sink);
    }
    let (tcp_udp, icmp) = ([protocol::TCP, protocol::UDP], [protocol::ICMP, protocol::ICMPV6]);
    for (key, field, wanted) in
        [("ports", Field::L4Dst, tcp_udp), ("icmp-type", Field::IcmpType, icmp), ("icmp-code", Field::IcmpCode, icmp)]
    {
        let Some(entry) = map.entry(key) else { continue };
        if !demands(map, entry, wanted, sink) {
            draft.fail();
            continue;
        }
        let spans = entry.node.items().iter().filter_map(|item| number::span(item.scalar()?, 0, u64::MAX).ok());
        draft.add(Condition::Field(field, spans.map(|span| terms::of_span(field, span)).collect()));
    }
    draft.finish(sink)
}

/// Reports a key that makes sense for two protocols only, where `proto` is not one or both of them.
fn demands(map: &Map, entry: &Entry, wanted: [u8; 2], sink: &mut Sink) -> bool {
    let [first, second] = wanted.map(u64::from);
    let (one, other) = (packet::protocol_name(first), packet::protocol_name(second));
    let key = &entry.key;
    let Some(proto) = map.entry("proto") else {
        let message = format!("\"{key}\" says nothing without \"proto\"");
        sink.push(
            Diagnostic::at(entry.key_place, message)
                .hint(format!("write proto: {one}, proto: {other} or proto: [{one}, {other}]")),
        );
        return false;
    };
    let Some(stranger) = protocols(&proto.node).into_iter().find(|proto| ![first, second].contains(proto)) else {
        return true;
    };
    let message =
        format!("\"{key}\" is about {one} or {other}, and \"proto\" allows {}", packet::protocol_name(stranger));
    sink.push(Diagnostic::at(entry.key_place, message).also(proto.node.place));
    false
}
