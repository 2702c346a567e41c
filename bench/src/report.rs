//! Figures for eyes: one table a benchmark. For programs there is JSON.

use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::{
    callgrind::Instructions,
    memory::Figures,
    scenario::Work,
    stages::Stages,
    stats::{Interval, Summary},
    veth::{Contest, Side, turns::Turns},
};

/// Everything one run measured.
#[derive(Debug, Default, Serialize)]
pub struct Everything {
    /// The packet path in memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<Figures>,
    /// Its stages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stages>,
    /// Its instructions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub callgrind: Vec<Instructions>,
    /// Over veth, in turns on one CPU.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turns>,
    /// Over veth, against a sender that never waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub veth: Vec<Contest>,
}

impl fmt::Display for Everything {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.memory.is_empty() {
            memory(f, &self.memory)?;
        }
        if !self.stages.is_empty() {
            stages(f, &self.stages)?;
        }
        if !self.callgrind.is_empty() {
            instructions(f, &self.callgrind)?;
        }
        self.turns.iter().try_for_each(|one| turns(f, one))?;
        self.veth.iter().try_for_each(|contest| veth(f, contest))
    }
}

const fn name(work: Work) -> &'static str {
    match work {
        Work::Forward => "forward",
        Work::Rewrite => "rewrite",
    }
}

/// Median and, in brackets, least and greatest.
fn spread(summary: Summary) -> String {
    let mut text = String::new();
    // Writing to a string can not fail.
    let _ = write!(text, "{:.1} ({:.1}-{:.1})", summary.median, summary.min, summary.max);
    text
}

fn memory(f: &mut fmt::Formatter<'_>, all: &[Figures]) -> fmt::Result {
    writeln!(f, "in memory, ns a packet of thread CPU time: median (least-greatest); bursts of 32")?;
    writeln!(
        f,
        "{:>8} {:8} {:>22} {:>22} {:>22} {:>16}",
        "flows", "work", "pass", "ports alone", "switch", "90 % interval"
    )?;
    for one in all {
        let interval = format!("{:.1}-{:.1}", one.interval.low, one.interval.high);
        writeln!(
            f,
            "{:>8} {:8} {:>22} {:>22} {:>22} {interval:>16}",
            one.scenario.flows,
            name(one.scenario.work),
            spread(one.pass),
            spread(one.ports),
            spread(one.switch),
        )?;
    }
    Ok(())
}

fn stages(f: &mut fmt::Formatter<'_>, all: &[Stages]) -> fmt::Result {
    writeln!(f, "stages by themselves, ns a packet: median (least-greatest)")?;
    writeln!(f, "{:>8} {:>22} {:>22} {:>22}", "flows", "parse", "hash and look up", "apply")?;
    for one in all {
        let (parse, look_up, apply) = (spread(one.parse), spread(one.look_up), spread(one.apply));
        writeln!(f, "{:>8} {parse:>22} {look_up:>22} {apply:>22}", one.flows)?;
    }
    Ok(())
}

fn instructions(f: &mut fmt::Formatter<'_>, all: &[Instructions]) -> fmt::Result {
    writeln!(f, "instructions a packet, by callgrind")?;
    writeln!(f, "{:>8} {:8} {:>9} {:>12} {:>9}", "flows", "work", "pass", "ports alone", "switch")?;
    for one in all {
        let (flows, work) = (one.scenario.flows, name(one.scenario.work));
        writeln!(f, "{flows:>8} {work:8} {:>9.1} {:>12.1} {:>9.1}", one.pass, one.ports, one.switch)?;
    }
    Ok(())
}

fn veth(f: &mut fmt::Formatter<'_>, contest: &Contest) -> fmt::Result {
    writeln!(
        f,
        "veth to veth through AF_XDP, {} flows, {}: {} rounds, switch and bare echo in turn",
        contest.scenario.flows,
        name(contest.scenario.work),
        contest.rounds
    )?;
    for (who, side) in [("switch", &contest.switch), ("bare", &contest.bare)] {
        let Side { mpps, cpu_ns, burst, loss, idle } = side;
        writeln!(
            f,
            "{who:>8}: {:.3} Mpps ({:.3}-{:.3}), {} ns of its CPU a packet, {:.0} % of the offered lost, {:.0} % of its time idle, bursts of {:.0}",
            mpps.median,
            mpps.min,
            mpps.max,
            spread(*cpu_ns),
            loss.median * 100.0,
            idle.median * 100.0,
            burst.median
        )?;
    }
    let (ratio, cpu, added) = (contest.delivered, contest.cpu, contest.added_ns);
    writeln!(f, "delivered, switch / bare: {:.3}, 90 % interval {:.3}-{:.3}", ratio.median, ratio.low, ratio.high)?;
    writeln!(f, "CPU time a packet, bare / switch: {:.3}, 90 % interval {:.3}-{:.3}", cpu.median, cpu.low, cpu.high)?;
    writeln!(
        f,
        "added by the switch: {:.0} ns a packet, 90 % interval {:.0}-{:.0}",
        added.median, added.low, added.high
    )
}

fn turns(f: &mut fmt::Formatter<'_>, one: &Turns) -> fmt::Result {
    let Turns { scenario, switch, bare, ratio, added_ns, lost } = one;
    let (flows, work, rounds) = (scenario.flows, name(scenario.work), switch.rounds);
    writeln!(f, "veth to veth through AF_XDP, in turns on one CPU: {flows} flows, {work}, {rounds} pairs of rounds")?;
    writeln!(f, "  switch: {} ns of its CPU a packet", spread(*switch))?;
    writeln!(f, "    bare: {} ns; {:.2} % lost", spread(*bare), lost * 100.0)?;
    writeln!(f, "switch / bare: {:.3}, 90 % interval {:.3}-{:.3}", ratio.median, ratio.low, ratio.high)?;
    let Interval { low, median, high } = added_ns;
    writeln!(f, "added by the switch: {median:.0} ns a packet, 90 % interval {low:.0}-{high:.0}")
}
