//! Wrong files and what is said about each: `cases/NAME.yaml` and `cases/NAME.err`. With `UPDATE=1` the latter are written.
#![cfg(test)]

use std::{fs, path::PathBuf};

fn cases() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let mut cases: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    cases.sort();
    cases
}

#[test]
fn every_wrong_file_is_refused_with_the_text_beside_it() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut differing = Vec::new();
    let cases = cases();
    assert!(cases.len() >= 40);
    for path in cases {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let Err(wrong) = config::load(&text, name) else {
            differing.push(format!("{name} loads"));
            continue;
        };
        let expected = path.with_extension("err");
        if update {
            fs::write(&expected, wrong.to_string()).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != wrong.to_string() {
            differing.push(format!("{name}:\n{wrong}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn every_error_of_the_cases_points_at_a_token_of_its_file() {
    for path in cases() {
        let text = fs::read_to_string(&path).unwrap();
        for item in config::load(&text, "x").unwrap_err().items() {
            for place in item.place.iter().chain(&item.also) {
                let line = if text.is_empty() { " " } else { text.lines().nth(place.line as usize - 1).unwrap() };
                let end = (place.col - 1 + place.width) as usize;
                assert!(end <= line.chars().count().max(1), "{path:?} {line} {item:?}");
            }
        }
    }
}
