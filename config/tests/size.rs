//! Large files load, and hostile ones are refused, without taking long: each of these is near linear in its file, or the
//! test would run for minutes.
#![cfg(test)]

use std::fmt::Write as _;

use config::load;

const HEADER: &str = "apiVersion: sluice/v1\n";

fn flows(count: usize, mut flow: impl FnMut(usize) -> String) -> String {
    let mut text = format!("{HEADER}flows:\n");
    for n in 0..count {
        writeln!(text, "  - {{ name: r{n}, table: acl-from, {} }}", flow(n)).unwrap();
    }
    text
}

#[test]
fn ten_thousand_rules_of_one_priority_and_two_actions_load() {
    let text = flows(10_000, |n| {
        let action = if n % 2 == 0 { "deny" } else { "allow-stateless" };
        format!("match: {{ ip.dst: 10.{}.{}.0/24, tcp.dst: {} }}, action: {action}", n / 256, n % 256, n % 100)
    });
    assert_eq!(load(&text, "x").unwrap().rules.len(), 10_000);
}

#[test]
fn twenty_thousand_rules_that_differ_in_ranges_only_load() {
    for key in ["tcp.dst", "ip.length"] {
        let text = flows(20_000, |n| {
            let action = if n % 2 == 0 { "deny" } else { "allow-stateless" };
            format!("match: {{ eth.type: ipv4, {key}: {}-{} }}, action: {action}", n * 2, n * 2 + 1)
        });
        assert_eq!(load(&text, "x").unwrap().rules.len(), 20_000);
    }
}

#[test]
fn twenty_thousand_ranges_and_single_values_between_them_load() {
    let text = flows(20_000, |n| match n % 2 {
        0 => format!("match: {{ tcp.dst: {} }}, action: deny", n * 2),
        _ => format!("match: {{ tcp.dst: {}-{} }}, action: allow-stateless", n * 2, n * 2 + 1),
    });
    assert_eq!(load(&text, "x").unwrap().rules.len(), 20_000);
}

#[test]
fn of_rules_that_all_contradict_each_other_each_is_reported_once() {
    let text = flows(3_000, |n| {
        let action = if n % 2 == 0 { "deny" } else { "allow-stateless" };
        format!("match: {{}}, action: {action}")
    });
    let wrong = load(&text, "x").unwrap_err();
    let (last, told) = wrong.items().split_last().unwrap();
    assert!(told.iter().all(|item| matches!(item.also[0].line, 3 | 4)));
    assert_eq!((told.len(), &*last.message), (1_000, "1999 more errors are not shown"));
}

#[test]
fn deep_nesting_is_refused_where_it_begins_to_be_too_deep() {
    for text in ["[".repeat(1_000_000), "{a: ".repeat(200_000), "- ".repeat(100_000), "? ".repeat(100_000)] {
        let wrong = load(&format!("{HEADER}ports: {text}"), "x").unwrap_err();
        assert!(wrong.items()[0].place.unwrap().line <= 2, "{wrong}");
        assert!(load(&text, "x").is_err());
    }
}

#[test]
fn of_very_many_errors_the_first_thousand_are_told_and_the_others_counted() {
    let twice: String = (0..20_000).map(|n| format!("k{}: 1\n", n % 10_000)).collect();
    let aliases = "*a, ".repeat(50_000);
    for (text, more) in [
        (format!("{HEADER}{twice}"), "19000 more errors are not shown"),
        (format!("{HEADER}ports: [&a x, {aliases}]\n"), "49002 more errors are not shown"),
    ] {
        let wrong = load(&text, "x").unwrap_err();
        assert_eq!(wrong.items().len(), 1_001);
        assert_eq!(wrong.items().last().unwrap().message, more);
        assert!(wrong.to_string().len() < 1_000_000);
    }
}

#[test]
fn hundreds_of_prefixes_in_a_set_become_one_condition_in_the_fewest_terms() {
    let cidrs: Vec<String> = (0..256).map(|n| format!("10.0.{n}.0/24")).collect();
    let flow = "flows: [{ name: a, table: acl-from, match: { ip.dst: big }, action: deny }]\n";
    let text = format!("{HEADER}sets: [{{ name: big, cidrs: [{}] }}]\n{flow}", cidrs.join(", "));
    let policy = load(&text, "x").unwrap().policy(&mut config::Ids::default());
    let rules: usize = policy.tables.iter().map(Vec::len).sum();
    assert_eq!(rules, 1);
    assert!(policy.tables.iter().flatten().all(|rule| rule.matches.alternatives().is_empty()), "they are 10.0.0.0/16");
}
