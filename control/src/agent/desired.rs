//! What the operator wants: one configuration file, checked and compiled.

use std::{collections::BTreeSet, net::IpAddr, path::Path, sync::Arc};

use config::{
    Ids, Model,
    model::{HostSharing, Poll, Port},
};
use flow_table::{
    hash::Seed,
    id::{PortId, RuleId},
    mac::MacAddr,
    pipeline::Pipeline,
    policy::{Policy, PortKind, VlanMode},
    rule::TableId,
};

use sha2::{Digest, Sha256};

use super::Invalid;

/// Everything one file asks for.
#[derive(Debug)]
pub(crate) struct Desired {
    /// Name of the node, where the file gives one.
    pub(crate) node: Option<String>,
    /// The file.
    pub(crate) origin: String,
    /// SHA-256 of its text, in hex.
    pub(crate) hash: String,
    /// What only a restart can change.
    pub(crate) datapath: Datapath,
    /// Its ports, in ascending order of identifier.
    pub(crate) ports: Vec<PortSpec>,
    /// Its rules, in the order of the tables and, in one, of their priority.
    pub(crate) rules: Vec<RuleRow>,
    /// What it decides, with the names of ports, networks and rules.
    pub(crate) policy: Policy,
    /// The same compiled.
    pub(crate) pipeline: Arc<Pipeline>,
    /// Which name has which identifier.
    ids: Ids,
}

impl Desired {
    /// Reads `path`, checks and compiles it with hashes keyed by `seed`. What `now` has a name for keeps its identifier.
    ///
    /// # Errors
    /// [`Invalid`] with all that is wrong with the file.
    pub(crate) fn load(path: &Path, now: Option<&Self>, seed: Seed) -> Result<Self, Invalid> {
        let origin = path.display().to_string();
        let text = config::read_text(path).map_err(|why| Invalid { hash: None, text: why.to_string() })?;
        Self::of_text(&text, &origin, now, seed)
    }

    /// Ports alone, for tests of what happens to them.
    #[cfg(test)]
    pub(crate) fn of_ports(hash: &str, ports: Vec<PortSpec>) -> Self {
        let named = |port: &PortSpec| flow_table::policy::PortPolicy {
            id: port.id,
            name: port.name.clone(),
            kind: port.kind,
            network: None,
            vlan: Default::default(),
            mac: None,
            addresses: Vec::new(),
            guarded_from: false,
            guarded_to: false,
        };
        let policy = Policy { ports: ports.iter().map(named).collect(), ..Policy::default() };
        Self {
            node: Some("node-a".to_owned()),
            origin: "test.yaml".to_owned(),
            hash: hash.to_owned(),
            datapath: Datapath { chunks: 1024, flows: 1024, ring: 64, busy: false, core: None },
            ports,
            rules: Vec::new(),
            pipeline: Arc::new(Pipeline::new(&policy, Seed::new(0))),
            policy,
            ids: Ids::default(),
        }
    }

    /// The same of a text that came from `origin`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn of_text(text: &str, origin: &str, now: Option<&Self>, seed: Seed) -> Result<Self, Invalid> {
        let hash: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        let model = config::load(text, origin)
            .map_err(|errors| Invalid { hash: Some(hash.clone()), text: errors.to_string().trim_end().to_owned() })?;
        let mut ids = now.map(|now| now.ids.clone()).unwrap_or_default();
        let policy = model.policy(&mut ids);
        let mut ports: Vec<PortSpec> = model.ports.iter().filter_map(|port| spec(port, &model, &ids)).collect();
        ports.sort_by_key(|port| port.id);
        Ok(Self {
            node: model.node.as_ref().map(|node| node.name.value.clone()),
            origin: origin.to_owned(),
            hash,
            datapath: Datapath::of(&model.datapath),
            ports,
            rules: rows(&model, &ids, origin),
            pipeline: Arc::new(Pipeline::new(&policy, seed)),
            policy,
            ids,
        })
    }
}

fn spec(port: &Port, model: &Model, ids: &Ids) -> Option<PortSpec> {
    let shared = port.kind == PortKind::Uplink && port.host == HostSharing::Shared;
    Some(PortSpec {
        id: ids.port(&port.name)?,
        name: port.name.value.clone(),
        kind: port.kind,
        network: port.network.as_ref().map(|name| name.value.clone()),
        reads_tags: matches!(port.vlan, VlanMode::Trunk { .. }),
        attach: Attach {
            device: port.device.value.clone(),
            queues: port.queues,
            mtu: port.mtu.as_ref().map(|mtu| mtu.value),
            shared,
        },
        owned: if shared { Owned::of(port, model) } else { Owned::default() },
    })
}

fn rows(model: &Model, ids: &Ids, origin: &str) -> Vec<RuleRow> {
    let mut rows: Vec<RuleRow> = model
        .rules
        .iter()
        .filter_map(|rule| {
            Some(RuleRow {
                id: ids.rule(rule.table, &rule.name)?,
                table: rule.table,
                priority: rule.priority.0,
                name: rule.name.clone(),
                matches: rule.text.matches.clone(),
                action: rule.text.action.clone(),
                place: format!("{origin}:{}:{}", rule.place.line, rule.place.col),
            })
        })
        .collect();
    // Stable: rules of equal priority stay in the order of the file.
    rows.sort_by_key(|row| (row.table, std::cmp::Reverse(row.priority)));
    rows
}

/// Settings of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datapath {
    /// UMEM chunks.
    pub(crate) chunks: u32,
    /// Room for flow entries.
    pub(crate) flows: u32,
    /// Slots of each AF_XDP ring.
    pub(crate) ring: u32,
    /// True for a worker that never sleeps.
    pub(crate) busy: bool,
    /// The core it is bound to.
    pub(crate) core: Option<usize>,
}

impl Datapath {
    fn of(datapath: &config::model::Datapath) -> Self {
        Self {
            chunks: datapath.umem_chunks,
            flows: datapath.flows,
            ring: datapath.ring,
            busy: datapath.poll == Poll::Busy,
            core: datapath.workers.first().and_then(|worker| worker.core).map(usize::from),
        }
    }

    /// What differs in `other` and takes a restart, as a sentence.
    pub(crate) fn needs_restart(&self, other: &Self) -> Option<String> {
        let differing = [
            ("umem.chunks", self.chunks != other.chunks),
            ("ring", self.ring != other.ring),
            ("flows", self.flows != other.flows),
            ("poll", self.busy != other.busy),
            ("workers.core", self.core != other.core),
        ];
        let names: Vec<&str> = differing.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
        if names.is_empty() {
            return None;
        }
        Some(format!("datapath: {} can not be changed while the daemon runs; restart it", names.join(", ")))
    }
}

/// A port, and how it is to be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortSpec {
    /// Identifier.
    pub(crate) id: PortId,
    /// Name.
    pub(crate) name: String,
    /// What it is attached to.
    pub(crate) kind: PortKind,
    /// Name of its network.
    pub(crate) network: Option<String>,
    /// True for a trunk: what is sent into it is told apart by its tag.
    pub(crate) reads_tags: bool,
    /// What can only be changed by attaching anew.
    pub(crate) attach: Attach,
    /// What it takes from a device that is shared with the host.
    pub(crate) owned: Owned,
}

/// What can only be changed by attaching a port anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attach {
    /// The device.
    pub(crate) device: String,
    /// Queues to bind.
    pub(crate) queues: Option<u16>,
    /// Largest IP packet in bytes; the device's where none is given.
    pub(crate) mtu: Option<u16>,
    /// True when the host keeps what is not Sluice's.
    pub(crate) shared: bool,
}

/// What Sluice takes from a shared device: frames to these.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Owned {
    /// Stations, ascending.
    pub(crate) macs: Vec<MacAddr>,
    /// Addresses that ARP and neighbour requests may ask for, ascending.
    pub(crate) addresses: Vec<IpAddr>,
}

impl Owned {
    /// What belongs to the switch on the network of `uplink`: its workloads and its gateways.
    fn of(uplink: &Port, model: &Model) -> Self {
        let mut macs = BTreeSet::new();
        let mut addresses = BTreeSet::new();
        for port in model.ports.iter().filter(|port| port.kind != PortKind::Uplink && port.network == uplink.network) {
            macs.extend(port.mac.as_ref().map(|mac| mac.value));
            addresses.extend(port.hosts());
        }
        if let Some(network) = uplink.network.as_ref().and_then(|name| model.network(name)) {
            let gateways: Vec<IpAddr> =
                network.subnets.iter().filter_map(|subnet| Some(subnet.gateway.as_ref()?.value)).collect();
            if !gateways.is_empty() {
                macs.insert(network.gateway_mac.value);
            }
            addresses.extend(gateways);
        }
        Self { macs: macs.into_iter().collect(), addresses: addresses.into_iter().collect() }
    }
}

/// A rule as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleRow {
    /// Identifier.
    pub(crate) id: RuleId,
    /// Table.
    pub(crate) table: TableId,
    /// Higher wins.
    pub(crate) priority: u16,
    /// Name.
    pub(crate) name: String,
    /// What it matches, as written.
    pub(crate) matches: String,
    /// What it does.
    pub(crate) action: String,
    /// Where it is written.
    pub(crate) place: String,
}
