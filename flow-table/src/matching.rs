//! What a packet must satisfy for a rule to apply to it.

mod any_of;

pub use any_of::AnyOf;

use crate::field::{Field, Headers, Place, WORDS, Words};

/// One alternative for a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Term {
    /// Equal to `value` under `mask`: an exact value, a prefix, or any bits.
    Masked {
        /// The bits wanted; none outside `mask`.
        value: u128,
        /// Which bits count.
        mask: u128,
    },
    /// From `low` to `high`, both included.
    Range {
        /// Least value.
        low: u128,
        /// Greatest value.
        high: u128,
    },
}

impl Term {
    /// Exactly `value` of `field`.
    #[must_use]
    pub const fn exact(field: Field, value: u128) -> Self {
        Self::Masked { value, mask: field.mask() }
    }

    /// The first `length` bits of `field` equal to those of `value`. A length beyond the field's width is the whole field.
    #[must_use]
    pub const fn prefix(field: Field, value: u128, length: u32) -> Self {
        let bits = field.bits();
        let free = bits.saturating_sub(length);
        let mask = if free >= 128 { 0 } else { (u128::MAX << free) & field.mask() };
        Self::Masked { value: value & mask, mask }
    }

    /// True when `value` satisfies the term.
    #[inline]
    #[must_use]
    pub const fn contains(self, value: u128) -> bool {
        match self {
            Self::Masked { value: wanted, mask } => value & mask == wanted,
            Self::Range { low, high } => low <= value && value <= high,
        }
    }

    /// True when some value satisfies both. May say true where none does only for a range against a mask with holes.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        match (self, other) {
            (Self::Masked { value: a, mask: m }, Self::Masked { value: b, mask: n }) => (a ^ b) & m & n == 0,
            (Self::Range { low: a, high: b }, Self::Range { low: c, high: d }) => a <= d && c <= b,
            (Self::Masked { value, mask }, Self::Range { low, high })
            | (Self::Range { low, high }, Self::Masked { value, mask }) => {
                // The least and greatest values with these bits, the free bits taken within the range's own width.
                let width = u128::MAX >> (high | mask | 1).leading_zeros();
                value <= high && low <= value | (!mask & width)
            }
        }
    }
}

/// A conjunction of conditions on a packet.
///
/// Conditions on one value and mask in the key are folded into words, so that a classifier can compare all of them at
/// once; the others are kept beside. Conditions on fields outside the key are kept apart: to look at one makes the
/// outcome per packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Match {
    value: Words,
    mask: Words,
    any_of: Vec<AnyOf>,
    packet: Vec<AnyOf>,
}

impl Default for Match {
    fn default() -> Self {
        Self::any()
    }
}

impl Match {
    /// Matches every packet.
    #[must_use]
    pub const fn any() -> Self {
        Self { value: [0; WORDS], mask: [0; WORDS], any_of: Vec::new(), packet: Vec::new() }
    }

    /// Adds the condition that `field` satisfies one of `terms`. An empty list can never hold.
    ///
    /// A condition on an L4 field also demands that the packet is not a later fragment. A second condition on the same
    /// field is a further condition: both must hold.
    #[must_use]
    pub fn with(mut self, field: Field, terms: impl IntoIterator<Item = Term>) -> Self {
        if field.is_l4() {
            self = self.with_masked(Field::IpFragment, 0, 2);
        }
        let terms: Vec<Term> = terms.into_iter().collect();
        match (field.place(), &*terms) {
            (Place::Packet, _) => self.packet.push(AnyOf::new(field, &terms)),
            (_, &[Term::Masked { value, mask }]) => return self.with_masked(field, value, mask),
            _ => self.any_of.push(AnyOf::new(field, &terms)),
        }
        self
    }

    /// Adds the condition that `field` is `value`.
    #[must_use]
    pub fn with_exact(self, field: Field, value: u128) -> Self {
        self.with(field, [Term::exact(field, value)])
    }

    fn with_masked(mut self, field: Field, value: u128, mask: u128) -> Self {
        let (held, wanted) = (field.read(&self.mask), field.read(&self.value));
        if held & mask == mask && wanted & mask == value {
            // Already demanded.
        } else if held & mask != 0 {
            // Already conditioned: keep both conditions rather than replacing one.
            self.any_of.push(AnyOf::new(field, &[Term::Masked { value, mask }]));
        } else {
            field.write(&mut self.value, value, mask);
            field.write(&mut self.mask, u128::MAX, mask);
        }
        self
    }

    /// The values of the conditions folded into words; zero outside [`mask`](Self::mask).
    #[must_use]
    pub const fn value(&self) -> &Words {
        &self.value
    }

    /// Which bits of the words count.
    #[must_use]
    pub const fn mask(&self) -> &Words {
        &self.mask
    }

    /// Conditions with alternatives, on fields in the key.
    #[must_use]
    pub fn alternatives(&self) -> &[AnyOf] {
        &self.any_of
    }

    /// Conditions on fields outside the key.
    #[must_use]
    pub fn packet_tests(&self) -> &[AnyOf] {
        &self.packet
    }

    /// True when `headers` satisfies every condition on the words.
    #[inline]
    #[must_use]
    pub fn holds_in_words(&self, words: &Words) -> bool {
        self.value.iter().zip(&self.mask).zip(words).all(|((value, mask), word)| word & mask == *value)
            && self.alternatives_hold(words)
    }

    /// True when every condition with alternatives holds; the folded ones are not looked at.
    #[inline]
    #[must_use]
    pub fn alternatives_hold(&self, words: &Words) -> bool {
        self.any_of.iter().all(|any| any.contains(any.field().read(words)))
    }

    /// True when every condition on fields outside the key holds. A packet without the field does not satisfy it.
    #[must_use]
    pub fn packet_tests_hold(&self, headers: &Headers) -> bool {
        self.packet.iter().all(|any| headers.get(any.field()).is_some_and(|value| any.contains(value)))
    }

    /// True when the packet satisfies the match.
    #[must_use]
    pub fn holds(&self, headers: &Headers) -> bool {
        self.holds_in_words(&headers.words) && self.packet_tests_hold(headers)
    }

    /// True when some packet may satisfy both matches.
    ///
    /// Never says no where one does. Compared field by field: O(conditions²), alternatives O(terms).
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let folded = self.value.iter().zip(&self.mask).zip(other.value.iter().zip(&other.mask));
        let agree = folded.into_iter().all(|((a, m), (b, n))| (a ^ b) & m & n == 0);
        agree
            && self.any_of.iter().all(|any| other.admits(any))
            && other.any_of.iter().all(|any| self.admits(any))
            && self
                .packet
                .iter()
                .all(|any| other.packet.iter().filter(|o| o.field() == any.field()).all(|o| any.overlaps(o)))
    }

    /// True when nothing here rules out every alternative of `any`.
    fn admits(&self, any: &AnyOf) -> bool {
        let field = any.field();
        let folded = Term::Masked { value: field.read(&self.value), mask: field.read(&self.mask) };
        any.overlaps_term(folded)
            && self.any_of.iter().filter(|other| other.field() == field).all(|other| any.overlaps(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(set: &[(Field, u128)]) -> Headers {
        let mut headers = Headers::default();
        for (field, value) in set {
            field.write(&mut headers.words, *value, u128::MAX);
        }
        headers
    }

    #[test]
    fn prefixes_ranges_and_sets_hold_for_their_members_only() {
        let m = Match::any()
            .with(
                Field::Ip4Dst,
                [Term::prefix(Field::Ip4Dst, 0x0a00_0000, 8), Term::prefix(Field::Ip4Dst, 0xc0a8_0000, 16)],
            )
            .with(Field::L4Dst, [Term::Range { low: 1024, high: 2048 }]);
        for (address, port, holds) in [
            (0x0a01_0203, 1024, true),
            (0xc0a8_ffff, 2048, true),
            (0x0b00_0000, 1500, false),
            (0x0a01_0203, 1023, false),
            (0x0a01_0203, 2049, false),
        ] {
            let headers = words(&[(Field::Ip4Dst, address), (Field::L4Dst, port)]);
            assert_eq!(m.holds(&headers), holds, "{address:#x} {port}");
        }
    }

    #[test]
    fn a_later_fragment_never_matches_a_port() {
        let m = Match::any().with_exact(Field::L4Dst, 0);
        assert!(m.holds(&words(&[(Field::IpFragment, 1)])));
        assert!(!m.holds(&words(&[(Field::IpFragment, 2)])));
    }

    #[test]
    fn two_conditions_on_one_field_must_both_hold() {
        let m = Match::any().with_exact(Field::IpProto, 6).with_exact(Field::IpProto, 17);
        assert!(!m.holds(&words(&[(Field::IpProto, 6)])) && !m.holds(&words(&[(Field::IpProto, 17)])));
    }

    #[test]
    fn a_packet_without_the_field_does_not_satisfy_a_condition_on_it() {
        let m = Match::any().with(Field::TcpFlags, [Term::Masked { value: 0, mask: 2 }]);
        assert!(!m.holds(&Headers::default()));
        let mut headers = Headers::default();
        headers.packet.tcp_flags = Some(0x10);
        assert!(m.holds(&headers));
    }

    #[test]
    fn overlap_is_told_for_values_prefixes_ranges_and_sets() {
        let port = |low, high| Match::any().with(Field::L4Dst, [Term::Range { low, high }]);
        assert!(port(1, 10).overlaps(&port(10, 20)) && !port(1, 10).overlaps(&port(11, 20)));
        assert!(port(1, 10).overlaps(&Match::any().with_exact(Field::L4Dst, 7)));
        assert!(!port(1, 10).overlaps(&Match::any().with_exact(Field::L4Dst, 11)));
        let net = |value, length| Match::any().with(Field::Ip4Src, [Term::prefix(Field::Ip4Src, value, length)]);
        assert!(
            net(0x0a00_0000, 8).overlaps(&net(0x0a01_0000, 16)) && !net(0x0a00_0000, 8).overlaps(&net(0x0b00_0000, 8))
        );
        assert!(net(0x0a00_0000, 8).overlaps(&port(1, 2)));
        let empty = Match::any().with(Field::L4Dst, []);
        assert!(!empty.overlaps(&Match::any()));
    }
}
