//! A daemon from start to end. Its ports have no device, so that no privilege is needed.

#![cfg(test)]

use std::{
    fs,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const GOOD: &str = "\
apiVersion: sluice/v1
datapath: { flows: 1024, umem: { chunks: 1024 } }
ports: [{ name: web-1, device: no-such-dev, network: blue }]
networks: [{ name: blue }]
";

struct Daemon {
    dir: TempDir,
    child: Option<Child>,
}

impl Daemon {
    fn start(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("node.yaml"), text).unwrap();
        let child = spawn(&dir.path().join("node.yaml"), &dir.path().join("s.sock"), None);
        let daemon = Self { dir, child: Some(child) };
        daemon.wait_for("the API", |daemon| daemon.try_status().is_some());
        daemon
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, text: &str) {
        fs::write(self.path("node.yaml"), text).unwrap();
    }

    fn get(&self, what: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_sluice"))
            .args(["get", what, "-o", "json", "--socket"])
            .arg(self.path("s.sock"))
            .output()
            .unwrap()
    }

    fn try_status(&self) -> Option<Value> {
        let status: Value = serde_json::from_slice(&self.get("status").stdout).ok()?;
        Some(status["items"][0].clone())
    }

    fn status(&self) -> Value {
        self.try_status().unwrap()
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Sends SIGHUP and waits until the outcome is shown.
    fn reload(&self) -> Value {
        let attempts = |daemon: &Self| daemon.status()["last_reload"]["attempt"].as_u64().unwrap_or(0);
        let before = attempts(self);
        self.signal(Signal::HUP);
        self.wait_for("the reload", |daemon| attempts(daemon) > before);
        self.status()
    }

    fn wait_for(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let until = Instant::now() + Duration::from_secs(10);
        while !done(self) {
            assert!(Instant::now() < until, "waited too long for {what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it with `signal`; its exit code and what it logged.
    fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        self.signal(signal);
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        assert!(!self.path("s.sock").exists(), "the socket is left behind");
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn spawn(config: &Path, socket: &Path, notify: Option<&Path>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["run", "-c"]).arg(config).arg("--socket").arg(socket).stderr(Stdio::piped()).env_remove("SLUICE_LOG");
    match notify {
        Some(path) => command.env("NOTIFY_SOCKET", path),
        None => command.env_remove("NOTIFY_SOCKET"),
    };
    command.spawn().unwrap()
}

#[test]
fn a_port_without_a_device_is_missing_told_once_and_no_reason_not_to_start() {
    let daemon = Daemon::start(GOOD);
    let ports: Value = serde_json::from_slice(&daemon.get("ports").stdout).unwrap();
    assert_eq!(ports["items"][0]["state"], "missing");
    assert_eq!(ports["items"][0]["why"], "device no-such-dev does not exist");
    daemon.reload();
    let (code, log) = daemon.end(Signal::TERM);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(log.matches("web-1: missing").count(), 1, "{log}");
    assert!(!log.contains('\u{1b}'), "colours where there is no terminal:\n{log}");
}

#[test]
fn reloads_are_all_or_nothing_and_the_status_tells_which() {
    let daemon = Daemon::start(GOOD);
    let first = daemon.status();
    assert_eq!(first["last_reload"], Value::Null);
    let generation = first["generation"].as_u64().unwrap();
    let hash = first["hash"].clone();

    daemon.write(&GOOD.replace("web-1", "web-2"));
    let after = daemon.reload();
    assert_eq!(after["last_reload"]["ok"], true);
    assert_eq!(after["generation"], generation + 1);
    assert_ne!(after["hash"], hash);

    daemon.write(&GOOD.replace("network: blue", "network: bleu"));
    for attempt in 2..=3 {
        let refused = daemon.reload();
        assert_eq!(refused["last_reload"]["ok"], false);
        assert_eq!(refused["last_reload"]["attempt"], attempt);
        assert_eq!(refused["generation"], generation + 1);
        assert_eq!(refused["hash"], after["hash"]);
        let error = refused["last_reload"]["error"].as_str().unwrap();
        assert!(error.contains("node.yaml:3:"), "{error}");
    }
    let ports: Value = serde_json::from_slice(&daemon.get("ports").stdout).unwrap();
    assert_eq!(ports["items"][0]["name"], "web-2");

    fs::remove_file(daemon.path("node.yaml")).unwrap();
    assert_eq!(daemon.reload()["last_reload"]["ok"], false);

    daemon.write(&GOOD.replace("1024", "2048"));
    let refused = daemon.reload();
    assert_eq!(
        refused["last_reload"]["error"],
        "datapath: umem.chunks, flows can not be changed while the daemon runs; restart it"
    );

    daemon.write(GOOD);
    let good = daemon.reload();
    assert_eq!((&good["last_reload"]["ok"], &good["hash"]), (&Value::Bool(true), &hash));
    assert_eq!(good["generation"], generation + 2);
    let (code, log) = daemon.end(Signal::INT);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("did you mean \"blue\"?"), "{log}");
}

#[test]
fn a_second_daemon_on_the_socket_is_refused_and_the_first_goes_on() {
    let daemon = Daemon::start(GOOD);
    let second = spawn(&daemon.path("node.yaml"), &daemon.path("s.sock"), None).wait_with_output().unwrap();
    assert_eq!(second.status.code(), Some(5));
    let told = String::from_utf8(second.stderr).unwrap();
    assert!(told.starts_with("sluice: another sluice daemon runs on "), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    daemon.status();
    assert_eq!(daemon.end(Signal::TERM).0, Some(0));
}

#[test]
fn what_a_killed_daemon_left_is_replaced_without_a_manual_step() {
    let mut daemon = Daemon::start(GOOD);
    let mut child = daemon.child.take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(daemon.path("s.sock").exists());
    daemon.child = Some(spawn(&daemon.path("node.yaml"), &daemon.path("s.sock"), None));
    daemon.wait_for("the second daemon", |daemon| daemon.try_status().is_some());
    assert_eq!(daemon.end(Signal::TERM).0, Some(0));
}

#[test]
fn the_service_manager_is_told_of_every_step() {
    let dir = tempfile::tempdir().unwrap();
    let notify = dir.path().join("notify");
    let manager = UnixDatagram::bind(&notify).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let next = || {
        let mut buffer = [0; 4096];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    fs::write(dir.path().join("node.yaml"), GOOD).unwrap();
    let mut child = spawn(&dir.path().join("node.yaml"), &dir.path().join("s.sock"), Some(&notify));
    assert_eq!(next(), "READY=1\n");
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let reloading = next();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    let ready = next();
    assert!(ready.starts_with("READY=1\nSTATUS=generation "), "{ready}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(next(), "STOPPING=1\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
