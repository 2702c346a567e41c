//! Instructions a packet, counted by callgrind: this program runs itself under valgrind, which counts inside `counted`
//! alone.

use std::{
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
};

use flow_table::time::Instant;
use serde::Serialize;

use crate::{
    error::BenchError,
    memory::{check, room_for, wiring},
    scenario::{Scenario, Work},
    source::Traffic,
    subject::{Bare, Subject, Switch},
};

/// What valgrind is to watch.
const COUNTED: &str = "*callgrind::counted*";

/// Which subject runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Runs {
    /// The switch.
    Switch,
    /// The bare echo.
    Bare,
}

/// Instructions a packet.
#[derive(Debug, Clone, Serialize)]
pub struct Instructions {
    /// What was asked of the switch.
    pub scenario: Scenario,
    /// One pass, ports included.
    pub pass: f64,
    /// The same without a switch.
    pub ports: f64,
    /// The difference.
    pub switch: f64,
}

/// Counts for each number of flows and each work, over `packets` packets.
///
/// # Errors
/// [`BenchError::Program`] when valgrind can not be run or says nothing.
pub fn measure(flows: &[u32], packets: u32) -> Result<Vec<Instructions>, BenchError> {
    let mut all = Vec::new();
    for &flows in flows {
        // What the ports cost does not depend on the number of flows, but their frames' order is the same this way.
        let ports = count(Scenario { work: Work::Forward, flows }, Runs::Bare, packets)?;
        for work in [Work::Forward, Work::Rewrite] {
            let scenario = Scenario { work, flows };
            let pass = count(scenario, Runs::Switch, packets)?;
            all.push(Instructions { scenario, pass, ports, switch: pass - ports });
        }
    }
    Ok(all)
}

fn count(scenario: Scenario, runs: Runs, packets: u32) -> Result<f64, BenchError> {
    let program = std::env::current_exe().map_err(BenchError::io("finding this program"))?;
    let failed = |why: String| BenchError::Program { program: "valgrind".into(), why };
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(program)
        .arg("counted")
        .args(["--flows", &scenario.flows.to_string(), "--packets", &packets.to_string()])
        .args(if scenario.work == Work::Rewrite { ["--rewrite"].as_slice() } else { &[] })
        .args(if runs == Runs::Bare { ["--bare"].as_slice() } else { &[] })
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse::<f64>().ok());
    match collected {
        Some(instructions) if output.status.success() => Ok(instructions / f64::from(packets)),
        _ => Err(failed(text.into_owned())),
    }
}

/// What runs under valgrind: `packets` packets of a scenario whose flows are known.
///
/// # Errors
/// As [`memory::measure`](crate::memory::measure).
pub fn child(scenario: Scenario, runs: Runs, packets: u32) -> Result<(), BenchError> {
    let traffic = Traffic::new(scenario.flows, 1);
    match runs {
        Runs::Bare => {
            let mut bare = Bare::new(wiring(&traffic)?);
            passes(&mut bare, scenario.flows);
            counted(&mut bare, packets);
        }
        Runs::Switch => {
            let mut switch = Switch::new(&scenario, wiring(&traffic)?, room_for(scenario.flows))?;
            passes(&mut switch, scenario.flows.saturating_mul(2));
            counted(&mut switch, packets);
            check(&switch, scenario.flows)?;
        }
    }
    Ok(())
}

#[inline(never)]
fn counted(subject: &mut impl Subject, packets: u32) {
    passes(subject, packets);
}

#[inline]
fn passes(subject: &mut impl Subject, packets: u32) {
    let mut received = 0;
    while received < packets {
        received += u32::try_from(subject.pass(tick)).unwrap_or(0);
    }
}

/// Valgrind has no fast clock: time goes by at three microseconds a pass.
fn tick() -> Instant {
    static NOW: AtomicU64 = AtomicU64::new(1_000_000_000);
    Instant::from_nanos(NOW.fetch_add(3_000, Ordering::Relaxed))
}
