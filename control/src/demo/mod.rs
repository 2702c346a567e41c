//! `sluice demo`: real Linux hosts in network namespaces, a real daemon between them, and one line for each promise kept.

mod checks;
mod lab;
mod live;

use std::{thread, time::Instant};

use tokio::signal::unix::{SignalKind, signal};

use self::lab::Lab;
use crate::{
    cli::out,
    exit::{Exit, Failure},
};

/// The configuration the demo runs, which is also an example.
const CONFIG: &str = include_str!("../../../config/examples/demo.yaml");

/// One promise, and how it is seen to be kept: the figure to show, or what was found instead.
struct Check {
    promise: &'static str,
    run: fn(&mut Lab) -> Result<String, Broken>,
}

/// What was found instead of what was promised.
#[derive(Debug)]
struct Broken(String);

impl<E: std::error::Error + 'static> From<E> for Broken {
    fn from(error: E) -> Self {
        Self(crate::exit::told(&error))
    }
}

/// Fails a check with a sentence.
fn broken<T>(sentence: impl Into<String>) -> Result<T, Broken> {
    Err(Broken(sentence.into()))
}

/// Fails unless what was counted is what it must be.
fn exactly(what: &str, expected: u64, found: u64) -> Result<(), Broken> {
    if expected == found { Ok(()) } else { broken(format!("{what}: expected {expected}, found {found}")) }
}

/// Runs every check, one line each. Leaves nothing behind, also when interrupted.
///
/// # Errors
/// With [`Exit::Refused`] when the demo can not be set up, or a promise is not kept.
pub(crate) fn run() -> Result<Exit, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::says(
            Exit::Refused,
            "the demo makes network namespaces and attaches XDP programs: run it as root",
        ));
    }
    clean_up_when_interrupted()?;
    let refused = |Broken(why): Broken| Failure::says(Exit::Refused, format!("the demo could not be set up: {why}"));
    lab::remove_abandoned();
    lab::require(&["ip", "ping", "setpriv"]).map_err(refused)?;
    let mut lab = Lab::new().map_err(refused)?;
    say(&format!("      six hosts in network namespaces, one switch on {}", lab.config_path().display()))?;
    let mut kept = 0;
    for check in checks::ALL.iter().chain(live::ALL) {
        let started = Instant::now();
        match (check.run)(&mut lab) {
            Ok(figure) => say(&format!("ok    {:<70} {figure}", check.promise))?,
            Err(Broken(why)) => {
                say(&format!(
                    "FAIL  {}\n      {why} (after {:.1} s)\n{}",
                    check.promise,
                    started.elapsed().as_secs_f64(),
                    lab.log_tail()
                ))?;
                drop(lab);
                return Err(Failure::says(Exit::Refused, format!("a promise was not kept: {}", check.promise)));
            }
        }
        kept += 1;
    }
    drop(lab);
    say(&format!("demo: ok ({kept} checks)"))?;
    Ok(Exit::Ok)
}

/// Prints a line at once.
fn say(line: &str) -> Result<(), Failure> {
    out::line(line)
}

/// On SIGINT or SIGTERM removes what the demo made and ends.
fn clean_up_when_interrupted() -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(Exit::Fault, error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let _entered = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let wait = move || {
        let code = runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => 130,
                _ = terminate.recv() => 143,
            }
        });
        lab::clean_up();
        std::process::exit(code);
    };
    thread::Builder::new().name("interrupt".into()).spawn(wait).map_err(failed)?;
    Ok(())
}
