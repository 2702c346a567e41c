//! Tables `acl-from` and `acl-to`: IP only, default deny for ports in a group.

use super::{Layer, Step, key_of};
use crate::{
    fate::DropReason,
    field::Field,
    id::RuleId,
    key::protocol,
    output::Output,
    pipeline::{Topology, ingress, walk::Walk},
    policy::PortPolicy,
};

/// May the sender open this?
pub(super) fn from(layer: &Layer, topology: &Topology, walk: &mut Walk) -> Step {
    if !is_judged(walk) {
        return Step::Next;
    }
    let guarded = topology.port(walk.in_port).is_some_and(|port| port.guarded_from);
    match layer.best(walk) {
        Some(rule) => layer.verdict(rule),
        None if guarded => Step::Drop { reason: DropReason::AclFromDefault, rule: None },
        None => Step::Next,
    }
}

/// May the receiver be reached? Outputs that may not are taken out; when none is left, the packet dies.
pub(super) fn to(layer: &Layer, topology: &Topology, walk: &mut Walk) -> Step {
    if !is_judged(walk) {
        return Step::Next;
    }
    let mut denied: Option<(DropReason, Option<RuleId>)> = None;
    let mut kept = 0;
    for at in 0..walk.outputs.len() {
        let Some(&output) = walk.outputs.get(at) else { break };
        match reach(layer, topology.port(output.port), output, walk) {
            Step::Drop { reason, rule } => denied = denied.or(Some((reason, rule))),
            _ => {
                walk.outputs.swap(kept, at);
                kept += 1;
            }
        }
    }
    walk.outputs.truncate(kept);
    match denied {
        Some((reason, rule)) if kept == 0 => Step::Drop { reason, rule },
        _ => Step::Next,
    }
}

fn reach(layer: &Layer, port: Option<&PortPolicy>, output: Output, walk: &mut Walk) -> Step {
    walk.write(Field::OutPort, u64::from(output.port.0));
    match layer.best(walk) {
        Some(rule) => layer.verdict(rule),
        None if port.is_some_and(|port| port.guarded_to) => Step::Drop { reason: DropReason::AclToDefault, rule: None },
        None => Step::Next,
    }
}

/// ARP, neighbour discovery and DHCP belong to table `security`; ICMPv6 too-big always passes (RFC 4890, 4.3.1).
///
/// What comes from beyond the link, or in pieces, is no neighbour discovery (RFC 4861, 6.1 and 7.1; RFC 6980, 5).
fn is_judged(walk: &mut Walk) -> bool {
    let key = key_of(walk);
    if ingress::is_neighbour_discovery(&key) {
        // Never cached, so a field outside the key may be looked at.
        return walk.headers.packet.ttl != Some(255) || key.is_fragment();
    }
    let too_big =
        key.is_ipv6() && key.protocol() == protocol::ICMPV6 && key.l4_dst() == 2 << 8 && !key.is_later_fragment();
    key.is_ip() && !ingress::is_dhcp(&key) && !too_big
}
