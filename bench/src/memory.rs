//! The packet path in memory: the real `Worker::poll` between two ports that cost next to nothing.
//!
//! What a packet costs here is one whole pass divided by its frames: clock, receive, parse, hash, lookup, counting, apply,
//! output queue, expiry and every counter. The bare echo between the same ports says what these cost; the difference, round
//! by round, is the switch's own.

use std::{sync::Arc, time::Duration};

use dataplane::port::umem::Umem;
use serde::Serialize;

use crate::{
    clock,
    error::BenchError,
    scenario::{Scenario, Work},
    source::{Sink, Source, Traffic},
    stats::{self, Interval, Summary},
    subject::{Bare, Subject, Switch, Wiring},
};

/// Chunks of frame memory.
const CHUNKS: u32 = 1024;
/// Least room for flow entries, whatever the number of flows.
const LEAST_ROOM: u32 = 1 << 20;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Numbers of flows, each measured by itself.
    pub flows: Vec<u32>,
    /// Rounds of every subject, interleaved.
    pub rounds: u32,
    /// Packets of a subject in one round.
    pub packets: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { flows: vec![1_000, 100_000, 500_000, 1_000_000], rounds: 21, packets: 1 << 18 }
    }
}

/// Figures of one scenario, in nanoseconds of thread CPU time a packet.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// What was asked of the switch.
    pub scenario: Scenario,
    /// One pass, ports included.
    pub pass: Summary,
    /// The same ports without a switch.
    pub ports: Summary,
    /// What the switch adds: the difference of each round.
    pub switch: Summary,
    /// The 90 % interval of that difference's median.
    pub interval: Interval,
}

/// Measures every scenario.
///
/// # Errors
/// [`BenchError::Void`] when a packet was not forwarded, or a flow entry did not stay.
pub fn measure(options: &Options) -> Result<Vec<Figures>, BenchError> {
    let mut all = Vec::new();
    for flows in &options.flows {
        let traffic = Traffic::new(*flows, 1);
        let mut contest = Contest::new(&traffic)?;
        for _ in 0..options.rounds {
            contest.round(options.packets);
        }
        all.extend(contest.figures(options)?);
    }
    Ok(all)
}

/// Room for flow entries that the switch is given for `flows` of them.
#[must_use]
pub fn room_for(flows: u32) -> u32 {
    flows.next_power_of_two().max(LEAST_ROOM)
}

/// Two ports in memory.
///
/// # Errors
/// Those of the frame memory.
pub fn wiring(traffic: &Arc<Traffic>) -> Result<Wiring, BenchError> {
    let from = Box::new(Source::new(Arc::clone(traffic)));
    Ok(Wiring { umem: Umem::new(CHUNKS)?, from, to: Box::new(Sink) })
}

/// A switch whose every flow is known and was met once more since.
///
/// # Errors
/// Those of its making.
pub fn warm_switch(scenario: Scenario, traffic: &Arc<Traffic>) -> Result<Switch, BenchError> {
    let mut switch = Switch::new(&scenario, wiring(traffic)?, room_for(scenario.flows))?;
    run(&mut switch, scenario.flows.saturating_mul(2));
    Ok(switch)
}

/// Passes a subject until it has received at least `packets`, and says how many it did.
#[inline(never)]
pub fn run(subject: &mut impl Subject, packets: u32) -> u32 {
    let mut received = 0;
    while received < packets {
        received += u32::try_from(subject.pass(clock::now)).unwrap_or(0);
    }
    received
}

struct Contest {
    flows: u32,
    bare: Bare,
    switches: [(Scenario, Switch); 2],
    bare_ns: Vec<f64>,
    switch_ns: [Vec<f64>; 2],
}

impl Contest {
    fn new(traffic: &Arc<Traffic>) -> Result<Self, BenchError> {
        let flows = u32::try_from(traffic.flows()).unwrap_or(u32::MAX);
        let warm = |work| {
            let scenario = Scenario { work, flows };
            warm_switch(scenario, traffic).map(|switch| (scenario, switch))
        };
        let mut bare = Bare::new(wiring(traffic)?);
        run(&mut bare, flows);
        Ok(Self {
            flows,
            bare,
            switches: [warm(Work::Forward)?, warm(Work::Rewrite)?],
            bare_ns: Vec::new(),
            switch_ns: [Vec::new(), Vec::new()],
        })
    }

    fn round(&mut self, packets: u32) {
        self.bare_ns.push(timed(&mut self.bare, packets));
        for ((_, switch), rounds) in self.switches.iter_mut().zip(&mut self.switch_ns) {
            rounds.push(timed(switch, packets));
        }
    }

    fn figures(self, options: &Options) -> Result<Vec<Figures>, BenchError> {
        let mut all = Vec::new();
        for ((scenario, switch), pass) in self.switches.iter().zip(&self.switch_ns) {
            check(switch, self.flows)?;
            let own: Vec<f64> = pass.iter().zip(&self.bare_ns).map(|(pass, bare)| pass - bare).collect();
            all.push(Figures {
                scenario: *scenario,
                pass: stats::summarize(pass),
                ports: stats::summarize(&self.bare_ns),
                switch: stats::summarize(&own),
                interval: stats::interval(&own, u64::from(options.rounds)),
            });
        }
        Ok(all)
    }
}

fn timed(subject: &mut impl Subject, packets: u32) -> f64 {
    // The subjects before have left the caches and the branch predictor to their own liking.
    run(subject, packets / 16);
    let start = clock::thread_cpu();
    let received = run(subject, packets);
    let spent: Duration = clock::thread_cpu().saturating_sub(start);
    clock::ns_each(spent, received)
}

/// Every packet was forwarded, and only the first one of each flow took the slow path.
///
/// # Errors
/// [`BenchError::Void`].
pub fn check(switch: &Switch, flows: u32) -> Result<(), BenchError> {
    let report = switch.report();
    let expect = |what, expected, found| {
        if expected == found { Ok(()) } else { Err(BenchError::Void { what, expected, found }) }
    };
    expect("the number of packets sent", report.worker.law.rx, report.worker.law.tx)?;
    expect("the number of packets without a flow entry", u64::from(flows), report.worker.misses)?;
    expect("the number of flow entries", u64::from(flows), report.worker.flows)?;
    // About one correct checksum in 65,536 looks like one that is to be completed.
    let completed = report.worker.checksums_completed;
    expect("the thousands of checksums completed", 0, completed / (1 + report.worker.law.rx / 1000))
}
