//! `sluice get`: asks the daemon and shows the answer.

use clap::{Args, ValueEnum, builder::RangedU64ValueParser};
use serde::de::DeserializeOwned;

use super::{SocketArg, out};
use crate::{
    api, client,
    exit::{Exit, Failure},
    report::{
        json::Json,
        shape::{Drop, Flow, List, Port, Rule, Station, Status, Worker},
        table::{self, Columns},
    },
};

/// `sluice get`.
#[derive(Debug, Args)]
pub(super) struct Get {
    /// What to show.
    what: What,
    /// How to show it: columns for eyes, or a stable form for programs.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Most flows shown; 100000 is the most there is.
    #[arg(long, value_name = "N", default_value_t = api::FLOWS, value_parser = limit())]
    limit: usize,
    #[command(flatten)]
    socket: SocketArg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// The ports, how they are attached and what they carried.
    Ports,
    /// The flows remembered, busiest first.
    Flows,
    /// The rules in the order of the tables, and what each decided.
    Tables,
    /// The MACs known, and behind which port.
    Fdb,
    /// The worker's own numbers.
    Workers,
    /// What was dropped, why, and by which rule.
    Drops,
    /// What is in force, and how the last reload went.
    Status,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Output {
    /// Columns.
    #[default]
    Table,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

fn limit() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(..=api::MOST_FLOWS as u64)
}

impl Get {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        match self.what {
            What::Ports => self.show::<Port>("/v1/ports"),
            What::Flows => self.show::<Flow>(&format!("/v1/flows?limit={}", self.limit)),
            What::Tables => self.show::<Rule>("/v1/tables"),
            What::Fdb => self.show::<Station>("/v1/fdb"),
            What::Workers => self.show::<Worker>("/v1/workers"),
            What::Drops => self.show::<Drop>("/v1/drops"),
            What::Status => self.show::<Status>("/v1/status"),
        }
    }

    fn show<T: Columns + DeserializeOwned>(&self, path: &str) -> Result<Exit, Failure> {
        // Programs get all that the daemon says, which may be of another version.
        let whole = || client::get::<Json>(&self.socket.socket, path);
        let text = match self.output {
            Output::Table => table::render(&client::get::<List<T>>(&self.socket.socket, path)?),
            Output::Json => {
                serde_json::to_string_pretty(&whole()?).map_err(|error| Failure::new(Exit::Fault, error))?
            }
            Output::Yaml => {
                serde_saphyr::to_string(&whole()?).map_err(|error| Failure::says(Exit::Fault, error.to_string()))?
            }
        };
        out::line(&text)?;
        Ok(Exit::Ok)
    }
}
