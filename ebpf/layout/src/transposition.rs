//! The transposition record: a flow's compiled header edit and way out, 64 bytes, executed by every executor.
//!
//! Addresses, ports and MACs are in network order, ready to be stored; everything else is in host order.

/// What becomes of a flow's packets.
pub mod kind {
    /// Dropped; `drop_counter` counts it.
    pub const DROP: u8 = 0;
    /// Sent by `out_port`.
    pub const PORT: u8 = 1;
    /// Sent by every member of output set `out_set`.
    pub const SET: u8 = 2;
}

/// No port: never a port's number.
pub const NO_PORT: u16 = u16::MAX;

/// Bits of `edits`: which fields of the record are to be stored into the packet.
pub mod edit {
    /// Destination MAC.
    pub const ETH_DST: u32 = 1;
    /// Source MAC.
    pub const ETH_SRC: u32 = 1 << 1;
    /// IPv4 source.
    pub const IP4_SRC: u32 = 1 << 2;
    /// IPv4 destination.
    pub const IP4_DST: u32 = 1 << 3;
    /// IPv6 source, from the flow's address line.
    pub const IP6_SRC: u32 = 1 << 4;
    /// IPv6 destination, from the flow's address line.
    pub const IP6_DST: u32 = 1 << 5;
    /// L4 source port.
    pub const L4_SRC: u32 = 1 << 6;
    /// L4 destination port.
    pub const L4_DST: u32 = 1 << 7;
    /// DSCP, ECN kept.
    pub const DSCP: u32 = 1 << 8;
    /// TTL or hop limit less one.
    pub const TTL: u32 = 1 << 9;
    /// The VLAN tag is removed.
    pub const VLAN_POP: u32 = 1 << 10;
    /// A VLAN tag with TCI `vlan_tci` is inserted.
    pub const VLAN_PUSH: u32 = 1 << 11;
    /// The VLAN tag's TCI becomes `vlan_tci`.
    pub const VLAN_SET: u32 = 1 << 12;
    /// The packet is IPv6: header edits use its offsets, and there is no header checksum.
    pub const IS_IPV6: u32 = 1 << 13;

    /// Edits that lie in the IP header.
    pub const L3: u32 = IP4_SRC | IP4_DST | IP6_SRC | IP6_DST | DSCP | TTL;
    /// Edits that lie in the L4 header, its checksum included.
    pub const L4: u32 = IP4_SRC | IP4_DST | IP6_SRC | IP6_DST | L4_SRC | L4_DST;
    /// Edits of the VLAN tag.
    pub const VLAN: u32 = VLAN_POP | VLAN_PUSH | VLAN_SET;
}

/// A flow's compiled header edit and way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Zeroable))]
#[repr(C, align(64))]
pub struct Transposition {
    /// New destination MAC.
    pub eth_dst: [u8; 6],
    /// New source MAC.
    pub eth_src: [u8; 6],
    /// New IPv4 source.
    pub ip4_src: [u8; 4],
    /// New IPv4 destination.
    pub ip4_dst: [u8; 4],
    /// New L4 source port.
    pub l4_src: [u8; 2],
    /// New L4 destination port.
    pub l4_dst: [u8; 2],
    /// Which of the fields apply: bits of [`edit`].
    pub edits: u32,
    /// Change of the IPv4 header checksum (RFC 1624, eqn. 3).
    pub ip_delta: u16,
    /// Change of the L4 checksum by addresses, which the pseudo-header carries.
    pub address_delta: u16,
    /// Change of the L4 checksum by ports.
    pub port_delta: u16,
    /// TCI to insert or set.
    pub vlan_tci: u16,
    /// Port to send by, for [`kind::PORT`]; for [`kind::DROP`] the port that was found before it was dropped, or [`NO_PORT`].
    pub out_port: u16,
    /// Output set to send by, for [`kind::SET`].
    pub out_set: u16,
    /// Rules that decided it: what its packets count into.
    pub path: u32,
    /// What its drops count into, for [`kind::DROP`].
    pub drop_counter: u32,
    /// One of [`kind`].
    pub kind: u8,
    /// Drop reason, for [`kind::DROP`].
    pub reason: u8,
    /// New DSCP, in the low 6 bits.
    pub dscp: u8,
    /// Left for later use; zero.
    pub reserved: [u8; 13],
}

const _: () = assert!(size_of::<Transposition>() == 64 && align_of::<Transposition>() == 64);

/// A flow's second line, for IPv6: new addresses in network order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Zeroable))]
#[repr(C, align(32))]
pub struct Ip6Addresses {
    /// New source.
    pub src: [u8; 16],
    /// New destination.
    pub dst: [u8; 16],
}

const _: () = assert!(size_of::<Ip6Addresses>() == 32);
