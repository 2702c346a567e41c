//! The section `networks`.

use core::time::Duration;

use flow_table::id::Vni;

use crate::{
    diagnostics::Sink,
    model::{GATEWAY_MAC, Network, Subnet},
    place::At,
    read::{names::Names, text_at},
    tree::Node,
    value::{address, duration, mac, number},
};

const AGING: Duration = Duration::from_secs(300);
const MAC_LIMIT: u32 = 8192;

pub(super) fn networks(nodes: &[Node], names: &mut Names, sink: &mut Sink) -> Vec<At<Network>> {
    let mut networks = Vec::new();
    for node in nodes {
        let Some(name) = text_at(node, "name") else { continue };
        names.claim_network(&name, name.place, sink);
        let place = name.place;
        networks.push(At::new(network(node, name), place));
    }
    networks
}

fn network(node: &Node, name: At<String>) -> Network {
    let integer = |key: &str| {
        let value = node.get(key)?;
        Some(At::new(number::integer(value.scalar()?, 0, u64::MAX).ok()?, value.place))
    };
    let text = |key: &str| node.get(key).and_then(Node::text);
    let gateway_mac =
        text_at(node, "gateway-mac").and_then(|text| Some(At::new(mac::unicast(&text).ok()?, text.place)));
    Network {
        vni: integer("vni").and_then(|vni| Some(At::new(Vni::new(vni.value).ok()?, vni.place))),
        subnets: node.get("subnets").map(Node::items).unwrap_or_default().iter().filter_map(subnet).collect(),
        gateway_mac: gateway_mac.unwrap_or(At::new(GATEWAY_MAC, name.place)),
        aging: text("aging").and_then(|text| duration::aging(text).ok()).unwrap_or(AGING),
        mac_limit: integer("mac-limit").and_then(|limit| u32::try_from(limit.value).ok()).unwrap_or(MAC_LIMIT),
        name,
    }
}

fn subnet(node: &Node) -> Option<Subnet> {
    let cidr = text_at(node, "cidr")?;
    let gateway = text_at(node, "gateway");
    Some(Subnet {
        cidr: At::new(address::cidr(&cidr).ok()?, cidr.place),
        gateway: gateway.and_then(|text| Some(At::new(address::address(&text).ok()?, text.place))),
    })
}
