//! The demo's world: six hosts, each a network namespace behind a veth, and the daemon in a seventh.

use std::{io, sync::Arc};

use bench::netns::Netns;
use dataplane::sys::link::{self, LinkFacts};

use super::{Broken, broken, daemon::Daemon, hosts::Host, remains::Remains};

/// The hosts: name, number, and MTU of both ends of the veth. One is smaller, so that a packet can be too long for it.
const HOSTS: &[(&str, u8, u32)] = &[
    ("web", 0x11, 1500),
    ("client", 0x12, 1500),
    ("db", 0x13, 1400),
    ("left", 0x21, 1500),
    ("right", 0x22, 1500),
    ("trunk", 0x23, 1500),
];

/// Those that the demo's file has on the network of VLANs.
const WIRES: &[&str] = &["left", "right", "trunk"];

/// The world.
#[derive(Debug)]
pub(super) struct Lab {
    /// The daemon.
    pub(super) daemon: Daemon,
    switch: Arc<Netns>,
    hosts: Vec<Host>,
}

impl Lab {
    /// Makes the hosts and starts the daemon.
    pub(super) fn new(remains: &Arc<Remains>) -> Result<Self, Broken> {
        let switch = remains.namespace("switch")?;
        let daemon = Daemon::new(remains, &switch)?;
        let mut lab = Self { daemon, switch, hosts: Vec::new() };
        for &(name, number, mtu) in HOSTS {
            lab.hosts.push(Host { name, number, mtu, netns: remains.namespace(name)? });
            lab.plug(name)?;
        }
        lab.daemon.start()?;
        Ok(lab)
    }

    /// What there is, for the first line.
    pub(super) fn describe(&self) -> String {
        let names: Vec<&str> = self.hosts.iter().map(|host| host.name).collect();
        format!("      hosts {}; the switch runs {}", names.join(", "), self.daemon.config_path().display())
    }

    /// Makes a host's veth, and gives it what any Linux host has: a MAC and addresses. Nothing else of the host is touched.
    /// Those on the wires speak no IP: what they send is what the demo sends, to the frame.
    pub(super) fn plug(&self, name: &str) -> Result<(), Broken> {
        let host = self.host(name)?;
        if WIRES.contains(&name) {
            host.netns.sysctl("net/ipv6/conf/default/disable_ipv6", "1")?;
        }
        // The MAC before the device is up: a host's link-local address is made of it then (RFC 4291, 2.5.6), and is guarded.
        let (mtu, mac, netns) = (host.mtu, host.mac(), host.netns.name());
        self.switch
            .ip(&format!("link add {name} mtu {mtu} type veth peer name eth0 mtu {mtu} address {mac} netns {netns}"))?;
        self.switch.ip(&format!("link set {name} up"))?;
        host.netns.ip("link set eth0 up")?;
        if !WIRES.contains(&name) {
            host.netns.ip(&format!("address add {}/24 dev eth0", host.ip4()))?;
            host.netns.ip(&format!("address add {}/64 dev eth0 nodad", host.ip6()))?;
        }
        Ok(())
    }

    /// Deletes a host's veth.
    pub(super) fn unplug(&self, name: &str) -> Result<(), Broken> {
        Ok(self.switch.ip(&format!("link delete {name}"))?)
    }

    /// The host of that name.
    pub(super) fn host(&self, name: &str) -> Result<&Host, Broken> {
        match self.hosts.iter().find(|host| host.name == name) {
            Some(host) => Ok(host),
            None => broken(format!("a host {name}"), "none"),
        }
    }

    /// The hosts.
    pub(super) fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// What the kernel says of every host's device on the switch's side.
    pub(super) fn devices(&self) -> Result<Vec<LinkFacts>, Broken> {
        let ask =
            || -> io::Result<Vec<Option<LinkFacts>>> { self.hosts.iter().map(|host| link::facts(host.name)).collect() };
        Ok(self.switch.run(ask)??.into_iter().flatten().collect())
    }
}
