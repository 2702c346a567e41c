//! The search for contradicting rules finds what comparing every rule with every other finds.
#![cfg(test)]

use std::{collections::BTreeMap, fmt::Write as _};

use config::{Ids, load};
use flow_table::{matching::Match, rule::TableId};
use proptest::prelude::*;

fn condition() -> impl Strategy<Value = String> {
    let mixed = "in: [a, b]|in: c|ip.dst: 10.0.0.0/8|ip.dst: 10.1.0.0/16|ip.dst: [10.1.2.3, 192.168.0.0/16]|ip.src: 10.0.0.0/9\
                 |ip.dst: \"2001:db8::/32\"|ip.dscp: 0-7|ip.fragment: yes|vlan.id: [10, 20]|vlan.id: none|ip.ttl: 1\
                 |eth.type: [ipv4, arp]|eth.dst: \"01:00:00:00:00:00/01:00:00:00:00:00\"|tcp.dst: 22|tcp.dst: 20-30|tcp.dst: [25, 80]\
                 |tcp.src: 1000-2000|tcp.flags: syn|udp.dst: 53|udp.dst: 20-60|icmp.type: 8|icmp6.type: 8|ip.proto: [tcp, udp]|mark: 1-5";
    prop::sample::select(mixed.split('|').map(str::trim).map(str::to_owned).collect::<Vec<_>>())
}

/// A rule's conditions, one a key, and whether it denies.
fn rule() -> impl Strategy<Value = (BTreeMap<String, String>, bool)> {
    let keyed = |text: String| {
        let (key, value) = text.split_once(": ").unwrap();
        (key.to_owned(), value.to_owned())
    };
    (prop::collection::vec(condition().prop_map(keyed), 0..3).prop_map(BTreeMap::from_iter), any::<bool>())
}

fn text(rules: &[(BTreeMap<String, String>, bool)], priority: fn(usize) -> usize) -> String {
    let mut text = "apiVersion: sluice/v1\nports: [{ name: a, device: va }, { name: b, device: vb }, { name: c, device: vc }]\nflows:\n".to_owned();
    for (index, (conditions, deny)) in rules.iter().enumerate() {
        let conditions: Vec<String> = conditions.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        let (conditions, action) = (conditions.join(", "), if *deny { "deny" } else { "allow-stateless" });
        let priority = priority(index);
        writeln!(text, "  - {{ name: r{index}, table: acl-from, priority: {priority}, match: {{ {conditions} }}, action: {action} }}").unwrap();
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_rule_is_reported_with_the_first_it_contradicts(rules in prop::collection::vec(rule(), 2..25)) {
        // Only what no packet can match is refused on its own.
        let possible = |rule: &(BTreeMap<String, String>, bool)| load(&text(std::slice::from_ref(rule), |_| 0), "x").is_ok();
        let rules: Vec<_> = rules.into_iter().filter(possible).collect();
        prop_assume!(!rules.is_empty());

        let apart = load(&text(&rules, |index| index), "x").unwrap().policy(&mut Ids::default());
        let mut matches: BTreeMap<u16, Vec<&Match>> = BTreeMap::new();
        for rule in &apart.tables[TableId::AclFrom as usize] {
            matches.entry(rule.priority.0).or_default().push(&rule.matches);
        }
        let contradict = |a: usize, b: usize| {
            let of = |index: usize| &matches[&u16::try_from(index).unwrap()];
            rules[a].1 != rules[b].1 && of(a).iter().any(|a| of(b).iter().any(|b| a.overlaps(b)))
        };
        let wanted: Vec<(usize, usize)> = (0..rules.len())
            .filter_map(|later| Some((later, (0..later).find(|earlier| contradict(*earlier, later))?)))
            .collect();

        let found: Vec<(usize, usize)> = match load(&text(&rules, |_| 1000), "x") {
            Ok(_) => vec![],
            Err(wrong) => {
                let index = |line: u32| line as usize - 4;
                wrong.items().iter().map(|item| (index(item.place.unwrap().line), index(item.also[0].line))).collect()
            }
        };
        prop_assert_eq!(found, wanted);
    }
}
