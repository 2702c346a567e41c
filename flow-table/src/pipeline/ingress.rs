//! Before the tables: may a frame like this come in here at all, and which domain is it in?

use super::{Topology, walk::Walk};
use crate::{
    fate::DropReason,
    fdb::Domain,
    field::Field,
    key::{FlowKey, ethertype, protocol},
    policy::VlanMode,
};

/// Checks the frame's addresses and tag, and sets the walk's place.
pub(super) fn admit(topology: &Topology, key: &FlowKey, walk: &mut Walk) -> Result<(), DropReason> {
    walk.in_port = key.in_port();
    let port = topology.port(walk.in_port).ok_or(DropReason::NoDestination)?;
    if key.eth_dst().is_link_local_control() {
        return Err(DropReason::LinkLocalControl);
    }
    if !key.eth_src().is_unicast() {
        return Err(DropReason::BadSource);
    }
    if matches!(key.eth_type(), ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_SERVICE_VLAN) {
        return Err(DropReason::Vlan); // what a further tag hides would be judged by no table
    }
    let vlan = vlan_of(&port.vlan, key.vlan_tci()).ok_or(DropReason::Vlan)?;
    walk.domain = port.network.map(|network| Domain { network, vlan });
    if let Some(domain) = walk.domain {
        walk.write(Field::Network, u64::from(domain.network.0));
    }
    walk.volatile = is_never_cached(key);
    Ok(())
}

/// The VLAN of a frame with this tag on a port of this mode; `None` when the port does not carry it.
///
/// A priority tag (VLAN id 0) counts as no tag (IEEE 802.1Q-2018, 6.9).
pub(super) fn vlan_of(mode: &VlanMode, tci: u16) -> Option<u16> {
    let tagged = tci & 0x0fff;
    if tagged == 0x0fff {
        return None; // reserved (IEEE 802.1Q-2018, 9.6)
    }
    match mode {
        VlanMode::All => Some(tagged),
        VlanMode::Access(vlan) => (tagged == 0).then(|| vlan.get()),
        VlanMode::Trunk { native, .. } if tagged == 0 => native.map(crate::id::VlanId::get),
        VlanMode::Trunk { tagged: carried, .. } => carried.iter().any(|vlan| vlan.get() == tagged).then_some(tagged),
    }
}

/// ARP, neighbour discovery and DHCP: judged packet by packet by table `security`, never flow entries.
pub(super) fn is_never_cached(key: &FlowKey) -> bool {
    key.eth_type() == ethertype::ARP || is_neighbour_discovery(key) || is_dhcp(key)
}

/// Router and neighbour discovery and redirects: ICMPv6 133 to 137 (RFC 4861, 4).
pub(super) fn is_neighbour_discovery(key: &FlowKey) -> bool {
    key.is_ipv6() && key.protocol() == protocol::ICMPV6 && matches!(key.l4_dst() >> 8, 133..=137)
}

/// DHCP (RFC 2131, 4.1) and DHCPv6 (RFC 8415, 7.2), by their port pairs.
pub(super) fn is_dhcp(key: &FlowKey) -> bool {
    let ports = (key.l4_src(), key.l4_dst());
    let pairs = match key.eth_type() {
        ethertype::IPV4 => matches!(ports, (67 | 68, 67) | (67, 68)),
        ethertype::IPV6 => matches!(ports, (546 | 547, 547) | (547, 546)),
        _ => false,
    };
    pairs && key.protocol() == protocol::UDP && !key.is_later_fragment()
}
