//! What the program says of itself: schema, completions, manual.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, out};
use crate::exit::{Exit, Failure};

/// `sluice completions`.
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell.
    shell: Shell,
}

/// `sluice man`.
#[derive(Debug, Args)]
pub(super) struct Man {
    /// Existing directory for the pages.
    dir: Option<PathBuf>,
}

/// `sluice schema`.
pub(super) fn schema() -> Result<Exit, Failure> {
    let text = serde_json::to_string_pretty(&config::schema()).map_err(|error| Failure::new(Exit::Fault, error))?;
    out::line(&text)?;
    Ok(Exit::Ok)
}

impl Completions {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "sluice", &mut text);
        out::write(&text)?;
        Ok(Exit::Ok)
    }
}

impl Man {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        match &self.dir {
            Some(dir) => clap_mangen::generate_to(Cli::command(), dir).map_err(|error| {
                let sentence = format!("can not write manual pages to {}", dir.display());
                Failure::new(Exit::Refused, anyhow::Error::new(error).context(sentence))
            })?,
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(Cli::command())
                    .render(&mut page)
                    .map_err(|error| Failure::new(Exit::Fault, error))?;
                out::write(&page)?;
            }
        }
        Ok(Exit::Ok)
    }
}
