//! A model as the packet core's policy.

use flow_table::{
    field::Field,
    id::NetworkId,
    matching::{Match, Term},
    policy::{NetworkPolicy, Policy, PortKind, PortPolicy, RuleName},
    rule::{self, TableId, Target},
};

use crate::{
    ids::Ids,
    model::{Action, Condition, Model, Rule, To},
};

impl Model {
    /// The policy this model asks for. Names that stay configured keep their identifiers of `ids`; new ones get one.
    #[must_use]
    pub fn policy(&self, ids: &mut Ids) -> Policy {
        ids.assign(
            self.ports.iter().map(|port| port.name.as_str()),
            self.networks.iter().map(|network| network.name.as_str()),
            self.rules.iter().map(|rule| &**rule),
        );
        let mut policy =
            Policy { ports: self.port_policies(ids), networks: self.network_policies(ids), ..Policy::default() };
        for rule in &self.rules {
            let Some(id) = ids.rule(rule) else { continue };
            policy.rules.push(RuleName { id, table: rule.table, name: rule.name.clone() });
            let action = lower_action(&rule.action, ids);
            let lowered = lower_matches(rule, ids).into_iter().map(|matches| rule::Rule {
                id,
                priority: rule.priority,
                matches,
                action: action.clone(),
            });
            for (table, rules) in TableId::ALL.iter().zip(&mut policy.tables) {
                if *table == rule.table {
                    rules.extend(lowered);
                    break;
                }
            }
        }
        policy.ports.sort_by_key(|port| port.id);
        policy.networks.sort_by_key(|network| network.id);
        policy.rules.sort_by_key(|rule| rule.id);
        policy
    }

    fn port_policies(&self, ids: &Ids) -> Vec<PortPolicy> {
        let policy = |port: &crate::model::Port| {
            let in_group = |wanted: fn(&crate::model::Group) -> bool| {
                port.groups.iter().any(|name| self.groups.iter().any(|group| group.name == *name && wanted(group)))
            };
            let workload = port.kind == PortKind::Workload;
            Some(PortPolicy {
                id: ids.port(&port.name)?,
                name: port.name.value.clone(),
                kind: port.kind,
                network: port.network.as_ref().and_then(|name| ids.network(name)),
                vlan: port.vlan.clone(),
                mac: port.mac.as_ref().map(|mac| mac.value),
                addresses: if workload { port.hosts().collect() } else { Vec::new() },
                guarded_from: in_group(|group| group.has_from),
                guarded_to: in_group(|group| group.has_to),
            })
        };
        self.ports.iter().filter_map(|port| policy(port)).collect()
    }

    fn network_policies(&self, ids: &Ids) -> Vec<NetworkPolicy> {
        let policy = |network: &crate::model::Network| {
            let id: NetworkId = ids.network(&network.name)?;
            Some(NetworkPolicy {
                id,
                name: network.name.value.clone(),
                vni: network.vni.as_ref().map(|vni| vni.value),
                gateways: network.subnets.iter().filter_map(|subnet| Some(subnet.gateway.as_ref()?.value)).collect(),
                gateway_mac: network.gateway_mac.value,
                aging: network.aging,
                mac_limit: network.mac_limit,
            })
        };
        self.networks.iter().filter_map(|network| policy(network)).collect()
    }
}

/// The matches of a rule, one for each of its lists of conditions.
pub(crate) fn lower_matches(rule: &Rule, ids: &Ids) -> Vec<Match> {
    rule.matches
        .iter()
        .map(|conditions| conditions.iter().fold(Match::any(), |matches, condition| add(matches, condition, ids)))
        .collect()
}

fn add(matches: Match, condition: &Condition, ids: &Ids) -> Match {
    let ports = |field, names: &[String]| {
        let exact = |name: &String| ids.port(name).map(|id| Term::exact(field, u128::from(id.0)));
        names.iter().filter_map(exact).collect::<Vec<_>>()
    };
    match condition {
        Condition::Field(field, terms) => matches.with(*field, terms.iter().copied()),
        Condition::In(names) => matches.with(Field::InPort, ports(Field::InPort, names)),
        Condition::Out(names) => matches.with(Field::OutPort, ports(Field::OutPort, names)),
        Condition::Network(names) => {
            let exact = |name: &String| ids.network(name).map(|id| Term::exact(Field::Network, u128::from(id.0)));
            matches.with(Field::Network, names.iter().filter_map(exact))
        }
    }
}

fn lower_action(action: &Action, ids: &Ids) -> rule::Action {
    match action {
        Action::Allow => rule::Action::Allow,
        Action::Drop => rule::Action::Drop,
        Action::Mark(mark) => rule::Action::Mark(*mark),
        Action::Edit(edits) => rule::Action::Edit(edits.clone()),
        Action::Forward { to, edits } => {
            let to = match to {
                To::Flood => Target::Flood,
                To::Normal => Target::Normal,
                // The reader has seen that the port exists; were it gone, dropping is the safe reading.
                To::Port(name) => match ids.port(name) {
                    Some(port) => Target::Port(port),
                    None => return rule::Action::Drop,
                },
            };
            rule::Action::Forward { to, edits: edits.clone() }
        }
    }
}
