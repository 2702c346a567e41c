//! `bench`: prints how fast the switch is.

use std::{io::Write as _, process::ExitCode, time::Duration};

use bench::{
    allocations, callgrind,
    error::BenchError,
    memory,
    report::Everything,
    scenario::{Scenario, Work},
    stages, veth,
};
use clap::{Args, Parser, Subcommand, ValueEnum};

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// Measures how fast the switch is.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    what: What,
    /// How to print the figures.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The packet path in memory, and its stages.
    Memory(Rounds),
    /// Instructions a packet; needs valgrind.
    Callgrind(Rounds),
    /// Veth to veth through AF_XDP, against a bare echo; needs root.
    Veth(VethRounds),
    /// All of these.
    All,
    /// What runs under valgrind.
    #[command(hide = true)]
    Counted(Counted),
}

#[derive(Debug, Args)]
struct Rounds {
    /// Numbers of flows.
    #[arg(long, value_delimiter = ',')]
    flows: Option<Vec<u32>>,
    /// Rounds of each subject.
    #[arg(long)]
    rounds: Option<u32>,
    /// Packets a round.
    #[arg(long)]
    packets: Option<u32>,
}

#[derive(Debug, Args)]
struct VethRounds {
    /// Pairs of rounds.
    #[arg(long)]
    rounds: Option<u32>,
    /// Milliseconds a round.
    #[arg(long)]
    ms: Option<u64>,
    /// Rewrite every packet.
    #[arg(long)]
    rewrite: bool,
}

#[derive(Debug, Args)]
struct Counted {
    #[arg(long)]
    flows: u32,
    #[arg(long)]
    packets: u32,
    #[arg(long)]
    rewrite: bool,
    #[arg(long)]
    bare: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.what).and_then(|everything| print(&everything, cli.output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to be done when stderr is closed too.
            let _ = writeln!(std::io::stderr(), "bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: &What) -> Result<Everything, BenchError> {
    let mut everything = Everything::default();
    match what {
        What::Memory(rounds) => in_memory(rounds, &mut everything)?,
        What::Callgrind(rounds) => instructions(rounds, &mut everything)?,
        What::Veth(rounds) => over_veth(rounds, &mut everything)?,
        What::All => {
            let rounds = Rounds { flows: None, rounds: None, packets: None };
            in_memory(&rounds, &mut everything)?;
            instructions(&rounds, &mut everything)?;
            if bench::netns::permitted() {
                over_veth(&VethRounds { rounds: None, ms: None, rewrite: false }, &mut everything)?;
            }
        }
        What::Counted(Counted { flows, packets, rewrite, bare }) => {
            let runs = if *bare { callgrind::Runs::Bare } else { callgrind::Runs::Switch };
            callgrind::child(Scenario { work: work(*rewrite), flows: *flows }, runs, *packets)?;
        }
    }
    Ok(everything)
}

const fn work(rewrite: bool) -> Work {
    if rewrite { Work::Rewrite } else { Work::Forward }
}

fn in_memory(rounds: &Rounds, everything: &mut Everything) -> Result<(), BenchError> {
    let mut options = memory::Options::default();
    if let Some(flows) = &rounds.flows {
        options.flows.clone_from(flows);
    }
    options.rounds = rounds.rounds.unwrap_or(options.rounds);
    options.packets = rounds.packets.unwrap_or(options.packets);
    everything.memory = memory::measure(&options)?;
    everything.stages = stages::measure(&options.flows, options.rounds, options.packets);
    Ok(())
}

fn instructions(rounds: &Rounds, everything: &mut Everything) -> Result<(), BenchError> {
    let flows = rounds.flows.clone().unwrap_or_else(|| vec![1_000, 500_000]);
    everything.callgrind = callgrind::measure(&flows, rounds.packets.unwrap_or(200_000))?;
    Ok(())
}

fn over_veth(rounds: &VethRounds, everything: &mut Everything) -> Result<(), BenchError> {
    let mut options = veth::Options::default();
    options.rounds = rounds.rounds.unwrap_or(options.rounds);
    options.round = rounds.ms.map_or(options.round, Duration::from_millis);
    let scenario = Scenario { work: work(rounds.rewrite), flows: 1_000 };
    everything.turns.push(veth::turns::measure(scenario, &veth::turns::Options::default())?);
    everything.veth.push(veth::measure(scenario, &options)?);
    Ok(())
}

fn print(everything: &Everything, format: Format) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    let written = match format {
        Format::Table => write!(out, "{everything}"),
        Format::Json => serde_json::to_writer_pretty(&mut out, everything)
            .map_err(std::io::Error::from)
            .and_then(|()| writeln!(out)),
    };
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(BenchError::io("printing")),
    }
}
