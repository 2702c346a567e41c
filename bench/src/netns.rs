//! Network namespaces that end with what they were made for, and devices in them.
//!
//! Every change is made inside a namespace made here; nothing outside is touched.

use std::{
    fs::File,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::{
    process::{Pid, Signal, kill_process},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use crate::error::BenchError;

const PREFIX: &str = "slb";
const FOLDER: &str = "/run/netns";

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Whether this process may make namespaces.
#[must_use]
pub fn permitted() -> bool {
    rustix::process::geteuid().is_root()
}

/// A network namespace, deleted when dropped.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes one with a name of its own and its loopback up, with IPv6 off so that devices send nothing of their own.
    /// Removes those that killed processes have left.
    ///
    /// # Errors
    /// [`BenchError::Program`] when `ip` refuses, [`BenchError::Io`] when a sysctl can not be set.
    pub fn new() -> Result<Self, BenchError> {
        remove_abandoned(PREFIX);
        let netns = Self::labelled(PREFIX, &COUNT.fetch_add(1, Ordering::Relaxed).to_string())?;
        netns.sysctl("net/ipv6/conf/all/disable_ipv6", "1")?;
        netns.sysctl("net/ipv6/conf/default/disable_ipv6", "1")?;
        Ok(netns)
    }

    /// Makes one named `PREFIX-PID-LABEL` as the kernel makes it, with its loopback up; [`remove_abandoned`] knows it by that
    /// name.
    ///
    /// # Errors
    /// [`BenchError::Program`] when `ip` refuses.
    pub fn labelled(prefix: &str, label: &str) -> Result<Self, BenchError> {
        let name = format!("{prefix}-{}-{label}", std::process::id());
        succeed(Command::new("ip").args(["netns", "add", &name]))?;
        let netns = Self { name };
        netns.ip("link set lo up")?;
        Ok(netns)
    }

    /// Its name, as `ip netns` shows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these space-separated arguments in the namespace.
    ///
    /// # Errors
    /// [`BenchError::Program`] with what `ip` said.
    pub fn ip(&self, arguments: &str) -> Result<(), BenchError> {
        succeed(Command::new("ip").args(["-n", &self.name]).args(arguments.split_whitespace())).map(drop)
    }

    /// As [`ip`](Self::ip); what it printed.
    ///
    /// # Errors
    /// [`BenchError::Program`] with what `ip` said.
    pub fn ask_ip(&self, arguments: &str) -> Result<String, BenchError> {
        let output = succeed(Command::new("ip").args(["-n", &self.name]).args(arguments.split_whitespace()))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Deletes its name now; what is still inside keeps the rest alive.
    pub fn delete(&self) {
        delete(&self.name);
    }

    /// Sets a sysctl of the namespace, such as `net/ipv4/ip_forward`.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub fn sysctl(&self, name: &str, value: &str) -> Result<(), BenchError> {
        let path = Path::new("/proc/sys").join(name);
        self.run(|| std::fs::write(path, value))?.map_err(BenchError::io("setting a sysctl"))
    }

    /// A command that will run in the namespace.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs `work` on a thread of its own inside the namespace. A panic in it goes on in the caller.
    ///
    /// # Errors
    /// [`BenchError::Io`] when the namespace can not be entered.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, BenchError> {
        let path = self.path();
        let entered = move || {
            let file = File::open(path)?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        std::thread::scope(|scope| match scope.spawn(entered).join() {
            Ok(value) => value.map_err(BenchError::io("entering a network namespace")),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Makes a veth pair: `here` in this namespace, `there` in `other`, both up with this MTU.
    ///
    /// # Errors
    /// [`BenchError::Program`].
    pub fn veth(&self, here: &str, other: &Self, there: &str, mtu: u32) -> Result<(), BenchError> {
        self.veth_with_queues(here, other, there, mtu, 1)
    }

    /// As [`veth`](Self::veth), where `here` has `queues` receive queues and `there` as many transmit queues.
    ///
    /// # Errors
    /// [`BenchError::Program`].
    pub fn veth_with_queues(
        &self,
        here: &str,
        other: &Self,
        there: &str,
        mtu: u32,
        queues: u16,
    ) -> Result<(), BenchError> {
        self.ip(&format!(
            "link add {here} mtu {mtu} numrxqueues {queues} numtxqueues 1 type veth \
             peer name {there} mtu {mtu} numrxqueues 1 numtxqueues {queues} netns {}",
            other.name
        ))?;
        self.ip(&format!("link set {here} up"))?;
        other.ip(&format!("link set {there} up"))
    }

    fn path(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.name)
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        delete(&self.name);
    }
}

fn delete(name: &str) {
    // Best effort, also while panicking: what stays is removed by the next run.
    let _ = Command::new("ip").args(["netns", "del", name]).output();
}

/// Deletes namespaces of this prefix whose makers are gone, and ends what still runs in them.
pub fn remove_abandoned(prefix: &str) {
    let Ok(entries) = std::fs::read_dir(FOLDER) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if let Some(name) = name.to_str()
            && let Some((pid, _)) = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')?.split_once('-'))
            && is_gone(pid)
        {
            end_processes(name);
            delete(name);
        }
    }
}

/// True for the number of a process that is no more.
#[must_use]
pub fn is_gone(pid: &str) -> bool {
    !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()) && !Path::new("/proc").join(pid).exists()
}

/// Kills what runs in a namespace.
fn end_processes(name: &str) {
    let Ok(output) = Command::new("ip").args(["netns", "pids", name]).output() else { return };
    for pid in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(pid) = pid.trim().parse().ok().and_then(Pid::from_raw) {
            // One that has just ended needs no killing.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn succeed(command: &mut Command) -> Result<Output, BenchError> {
    let program = format!("{command:?}");
    match command.output() {
        Ok(output) if output.status.success() => Ok(output),
        Ok(output) => Err(BenchError::Program { program, why: String::from_utf8_lossy(&output.stderr).into_owned() }),
        Err(error) => Err(BenchError::Program { program, why: error.to_string() }),
    }
}
