//! Two rules of one table and priority that a packet could match both must agree.
//!
//! Comparing every rule with every other takes too long for tens of thousands of rules at one priority. Rules are put
//! together by which bits they look at; of two such kinds, only rules that agree in the bits both look at are compared,
//! and of many such, only those that meet in the field whose ranges are narrowest.

use std::collections::{BTreeSet, HashMap};

use flow_table::{
    field::{Field, WORDS, Words},
    id::Priority,
    matching::{AnyOf, Match, Term},
    rule::TableId,
};

use crate::{
    diagnostics::{Diagnostic, Sink},
    ids::Ids,
    lower::lower_matches,
    model::{Action, Model, Rule},
    place::At,
};

/// Pairs that are few enough to compare each.
const FEW: usize = 8;

/// One match of a rule.
struct Candidate {
    /// The rule's index.
    rule: usize,
    /// A number for its action: equal for equal actions.
    action: usize,
    matches: Match,
    /// Of each condition with alternatives: the field, and the least and greatest value it may have.
    hulls: Vec<(Field, Hull)>,
}

type Hull = (u128, u128);

impl Candidate {
    fn new(rule: usize, action: usize, matches: Match) -> Self {
        let hull = |any: &AnyOf| {
            let ends = any.terms().map(|term| match term {
                Term::Masked { value, mask } => (value, value | (any.field().mask() & !mask)),
                Term::Range { low, high } => (low, high),
            });
            Some((any.field(), ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?))
        };
        let hulls = matches.alternatives().iter().chain(matches.packet_tests()).filter_map(hull).collect();
        Self { rule, action, matches, hulls }
    }

    /// Values of `field` outside of which it matches nothing.
    fn hull(&self, field: Field) -> Hull {
        let value = field.read(self.matches.value());
        let folded = (value, value | (field.mask() & !field.read(self.matches.mask())));
        self.hulls.iter().find(|(known, _)| *known == field).map_or(folded, |(_, hull)| *hull)
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
        if known.is_none_or(|known| earlier < known) && one.matches.overlaps(&other.matches) {
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
        compare(kind, kind, conflicts);
        for other in kinds.iter().skip(index + 1) {
            compare(kind, other, conflicts);
        }
    }
}

fn compare(kind: &Kind<'_>, other: &Kind<'_>, conflicts: &mut Conflicts) {
    let mut common = *kind.mask;
    for (bits, theirs) in common.iter_mut().zip(other.mask) {
        *bits &= theirs;
    }
    let mut buckets: HashMap<Words, [Vec<&Candidate>; 2]> = HashMap::new();
    for (side, of) in [kind, other].into_iter().enumerate() {
        for candidate in &of.candidates {
            let bucket = buckets.entry(under(candidate.matches.value(), &common)).or_default();
            bucket.get_mut(side).into_iter().for_each(|list| list.push(candidate));
        }
    }
    for [ours, theirs] in buckets.values() {
        compare_bucket(ours, theirs, conflicts);
    }
}

/// Compares each of one list with each of the other, or with those only whose values of one field may be the same.
fn compare_bucket(ours: &[&Candidate], theirs: &[&Candidate], conflicts: &mut Conflicts) {
    let sweep = narrowest(ours, theirs).filter(|_| ours.len().saturating_mul(theirs.len()) > FEW);
    let Some(field) = sweep else {
        for one in theirs {
            ours.iter().for_each(|other| conflicts.judge(one, other));
        }
        return;
    };
    let hulls = |of: &[&'_ Candidate]| of.iter().map(|candidate| candidate.hull(field)).collect::<Vec<_>>();
    let sides = [(ours, hulls(ours)), (theirs, hulls(theirs))];
    let mut begins: Vec<(u128, usize, usize)> = Vec::new();
    for (side, (_, hulls)) in sides.iter().enumerate() {
        begins.extend(hulls.iter().enumerate().map(|(at, hull)| (hull.0, side, at)));
    }
    begins.sort_unstable();
    // Those begun and not ended, with their last values.
    let mut open: [Vec<(u128, &Candidate)>; 2] = [Vec::new(), Vec::new()];
    for (begin, side, at) in begins {
        let Some((candidate, end)) = sides.get(side).and_then(|(list, hulls)| Some((*list.get(at)?, hulls.get(at)?.1)))
        else {
            continue;
        };
        if let Some(partners) = open.get_mut(1 - side) {
            partners.retain(|(end, _)| *end >= begin);
            partners.iter().for_each(|(_, partner)| conflicts.judge(candidate, partner));
        }
        open.get_mut(side).into_iter().for_each(|list| list.push((end, candidate)));
    }
}

/// Of the fields with alternatives, the one whose values tell most of the candidates apart.
fn narrowest(ours: &[&Candidate], theirs: &[&Candidate]) -> Option<Field> {
    let all = || ours.iter().chain(theirs);
    let fields: BTreeSet<Field> = all().flat_map(|candidate| candidate.hulls.iter().map(|(field, _)| *field)).collect();
    // Parts of 2^32 that each leaves open; a list is far too short for their sum to overflow.
    let width = |field: Field, (low, high): Hull| match field.bits().saturating_sub(32) {
        0 => (high.saturating_sub(low) << 32) / field.mask(),
        extra => high.saturating_sub(low) >> extra,
    };
    fields.into_iter().min_by_key(|field| all().map(|candidate| width(*field, candidate.hull(*field))).sum::<u128>())
}

fn under(value: &Words, mask: &Words) -> Words {
    let mut words = [0; WORDS];
    for (word, (value, mask)) in words.iter_mut().zip(value.iter().zip(mask)) {
        *word = value & mask;
    }
    words
}
