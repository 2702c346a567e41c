//! `sluice_steer`: gives the switch its frames of a device, at XDP, and leaves the others to the host.
//!
//! The law: with `TAKE_ALL` no frame ever reaches the host's stack; with `TAKE_OWNED` no frame of the host is ever lost. A
//! frame is owned when its destination MAC is, or when it asks by ARP (RFC 826) or neighbour solicitation (RFC 4861, 4.3)
//! who has an owned address. One 802.1Q tag may stand before either question. Malformed and truncated frames own nothing.

use aya_ebpf::{
    bindings::xdp_action,
    macros::{map, xdp},
    maps::{HashMap, PerCpuArray, XskMap},
    programs::XdpContext,
};
use ebpf_layout::steer::{
    AddressKey, COUNTER_COUNT, DROPPED, MAX_OWNED_ADDRESSES, MAX_OWNED_MACS, MAX_QUEUES, MacKey, Owned, PASSED,
    TAKE_ALL, TAKE_OWNED, TAKEN, mapped,
};

use crate::packet::bytes;

#[map]
static SOCKETS: XskMap = XskMap::with_max_entries(MAX_QUEUES, 0);
#[map]
static OWNED_MACS: HashMap<MacKey, Owned> = HashMap::with_max_entries(MAX_OWNED_MACS, 0);
#[map]
static OWNED_ADDRESSES: HashMap<AddressKey, Owned> = HashMap::with_max_entries(MAX_OWNED_ADDRESSES, 0);
#[map]
static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(COUNTER_COUNT, 0);

/// Overridden by the loader.
#[unsafe(no_mangle)]
static MODE: u32 = TAKE_OWNED;

const ETHERTYPE_VLAN: [u8; 2] = [0x81, 0x00];
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// Hardware type Ethernet, protocol type IPv4, address lengths 6 and 4.
const ARP_ETHERNET_IPV4: [u8; 6] = [0, 1, 0x08, 0x00, 6, 4];
const ARP_TARGET_ADDRESS: usize = 24;
const IPV6_NEXT_HEADER: usize = 6;
const IPV6_HEADER_BYTES: usize = 40;
const NEXT_HEADER_ICMPV6: u8 = 58;
const ICMPV6_NEIGHBOUR_SOLICITATION: u8 = 135;
const ND_TARGET_ADDRESS: usize = 8;

/// Says where one frame goes.
#[xdp(frags)]
pub(crate) fn sluice_steer(ctx: XdpContext) -> u32 {
    let (ours, fallback) =
        if mode() == TAKE_ALL { (true, xdp_action::XDP_DROP) } else { (is_owned(&ctx), xdp_action::XDP_PASS) };
    let action =
        if ours { SOCKETS.redirect(ctx.rx_queue_index(), u64::from(fallback)).unwrap_or(fallback) } else { fallback };
    count(match action {
        xdp_action::XDP_REDIRECT => TAKEN,
        xdp_action::XDP_PASS => PASSED,
        _ => DROPPED,
    });
    action
}

#[inline(always)]
fn mode() -> u32 {
    // SAFETY: a static is always readable; volatile, because the loader changes it after compilation.
    unsafe { core::ptr::read_volatile(&raw const MODE) }
}

#[inline(always)]
fn count(index: u32) {
    if let Some(counter) = COUNTERS.get_ptr_mut(index) {
        // SAFETY: the map's value of this CPU, and XDP programs do not interrupt each other on one CPU.
        unsafe { *counter += 1 };
    }
}

#[inline(always)]
fn is_owned(ctx: &XdpContext) -> bool {
    let Some(destination) = bytes::<6>(ctx, 0) else { return false };
    if OWNED_MACS.get_ptr(destination).is_some() {
        return true;
    }
    match bytes::<2>(ctx, 12) {
        Some(ETHERTYPE_VLAN) => match bytes::<2>(ctx, 16) {
            Some(ethertype) => asks_for_owned(ctx, ethertype, 18),
            None => false,
        },
        Some(ethertype) => asks_for_owned(ctx, ethertype, 14),
        None => false,
    }
}

/// True when the packet at `at` asks for the link address of an owned address.
#[inline(always)]
fn asks_for_owned(ctx: &XdpContext, ethertype: [u8; 2], at: usize) -> bool {
    let target = match ethertype {
        ETHERTYPE_ARP => arp_target(ctx, at),
        ETHERTYPE_IPV6 => solicited(ctx, at),
        _ => None,
    };
    target.is_some_and(|address| OWNED_ADDRESSES.get_ptr(address).is_some())
}

#[inline(always)]
fn arp_target(ctx: &XdpContext, at: usize) -> Option<AddressKey> {
    if bytes::<6>(ctx, at)? != ARP_ETHERNET_IPV4 {
        return None;
    }
    bytes::<4>(ctx, at + ARP_TARGET_ADDRESS).map(mapped)
}

#[inline(always)]
fn solicited(ctx: &XdpContext, at: usize) -> Option<AddressKey> {
    let icmp = at + IPV6_HEADER_BYTES;
    if bytes::<1>(ctx, at + IPV6_NEXT_HEADER)? != [NEXT_HEADER_ICMPV6]
        || bytes::<1>(ctx, icmp)? != [ICMPV6_NEIGHBOUR_SOLICITATION]
    {
        return None;
    }
    bytes::<16>(ctx, icmp + ND_TARGET_ADDRESS)
}
