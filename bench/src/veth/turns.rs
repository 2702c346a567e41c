//! In turns, on one CPU: the sender sends a burst, the subject forwards it, and only the subject's CPU time counts.
//!
//! Each subject has devices, sockets and a sender of its own, all alike, for the whole run; rounds are short and many. What
//! else the machine does changes neither the bursts nor what is charged for them, so this is the steadier measurement. The
//! frames are warm: the CPU that reads them has just written them.

use std::time::Duration;

use serde::Serialize;

use super::{
    pin,
    sender::{AT_ONCE, Feeder},
    world::{self, Plugged, World},
};
use crate::{
    clock,
    error::BenchError,
    memory::room_for,
    scenario::Scenario,
    source::Traffic,
    stats::{self, Interval, Summary},
    subject::{Bare, Subject, Switch},
};

/// Passes without a frame after which what is missing is lost.
const PATIENCE: u32 = 1000;

/// How to measure.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Pairs of rounds.
    pub rounds: u32,
    /// Bursts a round, of 64 frames each.
    pub bursts: u32,
    /// The CPU of everything.
    pub core: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { rounds: 201, bursts: 200, core: 1 }
    }
}

/// The switch against the bare echo, in nanoseconds of its CPU time a packet.
#[derive(Debug, Clone, Serialize)]
pub struct Turns {
    /// What was asked of the switch.
    pub scenario: Scenario,
    /// The switch.
    pub switch: Summary,
    /// The echo.
    pub bare: Summary,
    /// What a saturated CPU delivers: the switch's packets by the echo's, which is the echo's time by the switch's.
    pub ratio: Interval,
    /// What the switch adds.
    pub added_ns: Interval,
    /// The part of all packets that was lost on the way.
    pub lost: f64,
}

/// One subject with all that belongs to it.
struct Lane<S> {
    world: World,
    feeder: Feeder,
    subject: S,
    attachments: [dataplane::port::afxdp::Attachment; 2],
    sent: u32,
}

/// Measures one scenario.
///
/// # Errors
/// As [`measure`](super::measure); [`BenchError::Void`] when more than one in a hundred packets was lost.
pub fn measure(scenario: Scenario, options: &Options) -> Result<Turns, BenchError> {
    let traffic = Traffic::new(scenario.flows, 1);
    let work = || {
        pin(options.core)?;
        let mut bare = Lane::new(&traffic, |wiring| Ok(Bare::new(wiring)))?;
        let mut switch = Lane::new(&traffic, |wiring| Switch::new(&scenario, wiring, room_for(scenario.flows)))?;
        let (mut bare_ns, mut switch_ns) = (Vec::new(), Vec::new());
        // Every flow is met before anything counts.
        bare.round(scenario.flows.div_ceil(16));
        switch.round(scenario.flows.div_ceil(16));
        for number in 0..options.rounds {
            if number % 2 == 0 {
                bare_ns.push(bare.round(options.bursts));
                switch_ns.push(switch.round(options.bursts));
            } else {
                switch_ns.push(switch.round(options.bursts));
                bare_ns.push(bare.round(options.bursts));
            }
        }
        let lost = bare.lost()?.max(switch.lost()?);
        bare.close(|bare| bare.unplug().collect());
        switch.close(|mut switch| switch.unplug().collect());
        Ok(Turns {
            scenario,
            switch: stats::summarize(&switch_ns),
            bare: stats::summarize(&bare_ns),
            ratio: stats::paired_ratio(&bare_ns, &switch_ns, 4),
            added_ns: stats::paired_difference(&switch_ns, &bare_ns, 5),
            lost,
        })
    };
    // A thread of its own: the caller stays on every CPU.
    std::thread::scope(|scope| scope.spawn(work).join()).map_err(|_panic| BenchError::Panicked)?
}

impl<S: Subject> Lane<S> {
    fn new(
        traffic: &std::sync::Arc<Traffic>,
        subject: impl FnOnce(crate::subject::Wiring) -> Result<S, BenchError>,
    ) -> Result<Self, BenchError> {
        let world = World::new()?;
        let feeder = Feeder::new(&world, traffic)?;
        let Plugged { wiring, attachments } = world.plug()?;
        let mut subject = subject(wiring)?;
        // The first pass gives the kernel chunks to receive into.
        subject.pass(clock::now);
        Ok(Self { world, feeder, subject, attachments, sent: 0 })
    }

    /// Nanoseconds of CPU time a packet over so many bursts.
    fn round(&mut self, bursts: u32) -> f64 {
        let (mut busy, mut frames) = (Duration::ZERO, 0);
        for _ in 0..bursts {
            let sent = self.feeder.send().min(AT_ONCE);
            self.sent += u32::try_from(sent).unwrap_or(0);
            frames += self.forward(sent, &mut busy);
        }
        clock::ns_each(busy, frames)
    }

    /// Passes the subject until it has forwarded `sent` frames; adds what the passes with work took.
    fn forward(&mut self, sent: usize, busy: &mut Duration) -> u32 {
        let (mut frames, mut patience) = (0, PATIENCE);
        while patience > 0 && (frames < sent || self.subject.is_busy()) {
            let was_busy = self.subject.is_busy();
            let start = clock::thread_cpu();
            let received = self.subject.pass(clock::now);
            let spent = clock::thread_cpu().saturating_sub(start);
            if received > 0 || was_busy {
                *busy += spent;
            }
            frames += received;
            patience -= 1;
        }
        u32::try_from(frames).unwrap_or(0)
    }

    /// The part of the packets sent that never came to the end.
    fn lost(&self) -> Result<f64, BenchError> {
        let delivered = u32::try_from(self.world.delivered()?).unwrap_or(u32::MAX);
        let lost = self.sent.saturating_sub(delivered);
        if lost > self.sent / 100 {
            let (expected, found) = (self.sent.into(), delivered.into());
            return Err(BenchError::Void { what: "the number of packets delivered", expected, found });
        }
        Ok(f64::from(lost) / f64::from(self.sent.max(1)))
    }

    fn close(self, unplug: impl FnOnce(S) -> Vec<Box<dyn dataplane::port::Port>>) {
        self.feeder.close();
        world::unplug(self.attachments, unplug(self.subject).into_iter());
    }
}
