//! Keys of rules: what they match and what they do.

use super::leaf;
use crate::shape::{
    Key, Object,
    Shape::{self, Integer, Leaf, OneOrMany, Span, Word, WordOr},
};

const BYTE: Shape = OneOrMany(&Span { min: 0, max: 255 });
const PORT: Shape = OneOrMany(&Span { min: 0, max: 65_535 });
static EMPTY: Object = Object::new("an action without settings", &[]);

pub(crate) const NO_CONNECTIONS: &str = "\"allow\" needs connection tracking, which this version does not have; \
                              write allow-stateless, which lets these packets through and says nothing about replies";
const NO_REJECT: &str = "\"reject\" is not available in this version; write deny, which drops without an answer";
const NO_SHADOW: &str = "\"shadow\" is not available in this version";

pub(crate) static FLOW: Object = Object {
    known_as: &[("actions", "action"), ("matches", "match"), ("when", "match"), ("then", "action")],
    ..Object::new(
        "a flow",
        &[
            Key::required("name", Leaf(&leaf::NAME), "the rule's name, unique among rules; its counters go by it"),
            Key::required(
                "table",
                Word(&["classify", "security", "acl-from", "forward", "acl-to", "output"]),
                "the table it is in",
            ),
            Key::optional(
                "priority",
                Integer { min: 0, max: 65_535 },
                "the highest that matches wins; 1000 by default",
            ),
            Key::required("match", Shape::Object(&MATCH), "which packets; {} for every packet"),
            Key::required("action", WordOr(ACTION_WORDS, &ACTION), "what to do with them"),
        ],
    )
};

pub(crate) static MATCH: Object = Object {
    later: &[
        ("ct.state", "\"ct.state\" needs connection tracking, which this version does not have"),
        ("ct_state", "\"ct_state\" needs connection tracking, which this version does not have"),
    ],
    known_as: &[
        ("in_port", "in"),
        ("in-port", "in"),
        ("out_port", "out"),
        ("dl_src", "eth.src"),
        ("dl_dst", "eth.dst"),
        ("dl_type", "eth.type"),
        ("dl_vlan", "vlan.id"),
        ("dl_vlan_pcp", "vlan.pcp"),
        ("vlan_tci", "vlan.id"),
        ("nw_src", "ip.src"),
        ("nw_dst", "ip.dst"),
        ("ipv6_src", "ip.src"),
        ("ipv6_dst", "ip.dst"),
        ("nw_proto", "ip.proto"),
        ("proto", "ip.proto"),
        ("nw_tos", "ip.dscp"),
        ("nw_ecn", "ip.ecn"),
        ("nw_ttl", "ip.ttl"),
        ("ip_frag", "ip.fragment"),
        ("pkt_mark", "mark"),
        ("src", "ip.src"),
        ("dst", "ip.dst"),
        ("tp_src", "tcp.src"),
        ("tp_dst", "tcp.dst"),
        ("sport", "tcp.src"),
        ("dport", "tcp.dst"),
        ("srcport", "tcp.src"),
        ("dstport", "tcp.dst"),
        ("src_port", "tcp.src"),
        ("dst_port", "tcp.dst"),
        ("icmp_type", "icmp.type"),
        ("icmp_code", "icmp.code"),
        ("icmpv6.type", "icmp6.type"),
        ("icmpv6.code", "icmp6.code"),
        ("icmpv6_type", "icmp6.type"),
        ("arp_op", "arp.op"),
        ("nd_target", "nd.target"),
    ],
    ..Object::new("a match", MATCH_KEYS)
};

static MATCH_KEYS: &[Key] = &[
    Key::optional("in", OneOrMany(&Leaf(&leaf::NAME)), "the port it came in by"),
    Key::optional("out", OneOrMany(&Leaf(&leaf::NAME)), "the port it leaves by; in tables acl-to and output"),
    Key::optional("network", OneOrMany(&Leaf(&leaf::NAME)), "the network it is in"),
    Key::optional("mark", OneOrMany(&Span { min: 0, max: 0xffff_ffff }), "the mark that table classify set"),
    Key::optional("eth.src", OneOrMany(&Leaf(&leaf::MAC_MASKED)), "source MAC"),
    Key::optional("eth.dst", OneOrMany(&Leaf(&leaf::MAC_MASKED)), "destination MAC"),
    Key::optional("eth.type", OneOrMany(&Leaf(&leaf::ETHER_TYPE)), "EtherType after any VLAN tag"),
    Key::optional(
        "vlan.id",
        OneOrMany(&Leaf(&leaf::VLAN_MATCH)),
        "VLAN id in the tag; none for frames without one, priority-tagged ones included",
    ),
    Key::optional("vlan.pcp", OneOrMany(&Span { min: 0, max: 7 }), "priority in the VLAN tag; tagged frames only"),
    Key::optional("ip.proto", OneOrMany(&Leaf(&leaf::PROTOCOL)), "IP protocol"),
    Key::optional("ip.src", OneOrMany(&Leaf(&leaf::PEER)), "source: addresses, prefixes, sets, groups"),
    Key::optional("ip.dst", OneOrMany(&Leaf(&leaf::PEER)), "destination: addresses, prefixes, sets, groups"),
    Key::optional("ip.dscp", OneOrMany(&Span { min: 0, max: 63 }), "differentiated services code point"),
    Key::optional("ip.ecn", OneOrMany(&Span { min: 0, max: 3 }), "explicit congestion notification"),
    Key::optional("ip.ttl", BYTE, "TTL or hop limit"),
    Key::optional("ip.length", PORT, "bytes of the IP packet, header included"),
    Key::optional(
        "ip.fragment",
        OneOrMany(&Word(&["whole", "no", "first", "later", "yes"])),
        "whole (or no), first, later, or yes for first and later",
    ),
    Key::optional("tcp.src", PORT, "TCP source port; implies ip.proto: tcp"),
    Key::optional("tcp.dst", PORT, "TCP destination port; implies ip.proto: tcp"),
    Key::optional("tcp.flags", Leaf(&leaf::TCP_FLAGS), "TCP flags set and not set; implies ip.proto: tcp"),
    Key::optional("udp.src", PORT, "UDP source port; implies ip.proto: udp"),
    Key::optional("udp.dst", PORT, "UDP destination port; implies ip.proto: udp"),
    Key::optional("icmp.type", BYTE, "ICMP type; implies eth.type: ipv4 and ip.proto: icmp"),
    Key::optional("icmp.code", BYTE, "ICMP code; implies eth.type: ipv4 and ip.proto: icmp"),
    Key::optional("icmp6.type", BYTE, "ICMPv6 type; implies eth.type: ipv6 and ip.proto: icmpv6"),
    Key::optional("icmp6.code", BYTE, "ICMPv6 code; implies eth.type: ipv6 and ip.proto: icmpv6"),
    Key::optional("arp.op", OneOrMany(&Leaf(&leaf::ARP_OP)), "ARP operation; implies eth.type: arp"),
    Key::optional("arp.spa", OneOrMany(&Leaf(&leaf::IPV4)), "ARP sender IPv4 address; implies eth.type: arp"),
    Key::optional("arp.tpa", OneOrMany(&Leaf(&leaf::IPV4)), "ARP target IPv4 address; implies eth.type: arp"),
    Key::optional("arp.sha", OneOrMany(&Leaf(&leaf::MAC)), "ARP sender MAC; implies eth.type: arp"),
    Key::optional(
        "nd.target",
        OneOrMany(&Leaf(&leaf::IPV6)),
        "target of a neighbour solicitation or advertisement; implies ip.proto: icmpv6",
    ),
];

/// Actions without settings; which of them a table takes is checked where it is read.
pub(crate) const ACTION_WORDS: &[&str] = &["next", "drop", "allow", "allow-stateless", "deny", "flood", "normal"];

static ACTION: Object = Object {
    later: &[
        ("reject", NO_REJECT),
        ("shadow", NO_SHADOW),
        ("goto", "\"goto\" is not available in this version"),
        ("meter", "\"meter\" is not available in this version"),
        ("mirror", "\"mirror\" is not available in this version"),
        ("sample", "\"sample\" is not available in this version"),
    ],
    known_as: &[
        ("output", "port"),
        ("set_field", "set"),
        ("mod_nw_tos", "set"),
        ("push_vlan", "vlan"),
        ("accept", "allow-stateless"),
        ("permit", "allow-stateless"),
        ("pass", "allow-stateless"),
    ],
    ..Object::new(
        "an action",
        &[
            Key::optional("mark", Integer { min: 0, max: 0xffff_ffff }, "table classify: on, with this mark"),
            Key::optional("port", Leaf(&leaf::NAME), "table forward: out by this port"),
            Key::optional("flood", Shape::Object(&EMPTY), "table forward: out by every other port of the L2 domain"),
            Key::optional("normal", Shape::Object(&EMPTY), "table forward: where the network's switching sends it"),
            Key::optional(
                "set",
                Shape::Object(&SET),
                "with port, flood or normal: header edits; in table output, on its own",
            ),
            Key::optional("vlan", Leaf(&leaf::VLAN_OUT), "table output: leaves with this VLAN id, or untagged"),
        ],
    )
};

pub(crate) static SET: Object = Object {
    known_as: &[("mod_dl_src", "eth.src"), ("mod_dl_dst", "eth.dst"), ("dec_ttl", "ip.ttl"), ("nw_tos", "ip.dscp")],
    ..Object::new(
        "set",
        &[
            Key::optional("eth.src", Leaf(&leaf::UNICAST), "source MAC"),
            Key::optional("eth.dst", Leaf(&leaf::MAC), "destination MAC"),
            Key::optional("ip.src", Leaf(&leaf::ADDRESS), "source address, of the family the match demands"),
            Key::optional("ip.dst", Leaf(&leaf::ADDRESS), "destination address, of the family the match demands"),
            Key::optional("ip.dscp", Integer { min: 0, max: 63 }, "differentiated services code point"),
            Key::optional("ip.ttl", Word(&["decrement"]), "one less; a packet that would reach zero is dropped"),
            Key::optional("tcp.src", Integer { min: 0, max: 65_535 }, "TCP source port; the match demands TCP"),
            Key::optional("tcp.dst", Integer { min: 0, max: 65_535 }, "TCP destination port; the match demands TCP"),
            Key::optional("udp.src", Integer { min: 0, max: 65_535 }, "UDP source port; the match demands UDP"),
            Key::optional("udp.dst", Integer { min: 0, max: 65_535 }, "UDP destination port; the match demands UDP"),
        ],
    )
};

pub(crate) static GROUP_RULE: Object = Object {
    one_of: &["allow-stateless", "deny"],
    later: &[("allow", NO_CONNECTIONS), ("reject", NO_REJECT), ("shadow", NO_SHADOW)],
    known_as: &[
        ("accept", "allow-stateless"),
        ("permit", "allow-stateless"),
        ("pass", "allow-stateless"),
        ("drop", "deny"),
    ],
    ..Object::new(
        "a group's rule",
        &[
            Key::optional(
                "allow-stateless",
                Shape::Object(&GROUP_MATCH),
                "let these packets through, replies not included",
            ),
            Key::optional("deny", Shape::Object(&GROUP_MATCH), "drop these packets"),
            Key::optional("name", Leaf(&leaf::NAME), "the rule's name; by default GROUP/from/1 and so on"),
            Key::optional(
                "priority",
                Integer { min: 0, max: 65_535 },
                "the highest that matches wins; 1000 by default",
            ),
        ],
    )
};

pub(crate) static GROUP_MATCH: Object = Object {
    known_as: &[
        ("port", "ports"),
        ("ip.proto", "proto"),
        ("protocol", "proto"),
        ("cidrs", "peers"),
        ("tcp.dst", "ports"),
        ("udp.dst", "ports"),
    ],
    ..Object::new(
        "a group's match",
        &[
            Key::optional("proto", OneOrMany(&Leaf(&leaf::PROTOCOL)), "IP protocol; any by default"),
            Key::optional("ports", PORT, "destination ports; the protocol must be tcp, udp or both"),
            Key::optional(
                "peers",
                OneOrMany(&Leaf(&leaf::PEER)),
                "the other side: addresses, prefixes, sets, or groups for their members' addresses",
            ),
            Key::optional("icmp-type", BYTE, "ICMP or ICMPv6 type; the protocol must be icmp or icmpv6"),
            Key::optional("icmp-code", BYTE, "ICMP or ICMPv6 code; the protocol must be icmp or icmpv6"),
        ],
    )
};
