//! Scalars with a law.

use crate::{
    shape::Leaf,
    value::{address, duration, mac, name, packet},
};

const NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$";
const PEER_PATTERN: &str = "^[A-Za-z][A-Za-z0-9_.-]{0,62}$";
const MAC_PATTERN: &str = "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$";
const MAC_MASK_PATTERN: &str = "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}(/[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5})?$";

macro_rules! leaf {
    ($name:ident, $what:literal, $pattern:expr, $check:expr) => {
        pub(super) static $name: Leaf =
            Leaf { what: $what, pattern: $pattern, numeric: false, joined: false, check: $check };
    };
}

leaf!(NAME, "a name", Some(NAME_PATTERN), |s| name::name(&s.text));
leaf!(PEER_NAME, "the name of a set or group", Some(PEER_PATTERN), |s| name::peer_name(&s.text));
leaf!(DEVICE, "the name of a network device", Some("^[^/:\\s]{1,15}$"), |s| name::device(&s.text));
leaf!(ADDRESS, "an IP address", Some("^[0-9a-fA-F.:]+$"), |s| address::address(&s.text).map(drop));
leaf!(HOST, "the IP address of a host", Some("^[0-9a-fA-F.:]+$"), |s| address::host(&s.text).map(drop));
leaf!(PREFIX, "an IP address or prefix", Some("^[0-9a-fA-F.:]+(/[0-9]{1,3})?$"), |s| address::prefix(&s.text)
    .map(drop));
leaf!(CIDR, "a prefix such as 10.0.0.0/24", Some("^[0-9a-fA-F.:]+/[0-9]{1,3}$"), |s| address::cidr(&s.text).map(drop));
leaf!(
    PORT_ADDRESS,
    "an IP address, for an uplink with its prefix length",
    Some("^[0-9a-fA-F.:]+(/[0-9]{1,3})?$"),
    |s| address::address_or_interface(&s.text)
);
leaf!(UNICAST, "a MAC address", Some(MAC_PATTERN), |s| mac::unicast(&s.text).map(drop));
leaf!(MAC_MASKED, "a MAC address, or one with a mask after a slash", Some(MAC_MASK_PATTERN), |s| {
    mac::masked(&s.text).map(drop)
});
leaf!(MAC, "a MAC address", Some(MAC_PATTERN), |s| mac::mac(&s.text).map(drop));
leaf!(AGING, "a time such as 300s", Some("^[0-9]+[smh]$"), |s| duration::aging(&s.text).map(drop));
pub(super) static TCP_FLAGS: Leaf = Leaf {
    what: "TCP flags such as \"syn,!ack\"",
    pattern: Some("^!?[a-z]+(, *!?[a-z]+)*$"),
    numeric: false,
    joined: true,
    check: |s| packet::tcp_flags(&s.text).map(drop),
};
// Whether a name exists is checked where the names are known.
leaf!(PEER, "an IP address, a prefix, or the name of a set or group", None, |s| {
    if address::looks_like_one(&s.text) { address::prefix(&s.text).map(drop) } else { name::peer_name(&s.text) }
});
leaf!(IPV4, "an IPv4 address or prefix", Some("^[0-9.]+(/[0-9]{1,2})?$"), |s| address::family(&s.text, true).map(drop));
leaf!(IPV6, "an IPv6 address or prefix", Some("^[0-9a-fA-F.:]+(/[0-9]{1,3})?$"), |s| {
    address::family(&s.text, false).map(drop)
});

macro_rules! numeric {
    ($name:ident, $what:literal, $pattern:literal, $check:expr) => {
        pub(super) static $name: Leaf =
            Leaf { what: $what, pattern: Some($pattern), numeric: true, joined: false, check: $check };
    };
}

numeric!(ETHER_TYPE, "ipv4, ipv6, arp or an EtherType such as 0x88cc", "^(ipv4|ipv6|arp)$", |s| {
    packet::ether_type(s).map(drop)
});
numeric!(PROTOCOL, "tcp, udp, icmp, icmpv6, sctp or a protocol number", "^(tcp|udp|icmp|icmpv6|sctp)$", |s| {
    packet::ip_protocol(s).map(drop)
});
numeric!(ARP_OP, "request, reply or a number", "^(request|reply)$", |s| packet::arp_operation(s).map(drop));
numeric!(VLAN_MATCH, "a VLAN id, a range of them, or none (untagged)", "^(none|[0-9]+ *- *[0-9]+)$", |s| {
    packet::vlan_or_none(s).map(drop)
});
numeric!(VLAN_OUT, "a VLAN id or untagged", "^untagged$", |s| packet::vlan_or_untagged(s).map(drop));
