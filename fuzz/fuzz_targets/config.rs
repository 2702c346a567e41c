//! Any text: reading it never panics; what is wrong is told with places in the file; what is right becomes a pipeline.
#![no_main]

use std::fmt::Write as _;

use flow_table::{hash::Seed, pipeline::Pipeline};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match config::load(text, "fuzz.yaml") {
        Ok(model) => {
            let policy = model.policy(&mut config::Ids::default());
            let _ = Pipeline::new(&policy, Seed::new(1));
            let again = config::load(text, "fuzz.yaml").map(|model| model.policy(&mut config::Ids::default()));
            assert_eq!(again.as_ref().ok(), Some(&policy), "the same text read twice");
        }
        Err(errors) => {
            assert!(!errors.items().is_empty(), "a refusal has a reason");
            let lines: Vec<&str> = text.lines().collect();
            for item in errors.items() {
                for place in item.place.iter().chain(&item.also) {
                    assert!(place.line >= 1 && place.col >= 1 && place.width >= 1, "{place:?}");
                    let line = usize::try_from(place.line).unwrap() - 1;
                    assert!(line <= lines.len(), "{place:?} is beyond line {}", lines.len());
                    let columns = lines.get(line).map_or(0, |line| line.chars().count());
                    assert!(usize::try_from(place.col).unwrap() <= columns + 1, "{place:?} is beyond column {columns}");
                }
            }
            let mut shown = String::new();
            write!(shown, "{errors}").unwrap();
        }
    }
});
