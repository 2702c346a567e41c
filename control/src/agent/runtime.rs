//! The data plane of the daemon: one worker, and AF_XDP sockets on the devices.
//!
//! A port has two halves: the worker's moves frames, and ours holds the program on the device. The worker takes a port
//! only when the policy in force has it, so one that is attached ahead of its policy waits here for the publication.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use dataplane::{
    port::{
        BelowCounters, Port, PortStatus,
        afxdp::{self, AfXdpPort, AttachError, Attachment, Mode, Options, Steer},
    },
    report::{FdbReport, FlowReport, Report},
    runtime::{self, AttachRefused, Poll, Runtime, StartError, Stopped},
};
use flow_table::{id::PortId, pipeline::Pipeline};
use tracing::{error, info};

use super::{
    desired::{Datapath, Desired, Owned, PortSpec},
    plane::{Attached, DataPlane, NotAttached},
};
use crate::exit::told;

/// Starts the worker with the pipeline of `desired` and no port. `entropy` keys its hashes.
///
/// # Errors
/// [`StartError`] says what the system would not give.
pub(crate) fn start(desired: &Desired, entropy: u64) -> Result<Arc<dyn DataPlane>, StartError> {
    let Datapath { chunks, flows, ring, busy, core } = desired.datapath;
    let poll = if busy { Poll::Busy } else { Poll::Adaptive };
    let options = runtime::Options { chunks, flows, poll, core, seed: entropy };
    let runtime = Runtime::start(options, Arc::clone(&desired.pipeline))?;
    Ok(Arc::new(AfXdp {
        ring,
        runtime: RwLock::new(Some(runtime)),
        halves: Mutex::new(Halves {
            policy: Arc::clone(&desired.pipeline),
            programs: BTreeMap::new(),
            waiting: BTreeMap::new(),
            past: BTreeMap::new(),
        }),
    }))
}

struct AfXdp {
    ring: u32,
    /// Absent once stopped. Reports share it; it is taken alone for moments only.
    runtime: RwLock<Option<Runtime>>,
    halves: Mutex<Halves>,
}

/// What is not the worker's.
struct Halves {
    /// The policy in force.
    policy: Arc<Pipeline>,
    /// Our halves of all attached ports.
    programs: BTreeMap<PortId, Attachment>,
    /// The worker's halves of ports that the policy in force does not have yet, with their MTU.
    waiting: BTreeMap<PortId, (AfXdpPort, u16)>,
    /// What the kernel counted under earlier sockets of ports of the policy in force.
    past: BTreeMap<PortId, BelowCounters>,
}

impl AfXdp {
    fn ask<T>(&self, ask: impl FnOnce(&Runtime) -> Result<T, Stopped>) -> Result<T, Stopped> {
        let runtime = self.runtime.read().unwrap_or_else(PoisonError::into_inner);
        runtime.as_ref().ok_or(Stopped).and_then(ask)
    }

    fn halves(&self) -> MutexGuard<'_, Halves> {
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, port: &PortSpec) -> Result<(AfXdpPort, Attachment), NotAttached> {
        let (area, borrower) = {
            let mut runtime = self.runtime.write().unwrap_or_else(PoisonError::into_inner);
            let runtime = runtime.as_mut().ok_or(Stopped)?;
            (runtime.area(), runtime.next_borrower())
        };
        let options = self.options(port);
        let (socket, mut program) = afxdp::attach(&options, &area, borrower)?;
        if port.attach.shared {
            set_owned(&mut program, &port.owned)?;
        }
        Ok((socket, program))
    }

    fn options(&self, port: &PortSpec) -> Options {
        Options {
            device: port.attach.device.clone(),
            queues: port.attach.queues,
            ring: self.ring,
            steer: if port.attach.shared { Steer::Owned } else { Steer::All },
            promiscuous: true,
            mode: Mode::Best,
        }
    }

    /// Gives the worker its half.
    fn hand_over(&self, id: PortId, port: AfXdpPort, mtu: u16) -> Result<(), NotAttached> {
        let runtime = self.runtime.read().unwrap_or_else(PoisonError::into_inner);
        let runtime = runtime.as_ref().ok_or(Stopped)?;
        match runtime.attach(id, Box::new(port), mtu) {
            Ok(()) => Ok(()),
            Err(AttachRefused::Stopped(stopped)) => Err(stopped.into()),
            Err(refused) => Err(NotAttached::Refused(refused.to_string())),
        }
    }
}

/// The MTU that frames must fit, of a device that has `device`.
fn mtu(port: &PortSpec, device: u32) -> Result<u16, NotAttached> {
    match port.attach.mtu {
        Some(wanted) if u32::from(wanted) > device => Err(NotAttached::Refused(format!(
            "an MTU of {wanted} is asked for, and {} has {device}: ip link set {} mtu {wanted}",
            port.attach.device, port.attach.device
        ))),
        Some(wanted) => Ok(wanted),
        None => Ok(u16::try_from(device).unwrap_or(u16::MAX)),
    }
}

fn set_owned(program: &mut Attachment, owned: &Owned) -> Result<(), NotAttached> {
    program.set_owned(&owned.macs, &owned.addresses).map_err(|error| NotAttached::Refused(told(&error)))
}

impl From<AttachError> for NotAttached {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::NoSuchDevice { device } => Self::Missing(format!("device {device} does not exist")),
            AttachError::Down { device } => Self::Missing(format!("device {device} is down")),
            refused => Self::Refused(told(&refused)),
        }
    }
}

impl DataPlane for AfXdp {
    fn check(&self, port: &PortSpec) -> Result<(), NotAttached> {
        let ours: Vec<u32> = self.halves().programs.values().filter_map(Attachment::program_id).collect();
        let facts = afxdp::check(&self.options(port), &ours)?;
        mtu(port, facts.mtu).map(drop)
    }

    fn attach(&self, port: &PortSpec) -> Result<Attached, NotAttached> {
        let (socket, program) = self.open(port)?;
        let mtu = mtu(port, program.facts().mtu)?;
        let attached =
            Attached { mode: program.mode(), queues: socket.status().queues, mtu, notes: program.notes().to_vec() };
        let mut halves = self.halves();
        if halves.policy.port(port.id).is_some() {
            self.hand_over(port.id, socket, mtu)?;
        } else {
            halves.waiting.insert(port.id, (socket, mtu));
        }
        halves.programs.insert(port.id, program);
        Ok(attached)
    }

    fn own(&self, port: PortId, owned: &Owned) -> Result<(), NotAttached> {
        match self.halves().programs.get_mut(&port) {
            Some(program) => set_owned(program, owned),
            None => Ok(()),
        }
    }

    fn detach(&self, port: PortId) -> Result<(), Stopped> {
        // Held throughout: a report in between would count what was closed twice, or not at all.
        let mut halves = self.halves();
        // The program first: no frame comes any more when the sockets close.
        halves.programs.remove(&port);
        match halves.waiting.remove(&port) {
            // Nothing was lent to it: the worker has never seen it.
            Some((socket, _)) => drop(Box::new(socket).close()),
            None => {
                if let Some(last) = self.ask(|runtime| runtime.detach(port))? {
                    halves.past.entry(port).or_default().merge(last.below);
                }
            }
        }
        Ok(())
    }

    fn publish(&self, pipeline: Arc<Pipeline>) -> Result<u64, Stopped> {
        let mut halves = self.halves();
        let generation = self.ask(|runtime| runtime.publish(Arc::clone(&pipeline)))?;
        for (id, (socket, mtu)) in std::mem::take(&mut halves.waiting) {
            match self.hand_over(id, socket, mtu) {
                Ok(()) => {}
                Err(NotAttached::Stopped(stopped)) => return Err(stopped),
                // The policy has it and nothing else is attached: both are known here.
                Err(why) => error!("port {id}: not taken by the worker: {why}"),
            }
        }
        halves.past.retain(|port, _| pipeline.port(*port).is_some());
        halves.policy = pipeline;
        Ok(generation)
    }

    fn report(&self) -> Result<Report, Stopped> {
        let halves = self.halves();
        let mut report = self.ask(Runtime::report)?;
        for port in &mut report.ports {
            if let Some(past) = halves.past.get(&port.id) {
                // Counters never fall when a device comes back with new sockets.
                port.status.get_or_insert_with(PortStatus::default).below.merge(*past);
            }
        }
        Ok(report)
    }

    fn flows(&self, limit: usize) -> Result<Vec<FlowReport>, Stopped> {
        self.ask(|runtime| runtime.flows(limit))
    }

    fn fdb(&self) -> Result<Vec<FdbReport>, Stopped> {
        self.ask(Runtime::fdb)
    }

    fn stop(&self) {
        {
            let mut halves = self.halves();
            halves.programs.clear();
            halves.waiting.clear();
        }
        let runtime = self.runtime.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(report) = runtime.and_then(Runtime::stop) {
            let law = report.worker.law;
            info!("the worker has ended: {} frames received, {} sent, {} dropped", law.rx, law.tx, law.dropped);
        }
    }
}
