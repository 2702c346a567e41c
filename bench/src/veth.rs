//! Over veth: frames through the kernel, a pair of AF_XDP sockets and a subject in between.
//!
//! A sender in one namespace, the subject between two others' devices, a program that drops and counts in the last. The
//! switch and the bare echo run in turn, each round on sockets opened anew in the same way, on a CPU of their own; the
//! sender never waits for them. All of the subject's CPU time is charged to what it delivered.

mod sender;
pub mod turns;
mod world;

use std::{
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};

use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;

use crate::{
    clock,
    error::BenchError,
    memory::room_for,
    scenario::Scenario,
    source::Traffic,
    stats::{self, Interval, Summary},
    subject::{Bare, Subject, Switch},
};
use sender::Sender;
use world::{Plugged, World};

/// How to measure.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Pairs of rounds.
    pub rounds: u32,
    /// How long a round counts.
    pub round: Duration,
    /// How long it runs before that.
    pub warm_up: Duration,
    /// The CPU of the sender.
    pub sender_core: usize,
    /// The CPU of the subject.
    pub subject_core: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rounds: 11,
            round: Duration::from_millis(800),
            warm_up: Duration::from_millis(250),
            sender_core: 0,
            subject_core: 1,
        }
    }
}

/// What one subject did, over all rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Side {
    /// Millions of packets delivered a second.
    pub mpps: Summary,
    /// The subject's CPU time for each frame it received, in nanoseconds, passes that found none left out.
    pub cpu_ns: Summary,
    /// Frames it received in a pass that found any.
    pub burst: Summary,
    /// The part of the packets sent that was not delivered. Near zero, the sender was too slow to say anything.
    pub loss: Summary,
    /// The part of the subject's CPU time that went by in passes that found no frame.
    pub idle: Summary,
}

/// The switch against the bare echo.
#[derive(Debug, Clone, Serialize)]
pub struct Contest {
    /// What was asked of the switch.
    pub scenario: Scenario,
    /// Pairs of rounds.
    pub rounds: u32,
    /// The switch.
    pub switch: Side,
    /// The echo.
    pub bare: Side,
    /// Packets delivered: the switch's by the echo's.
    pub delivered: Interval,
    /// The echo's CPU time a packet by the switch's.
    pub cpu: Interval,
    /// CPU time a packet that the switch adds, in nanoseconds.
    pub added_ns: Interval,
}

/// Which subject runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    Switch,
    Bare,
}

/// Measures one scenario.
///
/// # Errors
/// [`BenchError::Program`] and others when the namespaces, devices or sockets can not be made: it takes root.
pub fn measure(scenario: Scenario, options: &Options) -> Result<Contest, BenchError> {
    let world = World::new()?;
    let traffic = Traffic::new(scenario.flows, 1);
    let sender = Sender::start(&world, &traffic, options.sender_core)?;
    let (mut switch, mut bare) = (Vec::new(), Vec::new());
    for number in 0..options.rounds {
        // Who begins takes turns too.
        let order = if number % 2 == 0 { [Runs::Switch, Runs::Bare] } else { [Runs::Bare, Runs::Switch] };
        for runs in order {
            let round = one_round(runs, scenario, &world, &sender, options)?;
            if runs == Runs::Switch { &mut switch } else { &mut bare }.push(round);
        }
    }
    sender.stop();
    Ok(contest(scenario, options.rounds, &switch, &bare))
}

/// What one round counted.
#[derive(Debug, Clone, Copy)]
struct Round {
    mpps: f64,
    cpu_ns: f64,
    loss: f64,
    burst: f64,
    idle: f64,
}

fn contest(scenario: Scenario, rounds: u32, switch: &[Round], bare: &[Round]) -> Contest {
    let of = |rounds: &[Round], what: fn(&Round) -> f64| rounds.iter().map(what).collect::<Vec<_>>();
    let side = |rounds: &[Round]| Side {
        mpps: stats::summarize(&of(rounds, |round| round.mpps)),
        cpu_ns: stats::summarize(&of(rounds, |round| round.cpu_ns)),
        loss: stats::summarize(&of(rounds, |round| round.loss)),
        burst: stats::summarize(&of(rounds, |round| round.burst)),
        idle: stats::summarize(&of(rounds, |round| round.idle)),
    };
    let mpps = |rounds| of(rounds, |round| round.mpps);
    let cpu = |rounds| of(rounds, |round| round.cpu_ns);
    Contest {
        scenario,
        rounds,
        switch: side(switch),
        bare: side(bare),
        delivered: stats::paired_ratio(&mpps(switch), &mpps(bare), 1),
        cpu: stats::paired_ratio(&cpu(bare), &cpu(switch), 2),
        added_ns: stats::paired_difference(&cpu(switch), &cpu(bare), 3),
    }
}

fn one_round(
    runs: Runs,
    scenario: Scenario,
    world: &World,
    sender: &Sender,
    options: &Options,
) -> Result<Round, BenchError> {
    let plugged = world.plug()?;
    let phase = AtomicU8::new(WARM_UP);
    let (counted, effort) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| work(runs, scenario, plugged, &phase, options.subject_core));
        let counted = watch(&phase, world, sender, options);
        phase.store(OVER, Ordering::Relaxed);
        (counted, thread.join())
    });
    let (delivered, offered, seconds) = counted?;
    let effort = effort.map_err(|_panic| BenchError::Panicked)??;
    Ok(Round {
        mpps: f64::from(delivered) / seconds / 1e6,
        cpu_ns: clock::ns_each(effort.busy, effort.frames),
        loss: 1.0 - f64::from(delivered) / f64::from(offered.max(1)),
        burst: f64::from(effort.frames) / f64::from(effort.passes.max(1)),
        idle: 1.0 - effort.busy.as_secs_f64() / effort.cpu.as_secs_f64(),
    })
}

/// What the subject's thread does.
fn work(runs: Runs, scenario: Scenario, plugged: Plugged, phase: &AtomicU8, core: usize) -> Result<Effort, BenchError> {
    pin(core)?;
    let Plugged { wiring, attachments } = plugged;
    match runs {
        Runs::Bare => {
            let mut bare = Bare::new(wiring);
            let effort = spin(&mut bare, phase);
            world::unplug(attachments, bare.unplug());
            Ok(effort)
        }
        Runs::Switch => {
            let mut switch = Switch::new(&scenario, wiring, room_for(scenario.flows))?;
            let effort = spin(&mut switch, phase);
            world::unplug(attachments, switch.unplug());
            Ok(effort)
        }
    }
}

const WARM_UP: u8 = 0;
const COUNTING: u8 = 1;
const OVER: u8 = 2;

/// Starts and ends the counting: packets delivered, packets offered, seconds.
fn watch(phase: &AtomicU8, world: &World, sender: &Sender, options: &Options) -> Result<(u32, u32, f64), BenchError> {
    std::thread::sleep(options.warm_up);
    let before = (world.delivered()?, sender.sent(), clock::now());
    phase.store(COUNTING, Ordering::Relaxed);
    std::thread::sleep(options.round);
    phase.store(OVER, Ordering::Relaxed);
    let after = (world.delivered()?, sender.sent(), clock::now());
    let count = |after: u64, before| u32::try_from(after.saturating_sub(before)).unwrap_or(u32::MAX);
    Ok((count(after.0, before.0), count(after.1, before.1), after.2.since(before.2).as_secs_f64()))
}

/// What a subject spent while it counted.
#[derive(Debug, Clone, Copy, Default)]
struct Effort {
    cpu: Duration,
    /// Of that, what went by in passes that found frames.
    busy: Duration,
    frames: u32,
    passes: u32,
}

fn spin(subject: &mut impl Subject, phase: &AtomicU8) -> Effort {
    while phase.load(Ordering::Relaxed) == WARM_UP {
        subject.pass(clock::now);
    }
    let mut effort = Effort::default();
    let start = clock::thread_cpu();
    // The end of the last idle pass, while frames come.
    let (mut idle_end, mut is_busy) = (start, false);
    while phase.load(Ordering::Relaxed) == COUNTING {
        let received = subject.pass(clock::now);
        if received > 0 {
            effort.passes += 1;
            effort.frames += u32::try_from(received).unwrap_or(0);
            is_busy = true;
            continue;
        }
        // Asked for while there is nothing else to do: a busy subject never pays for it.
        let now = clock::thread_cpu();
        if is_busy {
            effort.busy += now.saturating_sub(idle_end);
        }
        (idle_end, is_busy) = (now, false);
    }
    let end = clock::thread_cpu();
    if is_busy {
        effort.busy += end.saturating_sub(idle_end);
    }
    Effort { cpu: end.saturating_sub(start), ..effort }
}

fn pin(core: usize) -> Result<(), BenchError> {
    let mut cpus = CpuSet::new();
    cpus.set(core.min(CpuSet::MAX_CPU - 1));
    sched_setaffinity(None, &cpus).map_err(|error| BenchError::io("pinning a thread")(error.into()))
}
