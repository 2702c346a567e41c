//! Table `forward`: by rule, or by the network's own switching.

use core::net::IpAddr;

use super::{Layer, Step, key_of};
use crate::{
    fate::DropReason,
    fdb::{Domain, Fdb},
    field::Field,
    id::{PortId, RuleId},
    key::{FlowKey, ethertype, protocol},
    output::Output,
    packet::vlan::VlanEdit,
    pipeline::{Topology, ingress, walk::Walk},
    policy::NetworkPolicy,
    rule::{Action, Target},
};

/// Where is the destination?
pub(super) fn process(layer: &Layer, topology: &Topology, fdb: &Fdb, walk: &mut Walk) -> Step {
    let (to, by) = match layer.best(walk) {
        Some(rule) => match &rule.action {
            Action::Forward { to, edits } => {
                let (to, id) = (*to, rule.id);
                walk.edit(edits);
                (to, Some(id))
            }
            _ => return layer.verdict(rule),
        },
        None => (Target::Normal, None),
    };
    let key = key_of(walk);
    match to {
        Target::Port(port) => send_to(port, walk),
        Target::Flood => flood(topology, walk, by),
        Target::Normal => switch(topology, fdb, &key, walk, by),
    }
}

fn send_to(port: PortId, walk: &mut Walk) -> Step {
    walk.toward = Some(port);
    walk.outputs.push(Output { port, vlan: VlanEdit::Keep, dscp: None });
    Step::Next
}

/// L2 switching: to the switch itself, to where the station is known to be, or to every port of the domain.
fn switch(topology: &Topology, fdb: &Fdb, key: &FlowKey, walk: &mut Walk, by: Option<RuleId>) -> Step {
    let Some(domain) = walk.domain else {
        return Step::Drop { reason: DropReason::NoDestination, rule: by };
    };
    if let Some(network) = topology.network(domain.network)
        && is_for_gateway(network, key, walk)
    {
        // What is never answered is known by the key alone.
        let may_be_answered =
            key.eth_type() == ethertype::ARP || matches!(key.protocol(), protocol::ICMP | protocol::ICMPV6);
        if !may_be_answered {
            return Step::Drop { reason: DropReason::NotAnswered, rule: by };
        }
        return Step::Local(domain.network);
    }
    let destination = key.eth_dst();
    if destination.is_multicast() {
        return flood(topology, walk, by);
    }
    let known = topology.station(domain.network, destination).or_else(|| fdb.lookup(domain, destination));
    match known {
        Some(port) if port == walk.in_port => Step::Drop { reason: DropReason::SamePort, rule: by },
        Some(port) => send_to(port, walk),
        None => {
            walk.volatile = true; // the next packet may find the station
            flood(topology, walk, by)
        }
    }
}

/// True for what the switch answers: frames to the gateway's MAC, and questions for its addresses.
fn is_for_gateway(network: &NetworkPolicy, key: &FlowKey, walk: &Walk) -> bool {
    if network.gateways.is_empty() {
        return false;
    }
    if key.eth_dst() == network.gateway_mac {
        return true;
    }
    let asked = if key.eth_type() == ethertype::ARP {
        Some(IpAddr::V4(key.ipv4().1))
    } else if ingress::is_neighbour_discovery(key) {
        walk.headers.get(Field::NdTarget).map(|target| IpAddr::V6(target.into()))
    } else {
        None
    };
    let question = if key.eth_type() == ethertype::ARP { key.protocol() == 1 } else { key.l4_dst() >> 8 == 135 };
    question && asked.is_some_and(|address| network.gateways.contains(&address))
}

fn flood(topology: &Topology, walk: &mut Walk, by: Option<RuleId>) -> Step {
    let Some(Domain { network, vlan }) = walk.domain else {
        return Step::Drop { reason: DropReason::NoDestination, rule: by };
    };
    let in_port = walk.in_port;
    let carries = |id: &&PortId| {
        **id != in_port && topology.port(**id).is_some_and(|port| super::output::is_carried(&port.vlan, vlan))
    };
    let outputs = topology.members(network).iter().filter(carries);
    walk.outputs.extend(outputs.map(|&port| Output { port, vlan: VlanEdit::Keep, dscp: None }));
    if walk.outputs.is_empty() { Step::Drop { reason: DropReason::NoDestination, rule: by } } else { Step::Next }
}
