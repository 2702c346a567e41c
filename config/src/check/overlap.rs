//! Two rules of one table and priority that a packet could match both must agree.
//!
//! Comparing every rule with every other takes too long for tens of thousands of rules at one priority. Rules are put
//! together by which bits they look at; of two such kinds, only rules that agree in the bits both look at are compared.

use std::collections::HashMap;

use flow_table::{
    field::{WORDS, Words},
    id::Priority,
    matching::Match,
    rule::TableId,
};

use crate::{
    diagnostics::{Diagnostic, Sink},
    ids::Ids,
    lower::lower_matches,
    model::{Action, Model},
    place::Place,
};

/// One match of a rule.
struct Candidate {
    /// The rule's index.
    rule: usize,
    /// A number for its action: equal for equal actions.
    action: usize,
    matches: Match,
}

/// Reports each rule that contradicts an earlier one, with the first such.
pub(crate) fn check(model: &Model, sink: &mut Sink) {
    let mut ids = Ids::default();
    ids.assign(
        model.ports.iter().map(|port| port.name.as_str()),
        model.networks.iter().map(|network| network.name.as_str()),
        core::iter::empty(),
    );
    let mut actions: HashMap<&Action, usize> = HashMap::new();
    let mut levels: HashMap<(TableId, Priority), Vec<Candidate>> = HashMap::new();
    for (index, rule) in model.rules.iter().enumerate() {
        let next = actions.len();
        let action = *actions.entry(&rule.action).or_insert(next);
        let level = levels.entry((rule.table, rule.priority)).or_default();
        level.extend(lower_matches(rule, &ids).into_iter().map(|matches| Candidate { rule: index, action, matches }));
    }
    let mut conflicts: HashMap<usize, usize> = HashMap::new();
    for level in levels.values() {
        find(level, &mut conflicts);
    }
    for (later, earlier) in conflicts {
        let (Some(rule), Some(first)) = (model.rules.get(later), model.rules.get(earlier)) else { continue };
        report(rule.place, &rule.name, first.place, &first.name, (rule.table, rule.priority), sink);
    }
}

fn report(place: Place, name: &str, first: Place, first_name: &str, at: (TableId, Priority), sink: &mut Sink) {
    let (table, Priority(priority)) = at;
    let message = format!(
        "rules \"{name}\" and \"{first_name}\" of table {} have equal priority ({priority}), may match the same packet, and do different things",
        table.name()
    );
    sink.push(Diagnostic::at(place, message).also(first).hint("give the one that is to win a higher priority"));
}

/// Candidates that look at the same bits.
struct Kind<'c> {
    mask: &'c Words,
    candidates: Vec<&'c Candidate>,
}

/// For each later rule of a contradicting pair, the earliest found.
fn find(level: &[Candidate], conflicts: &mut HashMap<usize, usize>) {
    if level.iter().all(|candidate| level.first().is_some_and(|first| first.action == candidate.action)) {
        return;
    }
    let mut by_mask: HashMap<&Words, Vec<&Candidate>> = HashMap::new();
    for candidate in level {
        by_mask.entry(candidate.matches.mask()).or_default().push(candidate);
    }
    let mut kinds: Vec<Kind<'_>> = by_mask.into_iter().map(|(mask, candidates)| Kind { mask, candidates }).collect();
    kinds.sort_unstable_by_key(|kind| kind.mask);
    for (index, kind) in kinds.iter().enumerate() {
        for other in kinds.iter().skip(index) {
            compare(kind, other, conflicts);
        }
    }
}

fn compare(kind: &Kind<'_>, other: &Kind<'_>, conflicts: &mut HashMap<usize, usize>) {
    let mut common = *kind.mask;
    for (bits, theirs) in common.iter_mut().zip(other.mask) {
        *bits &= theirs;
    }
    let mut buckets: HashMap<Words, Vec<&Candidate>> = HashMap::new();
    for candidate in &kind.candidates {
        buckets.entry(under(candidate.matches.value(), &common)).or_default().push(candidate);
    }
    for candidate in &other.candidates {
        for partner in buckets.get(&under(candidate.matches.value(), &common)).into_iter().flatten() {
            // Later partners of a bucket have higher indices: once one is found, none is earlier.
            if record(candidate, partner, conflicts) && partner.rule < candidate.rule {
                break;
            }
        }
    }
}

/// Notes the pair when it contradicts itself.
fn record(one: &Candidate, other: &Candidate, conflicts: &mut HashMap<usize, usize>) -> bool {
    if one.action == other.action || one.rule == other.rule || !one.matches.overlaps(&other.matches) {
        return false;
    }
    let (earlier, later) = (one.rule.min(other.rule), one.rule.max(other.rule));
    let known = conflicts.entry(later).or_insert(earlier);
    *known = earlier.min(*known);
    true
}

fn under(value: &Words, mask: &Words) -> Words {
    let mut words = [0; WORDS];
    for (word, (value, mask)) in words.iter_mut().zip(value.iter().zip(mask)) {
        *word = value & mask;
    }
    words
}
