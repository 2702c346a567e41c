//! The layers: each table together with its code.

mod acl;
mod forward;
mod output;

pub(super) use output::is_carried;

use super::{Topology, walk::Walk};
use crate::{
    classifier::{Classifier, TupleSpace},
    fate::DropReason,
    fdb::Fdb,
    hash::Seed,
    id::{NetworkId, RuleId},
    key::{FlowKey, KEY_WORDS},
    policy::Policy,
    rule::{Action, Rule, TableId},
};

/// What a layer answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// On to the next layer.
    Next,
    /// The packet dies.
    Drop { reason: DropReason, rule: Option<RuleId> },
    /// The packet is for the switch itself.
    Local(NetworkId),
}

/// A table and what it means.
#[derive(Debug)]
pub(super) struct Layer {
    table: TableId,
    rules: TupleSpace,
}

/// Compiles the tables of a policy, in order.
pub(super) fn compile(policy: &Policy, seed: Seed) -> [Layer; TableId::ALL.len()] {
    let mut rules = policy.tables.iter();
    TableId::ALL.map(|table| Layer { table, rules: TupleSpace::new(rules.next().map_or(&[], |rules| rules), seed) })
}

impl Layer {
    /// Judges the packet of `walk`.
    pub(super) fn process(&self, topology: &Topology, fdb: &Fdb, walk: &mut Walk) -> Step {
        match self.table {
            TableId::Classify => self.classify(walk),
            TableId::Security => self.security(walk),
            TableId::AclFrom => acl::from(self, topology, walk),
            TableId::Forward => forward::process(self, topology, fdb, walk),
            TableId::AclTo => acl::to(self, topology, walk),
            TableId::Output => output::process(self, topology, walk),
        }
    }

    /// The layer's table.
    pub(super) fn rules(&self) -> &dyn Classifier {
        &self.rules
    }

    fn classify(&self, walk: &mut Walk) -> Step {
        match self.best(walk) {
            Some(Rule { action: Action::Mark(mark), .. }) => {
                let mark = u64::from(*mark);
                walk.write(crate::field::Field::Mark, mark);
                Step::Next
            }
            Some(rule) => self.verdict(rule),
            None => Step::Next,
        }
    }

    fn security(&self, walk: &mut Walk) -> Step {
        let step = self.best(walk).map_or(Step::Next, |rule| self.verdict(rule));
        walk.admitted = step == Step::Next;
        step
    }

    /// The best rule, noted as hit.
    fn best(&self, walk: &mut Walk) -> Option<&Rule> {
        let rule = self.rules.lookup(&walk.headers, &mut walk.consulted)?;
        // Once a packet, however many outputs it is asked for.
        if !walk.rules.contains(&rule.id) {
            walk.rules.push(rule.id);
        }
        Some(rule)
    }

    /// What an allow or drop rule of this table means.
    fn verdict(&self, rule: &Rule) -> Step {
        match rule.action {
            Action::Drop => Step::Drop { reason: DropReason::of_rule(self.table), rule: Some(rule.id) },
            _ => Step::Next,
        }
    }
}

/// The key part of the walk's words.
fn key_of(walk: &Walk) -> FlowKey {
    let mut key = FlowKey::default();
    for (to, from) in key.0.iter_mut().zip(walk.headers.words.iter().take(KEY_WORDS)) {
        *to = *from;
    }
    key
}
