//! Tuple space search: one hash table for each mask that occurs (Srinivasan, Suri and Varghese, SIGCOMM 1999).

use core::cmp::Reverse;

use hashbrown::HashTable;

use super::{Classifier, Consulted, ranked};
use crate::{
    field::{Headers, Words},
    hash::Seed,
    id::Priority,
    idx,
    rule::Rule,
};

/// Looks a packet up once in each tuple that could still hold a better rule. O(tuples), plus the rules that share a value.
#[derive(Debug)]
pub struct TupleSpace {
    rules: Box<[Rule]>,
    tuples: Box<[Tuple]>,
    seed: Seed,
}

/// The rules with one mask.
#[derive(Debug)]
struct Tuple {
    mask: Words,
    best: Priority,
    groups: HashTable<Group>,
}

/// The rules with one mask and one value, as ranks in ascending order: best first.
#[derive(Debug)]
struct Group {
    value: Words,
    ranks: Vec<u32>,
}

impl TupleSpace {
    /// A table of these rules, hashed under `seed`. O(rules log rules).
    #[must_use]
    pub fn new(rules: &[Rule], seed: Seed) -> Self {
        let rules = ranked(rules);
        let mut tuples: Vec<Tuple> = Vec::new();
        let mut by_mask: hashbrown::HashMap<Words, usize, Seed> = hashbrown::HashMap::with_hasher(seed);
        for (rank, rule) in (0_u32..).zip(&rules) {
            let mask = *rule.matches.mask();
            let at = *by_mask.entry(mask).or_insert_with(|| {
                tuples.push(Tuple { mask, best: rule.priority, groups: HashTable::new() });
                tuples.len() - 1
            });
            if let Some(tuple) = tuples.get_mut(at) {
                tuple.insert(rule.matches.value(), rank, seed);
            }
        }
        tuples.sort_by_key(|tuple| Reverse(tuple.best)); // stable
        Self { rules, tuples: tuples.into(), seed }
    }
}

impl Tuple {
    fn insert(&mut self, value: &Words, rank: u32, seed: Seed) {
        let hash = seed.of_words(value);
        let group = self
            .groups
            .entry(hash, |group| group.value == *value, |group| seed.of_words(&group.value))
            .or_insert_with(|| Group { value: *value, ranks: Vec::new() });
        group.into_mut().ranks.push(rank);
    }
}

impl Classifier for TupleSpace {
    fn lookup(&self, headers: &Headers, consulted: &mut Consulted) -> Option<&Rule> {
        let mut best: Option<(u32, &Rule)> = None;
        for tuple in &self.tuples {
            if best.is_some_and(|(_, rule)| rule.priority > tuple.best) {
                break;
            }
            let mut masked = headers.words;
            for (word, mask) in masked.iter_mut().zip(&tuple.mask) {
                *word &= mask;
            }
            let hash = self.seed.of_words(&masked);
            let Some(group) = tuple.groups.find(hash, |group| group.value == masked) else { continue };
            for &rank in &group.ranks {
                if best.is_some_and(|(found, _)| found < rank) {
                    break;
                }
                let Some(rule) = self.rules.get(idx(u64::from(rank))) else { break };
                if !rule.matches.alternatives_hold(&headers.words) {
                    continue;
                }
                consulted.outside_key |= !rule.matches.packet_tests().is_empty();
                if rule.matches.packet_tests_hold(headers) {
                    best = Some((rank, rule));
                    break;
                }
            }
        }
        best.map(|(_, rule)| rule)
    }

    fn rules(&self) -> &[Rule] {
        &self.rules
    }
}
