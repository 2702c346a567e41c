//! Answers of the switch itself: ARP and neighbour discovery for gateway addresses, and ICMP echo to them.

use flow_table::{
    fate::DropReason,
    id::{NetworkId, PathId},
    key::{ethertype, protocol},
    mac::MacAddr,
    pipeline::Pipeline,
    policy::NetworkPolicy,
};
use smoltcp::{
    phy::ChecksumCapabilities,
    wire::{
        ArpOperation, ArpPacket, ArpRepr, EthernetAddress, HardwareAddress, Icmpv4Packet, Icmpv4Repr, Icmpv6Packet,
        Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Address, Ipv6Packet, Ipv6Repr, NdiscNeighborFlags, NdiscRepr,
        RawHardwareAddress,
    },
};

use crate::{
    port::umem::{MAX_FRAME_BYTES, Umem},
    worker::{Fate, State, burst::Packet, no_rule, ports::Ports},
};

/// TTL and hop limit of answers (RFC 1700; RFC 4861, 7.1 asks 255 of neighbour discovery).
const TTL: u8 = 64;

/// Answers a packet for the switch itself, or drops it as not answered.
pub(super) fn answer(
    packet: Packet<'_>,
    network: NetworkId,
    path: PathId,
    policy: &Pipeline,
    umem: &mut Umem,
    ports: &mut Ports,
    state: &mut State,
) {
    let Packet { parsed, frame } = packet;
    let source = parsed.key.in_port();
    let mut reply = [0; MAX_FRAME_BYTES];
    let length =
        policy.network(network).and_then(|network| write_reply(umem.bytes(&frame), parsed, network, &mut reply));
    let tag_bytes = usize::from(parsed.offsets.l3).saturating_sub(14);
    umem.discard(frame);
    let Some(bytes) = length.and_then(|length| reply.get(..length)) else {
        state.drop_received(no_rule(DropReason::NotAnswered, source));
        return;
    };
    state.law.consumed += 1;
    state.note(Fate::Answered(path));
    state.law.generated += 1;
    let sent = match umem.copy_in(bytes) {
        Some(made) => ports.push(source, made, tag_bytes, source, umem),
        None => Err(DropReason::NoChunk),
    };
    if let Err(reason) = sent {
        state.count_drop(no_rule(reason, source));
    }
}

/// Writes the answer to `frame` into `reply`, with the same tag, back to its sender: its length.
fn write_reply(
    frame: &[u8],
    parsed: &flow_table::packet::Parsed,
    network: &NetworkPolicy,
    reply: &mut [u8; MAX_FRAME_BYTES],
) -> Option<usize> {
    let l3 = usize::from(parsed.offsets.l3);
    let (request, body) = (frame.get(l3..)?, reply.get_mut(l3..)?);
    let gateway = EthernetAddress(network.gateway_mac.0);
    let length = match parsed.key.eth_type() {
        ethertype::ARP => arp(request, gateway, network, body)?,
        ethertype::IPV4 if parsed.key.protocol() == protocol::ICMP => echo4(request, network, body)?,
        ethertype::IPV6 if parsed.key.protocol() == protocol::ICMPV6 => icmp6(request, gateway, network, body)?,
        _ => return None,
    };
    write_ethernet(frame.get(..l3)?, network.gateway_mac, reply.get_mut(..l3)?)?;
    Some(l3 + length)
}

/// The request's Ethernet header and tag, turned round.
fn write_ethernet(request: &[u8], from: MacAddr, reply: &mut [u8]) -> Option<()> {
    reply.copy_from_slice(request);
    let sender: [u8; 6] = request.get(6..12)?.first_chunk().copied()?;
    let (to, rest) = reply.split_first_chunk_mut::<6>()?;
    *to = sender;
    *rest.first_chunk_mut::<6>()? = from.0;
    Some(())
}

/// RFC 826: a request for a gateway's address.
fn arp(request: &[u8], gateway: EthernetAddress, network: &NetworkPolicy, reply: &mut [u8]) -> Option<usize> {
    let packet = ArpPacket::new_checked(request).ok()?;
    let ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr,
        source_protocol_addr,
        target_protocol_addr,
        ..
    } = ArpRepr::parse(&packet).ok()?
    else {
        return None;
    };
    if !network.gateways.contains(&target_protocol_addr.into()) {
        return None;
    }
    let answer = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: gateway,
        source_protocol_addr: target_protocol_addr,
        target_hardware_addr: source_hardware_addr,
        target_protocol_addr: source_protocol_addr,
    };
    let length = answer.buffer_len();
    answer.emit(&mut ArpPacket::new_unchecked(reply.get_mut(..length)?));
    Some(length)
}

/// RFC 792: an echo request to a gateway's address.
fn echo4(request: &[u8], network: &NetworkPolicy, reply: &mut [u8]) -> Option<usize> {
    let checksums = ChecksumCapabilities::default();
    let packet = Ipv4Packet::new_checked(request).ok()?;
    let ip = Ipv4Repr::parse(&packet, &checksums).ok()?;
    let whole = !packet.more_frags() && packet.frag_offset() == 0;
    let icmp = Icmpv4Packet::new_checked(packet.payload()).ok()?;
    let Icmpv4Repr::EchoRequest { ident, seq_no, data } = Icmpv4Repr::parse(&icmp, &checksums).ok()? else {
        return None;
    };
    if !whole || !network.gateways.contains(&ip.dst_addr.into()) {
        return None;
    }
    let echo = Icmpv4Repr::EchoReply { ident, seq_no, data };
    let answer = Ipv4Repr {
        src_addr: ip.dst_addr,
        dst_addr: ip.src_addr,
        next_header: IpProtocol::Icmp,
        payload_len: echo.buffer_len(),
        hop_limit: TTL,
    };
    let length = answer.buffer_len() + answer.payload_len;
    let mut out = Ipv4Packet::new_unchecked(reply.get_mut(..length)?);
    answer.emit(&mut out, &checksums);
    echo.emit(&mut Icmpv4Packet::new_unchecked(out.payload_mut()), &checksums);
    Some(length)
}

/// RFC 4443, 4.1 and RFC 4861, 7.2: an echo request to, or a solicitation for, a gateway's address.
fn icmp6(request: &[u8], gateway: EthernetAddress, network: &NetworkPolicy, reply: &mut [u8]) -> Option<usize> {
    let checksums = ChecksumCapabilities::default();
    let packet = Ipv6Packet::new_checked(request).ok()?;
    let ip = Ipv6Repr::parse(&packet).ok()?;
    if ip.next_header != IpProtocol::Icmpv6 {
        return None; // behind extension headers: not answered
    }
    let icmp = Icmpv6Packet::new_checked(packet.payload()).ok()?;
    let (answer, from, to, hop_limit) = match Icmpv6Repr::parse(&ip.src_addr, &ip.dst_addr, &icmp, &checksums).ok()? {
        Icmpv6Repr::EchoRequest { ident, seq_no, data } if network.gateways.contains(&ip.dst_addr.into()) => {
            (Icmpv6Repr::EchoReply { ident, seq_no, data }, ip.dst_addr, ip.src_addr, TTL)
        }
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, .. })
            if ip.hop_limit == 255 && network.gateways.contains(&target_addr.into()) =>
        {
            let (advert, to) = advertisement(target_addr, ip.src_addr, gateway);
            (Icmpv6Repr::Ndisc(advert), target_addr, to, 255)
        }
        _ => return None,
    };
    let header = Ipv6Repr {
        src_addr: from,
        dst_addr: to,
        next_header: IpProtocol::Icmpv6,
        payload_len: answer.buffer_len(),
        hop_limit,
    };
    let length = header.buffer_len() + header.payload_len;
    let mut out = Ipv6Packet::new_unchecked(reply.get_mut(..length)?);
    header.emit(&mut out);
    answer.emit(&from, &to, &mut Icmpv6Packet::new_unchecked(out.payload_mut()), &checksums);
    Some(length)
}

/// The advertisement for `target` and where it goes: to the asker, or to all nodes when the asker has no address yet
/// (RFC 4861, 7.2.4).
fn advertisement(
    target: Ipv6Address,
    asker: Ipv6Address,
    gateway: EthernetAddress,
) -> (NdiscRepr<'static>, Ipv6Address) {
    let solicited = !asker.is_unspecified();
    let mut flags = NdiscNeighborFlags::ROUTER | NdiscNeighborFlags::OVERRIDE;
    flags.set(NdiscNeighborFlags::SOLICITED, solicited);
    let lladdr = Some(RawHardwareAddress::from(HardwareAddress::Ethernet(gateway)));
    let to = if solicited { asker } else { Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1) };
    (NdiscRepr::NeighborAdvert { flags, target_addr: target, lladdr }, to)
}
