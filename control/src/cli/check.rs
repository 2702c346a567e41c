//! `sluice check`: one line when the file is valid, all that is wrong when it is not.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use config::Diagnostic;
use serde::Serialize;

use super::{invalid, out};
use crate::{
    exit::{Exit, Failure},
    report::shape::API_VERSION,
};

/// `sluice check`.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// The configuration file.
    file: PathBuf,
    /// How to tell.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For eyes; errors on standard error.
    #[default]
    Text,
    /// JSON, on standard output either way.
    Json,
}

#[derive(Serialize)]
struct Verdict<'d> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    file: &'d str,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    networks: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<usize>,
    errors: &'d [Diagnostic],
}

impl Check {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let file = self.file.display().to_string();
        match config::load_file(&self.file) {
            Ok(model) => {
                let (ports, networks, rules) = (model.ports.len(), model.networks.len(), model.rules.len());
                match self.output {
                    Output::Text => out::line(&format!(
                        "{file}: ok ({}, {}, {})",
                        counted(ports, "port"),
                        counted(networks, "network"),
                        counted(rules, "rule")
                    ))?,
                    Output::Json => {
                        let counts = (Some(ports), Some(networks), Some(rules));
                        json(&file, true, counts, &[])?;
                    }
                }
                Ok(Exit::Ok)
            }
            Err(errors) => {
                if self.output == Output::Json {
                    json(&file, false, (None, None, None), errors.items())?;
                    return Ok(Exit::Invalid);
                }
                Ok(invalid(&errors.to_string()))
            }
        }
    }
}

fn json(
    file: &str,
    valid: bool,
    (ports, networks, rules): (Option<usize>, Option<usize>, Option<usize>),
    errors: &[Diagnostic],
) -> Result<(), Failure> {
    let verdict = Verdict { api_version: API_VERSION, kind: "Check", file, valid, ports, networks, rules, errors };
    let text = serde_json::to_string_pretty(&verdict).map_err(|error| Failure::new(Exit::Fault, error))?;
    out::line(&text)
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
