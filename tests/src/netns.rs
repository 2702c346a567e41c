//! Network namespaces that end with the test, and devices in them. Failing to build the world of a test fails the test.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test whose world can not be made must fail at once"
)]

use std::process::Command;

use bench::netns::Netns as Fallible;

/// A network namespace, deleted when dropped, with IPv6 off so that devices send nothing of their own.
#[derive(Debug)]
pub struct Netns(Fallible);

impl Netns {
    /// Makes one with a name of its own and its loopback up. Removes those that killed processes have left.
    #[must_use]
    pub fn new() -> Self {
        assert!(rustix::process::geteuid().is_root(), "this test makes network namespaces: run it as root");
        Self(Fallible::new().expect("a network namespace"))
    }

    /// The namespace itself, for what may fail.
    #[must_use]
    pub const fn get(&self) -> &Fallible {
        &self.0
    }

    /// Its name, as `ip netns` shows it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Runs `ip` with these space-separated arguments in the namespace.
    pub fn ip(&self, arguments: &str) {
        self.0.ip(arguments).expect("a change of the namespace");
    }

    /// Sets a sysctl of the namespace, such as `net/ipv4/ip_forward`.
    pub fn sysctl(&self, name: &str, value: &str) {
        self.0.sysctl(name, value).expect("a sysctl of the namespace");
    }

    /// A command that will run in the namespace.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        self.0.command(program)
    }

    /// Runs `work` on a thread of its own inside the namespace. A panic in it goes on in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.run(work).expect("entering the namespace")
    }

    /// Makes a veth pair: `here` in this namespace, `there` in `other`, both up with this MTU.
    pub fn veth(&self, here: &str, other: &Self, there: &str, mtu: u32) {
        self.0.veth(here, &other.0, there, mtu).expect("a veth");
    }

    /// As [`veth`](Self::veth), where `here` has `queues` receive queues and `there` as many transmit queues.
    pub fn veth_with_queues(&self, here: &str, other: &Self, there: &str, mtu: u32, queues: u16) {
        self.0.veth_with_queues(here, &other.0, there, mtu, queues).expect("a veth");
    }
}

impl Default for Netns {
    fn default() -> Self {
        Self::new()
    }
}
