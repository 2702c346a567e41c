//! `sluice replay`.

use clap::Args;

use crate::exit::{Exit, Failure};

/// `sluice replay`.
#[derive(Debug, Args)]
pub(super) struct Replay {}

impl Replay {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        Err(Failure::says(Exit::Fault, "not yet"))
    }
}
