//! Every field a rule may match, and where its value lies.

use crate::key::{FlowKey, KEY_WORDS};

/// Words a classifier works on: the flow key and one word of what the walk itself decided.
pub const WORDS: usize = KEY_WORDS + 1;
/// Index of that last word: output port 16, network 16, mark 32.
pub const META: usize = KEY_WORDS;

/// The flow key and the walk's own word.
pub type Words = [u64; WORDS];

/// A field a rule may match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Field {
    /// Input port.
    InPort,
    /// Destination MAC, 48 bits.
    EthDst,
    /// Source MAC, 48 bits.
    EthSrc,
    /// EtherType after any VLAN tag.
    EthType,
    /// VLAN TCI with bit 12 set when tagged (see [`FlowKey`]); zero matches untagged frames.
    VlanTci,
    /// VLAN id, 12 bits.
    VlanId,
    /// VLAN priority, 3 bits.
    VlanPcp,
    /// IP protocol, 8 bits.
    IpProto,
    /// Differentiated services code point, 6 bits (RFC 2474).
    IpDscp,
    /// Fragment state, 2 bits (see [`Fragment`](crate::key::Fragment)).
    IpFragment,
    /// IPv4 source.
    Ip4Src,
    /// IPv4 destination.
    Ip4Dst,
    /// IPv6 source.
    Ip6Src,
    /// IPv6 destination.
    Ip6Dst,
    /// TCP or UDP source port.
    L4Src,
    /// TCP or UDP destination port.
    L4Dst,
    /// ICMP or ICMPv6 type.
    IcmpType,
    /// ICMP or ICMPv6 code.
    IcmpCode,
    /// ARP operation, 8 bits.
    ArpOp,
    /// ARP sender protocol address.
    ArpSpa,
    /// ARP target protocol address.
    ArpTpa,
    /// Output port, known from table `forward` on.
    OutPort,
    /// Network the packet is in.
    Network,
    /// Mark set by table `classify`.
    Mark,
    /// TCP flags, 9 bits (RFC 9293, 3.1; RFC 3540). Not in the key.
    TcpFlags,
    /// IPv4 TTL or IPv6 hop limit. Not in the key.
    IpTtl,
    /// ECN, 2 bits (RFC 3168). Not in the key.
    IpEcn,
    /// IPv4 total length, or IPv6 payload length plus 40. Not in the key.
    IpLength,
    /// ARP sender hardware address. Not in the key.
    ArpSha,
    /// Target address of a neighbour solicitation or advertisement (RFC 4861, 4.3 and 4.4). Not in the key.
    NdTarget,
}

/// Where a field lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Bits of one word, `shift` up from its lowest bit.
    Word {
        /// Which of the [`WORDS`].
        word: usize,
        /// Lowest bit.
        shift: u32,
    },
    /// Two words, the first one higher.
    Pair {
        /// The first of the two.
        word: usize,
    },
    /// Not in the key: read from the packet each time, and so never cached.
    Packet,
}

impl Field {
    /// Width in bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::IpFragment | Self::IpEcn => 2,
            Self::VlanPcp => 3,
            Self::IpDscp => 6,
            Self::IpProto | Self::ArpOp | Self::IcmpType | Self::IcmpCode | Self::IpTtl => 8,
            Self::TcpFlags => 9,
            Self::VlanId => 12,
            Self::InPort
            | Self::EthType
            | Self::VlanTci
            | Self::L4Src
            | Self::L4Dst
            | Self::OutPort
            | Self::Network
            | Self::IpLength => 16,
            Self::Ip4Src | Self::Ip4Dst | Self::ArpSpa | Self::ArpTpa | Self::Mark => 32,
            Self::EthDst | Self::EthSrc | Self::ArpSha => 48,
            Self::Ip6Src | Self::Ip6Dst | Self::NdTarget => 128,
        }
    }

    /// Where its value lies.
    #[must_use]
    pub const fn place(self) -> Place {
        let (word, shift) = match self {
            Self::InPort => (0, 48),
            Self::EthType => (0, 32),
            Self::VlanTci | Self::VlanId => (0, 16),
            Self::VlanPcp => (0, 29),
            Self::IpProto | Self::ArpOp => (0, 8),
            Self::IpDscp => (0, 2),
            Self::IpFragment => (0, 0),
            Self::EthDst => (1, 16),
            Self::L4Src => (1, 0),
            Self::EthSrc => (2, 16),
            Self::L4Dst | Self::IcmpCode => (2, 0),
            Self::IcmpType => (2, 8),
            Self::Ip4Src | Self::ArpSpa => (3, 32),
            Self::Ip4Dst | Self::ArpTpa => (3, 0),
            Self::OutPort => (META, 48),
            Self::Network => (META, 32),
            Self::Mark => (META, 0),
            Self::Ip6Src => return Place::Pair { word: 4 },
            Self::Ip6Dst => return Place::Pair { word: 6 },
            Self::TcpFlags | Self::IpTtl | Self::IpEcn | Self::IpLength | Self::ArpSha | Self::NdTarget => {
                return Place::Packet;
            }
        };
        Place::Word { word, shift }
    }

    /// All bits of the field, in the low bits.
    #[must_use]
    pub const fn mask(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// True for the fields that only a packet with an L4 header has: a later fragment never matches them.
    #[must_use]
    pub const fn is_l4(self) -> bool {
        matches!(self, Self::L4Src | Self::L4Dst | Self::IcmpType | Self::IcmpCode | Self::TcpFlags)
    }

    /// The field's value in `words`; zero for a field that is not in the key.
    #[inline]
    #[must_use]
    pub fn read(self, words: &Words) -> u128 {
        let at = |word: usize| u128::from(words.get(word).copied().unwrap_or_default());
        match self.place() {
            Place::Word { word, shift } => (at(word) >> shift) & self.mask(),
            Place::Pair { word } => (at(word) << 64) | at(word + 1),
            Place::Packet => 0,
        }
    }

    /// Replaces the bits of `words` that `mask` selects by those of `value`; nothing for a field that is not in the key.
    pub fn write(self, words: &mut Words, value: u128, mask: u128) {
        let mut put = |word: usize, value: u64, mask: u64| {
            if let Some(slot) = words.get_mut(word) {
                *slot = (*slot & !mask) | (value & mask);
            }
        };
        #[expect(clippy::cast_possible_truncation, reason = "the low 64 bits are meant")]
        match self.place() {
            Place::Word { word, shift } => {
                let mask = mask & self.mask();
                put(word, ((value & mask) << shift) as u64, (mask << shift) as u64);
            }
            Place::Pair { word } => {
                put(word, (value >> 64) as u64, (mask >> 64) as u64);
                put(word + 1, value as u64, mask as u64);
            }
            Place::Packet => {}
        }
    }
}

/// What a rule may match of one packet: its key, what the walk decided so far, and the fields outside the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers {
    /// The flow key's words and the walk's.
    pub words: Words,
    /// Fields that are in no key.
    pub packet: PacketFields,
}

impl Headers {
    /// Of a parsed packet, before the walk has decided anything.
    #[must_use]
    pub fn new(key: &FlowKey, packet: PacketFields) -> Self {
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(key.0) {
            *word = from;
        }
        Self { words, packet }
    }

    /// The value of `field`, `None` when this packet has none.
    #[inline]
    #[must_use]
    pub fn get(&self, field: Field) -> Option<u128> {
        match field {
            Field::TcpFlags => self.packet.tcp_flags.map(u128::from),
            Field::IpTtl => self.packet.ttl.map(u128::from),
            Field::IpEcn => self.packet.ecn.map(u128::from),
            Field::IpLength => self.packet.ip_length.map(u128::from),
            Field::ArpSha => self.packet.arp_sha.map(u128::from),
            Field::NdTarget => self.packet.nd_target,
            in_words => Some(in_words.read(&self.words)),
        }
    }
}

/// Fields of a packet that are not in its key. A decision that looked at one is not cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketFields {
    /// TCP flags, 9 bits, NS highest.
    pub tcp_flags: Option<u16>,
    /// IPv4 TTL or IPv6 hop limit.
    pub ttl: Option<u8>,
    /// ECN, 2 bits.
    pub ecn: Option<u8>,
    /// Length of the IP packet in bytes, header included.
    pub ip_length: Option<u16>,
    /// ARP sender hardware address, low 48 bits.
    pub arp_sha: Option<u64>,
    /// ND target address.
    pub nd_target: Option<u128>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Field; 30] = [
        Field::InPort,
        Field::EthDst,
        Field::EthSrc,
        Field::EthType,
        Field::VlanTci,
        Field::VlanId,
        Field::VlanPcp,
        Field::IpProto,
        Field::IpDscp,
        Field::IpFragment,
        Field::Ip4Src,
        Field::Ip4Dst,
        Field::Ip6Src,
        Field::Ip6Dst,
        Field::L4Src,
        Field::L4Dst,
        Field::IcmpType,
        Field::IcmpCode,
        Field::ArpOp,
        Field::ArpSpa,
        Field::ArpTpa,
        Field::OutPort,
        Field::Network,
        Field::Mark,
        Field::TcpFlags,
        Field::IpTtl,
        Field::IpEcn,
        Field::IpLength,
        Field::ArpSha,
        Field::NdTarget,
    ];

    #[test]
    fn what_is_written_to_a_field_is_read_back_and_nothing_beside_it_changes() {
        for field in ALL.into_iter().filter(|f| f.place() != Place::Packet) {
            for background in [0, u64::MAX] {
                let mut words = [background; WORDS];
                let value = 0xa5a5_5a5a_1234_8765_dead_beef_0102_0304 & field.mask();
                field.write(&mut words, value, u128::MAX);
                assert_eq!(field.read(&words), value, "{field:?}");
                field.write(&mut words, if background == 0 { 0 } else { u128::MAX }, u128::MAX);
                assert_eq!(words, [background; WORDS], "{field:?}");
            }
        }
    }
}
