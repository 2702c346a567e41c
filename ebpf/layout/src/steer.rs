//! The steering program's interface: which frames of a device are the switch's, and how many it took.
//!
//! The program `sluice_steer` runs at XDP on a device with AF_XDP sockets. Its maps are named by the constants below; user
//! space finds them by those names and nothing else.

/// The program's name, also what the kernel reports for it (`bpftool prog`).
pub const PROGRAM: &str = "sluice_steer";

/// Map: receive queue index (u32) to the AF_XDP socket bound to that queue.
pub const SOCKETS: &str = "SOCKETS";
/// Map: [`MacKey`] to [`Owned`]; destination addresses that are the switch's.
pub const OWNED_MACS: &str = "OWNED_MACS";
/// Map: [`AddressKey`] to [`Owned`]; addresses the switch answers ARP and neighbour solicitations for.
pub const OWNED_ADDRESSES: &str = "OWNED_ADDRESSES";
/// Map: counter index ([`TAKEN`], [`PASSED`], [`DROPPED`]) to frames, u64 in host order, one value a CPU.
pub const COUNTERS: &str = "COUNTERS";

/// Read-only global, u32: [`TAKE_ALL`] or [`TAKE_OWNED`]. Set before loading; any other value acts as [`TAKE_OWNED`].
pub const MODE: &str = "MODE";
/// Every frame is the switch's. One for whose queue there is no socket is dropped: it must not reach the host's stack.
pub const TAKE_ALL: u32 = 1;
/// Frames to owned addresses are the switch's; every other, and one for whose queue there is no socket, is the host's.
pub const TAKE_OWNED: u32 = 2;

/// Receive queues a device may have.
pub const MAX_QUEUES: u32 = 256;
/// Owned MAC addresses a device may have.
pub const MAX_OWNED_MACS: u32 = 1024;
/// Owned IP addresses a device may have.
pub const MAX_OWNED_ADDRESSES: u32 = 16384;

/// Key of [`OWNED_MACS`]: a MAC address, octets as sent.
pub type MacKey = [u8; 6];
/// Key of [`OWNED_ADDRESSES`]: an IPv6 address, or an IPv4 one as [`mapped`], octets as sent.
pub type AddressKey = [u8; 16];
/// Value of both sets. It says nothing: being there is all.
pub type Owned = u8;

const _: () = assert!(size_of::<MacKey>() == 6);
const _: () = assert!(size_of::<AddressKey>() == 16);
const _: () = assert!(size_of::<Owned>() == 1);

/// Frames redirected to a socket's queue. The socket may still refuse one, which it counts itself.
pub const TAKEN: u32 = 0;
/// Frames left to the host's stack.
pub const PASSED: u32 = 1;
/// Frames dropped because their queue has no socket.
pub const DROPPED: u32 = 2;
/// How many counters there are.
pub const COUNTER_COUNT: u32 = 3;

/// An IPv4 address as an IPv4-mapped IPv6 one (RFC 4291, 2.5.5.2).
#[inline]
#[must_use]
pub const fn mapped(v4: [u8; 4]) -> AddressKey {
    let [a, b, c, d] = v4;
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}
