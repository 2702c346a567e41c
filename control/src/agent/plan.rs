//! What must be done to the ports to get from one configuration to another.

use std::collections::{BTreeMap, BTreeSet};

use flow_table::id::PortId;

use super::desired::PortSpec;

/// The steps, in the order they are taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan<'s> {
    /// Detached first: their device, or their own identity, is needed by one that enters.
    pub(crate) leave_first: Vec<PortId>,
    /// Attached: new, or with a different attachment.
    pub(crate) enter: Vec<&'s PortSpec>,
    /// Kept, with what they take from a shared device changed.
    pub(crate) own: Vec<&'s PortSpec>,
    /// Detached once the new policy is in force.
    pub(crate) leave_last: Vec<PortId>,
}

impl<'s> Plan<'s> {
    /// From `old` to `new`. A port is the same one when its identifier is.
    pub(crate) fn between(old: &[PortSpec], new: &'s [PortSpec]) -> Self {
        let had: BTreeMap<PortId, &PortSpec> = old.iter().map(|port| (port.id, port)).collect();
        let has: BTreeMap<PortId, &PortSpec> = new.iter().map(|port| (port.id, port)).collect();
        let mut plan = Self::default();
        for port in new {
            match had.get(&port.id) {
                Some(before) if before.attach == port.attach && before.owned == port.owned => {}
                Some(before) if before.attach == port.attach => plan.own.push(port),
                _ => plan.enter.push(port),
            }
        }
        let wanted: BTreeSet<&str> = plan.enter.iter().map(|port| port.attach.device.as_str()).collect();
        for port in old {
            match has.get(&port.id) {
                Some(now) if now.attach == port.attach => {}
                None if !wanted.contains(port.attach.device.as_str()) => plan.leave_last.push(port.id),
                _ => plan.leave_first.push(port.id),
            }
        }
        plan
    }
}
