//! A checked configuration: what the file says, in types, with every name known to exist.

use core::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use flow_table::{
    field::Field,
    id::{Priority, Vni},
    mac::MacAddr,
    matching::Term,
    policy::{PortKind, VlanMode},
    rule::{Edit, TableId},
};
use ipnet::IpNet;

use crate::place::At;

/// The MAC of gateways of a network that names none: locally administered, the same on every host, so that a workload
/// that moves keeps its neighbour entry.
pub const GATEWAY_MAC: MacAddr = MacAddr([0x02, 0x73, 0x6c, 0x75, 0x00, 0x01]);

/// A checked configuration.
///
/// Two models are equal when they ask for the same; where in the file that is written does not count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    /// This host, where the file names it.
    pub node: Option<Node>,
    /// The packet engine.
    pub datapath: Datapath,
    /// The ports, as written.
    pub ports: Vec<At<Port>>,
    /// The networks, as written.
    pub networks: Vec<At<Network>>,
    /// Named lists of addresses.
    pub sets: Vec<At<AddressSet>>,
    /// Access rules shared by ports; their rules are in [`rules`](Self::rules).
    pub groups: Vec<At<Group>>,
    /// Every rule: those of `flows`, of the groups, and those made from a port's `mac` and `addresses`.
    pub rules: Vec<At<Rule>>,
}

/// This host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Name in reports.
    pub name: At<String>,
    /// Underlay address that ends tunnels here.
    pub vtep: Option<At<IpAddr>>,
}

/// Settings of the packet engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datapath {
    /// The packet threads; exactly one in this version.
    pub workers: Vec<Worker>,
    /// Whether a worker sleeps when no packet comes.
    pub poll: Poll,
    /// Frames that the UMEM holds, a power of two.
    pub umem_chunks: u32,
    /// Slots of each AF_XDP ring, a power of two.
    pub ring: u32,
    /// The most flows remembered.
    pub flows: u32,
}

impl Default for Datapath {
    fn default() -> Self {
        Self { workers: vec![Worker::default()], poll: Poll::Adaptive, umem_chunks: 16_384, ring: 2048, flows: 1 << 18 }
    }
}

/// A packet thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Worker {
    /// CPU it is pinned to.
    pub core: Option<u16>,
}

/// Whether a worker sleeps when no packet comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Poll {
    /// It sleeps until one comes.
    #[default]
    Adaptive,
    /// It never sleeps.
    Busy,
}

/// What an uplink leaves to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostSharing {
    /// Every frame that is not for the switch.
    #[default]
    Shared,
    /// Nothing.
    Exclusive,
}

/// How a port is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// An AF_XDP socket on the device.
    #[default]
    AfXdp,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: At<String>,
    /// The network device.
    pub device: At<String>,
    /// Workload or uplink.
    pub kind: PortKind,
    /// How it is attached.
    pub mode: Mode,
    /// Of an uplink: what it leaves to the host.
    pub host: HostSharing,
    /// The network it is in.
    pub network: Option<At<String>>,
    /// How VLAN tags are read and written.
    pub vlan: VlanMode,
    /// The workload's MAC.
    pub mac: Option<At<MacAddr>>,
    /// The workload's addresses, as prefixes of full length; an uplink's, with the prefix lengths of their networks.
    pub addresses: Vec<At<IpNet>>,
    /// Groups that guard it.
    pub groups: Vec<At<String>>,
    /// True when it may send only with its `mac` and `addresses`, where it has any.
    pub security: bool,
    /// Queues the device must have, all of which are served; as many as it has when `None`.
    pub queues: Option<u16>,
    /// Largest IP packet in bytes; the device's own when `None`. Whether it fits the device is seen at attach.
    pub mtu: Option<At<u16>>,
}

/// A network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Its name.
    pub name: At<String>,
    /// Overlay id.
    pub vni: Option<At<Vni>>,
    /// Address ranges in use on it.
    pub subnets: Vec<Subnet>,
    /// MAC of its gateways.
    pub gateway_mac: At<MacAddr>,
    /// How long a learned MAC is believed without a packet from it.
    pub aging: Duration,
    /// The most MACs learned.
    pub mac_limit: u32,
}

/// An address range of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    /// The range.
    pub cidr: At<IpNet>,
    /// Address in it that the switch itself answers for.
    pub gateway: Option<At<IpAddr>>,
}

/// A named list of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressSet {
    /// Its name.
    pub name: At<String>,
    /// Its addresses and prefixes, as written.
    pub cidrs: Vec<IpNet>,
}

/// Access rules shared by ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: At<String>,
    /// True when it has the key `from`: members send only what its rules allow.
    pub has_from: bool,
    /// True when it has the key `to`: members receive only what its rules allow.
    pub has_to: bool,
}

/// A rule of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its name, unique among rules.
    pub name: String,
    /// The table it is in.
    pub table: TableId,
    /// Higher wins.
    pub priority: Priority,
    /// The packets it is for: those that satisfy all conditions of one of these lists. A rule about IPv4 and IPv6 has
    /// a list for each.
    pub matches: Vec<Vec<Condition>>,
    /// What to do with them.
    pub action: Action,
    /// The rule as the operator wrote it.
    pub text: RuleText,
}

/// A rule as written, each part on one line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RuleText {
    /// Its match.
    pub matches: String,
    /// Its action.
    pub action: String,
}

/// One condition on a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The field satisfies one of the terms.
    Field(Field, Vec<Term>),
    /// It came in by one of these ports.
    In(Vec<String>),
    /// It leaves by one of these ports.
    Out(Vec<String>),
    /// It is in one of these networks.
    Network(Vec<String>),
}

/// What a rule asks for, ports by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// On to the next table.
    Allow,
    /// The packet dies here.
    Drop,
    /// On to the next table with this mark.
    Mark(u32),
    /// Out, after the edits.
    Forward {
        /// Where to.
        to: To,
        /// Header edits, in order.
        edits: Vec<Edit>,
    },
    /// On, after the edits.
    Edit(Vec<Edit>),
}

/// Where table `forward` sends a packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum To {
    /// The port of this name.
    Port(String),
    /// Every other port of the packet's L2 domain.
    Flood,
    /// Where the network's own switching would send it.
    Normal,
}

impl Model {
    /// The network of this name.
    #[must_use]
    pub fn network(&self, name: &str) -> Option<&At<Network>> {
        self.networks.iter().find(|network| *network.name == name)
    }
}

impl Port {
    /// Its addresses without prefix lengths.
    pub fn hosts(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.addresses.iter().map(|net| net.addr())
    }
}

impl At<String> {
    /// The text.
    #[must_use]
    pub const fn as_str(&self) -> &str {
        self.value.as_str()
    }
}

/// Addresses as the terms of a condition, for IPv4 and for IPv6.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    pub(crate) v4: (Field, Vec<Term>),
    pub(crate) v6: (Field, Vec<Term>),
}

impl Addresses {
    /// Of prefixes, in the fewest terms that mean the same.
    pub(crate) fn of(nets: &[IpNet], v4: Field, v6: Field) -> Self {
        let mut addresses = Self { v4: (v4, Vec::new()), v6: (v6, Vec::new()) };
        for net in IpNet::aggregate(&nets.to_vec()) {
            let length = u32::from(net.prefix_len());
            match net {
                IpNet::V4(net) => addresses.v4.1.push(Term::prefix(v4, bits4(net.network()), length)),
                IpNet::V6(net) => addresses.v6.1.push(Term::prefix(v6, bits6(net.network()), length)),
            }
        }
        addresses
    }
}

/// An IPv4 address as a field's value.
pub(crate) fn bits4(address: Ipv4Addr) -> u128 {
    u128::from(address.to_bits())
}

/// An IPv6 address as a field's value.
pub(crate) const fn bits6(address: Ipv6Addr) -> u128 {
    address.to_bits()
}
