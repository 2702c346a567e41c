//! The agent: keeps what is attached and in force equal to what the file asks for.

pub(crate) mod desired;
pub(crate) mod orders;
mod plan;
pub(crate) mod plane;
pub(crate) mod runtime;
mod turn;
pub(crate) mod view;

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::SystemTime,
};

use arc_swap::ArcSwap;
use flow_table::id::PortId;
use thiserror::Error;
use tracing::{debug, error, info, warn};

use self::{
    desired::{Desired, PortSpec},
    plane::{DataPlane, NotAttached, Stopped},
    view::{Device, PortRecord, PortState, View},
};
use crate::report::{names::Names, shape::Reload};

/// The devices of the host, by name.
pub(crate) type Devices = BTreeMap<String, Device>;

/// Lists the devices of the host, as they are now.
pub(crate) type ListDevices = Box<dyn FnMut() -> io::Result<Devices> + Send>;

/// Reads the file, checks and compiles it. Identifiers of what is in force are kept.
pub(crate) type Load = Box<dyn FnMut(Option<&Desired>) -> Result<Desired, Invalid> + Send>;

/// A file that can not be put in force.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text}")]
pub(crate) struct Invalid {
    /// SHA-256 of its text, where it could be read.
    pub(crate) hash: Option<String>,
    /// All that is wrong with it.
    pub(crate) text: String,
}

/// Why what was asked for is not in force. What was before, is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Unchanged {
    /// The file is not valid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The file asks for what can not be had: a sentence each.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// The worker is gone: the daemon ends.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Keeps actual equal to desired. One thread owns it; readers take a [`View`].
pub(crate) struct Agent {
    plane: Arc<dyn DataPlane>,
    list: ListDevices,
    load: Load,
    desired: Arc<Desired>,
    generation: u64,
    names: Arc<Names>,
    ports: BTreeMap<PortId, PortRecord>,
    last_reload: Option<Reload>,
    started: String,
    shown: Arc<ArcSwap<View>>,
}

impl Agent {
    /// Attaches the ports of `desired`, whose pipeline `plane` runs already.
    ///
    /// # Errors
    /// [`Unchanged::Refused`] when a device is there and can not be taken: every such port is named, and none is left
    /// attached. A missing device is no error.
    pub(crate) fn start(
        plane: Arc<dyn DataPlane>,
        list: ListDevices,
        load: Load,
        desired: Desired,
    ) -> Result<Self, Unchanged> {
        let generation = plane.report()?.worker.generation;
        let mut names = Names::default();
        names.learn(&desired.policy);
        let started = now();
        let (desired, names) = (Arc::new(desired), Arc::new(names));
        let view = View {
            desired: Arc::clone(&desired),
            generation,
            names: Arc::clone(&names),
            ports: BTreeMap::new(),
            last_reload: None,
            started: started.clone(),
        };
        let shown = Arc::new(ArcSwap::from_pointee(view));
        let ports = BTreeMap::new();
        let mut agent =
            Self { plane, list, load, desired, generation, names, ports, last_reload: None, started, shown };
        let devices = agent.devices()?;
        let wanted = Arc::clone(&agent.desired);
        let refused = agent.enter_all(&wanted.ports.iter().collect::<Vec<_>>(), &devices)?;
        if !refused.is_empty() {
            agent.stop();
            return Err(Unchanged::Refused(refused));
        }
        agent.show();
        Ok(agent)
    }

    /// What readers take.
    pub(crate) fn shown(&self) -> Arc<ArcSwap<View>> {
        Arc::clone(&self.shown)
    }

    /// Asks the worker whether it lives.
    ///
    /// # Errors
    /// [`Stopped`] when it does not.
    pub(crate) fn heartbeat(&self) -> Result<(), Stopped> {
        self.plane.report().map(drop)
    }

    /// Reads the file again and puts it in force, all of it or nothing. The outcome is logged and shown.
    ///
    /// # Errors
    /// Says why nothing was changed.
    pub(crate) fn reload(&mut self) -> Result<u64, Unchanged> {
        let loaded = (self.load)(Some(&self.desired));
        let hash = match &loaded {
            Ok(next) => Some(next.hash.clone()),
            Err(invalid) => invalid.hash.clone(),
        };
        let outcome = loaded.map_err(Unchanged::from).and_then(|next| self.turn_to(next));
        match &outcome {
            Ok(generation) => info!("reloaded {}: generation {generation} is in force", self.desired.origin),
            Err(why) => error!(
                "reload of {} refused, generation {} stays in force:\n{why}",
                self.desired.origin, self.generation
            ),
        }
        self.last_reload = Some(Reload {
            attempt: self.last_reload.as_ref().map_or(0, |last| last.attempt) + 1,
            ok: outcome.is_ok(),
            generation: self.generation,
            hash,
            error: outcome.as_ref().err().map(ToString::to_string),
            at: now(),
        });
        self.show();
        outcome
    }

    /// Looks at the devices: attaches what came and detaches what went. Devices in `gone` were removed, even where one of the same index is
    /// there again.
    ///
    /// # Errors
    /// [`Stopped`] when the worker is gone.
    pub(crate) fn follow(&mut self, gone: &BTreeSet<u32>) -> Result<(), Stopped> {
        let devices = match (self.list)() {
            Ok(devices) => devices,
            Err(error) => {
                warn!("can not list the network devices: {error}; it is tried again");
                return Ok(());
            }
        };
        let ids: Vec<PortId> = self.ports.keys().copied().collect();
        // All leave before any enters: two devices may have swapped their names.
        for id in &ids {
            self.leave_lost(*id, &devices, gone)?;
        }
        for id in ids {
            let Some(record) = self.ports.get(&id) else { continue };
            if !matches!(record.state, PortState::Attached(_)) {
                let (spec, before) = (record.spec.clone(), record.state.clone());
                self.enter_again(&spec, &before, &devices)?;
            }
        }
        self.show();
        Ok(())
    }

    /// Attaches a port that was wanted before, and logs a refusal that is news.
    fn enter_again(&mut self, spec: &PortSpec, before: &PortState, devices: &Devices) -> Result<(), Stopped> {
        let state = self.enter(spec, devices)?;
        if let PortState::Refused(why) = &state
            && state != *before
        {
            error!("port {}: not attached, {why}; it is tried again", spec.name);
        }
        Ok(())
    }

    fn leave_lost(&mut self, id: PortId, devices: &Devices, gone: &BTreeSet<u32>) -> Result<(), Stopped> {
        let Some(record) = self.ports.get_mut(&id) else { return Ok(()) };
        let PortState::Attached(held) = record.state else { return Ok(()) };
        let (name, device) = (&record.spec.name, &record.spec.attach.device);
        let why = match devices.get(device) {
            None => format!("device {device} is gone"),
            Some(there) if there.index != held.index || gone.contains(&held.index) => {
                format!("device {device} was replaced")
            }
            Some(there) if there.mtu != held.mtu => {
                format!("the MTU of device {device} changed from {} to {}", held.mtu, there.mtu)
            }
            Some(_) => return Ok(()),
        };
        let now = if devices.contains_key(device) { "detached" } else { "missing" };
        warn!("port {name}: {now}, {why}");
        record.state = PortState::Missing(why);
        self.plane.detach(id)
    }

    /// Detaches every port and stops the worker.
    pub(crate) fn stop(&mut self) {
        let attached = self.ports.iter().filter(|(_, record)| matches!(record.state, PortState::Attached(_)));
        for id in attached.map(|(id, _)| *id).collect::<Vec<_>>() {
            // A worker that is gone has no port attached any more.
            if self.plane.detach(id).is_err() {
                break;
            }
        }
        self.ports.clear();
        self.plane.stop();
    }

    /// Attaches `specs`; returns a sentence for each that was refused, which is then not among the ports' attached.
    fn enter_all(&mut self, specs: &[&PortSpec], devices: &Devices) -> Result<Vec<String>, Stopped> {
        let mut refused = Vec::new();
        for spec in specs {
            if let PortState::Refused(why) = self.enter(spec, devices)? {
                refused.push(format!("port {}: {why}", spec.name));
            }
        }
        Ok(refused)
    }

    /// Attaches one port if its device is there. That it is attached or missing is logged when it is news; a refusal is
    /// the caller's to tell.
    fn enter(&mut self, spec: &PortSpec, devices: &Devices) -> Result<PortState, Stopped> {
        let device = &spec.attach.device;
        let before = self.ports.get(&spec.id).map(|record| &record.state);
        let state = match devices.get(device) {
            // Once told that it is gone, nothing new is to be said.
            None => match before {
                Some(missing @ PortState::Missing(_)) => missing.clone(),
                _ => PortState::Missing(format!("device {device} does not exist")),
            },
            Some(there) => match self.plane.attach(spec) {
                Ok(attached) => {
                    let (mode, queues, mtu) = (attached.mode.name(), attached.queues, attached.mtu);
                    info!("port {}: attached to {device}, mode {mode}, queues {queues}, MTU {mtu}", spec.name);
                    for note in &attached.notes {
                        // Where tags matter, what loses them is no detail.
                        if spec.reads_tags && note.contains("VLAN") {
                            warn!("port {}: {note}", spec.name);
                        } else {
                            debug!("port {}: {note}", spec.name);
                        }
                    }
                    PortState::Attached(*there)
                }
                Err(NotAttached::Missing(why)) => PortState::Missing(why),
                Err(NotAttached::Refused(why)) => PortState::Refused(why),
                Err(NotAttached::Stopped(stopped)) => return Err(stopped),
            },
        };
        if let (PortState::Missing(why), false) = (&state, matches!(before, Some(PortState::Missing(_)))) {
            warn!("port {}: missing, {why}; it is attached when it appears", spec.name);
        }
        self.ports.insert(spec.id, PortRecord { spec: spec.clone(), state: state.clone() });
        Ok(state)
    }

    fn devices(&mut self) -> Result<Devices, Unchanged> {
        (self.list)().map_err(|error| Unchanged::Refused(vec![format!("can not list the network devices: {error}")]))
    }

    fn show(&self) {
        self.shown.store(Arc::new(View {
            desired: Arc::clone(&self.desired),
            generation: self.generation,
            names: Arc::clone(&self.names),
            ports: self.ports.clone(),
            last_reload: self.last_reload.clone(),
            started: self.started.clone(),
        }));
    }
}

/// The time of day, for people only.
fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
