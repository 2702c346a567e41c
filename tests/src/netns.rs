//! Network namespaces that end with the test, and devices in them.
//!
//! Every change is made inside a namespace made here; nothing outside is touched. Failing to build the world of a test fails
//! the test, by panic.
#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test whose world can not be made must fail at once"
)]

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const PREFIX: &str = "slt";
const FOLDER: &str = "/run/netns";

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A network namespace, deleted when dropped, with IPv6 off so that devices send nothing of their own.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes one with a name of its own and its loopback up. Removes those that killed test processes have left.
    #[must_use]
    pub fn new() -> Self {
        assert!(rustix::process::geteuid().is_root(), "this test makes network namespaces: run it as root");
        remove_abandoned();
        let name = format!("{PREFIX}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        succeed(Command::new("ip").args(["netns", "add", &name]));
        let netns = Self { name };
        netns.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
        netns.sysctl("net/ipv6/conf/default/disable_ipv6", "1");
        netns.ip("link set lo up");
        netns
    }

    /// Its name, as `ip netns` shows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these space-separated arguments in the namespace.
    pub fn ip(&self, arguments: &str) {
        succeed(Command::new("ip").args(["-n", &self.name]).args(arguments.split_whitespace()));
    }

    /// Sets a sysctl of the namespace, such as `net/ipv4/ip_forward`.
    pub fn sysctl(&self, name: &str, value: &str) {
        let path = Path::new("/proc/sys").join(name);
        self.run(|| std::fs::write(&path, value)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// A command that will run in the namespace.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs `work` on a thread of its own inside the namespace. A panic in it goes on in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = self.path();
        let entered = move || {
            let file = File::open(path).expect("the namespace's file");
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network))
                .expect("entering the namespace");
            work()
        };
        std::thread::scope(|scope| match scope.spawn(entered).join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Makes a veth pair: `here` in this namespace, `there` in `other`, both up with this MTU.
    pub fn veth(&self, here: &str, other: &Self, there: &str, mtu: u32) {
        self.veth_with_queues(here, other, there, mtu, 1);
    }

    /// As [`veth`](Self::veth), where `here` has `queues` receive queues and `there` as many transmit queues.
    pub fn veth_with_queues(&self, here: &str, other: &Self, there: &str, mtu: u32, queues: u16) {
        self.ip(&format!(
            "link add {here} mtu {mtu} numrxqueues {queues} numtxqueues 1 type veth \
             peer name {there} mtu {mtu} numrxqueues 1 numtxqueues {queues} netns {}",
            other.name
        ));
        self.ip(&format!("link set {here} up"));
        other.ip(&format!("link set {there} up"));
    }

    fn path(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.name)
    }
}

impl Default for Netns {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        delete(&self.name);
    }
}

fn delete(name: &str) {
    // Best effort, also while panicking: what stays is removed by the next test.
    let _ = Command::new("ip").args(["netns", "del", name]).output();
}

/// Deletes namespaces of test processes that are gone.
fn remove_abandoned() {
    let Ok(entries) = std::fs::read_dir(FOLDER) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let mut parts = name.split('-');
        if parts.next() == Some(PREFIX)
            && let Some(pid) = parts.next()
            && pid.bytes().all(|byte| byte.is_ascii_digit())
            && !Path::new("/proc").join(pid).exists()
        {
            delete(name);
        }
    }
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}
