//! `sluice`: the agent, its API and the commands of the operator, in one program.

mod agent;
mod api;
mod cli;
mod client;
mod demo;
mod exit;
mod links;
mod replay;
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
            let _ = tell(&failure.told());
            failure.exit
        }
    }
}

/// Every line of `text` on standard error.
fn tell(text: &str) -> io::Result<()> {
    let mut to = io::stderr().lock();
    for line in text.lines() {
        writeln!(to, "sluice: {line}")?;
    }
    to.flush()
}
