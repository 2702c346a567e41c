//! Replay: the same worker over capture files, their timestamps as its clock. Deterministic to the byte.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use flow_table::{
    counters::Count,
    fate::DropReason,
    hash::Seed,
    id::{PortId, RuleId},
    pipeline::Pipeline,
    time::Instant,
};
use thiserror::Error;

use crate::{
    port::{
        pcap::{self, CaptureError, CaptureWriter, Gate, PcapPort, Record},
        umem::{MAX_FRAME_BYTES, Umem, UmemError},
    },
    worker::{Fate, Worker},
};

/// What one port receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Port.
    pub port: PortId,
    /// A pcap or pcapng file.
    pub path: PathBuf,
}

/// Where what one port sends is written, and how long its frames may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Port.
    pub port: PortId,
    /// The pcap file to write.
    pub path: PathBuf,
    /// MTU in bytes.
    pub mtu: u16,
}

/// What came of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// Frames received and sent, by port, in the order of the outputs.
    pub ports: Vec<(PortId, PortFrames)>,
    /// Frames still held at the end.
    pub held: u64,
    /// Drops by reason; only those that happened.
    pub drops: BTreeMap<DropReason, u64>,
    /// Rules that were hit.
    pub rules: BTreeMap<RuleId, Count>,
    /// Every received frame, in the order it was received.
    pub frames: Vec<FrameFate>,
}

/// Frames of one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortFrames {
    /// Received.
    pub rx: u64,
    /// Sent.
    pub tx: u64,
}

/// What became of one received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameFate {
    /// Port it came in by.
    pub port: PortId,
    /// Its place in that port's file, from 0.
    pub index: u64,
    /// What became of it.
    pub fate: ReplayFate,
    /// The rule that decided last, where one did.
    pub rule: Option<RuleId>,
    /// Frames that left because of it: port, and place in that port's output file, from 0.
    pub out: Vec<(PortId, u64)>,
}

/// The fates of a frame in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayFate {
    /// Sent.
    Sent,
    /// Answered by the switch.
    Answered,
    /// Dropped.
    Dropped(DropReason),
}

/// Why a replay could not run.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// A capture.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Memory.
    #[error(transparent)]
    Umem(#[from] UmemError),
    /// An output for a port that the policy does not have.
    #[error("the policy has no port {0}")]
    NoPort(PortId),
    /// A frame whose fate the worker did not tell: a fault of the worker.
    #[error("frame {index} of port {port} has no fate")]
    NoFate {
        /// Port it came in by.
        port: PortId,
        /// Its place in that port's file.
        index: u64,
    },
}

/// Chunks of a replay's UMEM: a frame at a time, and its copies.
const CHUNKS: u32 = 8192;
/// Flow entries of a replay.
const FLOWS: u32 = 1 << 17;
/// Longest step of time in which nothing comes.
const STEP: Duration = Duration::from_millis(500);
/// Most steps between two frames; a longer gap takes longer steps.
const MAX_STEPS: u32 = 2000;

/// Runs the frames of all `inputs` through a worker, in the order of their timestamps; equal ones in the order of the inputs.
///
/// # Errors
/// See [`ReplayError`]. Output files may be left incomplete then.
pub fn run(policy: Arc<Pipeline>, inputs: &[Input], outputs: &[Output]) -> Result<Replay, ReplayError> {
    let mut captures = Vec::new();
    for input in inputs {
        captures.push((input.port, pcap::read(&input.path)?));
    }
    let schedule = schedule(&captures);
    let mut stage = Stage::set(policy, &captures, outputs)?;
    for due in schedule {
        stage.play(&due)?;
    }
    stage.end()
}

/// One frame to be received.
struct Due {
    at: Instant,
    port: PortId,
    index: u64,
    fits: bool,
}

fn schedule(captures: &[(PortId, Vec<Record>)]) -> Vec<Due> {
    let mut all = Vec::new();
    let mut counts: BTreeMap<PortId, u64> = BTreeMap::new();
    for (port, records) in captures {
        for record in records {
            let index = counts.entry(*port).or_insert(0);
            all.push(Due { at: record.at, port: *port, index: *index, fits: record.bytes.len() <= MAX_FRAME_BYTES });
            *index += 1;
        }
    }
    all.sort_by_key(|due| due.at); // stable: ties stay in the order of the inputs
    all
}

/// A worker between capture files.
struct Stage {
    worker: Worker,
    gates: Vec<(PortId, Gate)>,
    now: Option<Instant>,
    frames: Vec<FrameFate>,
    oversize: BTreeMap<PortId, u64>,
}

impl Stage {
    fn set(policy: Arc<Pipeline>, captures: &[(PortId, Vec<Record>)], outputs: &[Output]) -> Result<Self, ReplayError> {
        let mut worker = Worker::new(policy, Umem::new(CHUNKS)?, FLOWS, Seed::new(0));
        worker.record_fates();
        let mut gates = Vec::new();
        for output in outputs {
            // In the order of their timestamps, as the schedule releases them.
            let of_port = captures.iter().filter(|(port, _)| *port == output.port).flat_map(|(_, records)| records);
            let mut received: Vec<&Record> = of_port.filter(|record| record.bytes.len() <= MAX_FRAME_BYTES).collect();
            received.sort_by_key(|record| record.at);
            let received = received.into_iter().map(|record| record.bytes.clone()).collect();
            let (port, gate) = PcapPort::new(received, CaptureWriter::create(&output.path)?);
            worker.attach(output.port, Box::new(port), output.mtu).map_err(|_port| ReplayError::NoPort(output.port))?;
            gates.push((output.port, gate));
        }
        Ok(Self { worker, gates, now: None, frames: Vec::new(), oversize: BTreeMap::new() })
    }

    /// Lets time pass until a frame is due, then receives it.
    fn play(&mut self, due: &Due) -> Result<(), ReplayError> {
        self.advance(due.at);
        if !due.fits {
            *self.oversize.entry(due.port).or_insert(0) += 1;
            let fate = ReplayFate::Dropped(DropReason::Oversize);
            self.frames.push(FrameFate { port: due.port, index: due.index, fate, rule: None, out: Vec::new() });
            return Ok(());
        }
        let before: Vec<u64> = self.gates.iter().map(|(_, gate)| gate.written()).collect();
        for (_, gate) in self.gates.iter().filter(|(port, _)| *port == due.port) {
            gate.release();
        }
        self.worker.poll(due.at);
        let [fate] = self.worker.fates()[..] else {
            return Err(ReplayError::NoFate { port: due.port, index: due.index });
        };
        let (fate, rule) = match fate {
            Fate::Sent(path) => (ReplayFate::Sent, self.worker.rules(path).last().copied()),
            Fate::Answered(path) => (ReplayFate::Answered, self.worker.rules(path).last().copied()),
            Fate::Dropped(cause) => (ReplayFate::Dropped(cause.reason), cause.rule),
        };
        let grown = self.gates.iter().zip(before);
        let out =
            grown.flat_map(|((port, gate), before)| (before..gate.written()).map(|index| (*port, index))).collect();
        self.frames.push(FrameFate { port: due.port, index: due.index, fate, rule, out });
        Ok(())
    }

    /// Passes without frames until `to`, so that what ages by then has aged.
    fn advance(&mut self, to: Instant) {
        let from = *self.now.get_or_insert(to);
        let gap = to.since(from);
        let step = STEP.max(gap / MAX_STEPS);
        let mut now = from;
        while to.since(now) > step {
            now = now + step;
            self.worker.poll(now);
        }
        self.worker.poll(to);
        self.now = Some(to.max(from));
        for (_, gate) in &self.gates {
            gate.set_clock(to);
        }
    }

    fn end(mut self) -> Result<Replay, ReplayError> {
        let report = self.worker.report();
        let mut drops: BTreeMap<DropReason, u64> = BTreeMap::new();
        for drop in &report.drops {
            *drops.entry(drop.reason).or_insert(0) += drop.packets;
        }
        for count in self.oversize.values() {
            *drops.entry(DropReason::Oversize).or_insert(0) += count;
        }
        let mut ports = Vec::new();
        for (port, gate) in &self.gates {
            if let Some(open) = self.worker.detach(*port) {
                open.close();
            }
            let of_port = report.ports.iter().find(|report| report.id == *port);
            let unread = self.oversize.get(port).copied().unwrap_or(0);
            let rx = of_port.map_or(0, |report| report.rx.packets) + unread;
            ports.push((*port, PortFrames { rx, tx: gate.written() }));
        }
        for (_, gate) in self.gates {
            gate.into_result()?;
        }
        let rules = report.rules.into_iter().collect();
        Ok(Replay { ports, held: report.worker.law.held, drops, rules, frames: self.frames })
    }
}
