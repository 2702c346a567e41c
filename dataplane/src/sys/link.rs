//! Facts of a network device, by rtnetlink.

use std::io;

use flow_table::mac::MacAddr;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use super::ethtool;

/// The longest name a device can have, in bytes (`IFNAMSIZ` less its zero).
const MAX_NAME_BYTES: usize = 15;

/// What a device is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkFacts {
    /// Its number, in this network namespace.
    pub ifindex: u32,
    /// Longest packet in bytes, Ethernet header not counted.
    pub mtu: u32,
    /// Its address, `None` for one that has no six-byte address.
    pub mac: Option<MacAddr>,
    /// Administratively up.
    pub up: bool,
    /// How many asked for promiscuous mode, itself included.
    pub promiscuity: u32,
    /// Receive queues in use.
    pub rx_queues: u32,
    /// Transmit queues in use.
    pub tx_queues: u32,
    /// Whether it takes VLAN tags off before XDP sees a frame, `None` when the driver does not say.
    pub rx_vlan_offload: Option<bool>,
    /// One end of a veth pair.
    pub is_veth: bool,
    /// The id of the XDP program attached to it, by whomever and at whichever hook.
    pub xdp_program: Option<u32>,
}

/// Asks the kernel about the device called `name` in this thread's network namespace. `None` when there is none.
///
/// # Errors
/// Those of the netlink socket, and the kernel's other than `ENODEV`.
pub fn facts(name: &str) -> io::Result<Option<LinkFacts>> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return Ok(None);
    }
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request(name), 0)?;
    let (reply, _) = socket.recv_from_full()?;
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&reply)
        .map_err(|error| io::Error::other(error.to_string()))?;
    match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(Some(read(name, &link))),
        NetlinkPayload::Error(error) => match error.to_io() {
            error if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            error => Err(error),
        },
        _ => Err(io::Error::other("the kernel answered a question about a device with something else")),
    }
}

fn request(name: &str) -> Vec<u8> {
    let mut link = LinkMessage::default();
    link.attributes.push(LinkAttribute::IfName(name.to_owned()));
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(RouteNetlinkMessage::GetLink(link)));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn read(name: &str, link: &LinkMessage) -> LinkFacts {
    let mut facts = LinkFacts {
        ifindex: link.header.index,
        mtu: 0,
        mac: None,
        up: link.header.flags.contains(LinkFlags::Up),
        promiscuity: 0,
        rx_queues: 1,
        tx_queues: 1,
        rx_vlan_offload: ethtool::rx_vlan_offload(name),
        is_veth: false,
        xdp_program: None,
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => facts.mtu = *mtu,
            LinkAttribute::Address(octets) => facts.mac = octets.as_slice().try_into().ok().map(MacAddr),
            LinkAttribute::Promiscuity(count) => facts.promiscuity = *count,
            LinkAttribute::NumRxQueues(count) => facts.rx_queues = *count,
            LinkAttribute::NumTxQueues(count) => facts.tx_queues = *count,
            LinkAttribute::LinkInfo(infos) => facts.is_veth = infos.contains(&LinkInfo::Kind(InfoKind::Veth)),
            LinkAttribute::Xdp(records) => facts.xdp_program = attached(records),
            _ => {}
        }
    }
    // Netlink counts the queues a device was made with; those it uses now may be fewer.
    if let Some((rx, tx)) = ethtool::queues(name) {
        (facts.rx_queues, facts.tx_queues) = (rx, tx);
    }
    facts
}

fn attached(records: &[LinkXdp]) -> Option<u32> {
    records.iter().find_map(|record| match record {
        LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) | LinkXdp::HwProgId(id) if *id != 0 => {
            Some(*id)
        }
        _ => None,
    })
}
