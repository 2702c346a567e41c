//! The fields that are in no key, read when a packet walks the pipeline.

use crate::{
    field::PacketFields,
    key::{ethertype, protocol},
    packet::Parsed,
};

/// Reads them from a frame that [`parse`](super::parse()) accepted as `parsed`.
#[must_use]
pub fn read(frame: &[u8], parsed: &Parsed) -> PacketFields {
    let l3 = frame.get(usize::from(parsed.offsets.l3)..).unwrap_or_default();
    let mut fields = PacketFields::default();
    match (parsed.key.eth_type(), l3) {
        (ethertype::IPV4, [_, tos, l0, l1, _, _, _, _, ttl, ..]) => {
            fields.ecn = Some(tos & 3);
            fields.ip_length = Some(u16::from_be_bytes([*l0, *l1]));
            fields.ttl = Some(*ttl);
        }
        (ethertype::IPV6, [_, b1, _, _, l0, l1, _, hops, ..]) => {
            fields.ecn = Some((b1 >> 4) & 3);
            fields.ip_length = Some(u16::from_be_bytes([*l0, *l1]).saturating_add(40));
            fields.ttl = Some(*hops);
        }
        (ethertype::ARP, [_, _, _, _, _, _, _, _, m0, m1, m2, m3, m4, m5, ..]) => {
            fields.arp_sha = Some(u64::from_be_bytes([0, 0, *m0, *m1, *m2, *m3, *m4, *m5]));
        }
        _ => {}
    }
    if parsed.offsets.l4 != 0 {
        let l4 = frame.get(usize::from(parsed.offsets.l4)..).unwrap_or_default();
        match (parsed.key.protocol(), l4) {
            (protocol::TCP, [_, _, _, _, _, _, _, _, _, _, _, _, high, low, ..]) => {
                fields.tcp_flags = Some(u16::from_be_bytes([high & 1, *low]));
            }
            (protocol::ICMPV6, [135 | 136, _, _, _, _, _, _, _, target @ ..]) if parsed.offsets.l4_len >= 24 => {
                fields.nd_target = target.first_chunk().copied().map(u128::from_be_bytes);
            }
            _ => {}
        }
    }
    fields
}
