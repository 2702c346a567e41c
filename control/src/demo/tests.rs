use std::collections::BTreeSet;

use super::{CONFIG, STOP, checks};

#[test]
fn every_promise_is_told_once_and_fits_its_column() {
    let mut seen = BTreeSet::new();
    for check in checks::all() {
        assert!(seen.insert(check.promise), "{}", check.promise);
        assert!(check.promise.len() <= 72, "{}", check.promise);
    }
    assert!(seen.len() >= 30);
}

#[test]
fn the_file_takes_the_rule_of_the_live_change_at_its_end() {
    for text in [CONFIG.to_owned(), format!("{CONFIG}{}", STOP)] {
        config::load(&text, "demo.yaml").unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}
