//! Subjects: what is measured, and the bare loop it is measured against.

use dataplane::{
    port::{
        BURST, Port, Quota,
        umem::{Frame, Umem},
    },
    report::Report,
    worker::Worker,
};
use flow_table::{hash::Seed, time::Instant};

use crate::{
    error::BenchError,
    scenario::{FROM, Scenario, TO},
};

/// The MTU of both ports.
const MTU: u16 = 1500;

/// Two ports and the frame memory between them.
#[derive(Debug)]
pub struct Wiring {
    /// Frame memory; for ports that lend chunks to the kernel, the one they registered.
    pub umem: Umem,
    /// Where frames come from.
    pub from: Box<dyn Port>,
    /// Where they go.
    pub to: Box<dyn Port>,
}

/// Something that moves frames from one port to another.
pub trait Subject {
    /// One pass over the ports: how many frames it received. It asks `clock` for the time when it needs it.
    fn pass(&mut self, clock: fn() -> Instant) -> usize;

    /// True while a further pass has something to do though no frame comes.
    fn is_busy(&self) -> bool;
}

/// The switch: a real worker with a real policy.
#[derive(Debug)]
pub struct Switch {
    worker: Worker,
}

impl Switch {
    /// With `room` for flow entries.
    ///
    /// # Errors
    /// [`BenchError::Port`] when the worker does not take a port.
    pub fn new(scenario: &Scenario, wiring: Wiring, room: u32) -> Result<Self, BenchError> {
        let Wiring { umem, from, to } = wiring;
        let seed = Seed::new(0x51_u64);
        let mut worker = Worker::new(scenario.pipeline(seed), umem, room, seed);
        worker.attach(FROM, from, MTU).map_err(|_port| BenchError::Port(FROM))?;
        worker.attach(TO, to, MTU).map_err(|_port| BenchError::Port(TO))?;
        Ok(Self { worker })
    }

    /// What the worker counted.
    #[must_use]
    pub fn report(&self) -> Report {
        self.worker.report()
    }

    /// Takes the ports off.
    pub fn unplug(&mut self) -> impl Iterator<Item = Box<dyn Port>> {
        [self.worker.detach(FROM), self.worker.detach(TO)].into_iter().flatten()
    }
}

impl Subject for Switch {
    #[inline]
    fn pass(&mut self, clock: fn() -> Instant) -> usize {
        self.worker.poll(clock())
    }

    fn is_busy(&self) -> bool {
        self.worker.is_busy()
    }
}

/// The bare echo: frames go from one port to the other, and nobody looks at them.
#[derive(Debug)]
pub struct Bare {
    wiring: Wiring,
    frames: Vec<Frame>,
}

impl Bare {
    /// With the same share of chunks for receiving as a worker of two ports gives.
    #[must_use]
    pub fn new(mut wiring: Wiring) -> Self {
        let quota = Quota::most(wiring.umem.chunks() / 4);
        wiring.from.set_quota(quota);
        wiring.to.set_quota(quota);
        Self { wiring, frames: Vec::with_capacity(BURST) }
    }

    /// Takes the ports off.
    pub fn unplug(self) -> impl Iterator<Item = Box<dyn Port>> {
        let Wiring { from, to, .. } = self.wiring;
        [from, to].into_iter()
    }
}

impl Subject for Bare {
    #[inline]
    fn pass(&mut self, _: fn() -> Instant) -> usize {
        let Wiring { umem, from, to } = &mut self.wiring;
        from.rx(umem, &mut self.frames, BURST);
        let received = self.frames.len();
        to.tx(umem, &mut self.frames);
        // As a worker does, what the port has no room for is dropped.
        for frame in self.frames.drain(..) {
            umem.discard(frame);
        }
        received
    }

    fn is_busy(&self) -> bool {
        self.wiring.to.is_busy()
    }
}
