//! A data plane that carries no packet and writes down what it was told.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dataplane::{
    port::{PortMode, PortStatus},
    report::{FdbReport, FlowReport, PortReport, Report},
};
use flow_table::{id::PortId, pipeline::Pipeline, policy::PortKind};

use super::{
    desired::{Attach, Owned, PortSpec},
    plane::{Attached, DataPlane, NotAttached, Stopped},
};

/// What the fake remembers.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Every call that changes something, in order.
    pub(crate) calls: Vec<String>,
    /// The ports attached now.
    pub(crate) attached: BTreeMap<PortId, PortSpec>,
    /// Devices that can not be taken, and why: seen only when it is tried.
    pub(crate) refuses: BTreeMap<String, String>,
    /// Queues beyond which a device refuses, seen by a check.
    pub(crate) most_queues: Option<u16>,
    /// Policies put in force.
    pub(crate) generation: u64,
    /// True when the worker is gone.
    pub(crate) is_stopped: bool,
    /// What is reported, generation and ports aside.
    pub(crate) report: Report,
    /// Most flow entries that were last asked for.
    pub(crate) flows_asked: usize,
    /// Flow entries.
    pub(crate) flows: Vec<FlowReport>,
    /// Stations.
    pub(crate) fdb: Vec<FdbReport>,
}

/// The fake.
#[derive(Debug, Default)]
pub(crate) struct Fake(Mutex<Told>);

impl Fake {
    /// A worker that runs generation 1.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Told { generation: 1, ..Told::default() })))
    }

    /// What it remembers, to read or to change.
    pub(crate) fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls since the last time this was asked.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.told().calls)
    }

    fn running(&self) -> Result<MutexGuard<'_, Told>, Stopped> {
        let told = self.told();
        if told.is_stopped { Err(Stopped) } else { Ok(told) }
    }
}

impl DataPlane for Fake {
    fn check(&self, port: &PortSpec) -> Result<(), NotAttached> {
        let queues = port.attach.queues;
        match (self.running()?.most_queues, queues) {
            (Some(most), Some(queues)) if queues > most => {
                Err(NotAttached::Refused(format!("device {} has fewer than {queues} queues", port.attach.device)))
            }
            _ => Ok(()),
        }
    }

    fn attach(&self, port: &PortSpec) -> Result<Attached, NotAttached> {
        let mut told = self.running()?;
        let device = &port.attach.device;
        told.calls.push(format!("attach {} {device}", port.name));
        if let Some(why) = told.refuses.get(device) {
            return Err(NotAttached::Refused(why.clone()));
        }
        assert!(
            !told.attached.values().any(|other| other.id == port.id || other.attach.device == *device),
            "{} is attached twice",
            port.name
        );
        told.attached.insert(port.id, port.clone());
        Ok(Attached { mode: PortMode::Copy, queues: port.attach.queues.unwrap_or(1), mtu: 1500, notes: Vec::new() })
    }

    fn own(&self, port: PortId, owned: &Owned) -> Result<(), NotAttached> {
        let mut told = self.running()?;
        told.calls.push(format!("own {port} {} MACs", owned.macs.len()));
        if let Some(port) = told.attached.get_mut(&port) {
            port.owned = owned.clone();
        }
        Ok(())
    }

    fn detach(&self, port: PortId) -> Result<(), Stopped> {
        let mut told = self.running()?;
        if let Some(port) = told.attached.remove(&port) {
            told.calls.push(format!("detach {}", port.name));
        }
        Ok(())
    }

    fn publish(&self, _pipeline: Arc<Pipeline>) -> Result<u64, Stopped> {
        let mut told = self.running()?;
        told.calls.push("publish".to_owned());
        told.generation += 1;
        Ok(told.generation)
    }

    fn report(&self) -> Result<Report, Stopped> {
        let told = self.running()?;
        let mut report = told.report.clone();
        report.worker.generation = told.generation;
        for port in told.attached.values() {
            if !report.ports.iter().any(|counted| counted.id == port.id) {
                let status = PortStatus {
                    mode: PortMode::Copy,
                    queues: port.attach.queues.unwrap_or(1),
                    ..PortStatus::default()
                };
                report.ports.push(PortReport {
                    id: port.id,
                    status: Some(status),
                    rx: Default::default(),
                    tx: Default::default(),
                    drops: 0,
                });
            }
        }
        Ok(report)
    }

    fn flows(&self, limit: usize) -> Result<Vec<FlowReport>, Stopped> {
        let mut told = self.running()?;
        told.flows_asked = limit;
        Ok(told.flows.iter().take(limit).cloned().collect())
    }

    fn fdb(&self) -> Result<Vec<FdbReport>, Stopped> {
        Ok(self.running()?.fdb.clone())
    }

    fn stop(&self) {
        let mut told = self.told();
        told.calls.push("stop".to_owned());
        told.is_stopped = true;
    }
}

/// A workload's port on `device`.
pub(crate) fn port(id: u16, name: &str, device: &str) -> PortSpec {
    PortSpec {
        id: PortId(id),
        name: name.to_owned(),
        kind: PortKind::Workload,
        network: Some("blue".to_owned()),
        reads_tags: false,
        attach: Attach { device: device.to_owned(), queues: None, mtu: None, shared: false },
        owned: Owned::default(),
    }
}
