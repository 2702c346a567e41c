//! Rules: priority, match and action, written by the operator or made from what the operator wrote.

use crate::{
    field::Field,
    id::{PortId, Priority, RuleId, VlanId},
    matching::Match,
};

/// The tables of the pipeline that hold rules, in the order a packet meets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TableId {
    /// Anything the operator wants first.
    Classify,
    /// May this port send with these addresses?
    Security,
    /// May the sender open this?
    AclFrom,
    /// Where is the destination?
    Forward,
    /// May the receiver be reached?
    AclTo,
    /// How does it leave?
    Output,
}

impl TableId {
    /// All tables, in order.
    pub const ALL: [Self; 6] =
        [Self::Classify, Self::Security, Self::AclFrom, Self::Forward, Self::AclTo, Self::Output];

    /// The name used in YAML and in every report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classify => "classify",
            Self::Security => "security",
            Self::AclFrom => "acl-from",
            Self::Forward => "forward",
            Self::AclTo => "acl-to",
            Self::Output => "output",
        }
    }
}

/// What a rule asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// On to the next table.
    Allow,
    /// The packet dies here, and is counted under the table's drop reason.
    Drop,
    /// On to the next table with this mark, which later tables may match.
    Mark(u32),
    /// Out by this port, or wherever the network says, after the edits.
    Forward {
        /// Where to.
        to: Target,
        /// Header edits, in order.
        edits: Vec<Edit>,
    },
    /// On, after the edits.
    Edit(Vec<Edit>),
}

/// Where table `forward` may send a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Target {
    /// One port.
    Port(PortId),
    /// Every other port of the packet's L2 domain.
    Flood,
    /// Where the network's own switching would send it.
    Normal,
}

/// One header edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Edit {
    /// Sets a field of the key to a value. Allowed: MACs, IP addresses, DSCP, L4 ports.
    Set(Field, u128),
    /// Subtracts one from the TTL or hop limit; a packet whose TTL would reach zero is dropped.
    DecrementTtl,
    /// Leaves with this VLAN id whatever the output port's own rule, `None` for untagged.
    Vlan(Option<VlanId>),
}

/// A rule of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Identity for counters. Rules made from one line of YAML (one for IPv4 and one for IPv6, say) share it.
    pub id: RuleId,
    /// Higher wins.
    pub priority: Priority,
    /// Which packets.
    pub matches: Match,
    /// What to do with them.
    pub action: Action,
}
