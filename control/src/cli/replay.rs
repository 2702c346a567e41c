//! `sluice replay`.

use std::path::PathBuf;

use clap::Args;
use flow_table::hash::Seed;

use super::{invalid, out};
use crate::{
    agent::desired::Desired,
    exit::{Exit, Failure},
    replay,
};

/// `sluice replay`.
#[derive(Debug, Args)]
pub(super) struct Replay {
    /// The configuration file. A port without `mtu` has 1500, whatever its device has.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// What a port receives: a pcap or pcapng file. Frames of equal time come in the order of these options.
    #[arg(long = "in", value_name = "PORT=FILE", value_parser = input, required = true)]
    inputs: Vec<(String, PathBuf)>,
    /// Directory for what leaves each port and for the report; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Replay {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        // The same seed each time: a replay is the same to the byte.
        match Desired::load(&self.config, None, Seed::new(0)) {
            Ok(desired) => {
                out::line(&replay::run(&desired, &self.inputs, &self.out)?)?;
                Ok(Exit::Ok)
            }
            Err(why) => Ok(invalid(&why.text)),
        }
    }
}

fn input(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((port, file)) if !port.is_empty() && !file.is_empty() => Ok((port.to_owned(), PathBuf::from(file))),
        _ => Err("it is a port's name, =, and a capture file, such as web-1=web-1.pcap".to_owned()),
    }
}
