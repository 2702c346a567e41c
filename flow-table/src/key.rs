//! The flow key: the fields that say which flow a packet belongs to.
//!
//! Eight 64-bit words in host order. The layout is listed in ARCHITECTURE.md and asserted here: a flow entry, a
//! classifier's tuple and a rule's mask all speak in these words.
//!
//! | word | bits 63..0 |
//! |---|---|
//! | 0 | in port 16, EtherType 16, VLAN TCI 16 (bit 12 set when tagged, zero when not), IP protocol or ARP operation 8, DSCP 6, fragment 2 |
//! | 1 | destination MAC 48, L4 source port or ICMP identifier 16 |
//! | 2 | source MAC 48, L4 destination port or ICMP type and code 16 |
//! | 3 | IPv4 source 32, IPv4 destination 32 (ARP: sender and target protocol address) |
//! | 4, 5 | IPv6 source 128 |
//! | 6, 7 | IPv6 destination 128 |

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{id::PortId, mac::MacAddr};

/// Words in a [`FlowKey`].
pub const KEY_WORDS: usize = 8;
/// Words of it that a packet without IPv6 addresses uses; the others are zero.
pub const SHORT_WORDS: usize = 4;

/// The fields that identify a flow. Two packets with equal keys take the same way through the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C, align(64))]
pub struct FlowKey(pub [u64; KEY_WORDS]);

const _: () = assert!(size_of::<FlowKey>() == 64 && align_of::<FlowKey>() == 64);

/// EtherTypes the switch knows (IEEE 802 numbers).
pub mod ethertype {
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// IEEE 802.1Q tag.
    pub const VLAN: u16 = 0x8100;
    /// IEEE 802.1ad service tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// Service tag from before IEEE 802.1ad.
    pub const OLD_SERVICE_VLAN: u16 = 0x9100;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
    /// What the key holds for an IEEE 802.3 length field: the frame is LLC and has no EtherType.
    pub const LLC: u16 = 0x05ff;
    /// The least value of the field that is a type and not a length (IEEE 802.3-2018, 3.2.6).
    pub const FIRST: u16 = 0x0600;
}

/// IP protocol numbers the switch knows.
pub mod protocol {
    /// ICMP (RFC 792).
    pub const ICMP: u8 = 1;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
}

/// What part of an IP datagram a packet is. The second bit says that L4 ports can not be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fragment {
    /// A whole datagram.
    Whole = 0,
    /// The first fragment: it has the ports.
    First = 1,
    /// A later fragment: no ports, and nothing at their place is read as ports.
    Later = 2,
}

/// The bit of a TCI that the key sets on every tagged frame, so that VLAN 0 differs from no tag.
pub const VLAN_PRESENT: u16 = 0x1000;

impl FlowKey {
    /// The port the packet came in by.
    #[inline]
    #[must_use]
    pub const fn in_port(&self) -> PortId {
        PortId(bits16(self.0[0] >> 48))
    }

    /// The EtherType after any VLAN tag; [`ethertype::LLC`] for IEEE 802.3 length fields.
    #[inline]
    #[must_use]
    pub const fn eth_type(&self) -> u16 {
        bits16(self.0[0] >> 32)
    }

    /// The VLAN TCI with [`VLAN_PRESENT`] set, or zero when untagged.
    #[inline]
    #[must_use]
    pub const fn vlan_tci(&self) -> u16 {
        bits16(self.0[0] >> 16)
    }

    /// The VLAN id in the tag, zero when untagged or priority-tagged.
    #[inline]
    #[must_use]
    pub const fn vlan_id(&self) -> u16 {
        self.vlan_tci() & 0x0fff
    }

    /// The IP protocol, or the low byte of the ARP operation.
    #[inline]
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        bits8(self.0[0] >> 8)
    }

    /// True when the packet is a fragment other than the first.
    #[inline]
    #[must_use]
    pub const fn is_later_fragment(&self) -> bool {
        self.0[0] & 2 != 0
    }

    /// True when the packet is any fragment of a larger datagram.
    #[inline]
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        self.0[0] & 3 != 0
    }

    /// Destination MAC.
    #[inline]
    #[must_use]
    pub const fn eth_dst(&self) -> MacAddr {
        MacAddr::from_u64(self.0[1] >> 16)
    }

    /// Source MAC.
    #[inline]
    #[must_use]
    pub const fn eth_src(&self) -> MacAddr {
        MacAddr::from_u64(self.0[2] >> 16)
    }

    /// L4 source port, or the identifier of an ICMP echo.
    #[inline]
    #[must_use]
    pub const fn l4_src(&self) -> u16 {
        bits16(self.0[1])
    }

    /// L4 destination port, or ICMP type (high byte) and code.
    #[inline]
    #[must_use]
    pub const fn l4_dst(&self) -> u16 {
        bits16(self.0[2])
    }

    /// True for IPv6: words 4 to 7 count.
    #[inline]
    #[must_use]
    pub const fn is_ipv6(&self) -> bool {
        self.eth_type() == ethertype::IPV6
    }

    /// True for IPv4 and IPv6.
    #[inline]
    #[must_use]
    pub const fn is_ip(&self) -> bool {
        matches!(self.eth_type(), ethertype::IPV4 | ethertype::IPV6)
    }

    /// Source and destination address, `None` for what is not IP.
    #[must_use]
    pub const fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        match self.eth_type() {
            ethertype::IPV4 => {
                let (source, destination) = self.ipv4();
                Some((IpAddr::V4(source), IpAddr::V4(destination)))
            }
            ethertype::IPV6 => {
                let (source, destination) = self.ipv6();
                Some((IpAddr::V6(source), IpAddr::V6(destination)))
            }
            _ => None,
        }
    }

    /// Word 3 as two IPv4 addresses: source and destination, or ARP's sender and target.
    #[inline]
    #[must_use]
    pub const fn ipv4(&self) -> (Ipv4Addr, Ipv4Addr) {
        #[expect(clippy::cast_possible_truncation, reason = "the low 32 bits are meant")]
        (Ipv4Addr::from_bits((self.0[3] >> 32) as u32), Ipv4Addr::from_bits(self.0[3] as u32))
    }

    /// Words 4 to 7 as IPv6 source and destination.
    #[inline]
    #[must_use]
    pub const fn ipv6(&self) -> (Ipv6Addr, Ipv6Addr) {
        let [.., a, b, c, d] = self.0;
        (Ipv6Addr::from_bits(((a as u128) << 64) | b as u128), Ipv6Addr::from_bits(((c as u128) << 64) | d as u128))
    }
}

#[inline]
const fn bits16(word: u64) -> u16 {
    (word & 0xffff) as u16
}

#[inline]
const fn bits8(word: u64) -> u8 {
    (word & 0xff) as u8
}
