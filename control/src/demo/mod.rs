//! `sluice demo`: real Linux hosts in network namespaces, a real daemon between them, and one line for each promise kept.
//!
//! One thread makes the world and runs the checks; this one prints what it hears, minds the time and the signals, and takes
//! away what must not stay, however the demo ends.

mod checks;
mod daemon;
mod hosts;
mod lab;
mod remains;

use std::{io, process::Command, sync::Arc, thread, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, timeout_at},
};

use self::{
    lab::Lab,
    remains::{Cleared, Remains},
};
use crate::{
    cli::out,
    exit::{Exit, Failure},
};

/// The configuration the demo runs, which is also an example.
const CONFIG: &str = include_str!("../../../config/examples/demo.yaml");

/// The rule that is put in force and taken out again: a line for the end of [`CONFIG`].
const STOP: &str = "  - { name: stop-7000, table: acl-from, priority: 2000, match: { udp.dst: 7000 }, action: deny }\n";

/// How long one check may take, and the making of the world.
const CHECK: Duration = Duration::from_secs(15);

/// How long the whole demo may take.
const WHOLE: Duration = Duration::from_secs(60);

/// One promise, and how it is seen to be kept: the figure to show, or what was found instead.
struct Check {
    promise: &'static str,
    run: fn(&mut Lab) -> Result<String, Broken>,
}

/// What was found instead of what was promised.
#[derive(Debug)]
struct Broken {
    expected: String,
    got: String,
}

impl<E: std::error::Error + 'static> From<E> for Broken {
    fn from(error: E) -> Self {
        Self { expected: "no error".to_owned(), got: crate::exit::told(&error) }
    }
}

/// Fails a check.
fn broken<T>(expected: impl Into<String>, got: impl Into<String>) -> Result<T, Broken> {
    Err(Broken { expected: expected.into(), got: got.into() })
}

/// Fails unless what was counted is what it must be.
fn exactly(what: &str, expected: u64, got: u64) -> Result<(), Broken> {
    if expected == got { Ok(()) } else { broken(format!("{expected} {what}"), got.to_string()) }
}

/// What the thread of the checks tells.
enum Event {
    /// The world is there.
    Made(String),
    /// It begins to look at this promise.
    Begun(&'static str),
    /// The promise was kept; the figure.
    Kept(&'static str, String),
    /// It was not, or the world could not be made.
    Failed(Broken),
    /// All were looked at.
    Done,
}

/// Runs every check, one line each. Leaves nothing behind, also when interrupted.
///
/// # Errors
/// [`Exit::Refused`] when the demo can not be set up, [`Exit::Differs`] when a promise is not kept, and the exit code of the
/// signal that ended it.
pub(crate) fn run() -> Result<Exit, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::says(
            Exit::Refused,
            "the demo makes network namespaces and attaches XDP programs: run it as root",
        ));
    }
    if Command::new("ip").arg("-V").output().is_err() {
        return Err(Failure::says(Exit::Refused, "the demo makes its network by ip, of iproute2: install that"));
    }
    let refused = |error: io::Error| Failure::new(Exit::Refused, error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    runtime.block_on(async {
        // From here on no signal ends the process by itself.
        let signals = Signals::new().map_err(refused)?;
        remains::remove_abandoned();
        let cleared = Cleared(Arc::new(Remains::new().map_err(refused)?));
        let (tell, events) = unbounded_channel();
        let theirs = Arc::clone(&cleared.0);
        let checks = thread::Builder::new().name("sluice-demo".to_owned());
        checks.spawn(move || look(&theirs, &tell)).map_err(refused)?;
        let outcome = follow(signals, events, &cleared.0).await;
        // Before anything is said. The other thread is not waited for: it can make nothing any more.
        drop(cleared);
        let kept = outcome?;
        out::line(&format!("demo: ok ({kept} checks)"))?;
        Ok(Exit::Ok)
    })
}

/// Makes the world and looks at each promise.
fn look(remains: &Arc<Remains>, tell: &UnboundedSender<Event>) {
    // Nobody listens any more once the demo is over.
    let say = |event| drop(tell.send(event));
    let mut lab = match Lab::new(remains) {
        Ok(lab) => lab,
        Err(broken) => return say(Event::Failed(broken)),
    };
    say(Event::Made(lab.describe()));
    for check in checks::all() {
        say(Event::Begun(check.promise));
        match (check.run)(&mut lab) {
            Ok(figure) => say(Event::Kept(check.promise, figure)),
            Err(broken) => return say(Event::Failed(broken)),
        }
    }
    say(Event::Done);
}

/// Prints what is told until all is; how many promises were kept.
async fn follow(
    mut signals: Signals,
    mut events: UnboundedReceiver<Event>,
    remains: &Remains,
) -> Result<usize, Failure> {
    let end = Instant::now() + WHOLE;
    let mut current = None;
    let mut kept = 0;
    loop {
        let limit = end.min(Instant::now() + CHECK);
        let event = tokio::select! {
            // Who is interrupted at a terminal is told so, whatever the signal did to the programs that were running.
            biased;
            interrupted = signals.next() => return Err(interrupted),
            event = timeout_at(limit, events.recv()) => event,
        };
        let broken = match event {
            Ok(Some(Event::Made(text))) => {
                out::line(&text)?;
                continue;
            }
            Ok(Some(Event::Begun(promise))) => {
                current = Some(promise);
                continue;
            }
            Ok(Some(Event::Kept(promise, figure))) => {
                out::line(&format!("ok    {promise:<68} {figure}"))?;
                kept += 1;
                continue;
            }
            Ok(Some(Event::Done)) => return Ok(kept),
            Ok(Some(Event::Failed(broken))) => broken,
            Ok(None) => Broken { expected: "no fault of sluice".to_owned(), got: "a panic".to_owned() },
            Err(_elapsed) => Broken {
                expected: format!("an end within {} s, and of all within {} s", CHECK.as_secs(), WHOLE.as_secs()),
                got: "none".to_owned(),
            },
        };
        // A signal to the whole terminal may also have ended a program that a check needed.
        if let Ok(interrupted) = timeout_at(Instant::now() + Duration::from_millis(50), signals.next()).await {
            return Err(interrupted);
        }
        let Broken { expected, got } = broken;
        let Some(promise) = current else {
            let why = format!("the demo can not be set up: expected {expected}, got {got}\n{}", remains.log_tail());
            return Err(Failure::says(Exit::Refused, why.trim_end()));
        };
        out::line(&format!("FAIL  {promise}: expected {expected}, got {got}\n{}", remains.log_tail()))?;
        return Err(Failure::says(Exit::Differs, format!("the demo failed after {kept} checks: {promise}")));
    }
}

/// The signals that end the demo.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The end that the next signal asks for.
    async fn next(&mut self) -> Failure {
        let exit = tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
            _ = self.hangup.recv() => Exit::Terminated,
        };
        Failure::says(exit, "the demo was interrupted; nothing of it is left")
    }
}

#[cfg(test)]
mod tests;
