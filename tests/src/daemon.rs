//! `sluice run` as a child in a network namespace, ended with the test.
#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test whose daemon is not as it must be fails at once"
)]

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    netns::Netns,
    program::{self, Ended, ended},
    wait::wait_until,
};

/// How long anything may take that has no limit of its own.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A daemon and its files: configuration, socket, log. Killed when dropped.
#[derive(Debug)]
pub struct Daemon<'n> {
    netns: &'n Netns,
    dir: TempDir,
    wrap: Vec<String>,
    child: Option<Child>,
}

impl<'n> Daemon<'n> {
    /// Files of a daemon that is not started yet.
    #[must_use]
    pub fn prepare(netns: &'n Netns, config: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        // Also for a daemon that runs as nobody.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("a folder for everybody");
        let daemon = Self { netns, dir, wrap: Vec::new(), child: None };
        daemon.write(config);
        daemon
    }

    /// Starts one and waits until it answers.
    #[must_use]
    pub fn start(netns: &'n Netns, config: &str) -> Self {
        let mut daemon = Self::prepare(netns, config);
        daemon.spawn();
        daemon.wait_ready();
        daemon
    }

    /// Runs it by another program, such as `prlimit`, whose arguments these are.
    #[must_use]
    pub fn by(mut self, wrap: &[&str]) -> Self {
        self.wrap = wrap.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Runs it until it ends by itself.
    #[must_use]
    pub fn run_to_end(&mut self) -> Ended {
        self.spawn();
        let mut status = None;
        let ended = wait_until(PATIENCE, || {
            status = self.child.as_mut().and_then(|child| child.try_wait().expect("a child's state"));
            status.is_some()
        });
        assert!(ended, "it did not end:\n{}", self.log());
        self.child = None;
        Ended { code: status.and_then(|status| status.code()), stdout: String::new(), stderr: self.log() }
    }

    /// Starts the process, without waiting for anything. The log begins anew.
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let log = File::create(self.path("log")).expect("a log");
        let mut words = self.wrap.iter();
        let mut command = match words.next() {
            Some(program) => {
                let mut command = Command::new(program);
                command.args(words).arg(self.program_for_everybody());
                command
            }
            None => Command::new(program::path()),
        };
        command
            .args(["run", "-c"])
            .arg(self.path("node.yaml"))
            .arg("--socket")
            .arg(self.socket())
            .env_remove("SLUICE_LOG")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.child = Some(self.netns.run(|| command.spawn()).expect("the daemon's process"));
    }

    /// The program where also nobody may look.
    fn program_for_everybody(&self) -> PathBuf {
        let copy = self.path("sluice");
        if !copy.exists() {
            // Another name for it is enough, where both are on one disk.
            if fs::hard_link(program::path(), &copy).is_err() {
                fs::copy(program::path(), &copy).expect("a copy of the program");
            }
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("a program for everybody");
        }
        copy
    }

    /// Waits until it answers.
    pub fn wait_ready(&mut self) {
        let pid = self.pid();
        let ready = wait_until(PATIENCE, || {
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait().expect("a child's state")
            {
                self.child = None;
                panic!("it ended with {status}:\n{}", self.log());
            }
            // What a daemon before it left does not answer.
            self.try_get("status").is_ok_and(|status| status.pointer("/items/0/pid") == Some(&pid.into()))
        });
        assert!(ready, "it does not answer:\n{}", self.log());
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a daemon that runs").id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().expect("a daemon that runs")), signal).expect("a signal");
    }

    /// Ends it by SIGTERM; its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.wait_end().code()
    }

    /// Ends it by SIGKILL.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.wait_end();
    }

    fn wait_end(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("a daemon that runs");
        let mut status = None;
        let ended = wait_until(PATIENCE, || {
            status = child.try_wait().expect("a child's state");
            status.is_some()
        });
        if !ended {
            self.child = Some(child);
        }
        status.unwrap_or_else(|| panic!("it did not end:\n{}", self.log()))
    }

    /// Replaces the configuration file.
    pub fn write(&self, config: &str) {
        fs::write(self.path("node.yaml"), config).expect("a configuration written");
    }

    /// Sends SIGHUP and waits until the outcome is shown: `last_reload` of the status.
    pub fn reload(&self) -> Value {
        let attempts = || self.status().pointer("/last_reload/attempt").and_then(Value::as_u64).unwrap_or(0);
        let before = attempts();
        self.signal(Signal::HUP);
        assert!(wait_until(PATIENCE, || attempts() > before), "no reload:\n{}", self.log());
        field(&self.status(), "last_reload").clone()
    }

    /// Replaces the file, reloads, and requires that it is in force.
    pub fn turn_to(&self, config: &str) {
        self.write(config);
        let reload = self.reload();
        assert_eq!(reload.get("ok"), Some(&Value::Bool(true)), "{reload}");
    }

    /// A list of the API, such as `ports`, as JSON.
    #[must_use]
    pub fn get(&self, what: &str) -> Value {
        self.try_get(what).unwrap_or_else(|error| panic!("GET /v1/{what}: {error}\n{}", self.log()))
    }

    /// The items of a list.
    #[must_use]
    pub fn items(&self, what: &str) -> Vec<Value> {
        field(&self.get(what), "items").as_array().expect("items").clone()
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> Value {
        self.only("status")
    }

    /// The worker.
    #[must_use]
    pub fn worker(&self) -> Value {
        self.only("workers")
    }

    fn only(&self, what: &str) -> Value {
        let mut items = self.items(what);
        assert_eq!(items.len(), 1, "{what}");
        items.remove(0)
    }

    /// The port of that name.
    #[must_use]
    pub fn port(&self, name: &str) -> Value {
        let mut ports = self.items("ports").into_iter().filter(|port| port.get("name") == Some(&name.into()));
        ports.next().unwrap_or_else(|| panic!("no port {name}"))
    }

    /// The state of the port of that name.
    #[must_use]
    pub fn state(&self, name: &str) -> String {
        field(&self.port(name), "state").as_str().expect("a state").to_owned()
    }

    /// Packets dropped for `reason`, from every port and by every rule.
    #[must_use]
    pub fn drops(&self, reason: &str) -> u64 {
        let drops = self.items("drops");
        drops
            .iter()
            .filter(|drop| drop.get("reason") == Some(&reason.into()))
            .map(|drop| number(drop, "/packets"))
            .sum()
    }

    /// Asks the API by a few lines of its own.
    ///
    /// # Errors
    /// When nobody answers, or not with 200.
    pub fn try_get(&self, what: &str) -> io::Result<Value> {
        let mut stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("GET /v1/{what} HTTP/1.1\r\nHost: sluice\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        if !head.starts_with("HTTP/1.1 200") || head.to_lowercase().contains("transfer-encoding") {
            return Err(io::Error::other(format!("{head}\n{body}")));
        }
        serde_json::from_str(body).map_err(io::Error::other)
    }

    /// What it logged since it was started last.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Open descriptors of its process.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("its descriptors").count()
    }

    /// Runs `sluice get` on it.
    #[must_use]
    pub fn cli(&self, arguments: &[&str]) -> Ended {
        ended(program::sluice().arg("get").args(arguments).arg("--socket").arg(self.socket()))
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path("sluice.sock")
    }

    /// Its configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.path("node.yaml")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A field of an object that must have it.
#[must_use]
pub fn field<'v>(value: &'v Value, name: &str) -> &'v Value {
    value.get(name).unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// A number of an object that must have it, by JSON pointer.
#[must_use]
pub fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no number {pointer} in {value}"))
}
