//! A flow key as fields with the names used in `match:`.

use flow_table::key::{FlowKey, ethertype, protocol};

use super::{names::Names, shape::Fields};

/// The fields of `key` that a packet of its flow has.
pub(crate) fn fields(key: &FlowKey, names: &Names) -> Fields {
    let mut fields = Fields::default();
    fields.text("in", names.port(key.in_port()));
    fields.text("eth.src", key.eth_src().to_string());
    fields.text("eth.dst", key.eth_dst().to_string());
    if key.vlan_tci() != 0 {
        fields.number("vlan.id", key.vlan_id());
        fields.number("vlan.pcp", key.vlan_tci() >> 13);
    }
    match key.eth_type() {
        ethertype::IPV4 => fields.text("eth.type", "ipv4"),
        ethertype::IPV6 => fields.text("eth.type", "ipv6"),
        ethertype::ARP => arp(key, &mut fields),
        ethertype::LLC => fields.text("eth.type", "llc"),
        other => fields.text("eth.type", format!("{other:#06x}")),
    }
    if let Some((source, destination)) = key.addresses() {
        fields.text("ip.src", source.to_string());
        fields.text("ip.dst", destination.to_string());
        transport(key, &mut fields);
    }
    fields
}

fn arp(key: &FlowKey, fields: &mut Fields) {
    let (sender, target) = key.ipv4();
    fields.text("eth.type", "arp");
    match key.protocol() {
        1 => fields.text("arp.op", "request"),
        2 => fields.text("arp.op", "reply"),
        other => fields.number("arp.op", other),
    }
    fields.text("arp.spa", sender.to_string());
    fields.text("arp.tpa", target.to_string());
}

fn transport(key: &FlowKey, fields: &mut Fields) {
    let dscp = (key.0[0] >> 2) & 0x3f;
    if dscp != 0 {
        fields.number("ip.dscp", dscp);
    }
    let name = match key.protocol() {
        protocol::TCP => Some("tcp"),
        protocol::UDP => Some("udp"),
        protocol::ICMP => Some("icmp"),
        protocol::ICMPV6 => Some("icmp6"),
        _ => None,
    };
    match name {
        Some("icmp6") => fields.text("ip.proto", "icmpv6"),
        Some(name) => fields.text("ip.proto", name),
        None => fields.number("ip.proto", key.protocol()),
    }
    if key.is_fragment() {
        fields.text("ip.fragment", if key.is_later_fragment() { "later" } else { "first" });
    }
    match name {
        _ if key.is_later_fragment() => {}
        Some(name @ ("tcp" | "udp")) => {
            fields.number(&format!("{name}.src"), key.l4_src());
            fields.number(&format!("{name}.dst"), key.l4_dst());
        }
        Some(name) => {
            fields.number(&format!("{name}.type"), key.l4_dst() >> 8);
            fields.number(&format!("{name}.code"), key.l4_dst() & 0xff);
            if key.l4_src() != 0 {
                fields.number(&format!("{name}.id"), key.l4_src());
            }
        }
        None => {}
    }
}
