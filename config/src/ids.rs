//! Identifiers that stay with a name from one configuration to the next.

use std::collections::{BTreeMap, BTreeSet};

use flow_table::id::{NetworkId, PortId, RuleId};

use crate::model::Rule;

/// Hands out identifiers by name. One that stays configured keeps its identifier; one that goes frees it, for use only
/// after all others have been. A rule that says something else under its old name is another rule.
///
/// Zero is never handed out: in a packet's words it means no port and no network.
///
/// [`Model::policy`](crate::model::Model::policy) forgets the names that its model has not. To be able to go back, give
/// it a clone, and keep the clone when the policy is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    ports: Pool,
    networks: Pool,
    rules: Pool,
}

impl Default for Ids {
    fn default() -> Self {
        Self { ports: Pool::new(MAX_PORTS), networks: Pool::new(MAX_NETWORKS), rules: Pool::new(u32::MAX) }
    }
}

/// The most ports a configuration may have.
pub(crate) const MAX_PORTS: u32 = 65_534;
/// The most networks.
pub(crate) const MAX_NETWORKS: u32 = 65_534;

impl Ids {
    /// The identifier of the port of this name, where it has one.
    #[must_use]
    pub fn port(&self, name: &str) -> Option<PortId> {
        self.ports.get(name).map(|id| PortId(narrow(id)))
    }

    /// The identifier of the network of this name, where it has one.
    #[must_use]
    pub fn network(&self, name: &str) -> Option<NetworkId> {
        self.networks.get(name).map(|id| NetworkId(narrow(id)))
    }

    /// The identifier of a rule that says this, where it has one.
    #[must_use]
    pub fn rule(&self, rule: &Rule) -> Option<RuleId> {
        self.rules.get(&rule_key(rule)).map(RuleId)
    }

    /// Forgets every name that is not among these, then gives an identifier to each that has none, in this order.
    pub(crate) fn assign<'n>(
        &mut self,
        ports: impl Iterator<Item = &'n str>,
        networks: impl Iterator<Item = &'n str>,
        rules: impl Iterator<Item = &'n Rule>,
    ) {
        self.ports.assign(ports.map(str::to_owned).collect());
        self.networks.assign(networks.map(str::to_owned).collect());
        self.rules.assign(rules.map(rule_key).collect());
    }
}

/// What a rule is counted under: its place among others and all it says. Names of rules that have none in the file are
/// numbered, and move to another rule when one is inserted; its count must not.
fn rule_key(rule: &Rule) -> String {
    let Rule { table, name, priority, text, .. } = rule;
    // No part but the last can hold a line end: the parts of one rule never read as those of another.
    [table.name(), name, &priority.0.to_string(), &text.matches, &text.action].join("\n")
}

fn narrow(id: u32) -> u16 {
    u16::try_from(id).unwrap_or(u16::MAX)
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pool {
    of: BTreeMap<String, u32>,
    used: BTreeSet<u32>,
    last: u32,
    max: u32,
}

impl Pool {
    const fn new(max: u32) -> Self {
        Self { of: BTreeMap::new(), used: BTreeSet::new(), last: 0, max }
    }

    fn get(&self, name: &str) -> Option<u32> {
        self.of.get(name).copied()
    }

    fn assign(&mut self, names: Vec<String>) {
        let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        self.of.retain(|name, _| wanted.contains(&**name));
        self.used = self.of.values().copied().collect();
        for name in names {
            if self.of.contains_key(&name) {
                continue;
            }
            let Some(id) = self.next() else { continue };
            self.used.insert(id);
            self.of.insert(name, id);
        }
    }

    /// The next free identifier after the last one given; `None` when all are in use, which the reader's limits prevent.
    fn next(&mut self) -> Option<u32> {
        for _ in 0..=self.used.len() {
            self.last = if self.last >= self.max { 1 } else { self.last + 1 };
            if !self.used.contains(&self.last) {
                return Some(self.last);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use flow_table::{id::Priority, rule::TableId};

    use super::*;
    use crate::model::{Action, RuleText};

    fn assign(pool: &mut Pool, names: &[&str]) -> Vec<u32> {
        pool.assign(names.iter().map(|name| (*name).to_owned()).collect());
        names.iter().map(|name| pool.get(name).unwrap()).collect()
    }

    #[test]
    fn a_name_that_stays_keeps_its_identifier_and_one_that_went_is_not_reused_before_the_others() {
        let mut pool = Pool::new(4);
        assert_eq!(assign(&mut pool, &["a", "b"]), [1, 2]);
        assert_eq!(assign(&mut pool, &["c", "b"]), [3, 2], "1 is free, and not given again yet");
        assert_eq!(assign(&mut pool, &["b", "d"]), [2, 4]);
        assert_eq!(assign(&mut pool, &["d", "e", "b"]), [4, 1, 2], "after the wrap it is");
        assert_eq!(assign(&mut pool, &["d", "e", "b", "f"]), [4, 1, 2, 3]);
    }

    #[test]
    fn a_rule_is_another_in_another_table_and_when_it_says_something_else() {
        let rule = |table, priority, matches: &str, action: &str| Rule {
            name: "x".to_owned(),
            table,
            priority: Priority(priority),
            matches: Vec::new(),
            action: Action::Allow,
            text: RuleText { matches: matches.to_owned(), action: action.to_owned() },
        };
        let first = rule(TableId::AclFrom, 1, "{tcp.dst: 22}", "allow");
        let others = [
            rule(TableId::AclTo, 1, "{tcp.dst: 22}", "allow"),
            rule(TableId::AclFrom, 2, "{tcp.dst: 22}", "allow"),
            rule(TableId::AclFrom, 1, "{tcp.dst: 23}", "allow"),
            rule(TableId::AclFrom, 1, "{tcp.dst: 22}", "deny"),
        ];
        for other in others {
            let mut ids = Ids::default();
            let mut assign = |rule: &Rule| {
                ids.assign(core::iter::empty(), core::iter::empty(), core::iter::once(rule));
                (ids.rule(rule).unwrap(), ids.rule(&first))
            };
            let id = assign(&first).0;
            assert_eq!(assign(&first).0, id);
            let (new, gone) = assign(&other);
            assert_ne!(new, id);
            assert_eq!(gone, None);
        }
    }
}
