//! A condition with alternatives, kept so that a set of thousands of prefixes is searched, not scanned.

use super::Term;
use crate::field::Field;

/// A field that must satisfy one of several terms.
///
/// Exact values, prefixes and ranges are kept as sorted disjoint ranges; masks with holes beside them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AnyOf {
    field: Field,
    /// First and last value of each, ascending; no two touch.
    ranges: Box<[(u128, u128)]>,
    holed: Box<[Term]>,
}

impl AnyOf {
    /// Of these terms. O(n log n).
    #[must_use]
    pub fn new(field: Field, terms: &[Term]) -> Self {
        let (mut ranges, mut holed) = (Vec::new(), Vec::new());
        for term in terms {
            match as_range(field, *term) {
                Some(range) if range.0 <= range.1 => ranges.push(range),
                Some(_) => {}
                None => holed.push(*term),
            }
        }
        ranges.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match merged.last_mut() {
                Some((_, last)) if low <= last.saturating_add(1) => *last = high.max(*last),
                _ => merged.push((low, high)),
            }
        }
        Self { field, ranges: merged.into(), holed: holed.into() }
    }

    /// The field.
    #[must_use]
    pub const fn field(&self) -> Field {
        self.field
    }

    /// The alternatives, as ranges and masks with holes.
    pub fn terms(&self) -> impl Iterator<Item = Term> {
        let ranges = self.ranges.iter().map(|(low, high)| Term::Range { low: *low, high: *high });
        ranges.chain(self.holed.iter().copied())
    }

    /// True when `value` satisfies one of them. O(log n), and O(n) in masks with holes.
    #[inline]
    #[must_use]
    pub fn contains(&self, value: u128) -> bool {
        let after = self.ranges.partition_point(|(low, _)| *low <= value);
        let within = after.checked_sub(1).and_then(|at| self.ranges.get(at)).is_some_and(|(_, high)| value <= *high);
        within || self.holed.iter().any(|term| term.contains(value))
    }

    /// True when some value satisfies both, of one field. Never says no where one does. O(n + m), and O(n m) in masks with
    /// holes.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        ranges_meet(&self.ranges, &other.ranges)
            || self.holed.iter().any(|ours| other.overlaps_term(*ours))
            || other.holed.iter().any(|theirs| self.overlaps_term(*theirs))
    }

    /// True when some value satisfies both this and `term`, of the same field. Never says no where one does.
    #[must_use]
    pub fn overlaps_term(&self, term: Term) -> bool {
        match as_range(self.field, term) {
            Some(range) => ranges_meet(&self.ranges, &[range]) || self.holed.iter().any(|holed| holed.overlaps(term)),
            None => self.terms().any(|ours| ours.overlaps(term)),
        }
    }
}

fn ranges_meet(mut ours: &[(u128, u128)], mut theirs: &[(u128, u128)]) -> bool {
    while let ([(a, b), our_rest @ ..], [(c, d), their_rest @ ..]) = (ours, theirs) {
        if a <= d && c <= b {
            return true;
        }
        if b < c {
            ours = our_rest;
        } else {
            theirs = their_rest;
        }
    }
    false
}

/// The term as first and last value; `None` for a mask that is no prefix of the field.
const fn as_range(field: Field, term: Term) -> Option<(u128, u128)> {
    match term {
        Term::Range { low, high } => Some((low, high)),
        Term::Masked { value, mask } => {
            let free = field.mask() & !mask;
            // The free bits of a prefix are all low bits.
            if free & free.wrapping_add(1) == 0 { Some((value, value | free)) } else { None }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn term() -> impl Strategy<Value = Term> {
        prop_oneof![
            (0_u128..64, 0_u128..64).prop_map(|(value, mask)| Term::Masked { value: value & mask, mask }),
            (0_u128..64, 0_u32..=6).prop_map(|(value, length)| Term::prefix(Field::IpDscp, value, length)),
            (0_u128..64, 0_u128..64).prop_map(|(low, high)| Term::Range { low, high }),
        ]
    }

    proptest! {
        #[test]
        fn a_set_holds_what_one_of_its_terms_holds(terms in prop::collection::vec(term(), 0..12)) {
            let set = AnyOf::new(Field::IpDscp, &terms);
            for value in 0..64 {
                prop_assert_eq!(set.contains(value), terms.iter().any(|term| term.contains(value)), "{}", value);
            }
        }

        #[test]
        fn sets_that_share_a_value_overlap(
            ours in prop::collection::vec(term(), 0..8), theirs in prop::collection::vec(term(), 0..8),
        ) {
            let (a, b) = (AnyOf::new(Field::IpDscp, &ours), AnyOf::new(Field::IpDscp, &theirs));
            let shared = (0..64).any(|value| a.contains(value) && b.contains(value));
            prop_assert!(a.overlaps(&b) || !shared);
            prop_assert_eq!(a.overlaps(&b), b.overlaps(&a));
        }
    }

    #[test]
    fn prefixes_that_touch_become_one_range_and_no_range_reaches_past_the_last_value() {
        let net = |value, length| Term::prefix(Field::Ip4Src, value, length);
        let set = AnyOf::new(Field::Ip4Src, &[net(0x0a00_0000, 9), net(0x0a80_0000, 9), net(0x0a01_0000, 16)]);
        assert_eq!(set.terms().collect::<Vec<_>>(), [Term::Range { low: 0x0a00_0000, high: 0x0aff_ffff }]);
        let all =
            AnyOf::new(Field::Ip6Src, &[Term::prefix(Field::Ip6Src, 0, 0), Term::exact(Field::Ip6Src, u128::MAX)]);
        assert_eq!(all.terms().collect::<Vec<_>>(), [Term::Range { low: 0, high: u128::MAX }]);
    }
}
