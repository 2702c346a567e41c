//! What became of a frame. Each has exactly one fate.

use crate::rule::TableId;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $why:literal;)*) => {
        /// Why a packet died: the closed list. Each has a counter from the start.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[$doc])* $name,)*
        }

        impl DropReason {
            /// Every reason, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name used in every report; stable.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// One sentence for a person.
            #[must_use]
            pub const fn explain(self) -> &'static str {
                match self { $(Self::$name => $why,)* }
            }
        }
    };
}

reasons! {
    /// Fewer than 14 bytes.
    Runt = "runt", "the frame is shorter than an Ethernet header";
    /// A length or header that contradicts the bytes present, or that its protocol forbids.
    Malformed = "malformed", "a header's length or version contradicts the bytes of the frame";
    /// More than the output port's MTU, or a chunk, holds.
    Oversize = "oversize", "the frame is longer than the output port's MTU or a chunk";
    /// A source MAC no station may have.
    BadSource = "bad_source", "the source MAC is a group address or zero";
    /// 01:80:c2:00:00:00 to 0f.
    LinkLocalControl = "link_local_control", "a bridge does not forward link control frames (STP, LLDP, LACP)";
    /// The port does not carry this VLAN.
    Vlan = "vlan", "the port does not carry the frame's VLAN, or it has more than one tag";
    /// A rule of table `classify`.
    Classify = "classify", "a rule of table classify drops it";
    /// Table `security`.
    Security = "security", "the port may not send with these addresses";
    /// A rule of table `acl-from`.
    AclFrom = "acl_from", "a rule of table acl-from denies it";
    /// No rule of table `acl-from`, and the sender is in a group.
    AclFromDefault = "acl_from_default", "no rule of acl-from allows what this port sends";
    /// A rule of table `forward`.
    Forward = "forward", "a rule of table forward drops it";
    /// A rule of table `acl-to`.
    AclTo = "acl_to", "a rule of table acl-to denies it";
    /// No rule of table `acl-to`, and the receiver is in a group.
    AclToDefault = "acl_to_default", "no rule of acl-to allows what this port receives";
    /// A rule of table `output`.
    Output = "output", "a rule of table output drops it";
    /// The destination is on the port the frame came from.
    SamePort = "same_port", "the destination is behind the port the frame came from";
    /// Neither a network nor a rule of table `forward` knows where to send it.
    NoDestination = "no_destination", "no other port may receive it";
    /// The TTL or hop limit would reach zero (RFC 1812, 5.3.1).
    TtlExpired = "ttl_expired", "the TTL would reach zero";
    /// To an address of the switch itself, and not something it answers.
    NotAnswered = "not_answered", "it is for an address of the switch, which does not answer this";
    /// The output port's device is gone.
    PortMissing = "port_missing", "the output port is not attached";
    /// The output port's ring or queue was full.
    TxFull = "tx_full", "the output port had no room";
    /// No free chunk for a copy or an answer.
    NoChunk = "no_chunk", "no chunk was free for a copy or an answer";
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Position in [`ALL`](Self::ALL).
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The reason a rule of `table` that drops gives.
    #[must_use]
    pub const fn of_rule(table: TableId) -> Self {
        match table {
            TableId::Classify => Self::Classify,
            TableId::Security => Self::Security,
            TableId::AclFrom => Self::AclFrom,
            TableId::Forward => Self::Forward,
            TableId::AclTo => Self::AclTo,
            TableId::Output => Self::Output,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_name_and_index() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert_eq!(DropReason::ALL.iter().filter(|r| r.name() == reason.name()).count(), 1);
        }
    }
}
