//! Limits of the packet engine, which a file must keep to. They are told here too, since this crate does not know the engine.

/// The largest MTU: an AF_XDP chunk holds frames of 3840 bytes, of which the Ethernet header and a VLAN tag take 18.
pub const MAX_MTU: u16 = 3822;
/// The most chunks of a UMEM.
pub const MAX_CHUNKS: u32 = 1 << 20;
/// The fewest slots of a ring.
pub const MIN_RING: u32 = 64;
/// The most slots of a ring.
pub const MAX_RING: u32 = 32_768;
