//! Everything the operator decided, in the packet core's terms: what a pipeline is built from.

use core::{net::IpAddr, time::Duration};

use crate::{
    id::{NetworkId, PortId, RuleId, VlanId, Vni},
    mac::MacAddr,
    rule::{Rule, TableId},
};

/// A checked policy. Names are kept for reports; the packet path uses identifiers only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The ports, in ascending order of identifier.
    pub ports: Vec<PortPolicy>,
    /// The networks, in ascending order of identifier.
    pub networks: Vec<NetworkPolicy>,
    /// The rules of each table, in the order of [`TableId::ALL`]. Order inside a table decides nothing but which of two
    /// rules with equal priority and equal action is named.
    pub tables: [Vec<Rule>; TableId::ALL.len()],
    /// What each rule identifier stands for, in ascending order of identifier.
    pub rules: Vec<RuleName>,
}

/// A rule identifier's name and table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleName {
    /// The identifier.
    pub id: RuleId,
    /// Table it is in.
    pub table: TableId,
    /// Name the operator gave, or one that says which object it was made from.
    pub name: String,
}

/// What a port is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PortKind {
    /// A workload.
    #[default]
    Workload,
    /// The underlay.
    Uplink,
}

/// A port as the pipeline sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortPolicy {
    /// Identifier.
    pub id: PortId,
    /// Name.
    pub name: String,
    /// What it is attached to.
    pub kind: PortKind,
    /// Network it is in; a port without one forwards only by rules of table `forward`.
    pub network: Option<NetworkId>,
    /// How VLAN tags are read and written on it.
    pub vlan: VlanMode,
    /// The MAC its workload has; entered in the forwarding database as static.
    pub mac: Option<MacAddr>,
    /// The addresses its workload has.
    pub addresses: Vec<IpAddr>,
    /// True when it is in a group with `from` rules: what no rule of `acl-from` allows is denied.
    pub guarded_from: bool,
    /// True when it is in a group with `to` rules: what no rule of `acl-to` allows is denied.
    pub guarded_to: bool,
}

/// How a port reads and writes IEEE 802.1Q tags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum VlanMode {
    /// Every VLAN, tags kept as they are; an untagged frame is in VLAN 0.
    #[default]
    All,
    /// Untagged only; the frames are in this VLAN.
    Access(VlanId),
    /// Tagged, in one of these VLANs; untagged frames are in `native` where one is given and dropped otherwise.
    Trunk {
        /// VLANs carried tagged, ascending.
        tagged: Vec<VlanId>,
        /// The VLAN carried untagged.
        native: Option<VlanId>,
    },
}

/// A network as the pipeline sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// Identifier.
    pub id: NetworkId,
    /// Name.
    pub name: String,
    /// Overlay identifier, for a network that spans nodes.
    pub vni: Option<Vni>,
    /// Addresses the switch itself answers for.
    pub gateways: Vec<IpAddr>,
    /// The MAC of those addresses.
    pub gateway_mac: MacAddr,
    /// How long a learned MAC is believed without a packet from it.
    pub aging: Duration,
    /// The most MACs learned in the network; beyond it frames are flooded and nothing is learned.
    pub mac_limit: u32,
}
