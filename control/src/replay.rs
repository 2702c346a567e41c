//! Replay: which captures go into which ports, and the report of what became of every frame.

use std::{
    fmt, fs,
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use dataplane::{
    port::pcap::CaptureError,
    replay::{self, FrameFate, Input, Output, Replay, ReplayError, ReplayFate},
};
use flow_table::id::PortId;
use serde::Serialize;
use thiserror::Error;

use crate::{
    agent::desired::Desired,
    exit::{Exit, Failure, told},
    report::{build, names::Names},
};

/// MTU of a port whose file names none: there is no device to ask.
pub(crate) const MTU: u16 = 1500;

/// What is wrong with what a replay was asked for.
#[derive(Debug, Error)]
pub(crate) enum Asked {
    /// A port the file does not have.
    #[error("--in {name}: {origin} has no port of that name; {}", .near.as_ref().map_or_else(
        || format!("its ports are {}", .all.join(", ")),
        |near| format!("did you mean \"{near}\"?")
    ))]
    NoPort {
        /// As given.
        name: String,
        /// The configuration file.
        origin: String,
        /// The name that was probably meant.
        near: Option<String>,
        /// All names.
        all: Vec<String>,
    },
    /// One port, two captures.
    #[error("--in {0}: given twice; a port has one capture")]
    Twice(String),
    /// What would be written is what is read.
    #[error("--in {}: it would be overwritten by the output; choose another directory with --out", .0.display())]
    Overwritten(PathBuf),
}

/// Runs `inputs`, captures by name of port, through what `desired` says, and writes what leaves and what became of it
/// into `dir`. Returns one line for people.
///
/// # Errors
/// [`Exit::Usage`] for what is wrong with the inputs, [`Exit::Refused`] for what can not be written.
pub(crate) fn run(desired: &Desired, inputs: &[(String, PathBuf)], dir: &Path) -> Result<String, Failure> {
    let outputs: Vec<Output> = desired
        .ports
        .iter()
        .map(|port| Output {
            port: port.id,
            path: dir.join(format!("{}.pcap", port.name)),
            mtu: port.attach.mtu.unwrap_or(MTU),
        })
        .collect();
    let report_path = dir.join("report.json");
    let inputs = resolve(desired, inputs).map_err(|error| Failure::new(Exit::Usage, error))?;
    fs::create_dir_all(dir).map_err(|error| unwritable(dir, &error))?;
    spare(&inputs, outputs.iter().map(|output| &output.path).chain([&report_path]))
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    let replay =
        replay::run(Arc::clone(&desired.pipeline), &inputs, &outputs).map_err(|error| failed(&inputs, error))?;
    let file = File::create(&report_path).map_err(|error| unwritable(&report_path, &error))?;
    let mut file = BufWriter::new(file);
    write(&mut file, desired, &replay).and_then(|()| file.flush()).map_err(|error| unwritable(&report_path, &error))?;
    let sum = |count: fn(&replay::PortFrames) -> u64| replay.ports.iter().map(|(_, frames)| count(frames)).sum::<u64>();
    Ok(format!(
        "{}: {} frames in, {} out, {} dropped, {} held",
        report_path.display(),
        sum(|frames| frames.rx),
        sum(|frames| frames.tx),
        replay.drops.values().sum::<u64>(),
        replay.held
    ))
}

fn resolve(desired: &Desired, inputs: &[(String, PathBuf)]) -> Result<Vec<Input>, Asked> {
    let mut resolved: Vec<Input> = Vec::new();
    for (name, path) in inputs {
        let Some(port) = desired.ports.iter().find(|port| port.name == *name) else {
            let all: Vec<String> = desired.ports.iter().map(|port| port.name.clone()).collect();
            let near = config::nearest(name, all.iter().map(String::as_str)).map(str::to_owned);
            return Err(Asked::NoPort { name: name.clone(), origin: desired.origin.clone(), near, all });
        };
        if resolved.iter().any(|input| input.port == port.id) {
            return Err(Asked::Twice(name.clone()));
        }
        resolved.push(Input { port: port.id, path: path.clone() });
    }
    Ok(resolved)
}

/// Refuses to write over a capture that is read.
fn spare<'o>(inputs: &[Input], outputs: impl Iterator<Item = &'o PathBuf>) -> Result<(), Asked> {
    let written: Vec<PathBuf> = outputs.filter_map(|path| fs::canonicalize(path).ok()).collect();
    for input in inputs {
        if fs::canonicalize(&input.path).is_ok_and(|path| written.contains(&path)) {
            return Err(Asked::Overwritten(input.path.clone()));
        }
    }
    Ok(())
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::says(Exit::Refused, format!("can not write {}: {error}", path.display()))
}

fn failed(inputs: &[Input], error: ReplayError) -> Failure {
    let exit = match &error {
        ReplayError::Capture(CaptureError::File { path, .. }) if inputs.iter().all(|input| input.path != *path) => {
            Exit::Refused
        }
        ReplayError::Capture(_) => Exit::Usage,
        ReplayError::Umem(_) => Exit::Refused,
        _ => Exit::Fault,
    };
    Failure::says(exit, told(&error))
}

/// The report, but for the frames.
struct Head<'r> {
    ports: Vec<(String, Frames)>,
    held: u64,
    drops: Vec<(String, u64)>,
    rules: Vec<Rule<'r>>,
}

#[derive(Serialize)]
struct Frames {
    rx: u64,
    tx: u64,
}

#[derive(Serialize)]
struct Rule<'r> {
    name: &'r str,
    table: &'static str,
    packets: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Frame {
    port: String,
    index: u64,
    fate: &'static str,
    reason: Option<&'static str>,
    rule: Option<String>,
    out: Vec<Out>,
}

#[derive(Serialize)]
struct Out {
    port: String,
    index: u64,
}

/// Writes the report: one object, a line for each of its lists' items, so that two reports can be compared by line.
fn write(to: &mut impl Write, desired: &Desired, replay: &Replay) -> io::Result<()> {
    let mut names = Names::default();
    names.learn(&desired.policy);
    let head = head(desired, &names, replay);
    write!(to, "{{\n\"ports\": {}", Lines::object(&head.ports)?)?;
    write!(to, ",\n\"held\": {}", head.held)?;
    write!(to, ",\n\"drops\": {}", Lines::object(&head.drops)?)?;
    write!(to, ",\n\"rules\": {}", Lines::array(&head.rules)?)?;
    let frames: Vec<Frame> = replay.frames.iter().map(|fate| frame(&names, fate)).collect();
    writeln!(to, ",\n\"frames\": {}\n}}", Lines::array(&frames)?)
}

fn head<'r>(desired: &'r Desired, names: &Names, replay: &Replay) -> Head<'r> {
    let frames =
        |(id, frames): &(PortId, replay::PortFrames)| (names.port(*id), Frames { rx: frames.rx, tx: frames.tx });
    let rule = |rule: &'r crate::agent::desired::RuleRow| {
        let count = replay.rules.get(&rule.id).copied().unwrap_or_default();
        Rule { name: &rule.name, table: rule.table.name(), packets: count.packets, bytes: count.bytes }
    };
    Head {
        ports: replay.ports.iter().map(frames).collect(),
        held: replay.held,
        drops: replay.drops.iter().map(|(reason, packets)| (reason.name().to_owned(), *packets)).collect(),
        rules: desired.rules.iter().map(rule).collect(),
    }
}

fn frame(names: &Names, fate: &FrameFate) -> Frame {
    let (word, reason) = match fate.fate {
        ReplayFate::Sent => ("sent", None),
        ReplayFate::Answered => ("answered", None),
        ReplayFate::Dropped(reason) => ("dropped", Some(reason)),
    };
    let rule = match reason {
        Some(reason) => build::deciding_rule(names, reason, fate.rule),
        None => fate.rule.map(|rule| names.rule(rule).1),
    };
    let out = fate.out.iter().map(|(port, index)| Out { port: names.port(*port), index: *index }).collect();
    Frame { port: names.port(fate.port), index: fate.index, fate: word, reason: reason.map(|r| r.name()), rule, out }
}

/// Items of JSON, one a line between brackets.
struct Lines {
    brackets: [char; 2],
    items: Vec<String>,
}

impl Lines {
    fn array<T: Serialize>(items: &[T]) -> io::Result<Self> {
        let items = items.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        Ok(Self { brackets: ['[', ']'], items })
    }

    fn object<T: Serialize>(pairs: &[(String, T)]) -> io::Result<Self> {
        let pair = |(name, value): &(String, T)| -> io::Result<String> {
            Ok(format!("{}: {}", serde_json::to_string(name)?, serde_json::to_string(value)?))
        };
        Ok(Self { brackets: ['{', '}'], items: pairs.iter().map(pair).collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [open, close] = self.brackets;
        write!(f, "{open}")?;
        for (index, item) in self.items.iter().enumerate() {
            write!(f, "{}\n  {item}", if index == 0 { "" } else { "," })?;
        }
        write!(f, "{}{close}", if self.items.is_empty() { "" } else { "\n" })
    }
}
