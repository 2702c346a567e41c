//! Why a benchmark could not be run, or its figures not be believed.

use dataplane::port::{afxdp::AttachError, umem::UmemError};
use flow_table::id::PortId;
use thiserror::Error;

/// Why there are no figures.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// Frame memory.
    #[error(transparent)]
    Umem(#[from] UmemError),
    /// The worker refused a port.
    #[error("the worker did not take port {0}")]
    Port(PortId),
    /// What was measured is not what was meant.
    #[error("the run is void: {what} should be {expected} and is {found}")]
    Void {
        /// What was counted.
        what: &'static str,
        /// What it had to be.
        expected: u64,
        /// What it was.
        found: u64,
    },
    /// An AF_XDP port.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A program that was to be run.
    #[error("{program} failed: {why}")]
    Program {
        /// Its name.
        program: String,
        /// What it said.
        why: String,
    },
    /// A measuring thread.
    #[error("a thread panicked")]
    Panicked,
    /// The system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

impl BenchError {
    /// What to make of an error of the system.
    pub fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
