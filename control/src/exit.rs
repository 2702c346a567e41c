//! The exit codes, and an error that knows which one it ends in.

use std::{
    error::Error,
    process::{ExitCode, Termination},
};

/// How the program ends. The numbers are promised to scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Ok = 0,
    /// What was compared differs: in a demo, what was promised and what happened.
    Differs = 1,
    /// The command line is wrong, or names something that does not exist.
    Usage = 2,
    /// The configuration file is not valid, or can not be read.
    Invalid = 3,
    /// No daemon answers on the socket.
    Unreachable = 4,
    /// The system, or what is already there, does not allow it.
    Refused = 5,
    /// A fault of Sluice itself: the worker stopped. Not a promise, and never expected.
    Fault = 70,
    /// Ended by SIGINT before it was done, as a shell tells it.
    Interrupted = 130,
    /// Ended by SIGTERM or SIGHUP before it was done, as a shell tells the first.
    Terminated = 143,
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// An error with the exit code it ends in.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The code.
    pub(crate) exit: Exit,
    /// What to tell, with its causes.
    pub(crate) error: anyhow::Error,
}

impl Failure {
    /// The error with its causes, on as many lines as they have.
    pub(crate) fn told(&self) -> String {
        told(self.error.as_ref())
    }

    /// An error that ends in `exit`.
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into() }
    }

    /// A sentence that ends in `exit`.
    pub(crate) fn says(exit: Exit, sentence: impl Into<String>) -> Self {
        Self { exit, error: anyhow::Error::msg(sentence.into()) }
    }
}

/// An error with its causes, each said once: some errors repeat their cause in their own words.
pub(crate) fn told(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
