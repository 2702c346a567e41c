//! The daemon of the demo: its process, its file, and what its API tells.

use std::{
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use bench::netns::Netns;
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

use super::{
    Broken, CONFIG, broken,
    hosts::{PATIENCE, eventually},
    remains::Remains,
};
use crate::{
    client,
    report::shape::{Drop as Dropped, List, Port, Reload, Rule, Status, Worker},
};

/// `sluice run` in the switch's namespace, as an operator runs it.
#[derive(Debug)]
pub(super) struct Daemon {
    remains: Arc<Remains>,
    netns: Arc<Netns>,
}

impl Daemon {
    /// One that does not run yet, with [`CONFIG`] as its file.
    pub(super) fn new(remains: &Arc<Remains>, netns: &Arc<Netns>) -> Result<Self, Broken> {
        let daemon = Self { remains: Arc::clone(remains), netns: Arc::clone(netns) };
        daemon.write(CONFIG)?;
        Ok(daemon)
    }

    /// Starts it and waits until it answers.
    pub(super) fn start(&self) -> Result<(), Broken> {
        let program = std::env::current_exe()?;
        // Where there is setpriv, the daemon does not even outlive a demo that was killed. The kernel looks at the thread that
        // started it, which is this one.
        let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
        let mut command = if has_setpriv {
            let mut command = self.netns.command("setpriv");
            command.args(["--pdeathsig", "TERM"]).arg(program);
            command
        } else {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", self.netns.name()]).arg(program);
            command
        };
        command
            .args(["run", "-c"])
            .arg(self.config_path())
            .arg("--socket")
            .arg(self.socket())
            .env_remove("SLUICE_LOG")
            .env_remove("NOTIFY_SOCKET")
            .env("NO_COLOR", "1")
            // An interrupt at the terminal is the demo's to handle.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(self.remains.path("log"))?);
        self.remains.start(&mut command)?;
        let mut ended = None;
        let mut failed = None;
        let ready = eventually(PATIENCE, || {
            match self.remains.with_daemon(|child| child.try_wait()) {
                Ok(status) => ended = status,
                Err(error) => failed = Some(error),
            }
            ended.is_some() || failed.is_some() || client::get::<List<Status>>(&self.socket(), "/v1/status").is_ok()
        });
        match (failed, ended, ready) {
            (Some(failed), ..) => Err(failed),
            (None, Some(status), _) => broken("a daemon that runs", format!("one that ended with {status}")),
            (None, None, false) => broken("an answer of the daemon", "none"),
            (None, None, true) => Ok(()),
        }
    }

    /// Ends it by a signal; its exit code and how long that took.
    pub(super) fn end(&self, by: Signal) -> Result<(Option<i32>, Duration), Broken> {
        let started = Instant::now();
        self.signal(by)?;
        let mut ended = None;
        eventually(PATIENCE, || {
            ended = self.remains.with_daemon(|child| child.try_wait()).ok().flatten();
            ended.is_some()
        });
        match ended {
            Some(status) => Ok((status.code(), started.elapsed())),
            None => broken("an end of the daemon", "none"),
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), Broken> {
        self.remains.with_daemon(|child| kill_process(Pid::from_child(child), signal).map_err(io::Error::from))
    }

    /// Replaces its file, sends SIGHUP, and waits for the outcome, which is `ok` or not. Also when the signal was sent.
    pub(super) fn reload(&self, config: &str) -> Result<(Reload, Instant), Broken> {
        let before = self.status()?.last_reload.map_or(0, |reload| reload.attempt);
        self.write(config)?;
        let signalled = Instant::now();
        self.signal(Signal::HUP)?;
        let mut outcome = None;
        eventually(PATIENCE, || {
            let status = self.status().ok();
            outcome = status.and_then(|status| status.last_reload).filter(|reload| reload.attempt > before);
            outcome.is_some()
        });
        match outcome {
            Some(reload) => Ok((reload, signalled)),
            None => broken("an outcome of SIGHUP", "none"),
        }
    }

    /// As [`reload`](Self::reload), for a file that must be accepted.
    pub(super) fn turn_to(&self, config: &str) -> Result<Instant, Broken> {
        let (reload, signalled) = self.reload(config)?;
        match reload.error {
            None => Ok(signalled),
            Some(error) => broken("a file that is accepted", error),
        }
    }

    /// Where its file is.
    pub(super) fn config_path(&self) -> PathBuf {
        self.remains.path("demo.yaml")
    }

    fn socket(&self) -> PathBuf {
        self.remains.path("sluice.sock")
    }

    /// True while its socket is there.
    pub(super) fn has_socket(&self) -> bool {
        self.socket().exists()
    }

    fn write(&self, config: &str) -> Result<(), Broken> {
        Ok(fs::write(self.config_path(), config)?)
    }

    /// A list of the API, such as `ports`.
    pub(super) fn items<T: DeserializeOwned>(&self, what: &str) -> Result<Vec<T>, Broken> {
        Ok(client::get::<List<T>>(&self.socket(), &format!("/v1/{what}"))?.items)
    }

    fn only<T: DeserializeOwned>(&self, what: &str) -> Result<T, Broken> {
        match self.items(what)?.pop() {
            Some(item) => Ok(item),
            None => broken(format!("one of {what}"), "none"),
        }
    }

    pub(super) fn status(&self) -> Result<Status, Broken> {
        self.only("status")
    }

    pub(super) fn worker(&self) -> Result<Worker, Broken> {
        self.only("workers")
    }

    pub(super) fn ports(&self) -> Result<Vec<Port>, Broken> {
        self.items("ports")
    }

    pub(super) fn port(&self, name: &str) -> Result<Port, Broken> {
        match self.ports()?.into_iter().find(|port| port.name == name) {
            Some(port) => Ok(port),
            None => broken(format!("a port {name}"), "none"),
        }
    }

    /// Packets that the rule of that name decided.
    pub(super) fn decided(&self, rule: &str) -> Result<u64, Broken> {
        let rules = self.items::<Rule>("tables")?;
        Ok(rules.into_iter().filter(|found| found.name == rule).map(|found| found.packets).sum())
    }

    /// Packets dropped in all.
    pub(super) fn dropped(&self) -> Result<u64, Broken> {
        Ok(self.drops()?.iter().map(|drop| drop.packets).sum())
    }

    /// What was dropped, by port, reason and rule.
    pub(super) fn drops(&self) -> Result<Vec<Dropped>, Broken> {
        self.items("drops")
    }

    /// Packets dropped as `cause` says.
    pub(super) fn dropped_by(&self, cause: &Cause) -> Result<u64, Broken> {
        let is_it = |drop: &Dropped| {
            drop.port == cause.port && drop.reason == cause.reason && drop.rule.as_deref() == cause.rule
        };
        Ok(self.items::<Dropped>("drops")?.into_iter().filter(is_it).map(|drop| drop.packets).sum())
    }

    /// Does `send`, which sends packets that are to die of `cause`, and fails unless exactly as many more are counted there.
    pub(super) fn must_drop(&self, cause: &Cause, send: impl FnOnce() -> Result<u64, Broken>) -> Result<u64, Broken> {
        let before = self.dropped_by(cause)?;
        let sent = send()?;
        eventually(PATIENCE, || self.dropped_by(cause).is_ok_and(|now| now >= before + sent));
        exactly_more(cause, sent, self.dropped_by(cause)? - before)?;
        Ok(sent)
    }
}

fn exactly_more(cause: &Cause, sent: u64, dropped: u64) -> Result<(), Broken> {
    let Cause { port, reason, rule } = cause;
    super::exactly(&format!("packets from {port} dropped as {reason} by {}", rule.unwrap_or("no rule")), sent, dropped)
}

/// Where a drop is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cause {
    /// The port it came in by.
    pub(super) port: &'static str,
    /// The name of the reason.
    pub(super) reason: &'static str,
    /// The name of the rule.
    pub(super) rule: Option<&'static str>,
}
