//! The section `ports`.

use std::collections::BTreeMap;

use flow_table::{
    id::VlanId,
    policy::{PortKind, VlanMode},
};
use ipnet::IpNet;

use crate::{
    diagnostics::{Diagnostic, Sink},
    model::{HostSharing, Mode, Port},
    place::{At, Place},
    read::{names::Names, text_at},
    tree::{Entry, Node, quoted},
    value::{address, mac, number},
};

pub(super) fn ports(nodes: &[Node], names: &mut Names, sink: &mut Sink) -> Vec<At<Port>> {
    let mut ports = Vec::new();
    let mut devices: BTreeMap<String, Place> = BTreeMap::new();
    for node in nodes {
        if let Some(name) = text_at(node, "name") {
            names.claim_port(&name, name.place, sink);
        }
        if let Some(device) = text_at(node, "device") {
            match devices.get(device.as_str()) {
                Some(first) => {
                    let message = format!("another port is attached to the device {}", quoted(&device));
                    sink.push(Diagnostic::at(device.place, message).also(*first));
                }
                None => drop(devices.insert(device.value.clone(), device.place)),
            }
        }
        if let Some(port) = port(node, names, sink) {
            let place = port.name.place;
            ports.push(At::new(port, place));
        }
    }
    ports
}

fn port(node: &Node, names: &Names, sink: &mut Sink) -> Option<Port> {
    let text = |key: &str| node.get(key).and_then(Node::text);
    let integer = |key: &str| {
        let value = node.get(key)?;
        let number = number::integer(value.scalar()?, 0, u64::from(u16::MAX)).ok()?;
        Some(At::new(u16::try_from(number).ok()?, value.place))
    };
    let kind = if text("kind") == Some("uplink") { PortKind::Uplink } else { PortKind::Workload };
    refuse_keys_of_the_other_kind(node, kind, sink);
    let network = text_at(node, "network").filter(|name| names.has_network(name, name.place, sink));
    Some(Port {
        name: text_at(node, "name")?,
        device: text_at(node, "device")?,
        kind,
        mode: Mode::AfXdp,
        host: if text("host") == Some("exclusive") { HostSharing::Exclusive } else { HostSharing::Shared },
        network,
        vlan: node.get("vlan").and_then(|vlan| vlan_mode(vlan, sink)).unwrap_or_default(),
        mac: text_at(node, "mac").and_then(|text| Some(At::new(mac::unicast(&text).ok()?, text.place))),
        addresses: addresses(node, kind, sink),
        groups: groups(node, kind, names, sink),
        security: text("security") != Some("off"),
        queues: integer("queues").map(|queues| queues.value),
        mtu: integer("mtu"),
    })
}

fn refuse_keys_of_the_other_kind(node: &Node, kind: PortKind, sink: &mut Sink) {
    let (kind, keys): (_, &[&str]) = match kind {
        PortKind::Uplink => ("an uplink", &["groups", "mac", "security"]),
        _ => ("a workload", &["host"]),
    };
    let entries = node.map().map(|map| &*map.entries).unwrap_or_default();
    for Entry { key, key_place, .. } in entries.iter().filter(|entry| keys.contains(&&*entry.key)) {
        let diagnostic = Diagnostic::at(*key_place, format!("{kind} has no {}", quoted(key)));
        sink.push(match &**key {
            "host" => diagnostic.hint("it is for ports of kind: uplink"),
            "mac" => diagnostic.hint("it has that of its device"),
            _ => diagnostic.hint("it guards workloads"),
        });
    }
}

fn addresses(node: &Node, kind: PortKind, sink: &mut Sink) -> Vec<At<IpNet>> {
    let mut addresses: Vec<At<IpNet>> = Vec::new();
    for item in node.get("addresses").map(Node::items).unwrap_or_default() {
        // Another form than both was reported when the tree's form was checked.
        let Some(text) = item.text().filter(|text| address::address_or_interface(text).is_ok()) else { continue };
        let read = match kind {
            PortKind::Uplink => address::interface(text),
            _ => address::address(text).map(IpNet::from),
        };
        match read {
            Ok(net) => addresses.push(At::new(net, item.place)),
            Err(fault) => sink.push(fault.at(item.place, "addresses")),
        }
    }
    addresses
}

fn groups(node: &Node, kind: PortKind, names: &Names, sink: &mut Sink) -> Vec<At<String>> {
    let mut groups: Vec<At<String>> = Vec::new();
    if kind == PortKind::Uplink {
        return groups;
    }
    for item in node.get("groups").map(Node::items).unwrap_or_default() {
        let Some(name) = item.text() else { continue };
        if let Some(first) = groups.iter().find(|group| group.as_str() == name) {
            let message = format!("groups: {} is named twice", quoted(name));
            sink.push(Diagnostic::at(item.place, message).also(first.place));
        } else if names.has_group(name, item.place, sink) {
            groups.push(At::new(name.to_owned(), item.place));
        }
    }
    groups
}

fn vlan_mode(node: &Node, sink: &mut Sink) -> Option<VlanMode> {
    let map = node.map()?;
    let id = |key: &str| VlanId::new(number::integer(map.get(key)?.scalar()?, 0, u64::MAX).ok()?).ok();
    match (map.entry("access"), map.entry("trunk"), map.entry("native")) {
        (Some(access), Some(other), _) | (Some(access), _, Some(other)) => {
            let message =
                format!("vlan: a port is either access or trunk; \"{}\" does not go with \"access\"", other.key);
            sink.push(Diagnostic::at(other.key_place, message).also(access.key_place));
            None
        }
        (Some(_), None, None) => id("access").map(VlanMode::Access),
        (None, None, None) => {
            if map.entries.is_empty() {
                let hint = "write access: N, trunk: [N, M] or native: N, or leave vlan out to keep tags as they are";
                sink.push(Diagnostic::at(node.place, "vlan: it says nothing").hint(hint));
            }
            None
        }
        (None, None, Some(_)) => {
            let native = id("native")?;
            let tagged = (1..=4094).filter_map(|vlan| VlanId::new(vlan).ok()).filter(|vlan| *vlan != native).collect();
            Some(VlanMode::Trunk { tagged, native: Some(native) })
        }
        (None, Some(trunk), native) => {
            let mut tagged: Vec<VlanId> = Vec::new();
            for item in trunk.node.items() {
                let Some((low, high)) = item.scalar().and_then(|s| number::span(s, 1, 4094).ok()) else { continue };
                tagged.extend((low..=high).filter_map(|vlan| VlanId::new(vlan).ok()));
            }
            tagged.sort_unstable();
            tagged.dedup();
            let id = id("native");
            if let (Some(id), Some(native)) = (id.filter(|id| tagged.contains(id)), native) {
                let message = format!("vlan: VLAN {id} can not be tagged (in trunk) and untagged (native) on one port");
                sink.push(Diagnostic::at(native.node.place, message).also(trunk.node.place));
            }
            Some(VlanMode::Trunk { tagged, native: id })
        }
    }
}
