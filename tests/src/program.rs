//! The built `sluice`, run as an operator runs it.
#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test without its program must fail at once"
)]

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Where it is. Built first, in the profile of the tests, unless `SLUICE` names one.
#[must_use]
pub fn path() -> &'static Path {
    PROGRAM.get_or_init(|| env::var_os("SLUICE").map_or_else(build, PathBuf::from))
}

/// A command that runs it.
#[must_use]
pub fn sluice() -> Command {
    let mut command = Command::new(path());
    command.env_remove("SLUICE_LOG").env_remove("NOTIFY_SOCKET");
    command
}

/// Runs it with these arguments to its end.
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ended {
    ended(sluice().args(arguments))
}

/// Runs a command to its end.
pub fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Ended::from(output)
}

/// How a program ended and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Builds it beside the tests. Cargo does nothing when it is there and new.
fn build() -> PathBuf {
    let tests = env::current_exe().expect("the path of this test");
    // TARGET/PROFILE/deps/TEST
    let profile = tests.ancestors().nth(2).expect("the folder of a profile");
    let name = match profile.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--quiet", "--workspace", "--bin", "sluice", "--profile", name, "--target-dir"])
        .args(profile.parent());
    let ended = ended(&mut cargo);
    assert_eq!(ended.code, Some(0), "sluice could not be built:\n{}", ended.stderr);
    profile.join("sluice")
}
