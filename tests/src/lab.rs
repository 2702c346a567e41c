//! A host with a switch, and workloads each in a namespace of its own: nothing in those is changed but addresses.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test whose world can not be made must fail at once"
)]

use std::{
    fs::File,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use dataplane::sys::link;
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use crate::{
    netns::Netns,
    netns_packet::{PacketSocket, frame},
    program::ended,
    wait::{timed, wait_until},
};

/// The switch's namespace and those of its workloads. Only one lab of a machine exists at a time, since they need its CPUs.
#[derive(Debug)]
pub struct Lab {
    /// Where the daemon runs.
    pub switch: Netns,
    /// The workloads, numbered from 1.
    pub tenants: Vec<Tenant>,
    _turn: File,
}

/// A workload behind port `pN`: `eth0` with the addresses of [`ip4`], [`ip6`] and [`mac`].
#[derive(Debug)]
pub struct Tenant {
    /// Its namespace.
    pub netns: Netns,
    /// Its number.
    pub number: u8,
}

impl Lab {
    /// A switch with this many workloads, each behind a veth of MTU 1500.
    #[must_use]
    pub fn new(tenants: u8) -> Self {
        let turn = File::create(std::env::temp_dir().join("sluice-lab.lock")).expect("the lock of labs");
        flock(&turn, FlockOperation::LockExclusive).expect("the lock of labs");
        let mut lab = Self { switch: Netns::new(), tenants: Vec::new(), _turn: turn };
        for number in 1..=tenants {
            lab.tenants.push(Tenant { netns: Netns::new(), number });
            lab.plug(number, 1500);
        }
        lab
    }

    /// Makes the veth of workload `number` with this MTU on both ends, and its addresses.
    pub fn plug(&self, number: u8, mtu: u32) {
        let tenant = self.tenant(number);
        let port = format!("p{number}");
        self.switch.veth(&port, tenant, "eth0", mtu);
        tenant.ip(&format!("link set eth0 address {}", mac_text(number)));
        tenant.ip(&format!("address add {}/24 dev eth0", ip4(number)));
        tenant.sysctl("net/ipv6/conf/eth0/disable_ipv6", "0");
        tenant.sysctl("net/ipv6/conf/eth0/accept_ra", "0");
        tenant.ip(&format!("address add {}/64 dev eth0 nodad", ip6(number)));
    }

    /// The namespace of workload `number`.
    #[must_use]
    pub fn tenant(&self, number: u8) -> &Netns {
        &self.tenants.get(usize::from(number) - 1).expect("a workload of that number").netns
    }

    /// A configuration with every workload on one network, and `more` at its end.
    #[must_use]
    pub fn config(&self, more: &str) -> String {
        let ports: String = self
            .tenants
            .iter()
            .map(|tenant| format!("  - {{ name: p{0}, device: p{0}, network: lan }}\n", tenant.number))
            .collect();
        format!("{HEAD}networks: [{{ name: lan }}]\nports:\n{ports}{more}")
    }

    /// A packet socket on the device of workload `number`.
    #[must_use]
    pub fn socket(&self, number: u8) -> PacketSocket {
        PacketSocket::open(self.tenant(number), "eth0")
    }

    /// Sends broadcasts from one workload until another receives one, and says how long that took. `None` when none arrives
    /// `within`.
    #[must_use]
    pub fn probe(&self, from: u8, to: u8, within: Duration) -> Option<Duration> {
        static SEED: AtomicU32 = AtomicU32::new(0);
        let probe = frame([0xff; 6], mac(from), 60, SEED.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = (self.socket(from), self.socket(to));
        let step = Duration::from_millis(2);
        let arrives = || {
            sender.send(&probe).expect("a frame sent");
            std::iter::from_fn(|| receiver.receive(step)).any(|received| received == probe)
        };
        let (arrived, took) = timed(|| wait_until(within, arrives));
        arrived.then_some(took)
    }

    /// The XDP program on a device of the switch's namespace.
    #[must_use]
    pub fn xdp_program(&self, device: &str) -> Option<u32> {
        let facts = self.switch.run(|| link::facts(device)).expect("facts of a device");
        facts.expect("a device").xdp_program
    }

    /// How many have asked a device of the switch's namespace to be promiscuous.
    #[must_use]
    pub fn promiscuity(&self, device: &str) -> u64 {
        self.link(device).pointer("/0/promiscuity").and_then(Value::as_u64).expect("promiscuity")
    }

    /// What `ip` says of a device of the switch's namespace.
    #[must_use]
    pub fn link(&self, device: &str) -> Value {
        let mut ip = Command::new("ip");
        let said = ended(ip.args(["-n", self.switch.name(), "-d", "-s", "-j", "link", "show", device]));
        serde_json::from_str(&said.stdout).expect("JSON of ip")
    }
}

/// What every configuration of a lab begins with: little memory, so that a start is quick.
pub const HEAD: &str = "\
apiVersion: sluice/v1
datapath: { ring: 1024, flows: 16384, umem: { chunks: 8192 } }
";

/// The MAC of workload `number`.
#[must_use]
pub const fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

/// The same as text.
#[must_use]
pub fn mac_text(number: u8) -> String {
    format!("02:00:00:00:00:{number:02x}")
}

/// The IPv4 address of workload `number`.
#[must_use]
pub const fn ip4(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

/// The IPv6 address of workload `number`.
#[must_use]
pub const fn ip6(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number as u16)
}

/// Both addresses of workload `number`.
#[must_use]
pub const fn addresses(number: u8) -> [IpAddr; 2] {
    [IpAddr::V4(ip4(number)), IpAddr::V6(ip6(number))]
}
