//! What the switch itself answers, checked with a library that did not write the answers.

use etherparse::{IcmpEchoHeader, Icmpv4Type, Icmpv6Type, NetSlice, SlicedPacket, TransportSlice};

use super::*;

/// An ARP request from station 1 for the gateway.
fn arp_request() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend_from_slice(&mac(1).0);
    frame.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend_from_slice(&mac(1).0);
    frame.extend_from_slice(&[10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 254]);
    frame
}

/// A neighbour solicitation from `source` for the gateway, with a source link-layer address option.
fn solicitation(source: [u8; 16], hop_limit: u8) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend_from_slice(&"fd00::fe".parse::<std::net::Ipv6Addr>().unwrap().octets());
    if source != [0; 16] {
        body.extend_from_slice(&[1, 1, 2, 0, 0, 0, 0, 1]);
    }
    let group: std::net::Ipv6Addr = "ff02::1:ff00:fe".parse().unwrap();
    let builder =
        PacketBuilder::ethernet2(mac(1).0, [0x33, 0x33, 0xff, 0, 0, 0xfe]).ipv6(source, group.octets(), hop_limit);
    let mut frame = Vec::new();
    builder.icmpv6_raw(135, 0, [0; 4]).write(&mut frame, &body[4..]).unwrap();
    frame
}

#[test]
fn a_gateways_arp_is_answered_to_the_asker_alone_and_with_its_tag() {
    let mut rig = Rig::new(&policy());
    let mut expected = mac(1).0.to_vec();
    expected.extend_from_slice(&GATEWAY.0);
    expected.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    expected.extend_from_slice(&GATEWAY.0);
    expected.extend_from_slice(&[10, 0, 0, 254]);
    expected.extend_from_slice(&mac(1).0);
    expected.extend_from_slice(&[10, 0, 0, 1]);
    assert_eq!(rig.pass(0, &arp_request()), [vec![expected.clone()], vec![], vec![]]);
    assert!(matches!(rig.fate(), Fate::Answered(_)));
    let (mut tagged, mut answer) = (arp_request(), expected);
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    answer.splice(12..12, [0x81, 0, 0, 7]);
    assert_eq!(rig.pass(0, &tagged), [vec![answer], vec![], vec![]]);
}

#[test]
fn an_arp_request_that_asks_for_no_gateway_goes_to_the_others() {
    let mut rig = Rig::new(&policy());
    let mut frame = arp_request();
    *frame.last_mut().unwrap() = 9;
    assert_eq!(rig.pass(0, &frame), [vec![], vec![frame.clone()], vec![frame.clone()]]);
}

#[test]
fn a_gateways_ping_is_answered_with_the_same_data() {
    let mut rig = Rig::new(&policy());
    let mut request = Vec::new();
    let builder = PacketBuilder::ethernet2(mac(1).0, GATEWAY.0).ipv4([10, 0, 0, 1], [10, 0, 0, 254], 3);
    builder.icmpv4_echo_request(77, 5).write(&mut request, &[0xab; 1000]).unwrap();
    let sent = rig.pass(0, &request);
    let packet = SlicedPacket::from_ethernet(&sent[0][0]).unwrap();
    let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("not IPv4") };
    let header = ip.header().to_header();
    assert_eq!((header.source, header.destination, header.time_to_live), ([10, 0, 0, 254], [10, 0, 0, 1], 64));
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    let Some(TransportSlice::Icmpv4(icmp)) = packet.transport else { panic!("not ICMP") };
    assert_eq!(icmp.icmp_type(), Icmpv4Type::EchoReply(IcmpEchoHeader { id: 77, seq: 5 }));
    assert_eq!((icmp.payload(), icmp.checksum()), (&[0xab; 1000][..], icmp.icmp_type().calc_checksum(&[0xab; 1000])));
}

#[test]
fn a_gateways_ping_over_ipv6_is_answered_with_the_same_data() {
    let mut rig = Rig::new(&policy());
    let (host, gateway): (std::net::Ipv6Addr, std::net::Ipv6Addr) =
        ("fd00::1".parse().unwrap(), "fd00::fe".parse().unwrap());
    let mut request = Vec::new();
    let builder = PacketBuilder::ethernet2(mac(1).0, GATEWAY.0).ipv6(host.octets(), gateway.octets(), 3);
    builder.icmpv6_echo_request(77, 5).write(&mut request, &[0xcd; 100]).unwrap();
    let sent = rig.pass(0, &request);
    let packet = SlicedPacket::from_ethernet(&sent[0][0]).unwrap();
    let Some(NetSlice::Ipv6(ip)) = packet.net else { panic!("not IPv6") };
    let header = ip.header().to_header();
    assert_eq!((header.source, header.destination, header.hop_limit), (gateway.octets(), host.octets(), 64));
    let Some(TransportSlice::Icmpv6(icmp)) = packet.transport else { panic!("not ICMPv6") };
    assert!(matches!(icmp.icmp_type(), Icmpv6Type::EchoReply(_)));
    assert!(icmp.is_checksum_valid(header.source, header.destination));
    assert_eq!(icmp.payload(), [0xcd; 100]);
}

#[test]
fn a_gateways_solicitation_is_answered_solicited_with_hop_limit_255() {
    let mut rig = Rig::new(&policy());
    let host: std::net::Ipv6Addr = "fd00::1".parse().unwrap();
    for (source, to, flags) in [
        (host, host, 0xe0),
        (std::net::Ipv6Addr::UNSPECIFIED, "ff02::1".parse().unwrap(), 0xa0), // duplicate address detection
    ] {
        let sent = rig.pass(0, &solicitation(source.octets(), 255));
        assert!(matches!(rig.fate(), Fate::Answered(_)));
        let packet = SlicedPacket::from_ethernet(&sent[0][0]).unwrap();
        let Some(NetSlice::Ipv6(ip)) = packet.net else { panic!("not IPv6") };
        let header = ip.header().to_header();
        assert_eq!((header.destination, header.hop_limit), (to.octets(), 255));
        let Some(TransportSlice::Icmpv6(icmp)) = packet.transport else { panic!("not ICMPv6") };
        assert!(icmp.is_checksum_valid(header.source, header.destination));
        let bytes = icmp.slice();
        assert_eq!((bytes[0], bytes[4]), (136, flags));
        assert_eq!(bytes[24..], [2, 1, 2, 0, 0, 0, 0, 0xfe], "target link-layer address");
    }
}

#[test]
fn a_solicitation_from_beyond_the_link_is_not_answered() {
    let mut rig = Rig::new(&policy());
    rig.pass(0, &solicitation("fd00::1".parse::<std::net::Ipv6Addr>().unwrap().octets(), 64));
    assert_eq!(rig.reason(), Some(DropReason::NotAnswered));
}

#[test]
fn what_the_switch_does_not_answer_is_dropped_by_name() {
    let mut rig = Rig::new(&policy());
    let mut frame = udp(1, 254, 53);
    frame[..6].copy_from_slice(&GATEWAY.0);
    assert!(rig.pass(0, &frame).iter().all(Vec::is_empty));
    assert_eq!(rig.reason(), Some(DropReason::NotAnswered));
}
