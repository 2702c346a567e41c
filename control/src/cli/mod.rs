//! The command line.

mod check;
mod get;
mod meta;
pub(crate) mod out;
mod replay;
mod run;

use std::{
    io::{self, Write},
    path::PathBuf,
};

use clap::{Args, Parser, Subcommand};

use crate::{
    api::socket,
    demo,
    exit::{Exit, Failure},
};

/// Node-local virtual switch: AF_XDP packets, rules in YAML.
///
/// Exit codes: 0 done, 1 differs, 2 wrong command line, 3 invalid configuration, 4 no daemon answers, 5 refused.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the switch until SIGTERM; SIGHUP reads the file again.
    ///
    /// A reload changes everything the file asks for or, when any of it is wrong, nothing; `sluice get status` tells
    /// which. Logs go to standard error; SLUICE_LOG sets how much (error, warn, info, debug).
    Run(run::Run),
    /// Checks a configuration file and tells everything that is wrong with it.
    Check(check::Check),
    /// Shows what the running switch does.
    Get(get::Get),
    /// Runs the switch over capture files instead of devices, with their timestamps as the clock.
    ///
    /// Needs no privilege and no daemon. Writes DIR/PORT.pcap for each port and DIR/report.json; the same input gives the
    /// same bytes.
    Replay(replay::Replay),
    /// Drives real Linux hosts through a switch of its own and shows what it promises.
    ///
    /// Needs root and iproute2. Makes network namespaces of its own, takes less than a minute, and leaves nothing behind,
    /// also when it is interrupted. Ends with 0 when every promise was kept, with 1 when one was not.
    Demo,
    /// Prints the JSON Schema of the configuration file.
    Schema,
    /// Prints the completions for a shell.
    Completions(meta::Completions),
    /// Prints the manual page, or writes that of every command into a directory.
    Man(meta::Man),
}

/// Where the daemon is.
#[derive(Debug, Args)]
struct SocketArg {
    /// Socket of the daemon.
    #[arg(long, value_name = "PATH", default_value = socket::DEFAULT)]
    socket: PathBuf,
}

/// Tells on standard error what is wrong with a configuration file, as it is.
fn invalid(text: &str) -> Exit {
    // Nobody to tell when standard error is gone.
    let _ = io::stderr().lock().write_all(format!("{}\n", text.trim_end()).as_bytes());
    Exit::Invalid
}

impl Cli {
    /// Does what was asked for.
    ///
    /// # Errors
    /// With what to tell and the exit code.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Run(run) => run.run(),
            Command::Check(check) => check.run(),
            Command::Get(get) => get.run(),
            Command::Replay(replay) => replay.run(),
            Command::Demo => demo::run(),
            Command::Schema => meta::schema(),
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => man.run(),
        }
    }
}
