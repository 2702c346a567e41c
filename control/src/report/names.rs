//! The names behind the numbers.

use std::collections::BTreeMap;

use flow_table::{
    id::{NetworkId, PortId, RuleId},
    policy::Policy,
    rule::TableId,
};

/// What each identifier is called. Keeps the names of what was removed: the data plane may still speak of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    ports: BTreeMap<PortId, String>,
    networks: BTreeMap<NetworkId, String>,
    rules: BTreeMap<RuleId, (TableId, String)>,
}

impl Names {
    /// Adds the names of `policy`, which win over those known before.
    pub(crate) fn learn(&mut self, policy: &Policy) {
        self.ports.extend(policy.ports.iter().map(|port| (port.id, port.name.clone())));
        self.networks.extend(policy.networks.iter().map(|network| (network.id, network.name.clone())));
        self.rules.extend(policy.rules.iter().map(|rule| (rule.id, (rule.table, rule.name.clone()))));
    }

    /// Name of a port.
    pub(crate) fn port(&self, id: PortId) -> String {
        self.ports.get(&id).cloned().unwrap_or_else(|| format!("port-{id}"))
    }

    /// Name of a network.
    pub(crate) fn network(&self, id: NetworkId) -> String {
        self.networks.get(&id).cloned().unwrap_or_else(|| format!("network-{id}"))
    }

    /// Table and name of a rule.
    pub(crate) fn rule(&self, id: RuleId) -> (Option<TableId>, String) {
        match self.rules.get(&id) {
            Some((table, name)) => (Some(*table), name.clone()),
            None => (None, format!("rule-{id}")),
        }
    }
}
