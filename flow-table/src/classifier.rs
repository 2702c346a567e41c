//! Tables of rules: which rule of a table applies to a packet?

mod linear;
mod tuple_space;

pub use linear::LinearScan;
pub use tuple_space::TupleSpace;

use core::fmt;

use crate::{field::Headers, rule::Rule};

/// What a lookup looked at beyond the flow key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Consulted {
    /// True once a field outside the key decided whether a rule applies: the outcome is good for this packet alone.
    pub outside_key: bool,
}

/// Finds the best rule of a table for a packet.
///
/// The best is the one of highest priority; among equals, which then have equal actions, the one written first.
pub trait Classifier: fmt::Debug + Send + Sync {
    /// The best rule that `headers` satisfies. Records in `consulted` what it had to look at.
    fn lookup(&self, headers: &Headers, consulted: &mut Consulted) -> Option<&Rule>;

    /// The rules, best first.
    fn rules(&self) -> &[Rule];
}

/// Rules in the order a lookup prefers them: priority first, then as written.
fn ranked(rules: &[Rule]) -> Box<[Rule]> {
    let mut ranked = rules.to_vec();
    ranked.sort_by_key(|rule| core::cmp::Reverse(rule.priority)); // stable
    ranked.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        field::{Field, WORDS},
        hash::Seed,
        id::{Priority, RuleId},
        matching::{Match, Term},
        rule::Action,
    };

    const FIELDS: [Field; 8] = [
        Field::InPort,
        Field::EthType,
        Field::IpProto,
        Field::Ip4Src,
        Field::Ip6Dst,
        Field::L4Dst,
        Field::IpTtl,
        Field::TcpFlags,
    ];

    fn term(field: Field) -> impl Strategy<Value = Term> {
        // Few values, so that rules and packets meet.
        let spread = (0_u128..4).prop_map(move |n| n << (field.bits() - 2) | n);
        prop_oneof![
            spread.clone().prop_map(move |v| Term::exact(field, v)),
            (spread.clone(), 0..=field.bits()).prop_map(move |(v, n)| Term::prefix(field, v, n)),
            (spread.clone(), spread).prop_map(|(a, b)| Term::Range { low: a.min(b), high: a.max(b) }),
        ]
    }

    fn any_match() -> impl Strategy<Value = Match> {
        let condition =
            (0..FIELDS.len()).prop_flat_map(|i| (Just(FIELDS[i]), prop::collection::vec(term(FIELDS[i]), 1..3)));
        prop::collection::vec(condition, 0..4)
            .prop_map(|conditions| conditions.into_iter().fold(Match::any(), |m, (field, terms)| m.with(field, terms)))
    }

    fn any_rules() -> impl Strategy<Value = Vec<Rule>> {
        prop::collection::vec((any_match(), 0_u16..6), 0..40).prop_map(|rules| {
            let numbered = rules.into_iter().zip(0..);
            numbered
                .map(|((matches, priority), id)| {
                    // Equal priorities get equal actions, as a checked configuration has.
                    let action = Action::Mark(u32::from(priority));
                    Rule { id: RuleId(id), priority: Priority(priority), matches, action }
                })
                .collect()
        })
    }

    fn any_headers() -> impl Strategy<Value = Headers> {
        prop::collection::vec(0_u128..4, FIELDS.len()).prop_map(|values| {
            let mut headers = Headers { words: [0; WORDS], ..Headers::default() };
            for (field, n) in FIELDS.into_iter().zip(values) {
                let value = n << (field.bits() - 2) | n;
                field.write(&mut headers.words, value, u128::MAX);
                match field {
                    Field::IpTtl => headers.packet.ttl = u8::try_from(value).ok(),
                    Field::TcpFlags => headers.packet.tcp_flags = u16::try_from(value).ok(),
                    _ => {}
                }
            }
            headers
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn tuple_space_finds_the_rule_that_a_linear_scan_finds(rules in any_rules(), packets in prop::collection::vec(any_headers(), 1..20)) {
            let (linear, tuples) = (LinearScan::new(&rules), TupleSpace::new(&rules, Seed::new(3)));
            for headers in packets {
                let (mut by_scan, mut by_tuple) = (Consulted::default(), Consulted::default());
                let expected = linear.lookup(&headers, &mut by_scan).map(|rule| rule.id);
                prop_assert_eq!(tuples.lookup(&headers, &mut by_tuple).map(|rule| rule.id), expected);
                prop_assert!(by_tuple.outside_key || !by_scan.outside_key, "the scan looked outside the key and the tuples did not say so");
            }
        }

        #[test]
        fn what_was_decided_without_looking_outside_the_key_holds_for_every_packet_of_the_key(
            rules in any_rules(), headers in any_headers(), other in any_headers(),
        ) {
            let tuples = TupleSpace::new(&rules, Seed::new(3));
            let mut consulted = Consulted::default();
            let first = tuples.lookup(&headers, &mut consulted).map(|rule| rule.id);
            let twin = Headers { packet: other.packet, ..headers };
            if !consulted.outside_key {
                prop_assert_eq!(tuples.lookup(&twin, &mut Consulted::default()).map(|rule| rule.id), first);
            }
        }

        #[test]
        fn matches_that_a_packet_satisfies_both_are_said_to_overlap(a in any_match(), b in any_match(), headers in any_headers()) {
            if a.holds(&headers) && b.holds(&headers) {
                prop_assert!(a.overlaps(&b) && b.overlaps(&a));
            }
        }
    }
}
