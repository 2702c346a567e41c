//! The transaction: from what is in force to the next, wholly or not at all.

use std::{collections::BTreeMap, sync::Arc};

use flow_table::id::PortId;
use tracing::{error, info};

use super::{
    Agent, Devices, Unchanged,
    desired::Desired,
    plan::Plan,
    plane::{NotAttached, Stopped},
    view::{PortRecord, PortState},
};

impl Agent {
    /// Puts `next` in force and returns its generation.
    ///
    /// # Errors
    /// Says why everything is as it was.
    pub(super) fn turn_to(&mut self, next: Desired) -> Result<u64, Unchanged> {
        if let Some(sentence) = self.desired.datapath.needs_restart(&next.datapath) {
            return Err(Unchanged::Refused(vec![sentence]));
        }
        let devices = self.devices()?;
        let before = self.ports.clone();
        let now = Arc::clone(&self.desired);
        let plan = Plan::between(&now.ports, &next.ports);
        // Before anything is counted under them. Names are only added, so a turn that fails leaves nothing wrong.
        let mut names = (*self.names).clone();
        names.learn(&next.policy);
        self.names = Arc::new(names);
        self.show();
        match self.carry_out(&plan, &next, &devices) {
            Ok(generation) => {
                for port in &next.ports {
                    // What needs no attachment, such as the network's name.
                    if let Some(record) = self.ports.get_mut(&port.id) {
                        record.spec = port.clone();
                    }
                }
                self.desired = Arc::new(next);
                self.generation = generation;
                Ok(generation)
            }
            Err(Unchanged::Stopped(stopped)) => Err(stopped.into()),
            Err(refused) => {
                self.restore(before, &devices)?;
                Err(refused)
            }
        }
    }

    fn carry_out(&mut self, plan: &Plan<'_>, next: &Desired, devices: &Devices) -> Result<u64, Unchanged> {
        let mut refused = Vec::new();
        for port in plan.enter.iter().filter(|port| devices.contains_key(&port.attach.device)) {
            match self.plane.check(port) {
                Err(NotAttached::Refused(why)) => refused.push(format!("port {}: {why}", port.name)),
                Err(NotAttached::Stopped(stopped)) => return Err(stopped.into()),
                Ok(()) | Err(NotAttached::Missing(_)) => {}
            }
        }
        if !refused.is_empty() {
            return Err(Unchanged::Refused(refused));
        }
        self.leave_all(&plan.leave_first)?;
        let refused = self.enter_all(&plan.enter, devices)?;
        if !refused.is_empty() {
            return Err(Unchanged::Refused(refused));
        }
        for port in &plan.own {
            let Some(record) = self.ports.get_mut(&port.id) else { continue };
            record.spec = (*port).clone();
            if matches!(record.state, PortState::Attached(_)) {
                match self.plane.own(port.id, &port.owned) {
                    Ok(()) => {}
                    Err(NotAttached::Stopped(stopped)) => return Err(stopped.into()),
                    Err(why) => return Err(Unchanged::Refused(vec![format!("port {}: {why}", port.name)])),
                }
            }
        }
        let generation = self.plane.publish(Arc::clone(&next.pipeline))?;
        self.leave_all(&plan.leave_last)?;
        Ok(generation)
    }

    /// Detaches `ports` and forgets them.
    fn leave_all(&mut self, ports: &[PortId]) -> Result<(), Stopped> {
        for id in ports {
            let Some(record) = self.ports.remove(id) else { continue };
            if matches!(record.state, PortState::Attached(_)) {
                self.plane.detach(*id)?;
                info!("port {}: detached from {}", record.spec.name, record.spec.attach.device);
            }
        }
        Ok(())
    }

    /// Makes the ports what they were.
    fn restore(&mut self, before: BTreeMap<PortId, PortRecord>, devices: &Devices) -> Result<(), Stopped> {
        let differs = |id: &PortId, now: &PortRecord| {
            before.get(id).is_none_or(|was| was.spec.attach != now.spec.attach || was.state != now.state)
        };
        let entered: Vec<PortId> = self.ports.iter().filter(|(id, now)| differs(id, now)).map(|(id, _)| *id).collect();
        self.leave_all(&entered)?;
        for (id, was) in before {
            match self.ports.get(&id) {
                Some(now) if now.spec.owned == was.spec.owned => {}
                Some(_) => {
                    if matches!(was.state, PortState::Attached(_))
                        && let Err(why) = self.plane.own(id, &was.spec.owned)
                    {
                        error!("port {}: what it took before could not be restored: {why}", was.spec.name);
                    }
                    self.ports.insert(id, was);
                }
                None => {
                    // What was missing before is told again only if it has changed.
                    let (spec, state) = (was.spec.clone(), was.state.clone());
                    self.ports.insert(id, was);
                    if matches!(state, PortState::Attached(_)) {
                        self.enter_again(&spec, &state, devices)?;
                    }
                }
            }
        }
        Ok(())
    }
}
