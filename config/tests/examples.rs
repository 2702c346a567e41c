//! The examples are right, and stay so.
#![cfg(test)]

use std::{fs, path::Path};

#[test]
fn every_example_checks_clean_and_lowers_to_a_policy() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let model = config::load_file(&path).unwrap_or_else(|wrong| panic!("{wrong}"));
        let policy = model.policy(&mut config::Ids::default());
        assert_eq!(policy.ports.len(), model.ports.len(), "{path:?}");
        assert_eq!(policy.rules.len(), model.rules.len(), "{path:?}");
        seen += 1;
    }
    assert!(seen >= 4);
}
