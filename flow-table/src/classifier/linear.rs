//! Every rule in turn: the oracle the faster classifiers are tested against.

use super::{Classifier, Consulted, ranked};
use crate::{field::Headers, rule::Rule};

/// Tries every rule, best first. O(rules).
#[derive(Debug)]
pub struct LinearScan {
    rules: Box<[Rule]>,
}

impl LinearScan {
    /// A table of these rules.
    #[must_use]
    pub fn new(rules: &[Rule]) -> Self {
        Self { rules: ranked(rules) }
    }
}

impl Classifier for LinearScan {
    fn lookup(&self, headers: &Headers, consulted: &mut Consulted) -> Option<&Rule> {
        self.rules.iter().find(|rule| {
            rule.matches.holds_in_words(&headers.words) && {
                consulted.outside_key |= !rule.matches.packet_tests().is_empty();
                rule.matches.packet_tests_hold(headers)
            }
        })
    }

    fn rules(&self) -> &[Rule] {
        &self.rules
    }
}
