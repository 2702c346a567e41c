//! `sluice`: the agent, its API and the commands of the operator, in one program.

mod agent;
mod api;
mod cli;
mod client;
mod exit;
mod links;
mod report;

use std::io::{self, Write};

use clap::Parser;

use crate::exit::Exit;

fn main() -> Exit {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version are asked for, and go to standard output; all else is a wrong command line.
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok };
        }
    };
    match cli.run() {
        Ok(exit) => exit,
        Err(failure) => {
            // Nobody to tell when standard error is gone too.
            let _ = tell(&failure.error);
            failure.exit
        }
    }
}

/// Every line of `error` on standard error.
fn tell(error: &anyhow::Error) -> io::Result<()> {
    let mut to = io::stderr().lock();
    for line in format!("{error:#}").lines() {
        writeln!(to, "sluice: {line}")?;
    }
    to.flush()
}
