//! Table `output`: DSCP and tag on the way out.

use super::{Layer, Step, key_of};
use crate::{
    fate::DropReason,
    field::Field,
    id::{RuleId, VlanId},
    key::{FlowKey, VLAN_PRESENT},
    output::Output,
    packet::vlan::VlanEdit,
    pipeline::{Topology, ingress, walk::Walk},
    policy::VlanMode,
    rule::{Action, Edit, Rule},
};

/// How does it leave? Outputs that may not are taken out; when none is left, the packet dies.
pub(super) fn process(layer: &Layer, topology: &Topology, walk: &mut Walk) -> Step {
    let mut dropped: Option<(DropReason, Option<RuleId>)> = None;
    let mut kept = 0;
    for at in 0..walk.outputs.len() {
        let Some(&output) = walk.outputs.get(at) else { break };
        match leave(layer, topology, output, walk) {
            Ok(output) => {
                if let Some(slot) = walk.outputs.get_mut(kept) {
                    *slot = output;
                }
                kept += 1;
            }
            Err(why) => dropped = dropped.or(Some(why)),
        }
    }
    walk.outputs.truncate(kept);
    if let (Some((reason, rule)), true) = (dropped, walk.outputs.is_empty()) {
        return Step::Drop { reason, rule };
    }
    if let [Output { dscp, .. }] = walk.outputs.as_mut_slice()
        && let Some(dscp) = dscp.take()
    {
        // One output only: the edit can be compiled like any other.
        walk.write(Field::IpDscp, u64::from(dscp));
    }
    Step::Next
}

fn leave(
    layer: &Layer,
    topology: &Topology,
    mut output: Output,
    walk: &mut Walk,
) -> Result<Output, (DropReason, Option<RuleId>)> {
    walk.write(Field::OutPort, u64::from(output.port.0));
    let rule = layer.best(walk);
    if let Some(Rule { action: Action::Drop, id, .. }) = rule {
        return Err((DropReason::Output, Some(*id)));
    }
    let edits: &[Edit] = match rule {
        Some(Rule { action: Action::Edit(edits), .. }) => edits,
        _ => &[],
    };
    let key = key_of(walk);
    let mut forced = None;
    for edit in edits {
        match *edit {
            Edit::Vlan(tag) => forced = Some(tag),
            Edit::Set(Field::IpDscp, value) if key.is_ip() => output.dscp = u8::try_from(value).ok(),
            _ => {}
        }
    }
    let port = topology.port(output.port).ok_or((DropReason::PortMissing, None))?;
    let by = rule.map(|rule| rule.id);
    output.vlan = match forced {
        Some(tag) => tag_edit(&key, tag),
        None => egress(&key, &port.vlan, vlan_of_walk(topology, walk)).ok_or((DropReason::Vlan, by))?,
    };
    Ok(output)
}

/// The VLAN the packet is in: its domain's, or what its tag says on a port in no network.
fn vlan_of_walk(topology: &Topology, walk: &Walk) -> u16 {
    let read = || {
        let port = topology.port(walk.in_port)?;
        ingress::vlan_of(&port.vlan, key_of(walk).vlan_tci())
    };
    walk.domain.map(|domain| domain.vlan).or_else(read).unwrap_or(0)
}

/// True when a port of this mode carries `vlan`, tagged or not.
pub(in crate::pipeline) fn is_carried(mode: &VlanMode, vlan: u16) -> bool {
    match mode {
        VlanMode::All => true,
        VlanMode::Access(access) => access.get() == vlan,
        VlanMode::Trunk { tagged, native } => {
            tagged.iter().any(|id| id.get() == vlan) || native.is_some_and(|id| id.get() == vlan)
        }
    }
}

/// The tag edit of a frame in `vlan` that leaves by a port of this mode; `None` when the port does not carry it.
fn egress(key: &FlowKey, mode: &VlanMode, vlan: u16) -> Option<VlanEdit> {
    if !is_carried(mode, vlan) {
        return None;
    }
    let untagged = match mode {
        VlanMode::All => vlan == 0,
        VlanMode::Access(_) => true,
        VlanMode::Trunk { tagged, .. } => !tagged.iter().any(|id| id.get() == vlan),
    };
    Some(tag_edit(key, if untagged { None } else { VlanId::new(u64::from(vlan)).ok() }))
}

/// What turns the frame's tag into `wanted`, the priority bits of a tag kept.
fn tag_edit(key: &FlowKey, wanted: Option<VlanId>) -> VlanEdit {
    let tci = key.vlan_tci();
    // The key's bit 12 says that there is a tag; on the wire it is the drop eligible bit, which is not kept.
    match (tci & VLAN_PRESENT != 0, wanted) {
        (false, None) => VlanEdit::Keep,
        (true, None) => VlanEdit::Pop,
        (false, Some(vlan)) => VlanEdit::Push(vlan.get()),
        (true, Some(vlan)) if vlan.get() == key.vlan_id() => VlanEdit::Keep,
        (true, Some(vlan)) => VlanEdit::Set((tci & 0xe000) | vlan.get()),
    }
}
