//! From bytes to flow key: one bounded pass, lengths taken from IP and checked against the frame.

use crate::{
    fate::DropReason,
    id::PortId,
    key::{FlowKey, Fragment, VLAN_PRESENT, ethertype, protocol},
};

/// Most IPv6 extension headers walked; a packet with more is malformed (RFC 8504, 5.3 allows a limit).
pub const MAX_EXTENSION_HEADERS: u32 = 8;

/// A frame's flow key, and where its headers lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parsed {
    /// The key.
    pub key: FlowKey,
    /// Where the headers lie.
    pub offsets: Offsets,
}

/// Where headers lie, in bytes from the frame's start. Zero where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offsets {
    /// The network header: after the Ethernet header and any tag.
    pub l3: u16,
    /// The transport header; zero when there is none to be read (not IP, a later fragment, an unknown protocol).
    pub l4: u16,
    /// Bytes from the transport header to the end of the IP packet, as IP's own length says.
    pub l4_len: u16,
}

/// Reads a frame that came in by `in_port`. O(1): at most [`MAX_EXTENSION_HEADERS`] headers.
///
/// Non-IP frames are keyed by their L2 fields alone. Bytes beyond IP's length are padding. Ports are read only from whole
/// datagrams and first fragments.
///
/// # Errors
/// [`DropReason::Runt`] for less than 14 bytes; [`DropReason::Malformed`] when a header's length or version contradicts the
/// bytes present (RFC 791, 3.1; RFC 8200, 3 and 4.5; RFC 768; RFC 9293, 3.1; RFC 826), or a fragment is one that no sender
/// makes (RFC 1858, 3; RFC 5722); [`DropReason::Oversize`] above 65,535 bytes.
#[inline]
pub fn parse(frame: &[u8], in_port: PortId) -> Result<Parsed, DropReason> {
    let ethernet = frame.first_chunk::<14>().ok_or(DropReason::Runt)?;
    if frame.len() > usize::from(u16::MAX) {
        return Err(DropReason::Oversize);
    }
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *ethernet;
    let mut eth_type = u16::from_be_bytes([t0, t1]);
    let mut tci = 0;
    let mut l3 = 14;
    if eth_type == ethertype::VLAN {
        let [c0, c1, t0, t1] = *at::<4>(frame, 14)?;
        tci = u16::from_be_bytes([c0, c1]) | VLAN_PRESENT;
        eth_type = u16::from_be_bytes([t0, t1]);
        l3 = 18;
    }
    if eth_type < ethertype::FIRST {
        eth_type = ethertype::LLC;
    }
    let mut inner = Inner::default();
    let mut offsets = Offsets { l3, l4: 0, l4_len: 0 };
    match eth_type {
        ethertype::IPV4 => ipv4(frame, &mut inner, &mut offsets)?,
        ethertype::IPV6 => ipv6(frame, &mut inner, &mut offsets)?,
        ethertype::ARP => arp(frame, l3, &mut inner)?,
        _ => {}
    }
    let word0 = (u64::from(in_port.0) << 48)
        | (u64::from(eth_type) << 32)
        | (u64::from(tci) << 16)
        | (u64::from(inner.protocol) << 8)
        | (u64::from(inner.dscp) << 2)
        | u64::from(inner.fragment);
    let word1 = u64::from_be_bytes([d0, d1, d2, d3, d4, d5, 0, 0]) | u64::from(inner.l4_src);
    let word2 = u64::from_be_bytes([s0, s1, s2, s3, s4, s5, 0, 0]) | u64::from(inner.l4_dst);
    let [a, b, c, d] = inner.wide;
    Ok(Parsed { key: FlowKey([word0, word1, word2, inner.addresses, a, b, c, d]), offsets })
}

/// What lies above Ethernet, on its way into the key.
#[derive(Default)]
struct Inner {
    protocol: u8,
    dscp: u8,
    fragment: u8,
    l4_src: u16,
    l4_dst: u16,
    addresses: u64,
    wide: [u64; 4],
}

/// The `N` bytes at `offset`.
#[inline]
fn at<const N: usize>(frame: &[u8], offset: u16) -> Result<&[u8; N], DropReason> {
    frame.get(usize::from(offset)..).and_then(<[u8]>::first_chunk).ok_or(DropReason::Malformed)
}

#[inline]
fn ipv4(frame: &[u8], inner: &mut Inner, offsets: &mut Offsets) -> Result<(), DropReason> {
    let header = at::<20>(frame, offsets.l3)?;
    let [version_ihl, tos, l0, l1, _, _, f0, f1, _, proto, _, _, addresses @ ..] = *header;
    let header_len = u16::from(version_ihl & 0x0f) * 4;
    let total = u16::from_be_bytes([l0, l1]);
    let present = frame.len() - usize::from(offsets.l3);
    if version_ihl >> 4 != 4 || header_len < 20 || total < header_len || usize::from(total) > present {
        return Err(DropReason::Malformed);
    }
    inner.protocol = proto;
    inner.dscp = tos >> 2;
    inner.addresses = u64::from_be_bytes(addresses);
    let fragment = u16::from_be_bytes([f0, f1]);
    let payload = total - header_len;
    inner.fragment = fragment_state(fragment & 0x1fff, fragment & 0x2000 != 0, payload, proto)?;
    l4(frame, proto, offsets.l3 + header_len, payload, inner, offsets)
}

#[inline]
fn ipv6(frame: &[u8], inner: &mut Inner, offsets: &mut Offsets) -> Result<(), DropReason> {
    let header = at::<40>(frame, offsets.l3)?;
    let [v0, v1, _, _, l0, l1, next, _, addresses @ ..] = *header;
    let payload = u16::from_be_bytes([l0, l1]);
    let present = frame.len() - usize::from(offsets.l3) - 40;
    if v0 >> 4 != 6 || usize::from(payload) > present {
        return Err(DropReason::Malformed);
    }
    inner.dscp = (v0 & 0x0f) << 2 | v1 >> 6;
    let (words, _) = addresses.as_chunks::<8>();
    for (to, from) in inner.wide.iter_mut().zip(words) {
        *to = u64::from_be_bytes(*from);
    }
    let first = offsets.l3 + 40;
    let (proto, l4_at) =
        if is_extension(next) { extensions(frame, next, first, payload, inner)? } else { (next, first) };
    inner.protocol = proto;
    l4(frame, proto, l4_at, payload - (l4_at - first), inner, offsets)
}

/// True for the headers that may stand between IPv6 and the transport: hop-by-hop options, routing, fragment, destination
/// options (RFC 8200, 4), authentication (RFC 4302).
const fn is_extension(next: u8) -> bool {
    matches!(next, 0 | 43 | 44 | 51 | 60)
}

/// Walks extension headers from `first` on, inside the `payload` bytes there. Protocol and offset of what follows them.
#[cold]
#[inline(never)]
fn extensions(
    frame: &[u8],
    mut next: u8,
    first: u16,
    payload: u16,
    inner: &mut Inner,
) -> Result<(u8, u16), DropReason> {
    let end = first + payload;
    let mut offset = first;
    let mut left = MAX_EXTENSION_HEADERS;
    while is_extension(next) {
        let [following, len, b2, b3, ..] = *at::<8>(frame, offset)?;
        if left == 0 || end - offset < 8 {
            return Err(DropReason::Malformed);
        }
        left -= 1;
        let size = match next {
            44 => {
                if inner.fragment != Fragment::Whole as u8 {
                    return Err(DropReason::Malformed); // a second one would undo the first
                }
                let word = u16::from_be_bytes([b2, b3]);
                let rest = end - offset - 8;
                inner.fragment = fragment_state(word >> 3, word & 1 != 0, rest, following)?;
                8
            }
            51 => (u16::from(len) + 2) * 4,
            _ => (u16::from(len) + 1) * 8,
        };
        if size > end - offset {
            return Err(DropReason::Malformed);
        }
        next = following;
        offset += size;
        if inner.fragment == Fragment::Later as u8 {
            break; // what follows is the middle of something
        }
    }
    Ok((next, offset))
}

/// Fragment bits of the key. `offset` in units of 8 bytes, `payload` in bytes.
#[inline]
fn fragment_state(offset: u16, more: bool, payload: u16, proto: u8) -> Result<u8, DropReason> {
    if offset == 0 && !more {
        return Ok(Fragment::Whole as u8);
    }
    let end = u32::from(offset) * 8 + u32::from(payload);
    // Nothing, beyond the largest datagram, or cut where no sender cuts.
    let impossible = payload == 0 || end > 65_535 || (more && !payload.is_multiple_of(8));
    // RFC 1858, 3.2.2: a first fragment without the TCP flags, and a second one that would overwrite them.
    let evasive = proto == protocol::TCP && ((offset == 0 && payload < 20) || offset == 1);
    if impossible || evasive {
        return Err(DropReason::Malformed);
    }
    Ok(if offset == 0 { Fragment::First as u8 } else { Fragment::Later as u8 })
}

/// Reads ports, or ICMP type, code and identifier, of the `len` bytes at `offset`.
#[inline]
fn l4(
    frame: &[u8],
    proto: u8,
    offset: u16,
    len: u16,
    inner: &mut Inner,
    offsets: &mut Offsets,
) -> Result<(), DropReason> {
    if inner.fragment == Fragment::Later as u8 {
        return Ok(());
    }
    let whole = inner.fragment == Fragment::Whole as u8;
    match proto {
        protocol::TCP => {
            let [s0, s1, d0, d1, _, _, _, _, _, _, _, _, data_offset, ..] = *at::<20>(frame, offset)?;
            let header = u16::from(data_offset >> 4) * 4;
            if len < 20 || header < 20 || (whole && header > len) {
                return Err(DropReason::Malformed);
            }
            inner.l4_src = u16::from_be_bytes([s0, s1]);
            inner.l4_dst = u16::from_be_bytes([d0, d1]);
        }
        protocol::UDP => {
            let [s0, s1, d0, d1, l0, l1, _, _] = *at::<8>(frame, offset)?;
            let stated = u16::from_be_bytes([l0, l1]);
            if len < 8 || stated < 8 || (whole && stated > len) {
                return Err(DropReason::Malformed);
            }
            inner.l4_src = u16::from_be_bytes([s0, s1]);
            inner.l4_dst = u16::from_be_bytes([d0, d1]);
        }
        protocol::ICMP | protocol::ICMPV6 => {
            let [kind, code, _, _, i0, i1, _, _] = *at::<8>(frame, offset)?;
            if len < 8 {
                return Err(DropReason::Malformed);
            }
            let is_echo = if proto == protocol::ICMP { matches!(kind, 0 | 8) } else { matches!(kind, 128 | 129) };
            inner.l4_src = if is_echo { u16::from_be_bytes([i0, i1]) } else { 0 };
            inner.l4_dst = u16::from_be_bytes([kind, code]);
        }
        _ => return Ok(()),
    }
    offsets.l4 = offset;
    offsets.l4_len = len;
    Ok(())
}

#[inline]
fn arp(frame: &[u8], l3: u16, inner: &mut Inner) -> Result<(), DropReason> {
    let [h0, h1, p0, p1, hlen, plen, _, op, _, _, _, _, _, _, s0, s1, s2, s3, _, _, _, _, _, _, t0, t1, t2, t3] =
        *at::<28>(frame, l3)?;
    // Ethernet and IPv4 only (RFC 826).
    if [h0, h1, p0, p1, hlen, plen] != [0, 1, 8, 0, 6, 4] {
        return Err(DropReason::Malformed);
    }
    inner.protocol = op;
    inner.addresses = u64::from_be_bytes([s0, s1, s2, s3, t0, t1, t2, t3]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// UDP 10.0.0.1:4000 > 10.0.0.2:53, VLAN 10 priority 5, DSCP 46, four bytes of payload and two of padding.
    const TAGGED: [u8; 52] = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0xa0, 10, 8, 0, // Ethernet, tag
        0x45, 0xb8, 0, 32, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
        0x0f, 0xa0, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4, 0, 0, // UDP
    ];

    #[test]
    fn every_field_of_a_tagged_udp_packet_reaches_the_key() {
        let parsed = parse(&TAGGED, PortId(7)).unwrap();
        let key = parsed.key;
        assert_eq!(key.in_port(), PortId(7));
        assert_eq!((key.eth_type(), key.vlan_tci(), key.vlan_id()), (0x0800, 0xb00a, 10));
        assert_eq!(
            (key.eth_dst().to_string(), key.eth_src().to_string()),
            ("02:00:00:00:00:02".into(), "02:00:00:00:00:01".into())
        );
        assert_eq!((key.protocol(), key.l4_src(), key.l4_dst(), key.is_fragment()), (17, 4000, 53, false));
        assert_eq!(key.ipv4(), ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
        assert_eq!((key.0[0] >> 2) & 0x3f, 46);
        assert_eq!(parsed.offsets, Offsets { l3: 18, l4: 38, l4_len: 12 });
    }

    #[test]
    fn lengths_that_contradict_the_bytes_are_malformed() {
        for (at, value) in [(18, 0x44), (18, 0x4f), (18, 0x65), (21, 19), (21, 35), (43, 7), (43, 13)] {
            let mut frame = TAGGED;
            frame[at] = value;
            assert_eq!(parse(&frame, PortId(0)), Err(DropReason::Malformed), "byte {at} = {value:#x}");
        }
        assert_eq!(parse(&TAGGED[..13], PortId(0)), Err(DropReason::Runt));
        assert_eq!(parse(&[], PortId(0)), Err(DropReason::Runt));
    }

    #[test]
    fn a_later_fragment_has_no_ports_and_its_payload_is_not_read_as_ports() {
        let mut frame = TAGGED;
        frame[24..26].copy_from_slice(&[0, 100]);
        let parsed = parse(&frame, PortId(0)).unwrap();
        assert!(parsed.key.is_later_fragment());
        assert_eq!((parsed.key.l4_src(), parsed.key.l4_dst(), parsed.offsets.l4), (0, 0, 0));
    }

    #[test]
    fn a_second_fragment_header_does_not_undo_the_first() {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 44, 64];
        frame.extend_from_slice(&[0x20; 32]);
        frame.extend_from_slice(&[44, 0, 0, 1, 0, 0, 0, 1]); // first fragment, more to come
        frame.extend_from_slice(&[17, 0, 0, 0, 0, 0, 0, 1]); // whole
        frame.extend_from_slice(&[0, 53, 0, 53, 0, 8, 0, 0]);
        assert_eq!(parse(&frame, PortId(0)), Err(DropReason::Malformed));
    }

    #[test]
    fn llc_frames_have_no_ethertype() {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&[0, 38]);
        assert_eq!(parse(&frame, PortId(0)).unwrap().key.eth_type(), ethertype::LLC);
    }
}
