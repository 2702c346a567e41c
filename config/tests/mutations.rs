//! Whatever happens to a file in an editor, it loads or is refused with places in it.
#![cfg(test)]

use proptest::prelude::*;

const FILES: [&str; 5] = [
    include_str!("../examples/minimal.yaml"),
    include_str!("../examples/groups.yaml"),
    include_str!("../examples/static-forwarding.yaml"),
    include_str!("../examples/vlan.yaml"),
    include_str!("every-key.yaml"),
];

#[derive(Debug, Clone)]
enum Change {
    Delete(usize),
    Duplicate(usize),
    Swap(usize, usize),
    Indent(usize),
    Outdent(usize),
    Put(usize, char),
    Remove(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let odd = prop::sample::select(
        "{}[]:,-&*!|>'\"%@`#?~<\t\n\r \u{0}\u{feff}\u{1f980}\u{85}é0aZ./\\".chars().collect::<Vec<_>>(),
    );
    let at = 0..100_000_usize;
    prop_oneof![
        at.clone().prop_map(Change::Delete),
        at.clone().prop_map(Change::Duplicate),
        (at.clone(), at.clone()).prop_map(|(a, b)| Change::Swap(a, b)),
        at.clone().prop_map(Change::Indent),
        at.clone().prop_map(Change::Outdent),
        (at.clone(), odd).prop_map(|(at, c)| Change::Put(at, c)),
        at.prop_map(Change::Remove),
    ]
}

fn apply(text: &str, change: &Change) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let count = lines.len();
    match *change {
        Change::Delete(at) => drop(lines.remove(at % count)),
        Change::Duplicate(at) => lines.insert(at % count, lines[at % count].clone()),
        Change::Swap(a, b) => lines.swap(a % count, b % count),
        Change::Indent(at) => lines[at % count].insert_str(0, "  "),
        Change::Outdent(at) => {
            let line = &mut lines[at % count];
            *line = line.strip_prefix("  ").unwrap_or(line).to_owned();
        }
        Change::Put(at, c) => {
            let mut chars: Vec<char> = text.chars().collect();
            chars.insert(at % (chars.len() + 1), c);
            return chars.into_iter().collect();
        }
        Change::Remove(at) => {
            let mut chars: Vec<char> = text.chars().collect();
            if !chars.is_empty() {
                chars.remove(at % chars.len());
            }
            return chars.into_iter().collect();
        }
    }
    lines.join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_file_loads_or_is_refused_with_places_in_it(file in 0..FILES.len(), changes in prop::collection::vec(change(), 1..4)) {
        let text = changes.iter().fold(FILES[file].to_owned(), |text, change| apply(&text, change));
        match config::load(&text, "x.yaml") {
            Ok(model) => {
                let policy = model.policy(&mut config::Ids::default());
                prop_assert_eq!(policy.rules.len(), model.rules.len());
            }
            Err(wrong) => {
                prop_assert!(!wrong.items().is_empty() && !wrong.to_string().is_empty());
                let lines = text.lines().count().max(1);
                for place in wrong.items().iter().flat_map(|item| item.place.iter().chain(&item.also)) {
                    prop_assert!(place.line >= 1 && place.line as usize <= lines && place.col >= 1, "{:?}", place);
                }
            }
        }
    }
}
