//! Two rules of one table and priority that a packet could match both must agree.
//!
//! Comparing every rule with every other takes too long for tens of thousands of rules at one priority. Rules are put
//! together by which bits they look at; of two such kinds, only rules that agree in the bits both look at are compared.

use std::collections::HashMap;

use flow_table::{
    field::{Field, WORDS, Words},
    id::Priority,
    matching::{Match, Term},
    rule::TableId,
};

use crate::{
    diagnostics::{Diagnostic, Sink},
    ids::Ids,
    lower::lower_matches,
    model::{Action, Model, Rule},
    place::At,
};

/// One match of a rule.
struct Candidate {
    /// The rule's index.
    rule: usize,
    /// A number for its action: equal for equal actions.
    action: usize,
    matches: Match,
    /// Least and greatest destination port, where it has alternatives: what rules that look at the same bits differ in
    /// most often, and quick to compare.
    ports: (u128, u128),
}

impl Candidate {
    fn new(rule: usize, action: usize, matches: Match) -> Self {
        let field = Field::L4Dst;
        let ends = |term: Term| match term {
            Term::Masked { value, mask } => (value, value | (field.mask() & !mask)),
            Term::Range { low, high } => (low, high),
        };
        let alternatives = matches.alternatives().iter().filter(|any| any.field() == field);
        let hull = alternatives.flat_map(|any| any.terms().map(ends)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        Self { rule, action, matches, ports: hull.unwrap_or((0, u128::MAX)) }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.ports.0 <= other.ports.1 && other.ports.0 <= self.ports.1 && self.matches.overlaps(&other.matches)
    }
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
        level.extend(lower_matches(rule, &ids).into_iter().map(|matches| Candidate::new(index, action, matches)));
    }
    let mut conflicts = Conflicts(vec![None; model.rules.len()]);
    for level in levels.values() {
        find(level, &mut conflicts);
    }
    for (rule, earlier) in model.rules.iter().zip(conflicts.0) {
        if let Some(first) = earlier.and_then(|earlier| model.rules.get(earlier)) {
            report(rule, first, sink);
        }
    }
}

fn report(rule: &At<Rule>, first: &At<Rule>, sink: &mut Sink) {
    let message = format!(
        "rules \"{}\" and \"{}\" of table {} have equal priority ({}), may match the same packet, and do different things",
        rule.name,
        first.name,
        rule.table.name(),
        rule.priority.0
    );
    let diagnostic = Diagnostic::at(rule.place, message).also(first.place);
    sink.push(diagnostic.hint("give the one that is to win a higher priority"));
}

/// For each rule, the earliest that it contradicts.
struct Conflicts(Vec<Option<usize>>);

impl Conflicts {
    /// Compares the two, unless that could tell nothing new.
    fn judge(&mut self, one: &Candidate, other: &Candidate) {
        if one.action == other.action || one.rule == other.rule {
            return;
        }
        let (earlier, later) = (one.rule.min(other.rule), one.rule.max(other.rule));
        let Some(known) = self.0.get_mut(later) else { return };
        if known.is_none_or(|known| earlier < known) && one.overlaps(other) {
            *known = Some(earlier);
        }
    }
}

/// Candidates that look at the same bits.
struct Kind<'c> {
    mask: &'c Words,
    candidates: Vec<&'c Candidate>,
}

fn find(level: &[Candidate], conflicts: &mut Conflicts) {
    if level.iter().all(|candidate| level.first().is_some_and(|first| first.action == candidate.action)) {
        return;
    }
    let mut by_mask: HashMap<&Words, Vec<&Candidate>> = HashMap::new();
    for candidate in level {
        by_mask.entry(candidate.matches.mask()).or_default().push(candidate);
    }
    let kinds: Vec<Kind<'_>> = by_mask.into_iter().map(|(mask, candidates)| Kind { mask, candidates }).collect();
    for (index, kind) in kinds.iter().enumerate() {
        for other in kinds.iter().skip(index) {
            compare(kind, other, conflicts);
        }
    }
}

fn compare(kind: &Kind<'_>, other: &Kind<'_>, conflicts: &mut Conflicts) {
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
            conflicts.judge(candidate, partner);
        }
    }
}

fn under(value: &Words, mask: &Words) -> Words {
    let mut words = [0; WORDS];
    for (word, (value, mask)) in words.iter_mut().zip(value.iter().zip(mask)) {
        *word = value & mask;
    }
    words
}
