//! The demo's world: six hosts, each a network namespace behind a veth, and the daemon in a seventh.

use std::{
    cell::RefCell,
    fs::{self, File},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use bench::netns::{self, Netns};
use dataplane::sys::link::{self, LinkFacts};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

use super::{Broken, CONFIG, broken};
use crate::{
    client,
    report::shape::{Drop as Dropped, List, Port, Reload, Rule, Status, Worker},
};

/// How long anything may take that has no limit of its own.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The daemon's process, for whoever must end it without the lab; zero when there is none.
static DAEMON: AtomicU32 = AtomicU32::new(0);

/// A host of the demo.
#[derive(Debug)]
pub(super) struct Host {
    /// Its port's and device's name.
    pub(super) name: &'static str,
    /// Last octet of its MAC and of its addresses.
    number: u8,
    /// MTU of both ends of its veth.
    mtu: u32,
    pub(super) netns: Netns,
}

/// The world.
#[derive(Debug)]
pub(super) struct Lab {
    switch: Netns,
    hosts: Vec<Host>,
    daemon: Option<Child>,
    config: RefCell<String>,
}

impl Lab {
    /// Makes the hosts and starts the daemon on [`CONFIG`].
    pub(super) fn new() -> Result<Self, Broken> {
        fs::create_dir_all(folder())?;
        let mut lab =
            Self { switch: Netns::new()?, hosts: Vec::new(), daemon: None, config: RefCell::new(CONFIG.to_owned()) };
        // A smaller MTU in front of db, so that a frame can be too long for it.
        for (name, number, mtu) in [
            ("web", 0x11, 1500),
            ("client", 0x12, 1500),
            ("db", 0x13, 1400),
            ("left", 0x21, 1500),
            ("right", 0x22, 1500),
            ("trunk", 0x23, 1500),
        ] {
            lab.hosts.push(Host { name, number, mtu, netns: Netns::new()? });
            lab.plug(name)?;
        }
        lab.write(CONFIG)?;
        lab.start()?;
        Ok(lab)
    }

    /// Makes a host's veth, and gives it what any Linux host has: a MAC and addresses.
    pub(super) fn plug(&self, name: &str) -> Result<(), Broken> {
        let host = self.host(name)?;
        self.switch.veth(name, &host.netns, "eth0", host.mtu)?;
        host.netns.ip(&format!("link set eth0 address {}", host.mac()))?;
        host.netns.ip(&format!("address add {}/24 dev eth0", host.ip4()))?;
        if host.number < 0x20 {
            host.netns.sysctl("net/ipv6/conf/eth0/accept_ra", "0")?;
            host.netns.sysctl("net/ipv6/conf/eth0/disable_ipv6", "0")?;
            host.netns.ip(&format!("address add {}/64 dev eth0 nodad", host.ip6()))?;
        }
        Ok(())
    }

    /// Deletes a host's veth.
    pub(super) fn unplug(&self, name: &str) -> Result<(), Broken> {
        Ok(self.switch.ip(&format!("link delete {name}"))?)
    }

    pub(super) fn host(&self, name: &str) -> Result<&Host, Broken> {
        self.hosts.iter().find(|host| host.name == name).ok_or_else(|| Broken(format!("no host {name}")))
    }

    /// What the kernel says of every host's device on the switch's side.
    pub(super) fn devices(&self) -> Result<Vec<LinkFacts>, Broken> {
        let names: Vec<&str> = self.hosts.iter().map(|host| host.name).collect();
        let ask = || -> io::Result<Vec<Option<LinkFacts>>> { names.iter().map(|name| link::facts(name)).collect() };
        Ok(self.switch.run(ask)??.into_iter().flatten().collect())
    }

    fn start(&mut self) -> Result<(), Broken> {
        // Ended by the kernel should the demo be killed; started from this thread, whose end is what the kernel looks at.
        let mut command = self.switch.command("setpriv");
        let child = command
            .args(["--pdeathsig", "TERM"])
            .arg(std::env::current_exe()?)
            .args(["run", "-c"])
            .arg(self.config_path())
            .arg("--socket")
            .arg(socket())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder().join("log"))?)
            .spawn()?;
        DAEMON.store(child.id(), Ordering::Relaxed);
        let daemon = self.daemon.insert(child);
        let mut ended = None;
        let ready = eventually(PATIENCE, || {
            ended = daemon.try_wait().ok().flatten();
            ended.is_some() || client::get::<List<Status>>(&socket(), "/v1/status").is_ok()
        });
        match (ready, ended) {
            (true, None) => Ok(()),
            (_, Some(status)) => broken(format!("the daemon ended with {status}:\n{}", self.log_tail())),
            (false, None) => broken(format!("the daemon does not answer:\n{}", self.log_tail())),
        }
    }

    /// Ends the daemon by SIGTERM; its exit code and how long it took.
    pub(super) fn stop(&mut self) -> Result<(Option<i32>, Duration), Broken> {
        let Some(mut daemon) = self.daemon.take() else { return broken("no daemon runs") };
        let started = Instant::now();
        kill_process(Pid::from_child(&daemon), Signal::TERM)?;
        let mut ended = None;
        if !eventually(PATIENCE, || {
            ended = daemon.try_wait().ok().flatten();
            ended.is_some()
        }) {
            self.daemon = Some(daemon);
            return broken("the daemon does not end");
        }
        DAEMON.store(0, Ordering::Relaxed);
        Ok((ended.and_then(|status| status.code()), started.elapsed()))
    }

    /// The configuration as it is in force.
    pub(super) fn config(&self) -> String {
        self.config.borrow().clone()
    }

    /// The configuration file.
    pub(super) fn config_path(&self) -> PathBuf {
        folder().join("demo.yaml")
    }

    fn write(&self, config: &str) -> Result<(), Broken> {
        Ok(fs::write(self.config_path(), config)?)
    }

    /// Replaces the file, sends SIGHUP and waits for the outcome.
    pub(super) fn reload(&self, config: &str) -> Result<Reload, Broken> {
        let last = |lab: &Self| -> Result<Option<Reload>, Broken> { Ok(lab.only::<Status>("status")?.last_reload) };
        let before = last(self)?.map_or(0, |reload| reload.attempt);
        self.write(config)?;
        let Some(daemon) = &self.daemon else { return broken("no daemon runs") };
        kill_process(Pid::from_child(daemon), Signal::HUP)?;
        let mut outcome = None;
        eventually(PATIENCE, || {
            outcome = last(self).ok().flatten().filter(|reload| reload.attempt > before);
            outcome.is_some()
        });
        match outcome {
            Some(reload) => {
                if reload.ok {
                    config.clone_into(&mut self.config.borrow_mut());
                } else {
                    self.write(&self.config())?;
                }
                Ok(reload)
            }
            None => broken("SIGHUP was not answered"),
        }
    }

    fn items<T: DeserializeOwned>(&self, what: &str) -> Result<Vec<T>, Broken> {
        Ok(client::get::<List<T>>(&socket(), &format!("/v1/{what}"))?.items)
    }

    fn only<T: DeserializeOwned>(&self, what: &str) -> Result<T, Broken> {
        self.items(what)?.pop().ok_or_else(|| Broken(format!("no {what}")))
    }

    pub(super) fn ports(&self) -> Result<Vec<Port>, Broken> {
        self.items("ports")
    }

    pub(super) fn port(&self, name: &str) -> Result<Port, Broken> {
        self.ports()?.into_iter().find(|port| port.name == name).ok_or_else(|| Broken(format!("no port {name}")))
    }

    pub(super) fn worker(&self) -> Result<Worker, Broken> {
        self.only("workers")
    }

    pub(super) fn drops(&self) -> Result<Vec<Dropped>, Broken> {
        self.items("drops")
    }

    /// Packets from `port` dropped for `reason` by `rule`.
    pub(super) fn dropped(&self, port: &str, reason: &str, rule: Option<&str>) -> Result<u64, Broken> {
        let counts = self
            .drops()?
            .into_iter()
            .filter(|drop| drop.port == port && drop.reason == reason && drop.rule.as_deref() == rule);
        Ok(counts.map(|drop| drop.packets).sum())
    }

    /// Packets that the rule of that name decided.
    pub(super) fn decided(&self, rule: &str) -> Result<u64, Broken> {
        Ok(self
            .items::<Rule>("tables")?
            .into_iter()
            .filter(|found| found.name == rule)
            .map(|found| found.packets)
            .sum())
    }

    /// The end of the daemon's log.
    pub(super) fn log_tail(&self) -> String {
        let log = fs::read_to_string(folder().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let from = lines.len().saturating_sub(20);
        lines.iter().skip(from).map(|line| format!("      | {line}\n")).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.kill();
            let _ = daemon.wait();
            DAEMON.store(0, Ordering::Relaxed);
        }
        let _ = fs::remove_dir_all(folder());
    }
}

impl Host {
    pub(super) fn mac(&self) -> String {
        format!("02:00:00:00:00:{:02x}", self.number)
    }

    pub(super) fn ip4(&self) -> IpAddr {
        // The number reads as the last octet: 0x11 is .11.
        let last = self.number / 16 * 10 + self.number % 16;
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
    }

    pub(super) fn ip6(&self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0xb, 0, 0, 0, 0, 0, u16::from(self.number)))
    }

    /// A socket address of the host, of the family of `like`.
    pub(super) fn at(&self, like: Family, port: u16) -> SocketAddr {
        let address = match like {
            Family::V4 => self.ip4(),
            Family::V6 => self.ip6(),
        };
        SocketAddr::new(address, port)
    }

    /// What a command prints on the host.
    pub(super) fn output(&self, program: &str, arguments: &[&str]) -> Result<String, Broken> {
        let output = self.netns.command(program).args(arguments).output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(printed);
        }
        broken(format!("{program} {}: {printed}{}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
    }
}

/// An IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// Ends the daemon and removes the namespaces and files of this process, for an end without drops.
pub(super) fn clean_up() {
    let pid = i32::try_from(DAEMON.load(Ordering::Relaxed)).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::KILL);
    }
    netns::remove_own();
    let _ = fs::remove_dir_all(folder());
}

/// Files of the demo.
fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("sluice-demo-{}", std::process::id()))
}

fn socket() -> PathBuf {
    folder().join("sluice.sock")
}

/// True once `condition` is, false when it is not within `limit`.
pub(super) fn eventually(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Removes what demos that were killed have left: their namespaces go when new ones are made, their folders here.
pub(super) fn remove_abandoned() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("sluice-demo-"));
        if pid.is_some_and(|pid| pid.bytes().all(|b| b.is_ascii_digit()) && !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Fails with the name of a program of the system that is missing.
pub(super) fn require(programs: &[&str]) -> Result<(), Broken> {
    for program in programs {
        if Command::new(program).arg("-V").output().is_err() {
            return broken(format!("{program} is not installed (make setup installs what is needed)"));
        }
    }
    Ok(())
}
