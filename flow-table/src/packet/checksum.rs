//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! Sums are ones' complement, of 16-bit words in network order, held in host order.

use crate::{
    key::{ethertype, protocol},
    packet::Parsed,
};

/// Folds a sum to 16 bits.
#[inline]
#[must_use]
pub const fn fold(mut sum: u64) -> u16 {
    sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
    {
        sum as u16
    }
}

/// Sum of `bytes`, an odd last byte padded with zero. O(n).
#[inline]
#[must_use]
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut total: u64 = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum();
    let (halves, odd) = rest.as_chunks::<2>();
    total += halves.iter().map(|half| u64::from(u16::from_be_bytes(*half))).sum::<u64>();
    if let [last] = odd {
        total += u64::from(*last) << 8;
    }
    total
}

/// What to add to a checksum when `old` becomes `new`: the sums of both, each of whole 16-bit words (RFC 1624, eqn. 3).
#[inline]
#[must_use]
pub const fn delta(old: u64, new: u64) -> u16 {
    fold(!fold(old) as u64 + fold(new) as u64)
}

/// The checksum after a change of `delta`.
#[inline]
#[must_use]
pub const fn update(checksum: u16, delta: u16) -> u16 {
    !fold(!checksum as u64 + delta as u64)
}

/// Sum of the pseudo-header of `parsed`'s packet (RFC 9293, 3.1; RFC 768; RFC 8200, 8.1).
#[inline]
#[must_use]
pub fn pseudo_header(parsed: &Parsed) -> u64 {
    let key = &parsed.key.0;
    let sum32 = |word: u64| (word >> 32) + (word & 0xffff_ffff);
    let addresses = match parsed.key.eth_type() {
        ethertype::IPV6 => key.iter().skip(4).copied().map(sum32).sum(),
        _ => key.get(3).copied().map_or(0, sum32),
    };
    addresses + u64::from(parsed.key.protocol()) + u64::from(parsed.offsets.l4_len)
}

/// Where the L4 checksum of `parsed`'s packet lies; `None` when it has none that covers a pseudo-header.
#[inline]
#[must_use]
pub const fn l4_checksum_at(parsed: &Parsed) -> Option<usize> {
    if parsed.offsets.l4 == 0 {
        return None;
    }
    let at = parsed.offsets.l4 as usize;
    match parsed.key.protocol() {
        protocol::TCP => Some(at + 16),
        protocol::UDP => Some(at + 6),
        protocol::ICMPV6 => Some(at + 2),
        _ => None,
    }
}

/// Completes the checksum of a TCP or UDP packet that its sender left partial: the field holds the folded sum of the
/// pseudo-header alone, as a Linux socket leaves it for an offloading device. True when it did.
///
/// A correct checksum that happens to equal that sum is the value computed here, so nothing is harmed by mistake.
#[inline]
pub fn complete_partial(frame: &mut [u8], parsed: &Parsed) -> bool {
    if !matches!(parsed.key.protocol(), protocol::TCP | protocol::UDP) || parsed.key.is_fragment() {
        return false;
    }
    let Some(at) = l4_checksum_at(parsed) else { return false };
    let Some([c0, c1]) = frame.get(at..).and_then(<[u8]>::first_chunk::<2>) else { return false };
    if u16::from_be_bytes([*c0, *c1]) != fold(pseudo_header(parsed)) {
        return false;
    }
    complete(frame, parsed, at)
}

/// Sums the payload and writes the checksum: the field already holds the pseudo-header's sum.
#[inline(never)]
fn complete(frame: &mut [u8], parsed: &Parsed, at: usize) -> bool {
    let start = usize::from(parsed.offsets.l4);
    let Some(covered) = frame.get(start..start + usize::from(parsed.offsets.l4_len)) else { return false };
    let mut checksum = !fold(sum(covered));
    if checksum == 0 && parsed.key.protocol() == protocol::UDP {
        checksum = 0xffff; // zero means none (RFC 768)
    }
    if let Some(field) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>) {
        *field = checksum.to_be_bytes();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{id::PortId, packet::parse};

    #[test]
    fn the_example_of_rfc_1071_sums_as_printed() {
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        assert_eq!(fold(sum(&[0x12, 0x34, 0x56])), 0x6834);
    }

    #[test]
    fn the_example_of_rfc_1624_updates_as_printed() {
        // Section 4: header checksum 0xdd2f, a word 0x5555 becomes 0x3285.
        assert_eq!(update(0xdd2f, delta(0x5555, 0x3285)), 0x0000);
    }

    #[test]
    fn a_partial_checksum_is_completed_and_a_complete_one_is_left() {
        for (payload, ethertype_v6) in [(vec![], false), (vec![1], false), (vec![9; 1400], false), (vec![7; 33], true)]
        {
            let builder = if ethertype_v6 {
                etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([1; 16], [2; 16], 64)
            } else {
                etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            };
            let mut right = Vec::new();
            builder.tcp(1, 2, 3, 4).write(&mut right, &payload).unwrap();
            let parsed = parse(&right, PortId(0)).unwrap();
            let mut partial = right.clone();
            let at = l4_checksum_at(&parsed).unwrap();
            partial[at..at + 2].copy_from_slice(&fold(pseudo_header(&parsed)).to_be_bytes());
            assert!(complete_partial(&mut partial, &parsed));
            assert_eq!(partial, right);
            assert!(!complete_partial(&mut partial, &parsed));
        }
    }
}
