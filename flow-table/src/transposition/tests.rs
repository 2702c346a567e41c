//! Every edit against an oracle that changes the decoded packet and computes its checksums anew.

use etherparse::{IpNumber, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::*;
use crate::{
    field::{Field, Headers},
    packet::{fields, parse},
};

const EDITS: [Field; 10] = [
    Field::EthDst,
    Field::EthSrc,
    Field::IpDscp,
    Field::Ip4Src,
    Field::Ip4Dst,
    Field::Ip6Src,
    Field::Ip6Dst,
    Field::L4Src,
    Field::L4Dst,
    Field::IpTtl,
];

/// A packet of every kind the record can edit: IPv4 and IPv6, TCP, UDP, UDP without checksum, ICMP.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop::collection::vec(any::<u8>(), 0..80);
    (any::<[u8; 16]>(), any::<[u8; 16]>(), 0_u8..5, any::<(u16, u16, u8)>(), payload).prop_map(
        |(source, destination, kind, (sport, dport, tos), payload)| {
            let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
            let first4 = |bytes: [u8; 16]| [bytes[0], bytes[1], bytes[2], bytes[3]];
            let ip = if kind % 2 == 0 {
                ethernet.ipv4(first4(source), first4(destination), 64)
            } else {
                ethernet.ipv6(source, destination, 64)
            };
            let mut frame = Vec::new();
            match kind {
                0 | 1 => ip.tcp(sport, dport, 1, 2).write(&mut frame, &payload).unwrap(),
                2 | 3 => ip.udp(sport, dport).write(&mut frame, &payload).unwrap(),
                _ => ip.icmpv4_echo_request(sport, dport).write(&mut frame, &payload).unwrap(),
            }
            if kind == 2 && sport % 3 == 0 {
                frame[40..42].copy_from_slice(&[0, 0]); // UDP without a checksum
            }
            if kind % 2 == 0 {
                frame[15] = tos;
                frame[24..26].copy_from_slice(&[0, 0]);
                let checksum = !checksum::fold(checksum::sum(&frame[14..34]));
                frame[24..26].copy_from_slice(&checksum.to_be_bytes());
            }
            frame
        },
    )
}

/// True when every checksum in the frame is right, computed by another library from the whole packet.
fn checksums_are_right(frame: &[u8]) -> bool {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    match (packet.net.unwrap(), packet.transport.unwrap()) {
        (NetSlice::Ipv4(ip), transport) => {
            let header = ip.header().to_header();
            header.header_checksum == header.calc_header_checksum()
                && match transport {
                    TransportSlice::Tcp(tcp) => {
                        tcp.checksum() == tcp.calc_checksum_ipv4(header.source, header.destination).unwrap()
                    }
                    TransportSlice::Udp(udp) => {
                        let computed = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
                        udp.checksum() == 0 || udp.checksum() == computed
                    }
                    TransportSlice::Icmpv4(icmp) => icmp.checksum() == icmp.icmp_type().calc_checksum(icmp.payload()),
                    _ => false,
                }
        }
        (NetSlice::Ipv6(ip), transport) => {
            let header = ip.header().to_header();
            match transport {
                TransportSlice::Tcp(tcp) => {
                    tcp.checksum() == tcp.calc_checksum_ipv6(header.source, header.destination).unwrap()
                }
                TransportSlice::Udp(udp) => {
                    udp.checksum() == udp.to_header().calc_checksum_ipv6(&header, udp.payload()).unwrap()
                }
                _ => false,
            }
        }
        _ => false,
    }
}

/// The edits that a rule could ask of this packet.
fn legal(parsed: &Parsed, field: Field) -> bool {
    match field {
        Field::Ip4Src | Field::Ip4Dst => !parsed.key.is_ipv6(),
        Field::Ip6Src | Field::Ip6Dst => parsed.key.is_ipv6(),
        Field::L4Src | Field::L4Dst => matches!(parsed.key.protocol(), 6 | 17),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Every field, alone and with others: what is read back is what was set, everything else is as before, and every
    /// checksum is the one computed anew.
    #[test]
    fn every_edit_gives_the_packet_that_recomputing_from_scratch_gives(
        frame in any_frame(), chosen in prop::collection::vec(any::<bool>(), EDITS.len()), values in prop::collection::vec(any::<u128>(), EDITS.len()),
    ) {
        let parsed = parse(&frame, PortId(3)).unwrap();
        let mut wanted = Headers::new(&parsed.key, fields::read(&frame, &parsed));
        let mut decrement_ttl = false;
        for ((field, chosen), value) in EDITS.into_iter().zip(chosen).zip(values) {
            if chosen && legal(&parsed, field) {
                if field == Field::IpTtl {
                    decrement_ttl = true;
                    wanted.packet.ttl = wanted.packet.ttl.map(|ttl| ttl - 1);
                } else {
                    field.write(&mut wanted.words, value & field.mask(), u128::MAX);
                }
            }
        }
        let decision = Decision {
            before: &parsed.key, after: &wanted.words, decrement_ttl, way: Way::Port(PortId(1), VlanEdit::Keep), path: PathId(0),
        };
        let (record, wide) = compile(&decision);
        let mut edited = frame.clone();
        apply(&record, &wide, &mut edited, &parsed).unwrap();
        let read = parse(&edited, PortId(3)).unwrap();
        prop_assert_eq!(Headers::new(&read.key, fields::read(&edited, &read)), wanted);
        prop_assert!(checksums_are_right(&edited), "{:02x?}", edited);
        let header = if parsed.key.protocol() == 6 { 20 } else { 8 };
        let payload_at = usize::from(parsed.offsets.l4) + header;
        prop_assert_eq!(&edited[payload_at..], &frame[payload_at..]);
    }
}

#[test]
fn a_ttl_that_would_reach_zero_drops_the_packet_unchanged() {
    for ttl in [0, 1, 2] {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], ttl);
        builder.write(&mut frame, IpNumber(99), &[0; 8]).unwrap();
        let parsed = parse(&frame, PortId(0)).unwrap();
        let after = Headers::new(&parsed.key, fields::read(&frame, &parsed)).words;
        let way = Way::Port(PortId(1), VlanEdit::Keep);
        let decision = Decision { before: &parsed.key, after: &after, decrement_ttl: true, way, path: PathId(0) };
        let (record, wide) = compile(&decision);
        let before = frame.clone();
        let outcome = apply(&record, &wide, &mut frame, &parsed);
        if ttl < 2 {
            assert_eq!((outcome, frame), (Err(DropReason::TtlExpired), before));
        } else {
            assert_eq!((outcome, frame[22]), (Ok(()), 1));
        }
    }
}
