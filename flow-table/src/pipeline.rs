//! The pipeline: every table of one policy, walked once a flow.
//!
//! The law: what a walk decides without looking outside the flow key, and without depending on what may change without an
//! epoch, holds for every packet of that key.

mod ingress;
mod layers;
mod walk;

pub use walk::{Outcome, Walk};

use core::time::Duration;

use hashbrown::HashMap;

use crate::{
    classifier::Classifier,
    fdb::{Domain, Fdb},
    field::{Headers, PacketFields},
    hash::Seed,
    id::{NetworkId, PortId},
    mac::MacAddr,
    packet::Parsed,
    policy::{NetworkPolicy, Policy, PortPolicy},
    rule::TableId,
};
use layers::{Layer, Step};

/// A policy compiled for walking. Immutable.
#[derive(Debug)]
pub struct Pipeline {
    topology: Topology,
    layers: [Layer; TableId::ALL.len()],
}

/// Ports and networks as the layers ask for them.
#[derive(Debug)]
pub(crate) struct Topology {
    ports: Box<[Option<PortPolicy>]>,
    networks: Box<[Option<NetworkPolicy>]>,
    members: HashMap<NetworkId, Box<[PortId]>, Seed>,
    stations: HashMap<(NetworkId, MacAddr), PortId, Seed>,
}

impl Topology {
    fn new(policy: &Policy, seed: Seed) -> Self {
        let mut members: HashMap<NetworkId, Vec<PortId>, Seed> = HashMap::with_hasher(seed);
        let mut stations = HashMap::with_hasher(seed);
        for port in &policy.ports {
            let Some(network) = port.network else { continue };
            members.entry(network).or_default().push(port.id);
            if let Some(mac) = port.mac {
                stations.insert((network, mac), port.id);
            }
        }
        let mut frozen = HashMap::with_hasher(seed);
        frozen.extend(members.into_iter().map(|(network, ports)| (network, ports.into())));
        Self {
            ports: by_index(&policy.ports, |port| port.id.index()),
            networks: by_index(&policy.networks, |network| network.id.index()),
            members: frozen,
            stations,
        }
    }

    pub(crate) fn port(&self, id: PortId) -> Option<&PortPolicy> {
        self.ports.get(id.index())?.as_ref()
    }

    pub(crate) fn network(&self, id: NetworkId) -> Option<&NetworkPolicy> {
        self.networks.get(id.index())?.as_ref()
    }

    pub(crate) fn members(&self, network: NetworkId) -> &[PortId] {
        self.members.get(&network).map_or(&[], |ports| ports)
    }

    /// The port a station is configured behind.
    pub(crate) fn station(&self, network: NetworkId, mac: MacAddr) -> Option<PortId> {
        self.stations.get(&(network, mac)).copied()
    }
}

fn by_index<T: Clone>(items: &[T], index: impl Fn(&T) -> usize) -> Box<[Option<T>]> {
    let len = items.iter().map(|item| index(item) + 1).max().unwrap_or(0);
    let mut slots = vec![None; len];
    for item in items {
        if let Some(slot) = slots.get_mut(index(item)) {
            *slot = Some(item.clone());
        }
    }
    slots.into()
}

impl Pipeline {
    /// Compiles a policy. `seed` keys the hashes of its tables.
    #[must_use]
    pub fn new(policy: &Policy, seed: Seed) -> Self {
        Self { topology: Topology::new(policy, seed), layers: layers::compile(policy, seed) }
    }

    /// Walks the tables for a packet that [`parse`](crate::packet::parse()) accepted. The outcome's parts are left in `walk`.
    pub fn walk(&self, parsed: &Parsed, fields: PacketFields, fdb: &Fdb, walk: &mut Walk) -> Outcome {
        walk.begin(Headers::new(&parsed.key, fields));
        if let Err(reason) = ingress::admit(&self.topology, &parsed.key, walk) {
            return Outcome::Drop { reason, rule: None };
        }
        for layer in &self.layers {
            match layer.process(&self.topology, fdb, walk) {
                Step::Next => {}
                Step::Drop { reason, rule } => return Outcome::Drop { reason, rule },
                Step::Local(network) => return Outcome::Local(network),
            }
        }
        Outcome::Forward
    }

    /// The port of that identifier.
    #[must_use]
    pub fn port(&self, id: PortId) -> Option<&PortPolicy> {
        self.topology.port(id)
    }

    /// The network of that identifier.
    #[must_use]
    pub fn network(&self, id: NetworkId) -> Option<&NetworkPolicy> {
        self.topology.network(id)
    }

    /// All ports.
    pub fn ports(&self) -> impl Iterator<Item = &PortPolicy> {
        self.topology.ports.iter().flatten()
    }

    /// A table's classifier.
    #[must_use]
    pub fn table(&self, table: TableId) -> &dyn Classifier {
        let [classify, security, acl_from, forward, acl_to, output] = &self.layers;
        match table {
            TableId::Classify => classify,
            TableId::Security => security,
            TableId::AclFrom => acl_from,
            TableId::Forward => forward,
            TableId::AclTo => acl_to,
            TableId::Output => output,
        }
        .rules()
    }

    /// True when `mac` may be learned in `domain` from `port`: no port is configured to be its place.
    #[must_use]
    pub fn may_learn(&self, domain: Domain, mac: MacAddr) -> bool {
        self.topology.station(domain.network, mac).is_none()
            && self
                .network(domain.network)
                .is_some_and(|network| network.gateway_mac != mac || network.gateways.is_empty())
    }

    /// How long a learned station of `network` is believed; zero once the network is gone.
    #[must_use]
    pub fn aging(&self, network: NetworkId) -> Duration {
        self.network(network).map_or(Duration::ZERO, |network| network.aging)
    }

    /// The domain that frames of `port` with this tag are in, `None` when it carries no such VLAN or is in no network.
    #[must_use]
    pub fn domain(&self, port: PortId, vlan_tci: u16) -> Option<Domain> {
        let policy = self.port(port)?;
        let vlan = ingress::vlan_of(&policy.vlan, vlan_tci)?;
        policy.network.map(|network| Domain { network, vlan })
    }

    /// True when `port` is in `domain`: in its network, and carrying its VLAN.
    #[must_use]
    pub fn is_member(&self, port: PortId, domain: Domain) -> bool {
        self.port(port)
            .is_some_and(|port| port.network == Some(domain.network) && layers::is_carried(&port.vlan, domain.vlan))
    }
}

#[cfg(test)]
mod tests;
