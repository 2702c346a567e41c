//! Compiling a walk's outcome into a transposition, and executing it.

use core::net::{Ipv4Addr, Ipv6Addr};

pub use ebpf_layout::transposition::{Ip6Addresses, NO_PORT, Transposition, edit, kind};

use crate::{
    fate::DropReason,
    field::Words,
    id::{OutputSetId, PathId, PortId},
    key::{FlowKey, KEY_WORDS},
    packet::{Parsed, checksum, vlan::VlanEdit},
};

/// Where a flow goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Out by one port, with this change of the tag.
    Port(PortId, VlanEdit),
    /// Out by every member of a set, each with its own change of the tag.
    Set(OutputSetId),
    /// Nowhere.
    Drop {
        /// Why.
        reason: DropReason,
        /// What its drops count into.
        counter: u32,
        /// The port it would have left by, where the decision depended on finding it there.
        toward: Option<PortId>,
    },
}

/// What a transposition is compiled from.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'a> {
    /// The packet's key as it arrived.
    pub before: &'a FlowKey,
    /// The words after the walk's edits.
    pub after: &'a Words,
    /// True when the TTL is to be decremented.
    pub decrement_ttl: bool,
    /// Where it goes.
    pub way: Way,
    /// The rules that decided it.
    pub path: PathId,
}

/// Compiles a decision: every field that differs becomes an edit, and the checksum changes are computed once.
///
/// O(1). Fields the record has no place for (the in port, the EtherType, the protocol) are never edited by a rule.
#[must_use]
pub fn compile(decision: &Decision<'_>) -> (Transposition, Ip6Addresses) {
    let before = decision.before;
    let mut after = FlowKey::default();
    for (to, from) in after.0.iter_mut().zip(decision.after.iter().take(KEY_WORDS)) {
        *to = *from;
    }
    let mut record = Transposition { path: decision.path.0, ..Transposition::default() };
    let mut wide = Ip6Addresses::default();
    write_way(&mut record, decision.way);
    if matches!(decision.way, Way::Drop { .. }) {
        return (record, wide);
    }
    let mut set = |bit: u32, changed: bool| {
        if changed {
            record.edits |= bit;
        }
    };
    set(edit::ETH_DST, before.eth_dst() != after.eth_dst());
    set(edit::ETH_SRC, before.eth_src() != after.eth_src());
    set(edit::IS_IPV6, before.is_ipv6());
    if before.is_ip() {
        set(edit::TTL, decision.decrement_ttl);
        set(edit::DSCP, dscp(before) != dscp(&after));
        set(edit::L4_SRC, before.l4_src() != after.l4_src());
        set(edit::L4_DST, before.l4_dst() != after.l4_dst());
        let ((s0, d0), (s1, d1)) = (before.ipv4(), after.ipv4());
        set(edit::IP4_SRC, s0 != s1);
        set(edit::IP4_DST, d0 != d1);
        let ((s0, d0), (s1, d1)) = (before.ipv6(), after.ipv6());
        set(edit::IP6_SRC, s0 != s1);
        set(edit::IP6_DST, d0 != d1);
    }
    write_values(&mut record, &mut wide, &after);
    write_deltas(&mut record, before, &after);
    (record, wide)
}

fn write_way(record: &mut Transposition, way: Way) {
    match way {
        Way::Port(port, tag) => {
            record.kind = kind::PORT;
            record.out_port = port.0;
            let (bit, tci) = match tag {
                VlanEdit::Keep => (0, 0),
                VlanEdit::Pop => (edit::VLAN_POP, 0),
                VlanEdit::Push(tci) => (edit::VLAN_PUSH, tci),
                VlanEdit::Set(tci) => (edit::VLAN_SET, tci),
            };
            record.edits |= bit;
            record.vlan_tci = tci;
        }
        Way::Set(set) => {
            record.kind = kind::SET;
            record.out_set = set.0;
        }
        Way::Drop { reason, counter, toward } => {
            record.kind = kind::DROP;
            record.out_port = toward.map_or(NO_PORT, |port| port.0);
            record.reason = reason as u8;
            record.drop_counter = counter;
        }
    }
}

fn write_values(record: &mut Transposition, wide: &mut Ip6Addresses, after: &FlowKey) {
    record.eth_dst = after.eth_dst().0;
    record.eth_src = after.eth_src().0;
    let (source, destination) = after.ipv4();
    record.ip4_src = source.octets();
    record.ip4_dst = destination.octets();
    let (source, destination) = after.ipv6();
    wide.src = source.octets();
    wide.dst = destination.octets();
    record.l4_src = after.l4_src().to_be_bytes();
    record.l4_dst = after.l4_dst().to_be_bytes();
    record.dscp = dscp(after);
}

fn write_deltas(record: &mut Transposition, before: &FlowKey, after: &FlowKey) {
    let tos = |key: &FlowKey| u64::from(dscp(key)) << 2;
    let old = sum_ip4(before.ipv4()) + tos(before);
    let mut new = sum_ip4(after.ipv4()) + tos(after);
    if record.edits & edit::TTL != 0 {
        new += u64::from(!0x0100_u16); // the TTL is the high byte of its word: one less is 0x0100 less
    }
    record.ip_delta = checksum::delta(old, new);
    record.address_delta = if before.is_ipv6() {
        checksum::delta(sum_ip6(before.ipv6()), sum_ip6(after.ipv6()))
    } else {
        checksum::delta(sum_ip4(before.ipv4()), sum_ip4(after.ipv4()))
    };
    let ports = |key: &FlowKey| u64::from(key.l4_src()) + u64::from(key.l4_dst());
    record.port_delta = checksum::delta(ports(before), ports(after));
}

fn dscp(key: &FlowKey) -> u8 {
    let [word, ..] = key.0;
    ((word >> 2) & 0x3f) as u8
}

fn sum_ip4((source, destination): (Ipv4Addr, Ipv4Addr)) -> u64 {
    u64::from(source.to_bits()) + u64::from(destination.to_bits())
}

fn sum_ip6((source, destination): (Ipv6Addr, Ipv6Addr)) -> u64 {
    checksum::sum(&source.octets()) + checksum::sum(&destination.octets())
}

/// The change of the tag for a flow that leaves by one port.
#[inline]
#[must_use]
pub const fn vlan_edit(record: &Transposition) -> VlanEdit {
    match record.edits & edit::VLAN {
        edit::VLAN_POP => VlanEdit::Pop,
        edit::VLAN_PUSH => VlanEdit::Push(record.vlan_tci),
        edit::VLAN_SET => VlanEdit::Set(record.vlan_tci),
        _ => VlanEdit::Keep,
    }
}

/// Executes the header edits of `record` on `frame`, which [`parse`](crate::packet::parse()) read as `parsed`.
///
/// The tag is not touched here: to insert or remove one moves the frame's start. O(1), whatever the payload.
///
/// # Errors
/// [`DropReason::TtlExpired`] when the TTL would reach zero: nothing is changed then.
#[inline]
pub fn apply(record: &Transposition, wide: &Ip6Addresses, frame: &mut [u8], parsed: &Parsed) -> Result<(), DropReason> {
    let edits = record.edits & !edit::VLAN;
    if edits & !edit::IS_IPV6 == 0 {
        return Ok(());
    }
    rewrite(edits, record, wide, frame, parsed)
}

fn rewrite(
    edits: u32,
    record: &Transposition,
    wide: &Ip6Addresses,
    frame: &mut [u8],
    parsed: &Parsed,
) -> Result<(), DropReason> {
    let (l3, l4) = (usize::from(parsed.offsets.l3), usize::from(parsed.offsets.l4));
    if edits & edit::L3 != 0 {
        if edits & edit::IS_IPV6 != 0 {
            rewrite_ip6(edits, record, wide, frame, l3)?;
        } else {
            rewrite_ip4(edits, record, frame, l3)?;
        }
    }
    if edits & edit::L4 != 0 && l4 != 0 {
        rewrite_l4(edits, record, frame, parsed, l4);
    }
    if let Some([d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5]) = frame.first_chunk_mut::<12>() {
        if edits & edit::ETH_DST != 0 {
            [*d0, *d1, *d2, *d3, *d4, *d5] = record.eth_dst;
        }
        if edits & edit::ETH_SRC != 0 {
            [*s0, *s1, *s2, *s3, *s4, *s5] = record.eth_src;
        }
    }
    Ok(())
}

fn rewrite_ip4(edits: u32, record: &Transposition, frame: &mut [u8], l3: usize) -> Result<(), DropReason> {
    let Some(header) = frame.get_mut(l3..).and_then(<[u8]>::first_chunk_mut::<20>) else { return Ok(()) };
    let [_, tos, _, _, _, _, _, _, ttl, _, c0, c1, s0, s1, s2, s3, d0, d1, d2, d3] = header;
    if edits & edit::TTL != 0 {
        *ttl = next_ttl(*ttl)?;
    }
    if edits & edit::DSCP != 0 {
        *tos = record.dscp << 2 | *tos & 3;
    }
    if edits & edit::IP4_SRC != 0 {
        [*s0, *s1, *s2, *s3] = record.ip4_src;
    }
    if edits & edit::IP4_DST != 0 {
        [*d0, *d1, *d2, *d3] = record.ip4_dst;
    }
    [*c0, *c1] = checksum::update(u16::from_be_bytes([*c0, *c1]), record.ip_delta).to_be_bytes();
    Ok(())
}

fn rewrite_ip6(
    edits: u32,
    record: &Transposition,
    wide: &Ip6Addresses,
    frame: &mut [u8],
    l3: usize,
) -> Result<(), DropReason> {
    let Some(header) = frame.get_mut(l3..).and_then(<[u8]>::first_chunk_mut::<40>) else { return Ok(()) };
    let [v0, v1, _, _, _, _, _, hops, addresses @ ..] = header;
    if edits & edit::TTL != 0 {
        *hops = next_ttl(*hops)?;
    }
    if edits & edit::DSCP != 0 {
        *v0 = *v0 & 0xf0 | record.dscp >> 2;
        *v1 = record.dscp << 6 | *v1 & 0x3f;
    }
    let (source, destination) = addresses.split_at_mut(16);
    if edits & edit::IP6_SRC != 0 {
        source.copy_from_slice(&wide.src);
    }
    if edits & edit::IP6_DST != 0 {
        destination.copy_from_slice(&wide.dst);
    }
    Ok(())
}

/// Sets the DSCP of an IP packet, ECN kept, for one of several outputs.
pub fn set_dscp(frame: &mut [u8], parsed: &Parsed, dscp: u8) {
    let l3 = usize::from(parsed.offsets.l3);
    let Some([first, second]) = frame.get(l3..).and_then(<[u8]>::first_chunk::<2>) else { return };
    let word = u16::from_be_bytes([*first, *second]);
    let before = if parsed.key.is_ipv6() { (word >> 6) & 0x3f } else { (word >> 2) & 0x3f };
    let ip_delta = checksum::delta(u64::from(before) << 2, u64::from(dscp) << 2);
    let record = Transposition { dscp, ip_delta, ..Transposition::default() };
    // This edit alone can not fail.
    let _ = if parsed.key.is_ipv6() {
        rewrite_ip6(edit::DSCP, &record, &Ip6Addresses::default(), frame, l3)
    } else {
        rewrite_ip4(edit::DSCP, &record, frame, l3)
    };
}

/// One less, unless that is zero (RFC 1812, 5.3.1; RFC 8200, 3).
const fn next_ttl(ttl: u8) -> Result<u8, DropReason> {
    if ttl <= 1 { Err(DropReason::TtlExpired) } else { Ok(ttl - 1) }
}

fn rewrite_l4(edits: u32, record: &Transposition, frame: &mut [u8], parsed: &Parsed, l4: usize) {
    use crate::key::protocol::{ICMPV6, TCP, UDP};
    let protocol = parsed.key.protocol();
    if matches!(protocol, TCP | UDP)
        && let Some([s0, s1, d0, d1]) = frame.get_mut(l4..).and_then(<[u8]>::first_chunk_mut::<4>)
    {
        if edits & edit::L4_SRC != 0 {
            [*s0, *s1] = record.l4_src;
        }
        if edits & edit::L4_DST != 0 {
            [*d0, *d1] = record.l4_dst;
        }
    }
    let Some(at) = checksum::l4_checksum_at(parsed) else { return };
    let Some(field) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>) else { return };
    let old = u16::from_be_bytes(*field);
    if old == 0 && protocol == UDP {
        return; // the sender computed none (RFC 768)
    }
    let mut new = checksum::update(old, record.address_delta);
    if protocol != ICMPV6 {
        new = checksum::update(new, record.port_delta);
    }
    if new == 0 && protocol == UDP {
        new = 0xffff;
    }
    *field = new.to_be_bytes();
}

#[cfg(test)]
mod tests;
