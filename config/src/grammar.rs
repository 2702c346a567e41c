//! Every key of the file, with what it may hold.
//!
//! The reader refuses what is not here and the schema shows what is.

mod flow;
mod leaf;

pub(crate) use flow::{FLOW, GROUP_RULE, NO_CONNECTIONS};

use crate::limits::{MAX_CHUNKS, MAX_MTU, MAX_RING, MIN_RING};
use crate::shape::{
    Key, Object,
    Shape::{self, AtLeastOne, Integer, Leaf, List, OneOrMany, PowerOfTwo, Span, Word},
};

/// The only version of the file there is.
pub(crate) const API_VERSION: &str = "sluice/v1";

pub(crate) static ROOT: Object = Object {
    later: &[
        ("routes", "\"routes\" are not available in this version"),
        ("services", "\"services\" are not available in this version"),
        ("nat", "\"nat\" is not available in this version"),
    ],
    known_as: &[("rules", "flows"), ("version", "apiVersion"), ("bridges", "networks"), ("interfaces", "ports")],
    ..Object::new(
        "the configuration",
        &[
            Key::required(
                "apiVersion",
                Word(&[API_VERSION]),
                "version of this file's form; write apiVersion: sluice/v1",
            ),
            Key::optional("node", Shape::Object(&NODE), "this host"),
            Key::optional("datapath", Shape::Object(&DATAPATH), "the packet engine"),
            Key::optional("ports", List(&Shape::Object(&PORT)), "what is attached to the switch"),
            Key::optional("networks", List(&Shape::Object(&NETWORK)), "L2 networks that workloads are in"),
            Key::optional("sets", List(&Shape::Object(&ADDRESS_SET)), "named lists of addresses, for use in rules"),
            Key::optional("groups", List(&Shape::Object(&GROUP)), "access rules shared by ports"),
            Key::optional("flows", List(&Shape::Object(&FLOW)), "rules of the pipeline's tables"),
        ],
    )
};

static NODE: Object = Object::new(
    "a node",
    &[
        Key::required("name", Leaf(&leaf::NAME), "name of this host in reports"),
        Key::optional("vtep", Leaf(&leaf::HOST), "underlay address that ends tunnels on this host"),
    ],
);

static DATAPATH: Object = Object::new(
    "the datapath",
    &[
        Key::optional(
            "workers",
            AtLeastOne(&Shape::Object(&WORKER)),
            "packet threads; one is supported in this version, and is the default",
        ),
        Key::optional(
            "poll",
            Word(&["adaptive", "busy"]),
            "adaptive (the default) sleeps when no packet comes; busy never does",
        ),
        Key::optional("umem", Shape::Object(&UMEM), "memory for frames"),
        Key::optional(
            "ring",
            PowerOfTwo { min: MIN_RING as u64, max: MAX_RING as u64 },
            "slots of each AF_XDP ring; 2048 by default",
        ),
        Key::optional("flows", Integer { min: 1, max: 1 << 24 }, "the most flows remembered; 262144 by default"),
    ],
);

static WORKER: Object = Object::new(
    "a worker",
    &[Key::optional("core", Integer { min: 0, max: 4095 }, "CPU it is pinned to; by default it is not pinned")],
);

static UMEM: Object = Object::new(
    "umem",
    &[Key::optional("chunks", PowerOfTwo { min: 1024, max: MAX_CHUNKS as u64 }, "frames it holds; 16384 by default")],
);

static PORT: Object = Object {
    later: &[("gateway", "\"gateway\" of an uplink is not available in this version")],
    known_as: &[("interface", "device"), ("type", "kind"), ("tag", "vlan"), ("trunks", "vlan"), ("ips", "addresses")],
    ..Object::new(
        "a port",
        &[
            Key::required("name", Leaf(&leaf::NAME), "the port's name, unique among ports"),
            Key::required("device", Leaf(&leaf::DEVICE), "the network device it is attached to, such as veth0"),
            Key::optional("kind", Word(&["workload", "uplink"]), "workload (the default), or uplink to the underlay"),
            Key::optional(
                "mode",
                Word(&["afxdp"]),
                "how it is attached; afxdp is the default and, in this version, the only one",
            ),
            Key::optional(
                "host",
                Word(&["shared", "exclusive"]),
                "of an uplink: shared (the default) leaves the host all frames that are not for the switch",
            ),
            Key::optional("network", Leaf(&leaf::NAME), "network it is in; without one, only forward rules reach it"),
            Key::optional(
                "vlan",
                Shape::Object(&VLAN),
                "how VLAN tags are read and written; by default all are kept as they are",
            ),
            Key::optional("mac", Leaf(&leaf::UNICAST), "the workload's MAC; with it, no other may send"),
            Key::optional(
                "addresses",
                List(&Leaf(&leaf::PORT_ADDRESS)),
                "the workload's addresses, with which alone it may send, and with the link-local one of its mac; \
                 of an uplink, its addresses with prefix length",
            ),
            Key::optional("groups", List(&Leaf(&leaf::PEER_NAME)), "groups whose rules guard this workload"),
            Key::optional(
                "security",
                Word(&["on", "off"]),
                "on (the default): it sends only with its mac and addresses",
            ),
            Key::optional(
                "queues",
                Integer { min: 1, max: 64 },
                "queues of the device, all of which are served; by default as many as it has",
            ),
            Key::optional(
                "mtu",
                Integer { min: 68, max: MAX_MTU as u64 },
                "largest IP packet in bytes; by default the device's",
            ),
        ],
    )
};

static VLAN: Object = Object::new(
    "vlan",
    &[
        Key::optional("access", Integer { min: 1, max: 4094 }, "untagged only, in this VLAN"),
        Key::optional("trunk", OneOrMany(&Span { min: 1, max: 4094 }), "tagged, in one of these VLANs"),
        Key::optional(
            "native",
            Integer { min: 1, max: 4094 },
            "untagged frames are in this VLAN; without trunk, every other VLAN is carried tagged",
        ),
    ],
);

static NETWORK: Object = Object {
    later: &[("remotes", "\"remotes\" are not available in this version")],
    ..Object::new(
        "a network",
        &[
            Key::required("name", Leaf(&leaf::NAME), "the network's name, unique among networks"),
            Key::optional(
                "vni",
                Integer { min: 1, max: 0x00ff_ffff },
                "its overlay id, for a network that spans hosts",
            ),
            Key::optional("subnets", List(&Shape::Object(&SUBNET)), "address ranges in use on it"),
            Key::optional("gateway-mac", Leaf(&leaf::UNICAST), "MAC of its gateways; 02:73:6c:75:00:01 by default"),
            Key::optional(
                "aging",
                Leaf(&leaf::AGING),
                "how long a learned MAC is kept without traffic; 300s by default",
            ),
            Key::optional("mac-limit", Integer { min: 1, max: 1_000_000 }, "the most MACs learned; 8192 by default"),
        ],
    )
};

static SUBNET: Object = Object::new(
    "a subnet",
    &[
        Key::required("cidr", Leaf(&leaf::CIDR), "its range, such as 10.0.0.0/24"),
        Key::optional("gateway", Leaf(&leaf::HOST), "address the switch itself answers for"),
    ],
);

static ADDRESS_SET: Object = Object {
    known_as: &[("addresses", "cidrs"), ("ips", "cidrs")],
    ..Object::new(
        "a set",
        &[
            Key::required("name", Leaf(&leaf::PEER_NAME), "the set's name, unique among sets and groups"),
            Key::required("cidrs", AtLeastOne(&Leaf(&leaf::PREFIX)), "addresses and prefixes, such as [10.0.0.0/8]"),
        ],
    )
};

static GROUP: Object = Object {
    known_as: &[("ingress", "to"), ("egress", "from")],
    ..Object::new(
        "a group",
        &[
            Key::required("name", Leaf(&leaf::PEER_NAME), "the group's name, unique among sets and groups"),
            Key::optional(
                "from",
                List(&Shape::Object(&GROUP_RULE)),
                "rules for what members send; what none allows is denied, so that [] denies everything",
            ),
            Key::optional(
                "to",
                List(&Shape::Object(&GROUP_RULE)),
                "rules for what members receive; what none allows is denied, so that [] denies everything",
            ),
        ],
    )
};
