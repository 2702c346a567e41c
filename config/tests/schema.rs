//! The schema, and that it and the reader know the same keys.
#![cfg(test)]

use std::{collections::BTreeSet, fs};

use serde_json::Value;

const EVERY_KEY: &str = include_str!("every-key.yaml");

#[test]
fn the_schema_checked_in_is_the_one_of_this_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema.json");
    let made = serde_json::to_string_pretty(&config::schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, &made).unwrap();
    }
    let checked_in = fs::read_to_string(path).unwrap();
    let differing = checked_in.lines().zip(made.lines()).find(|(there, here)| there != here);
    assert!(checked_in == made, "run the tests with UPDATE=1; the first lines that differ: {differing:?}");
}

/// Every key of the schema with the keys above it.
fn keys(schema: &Value, above: &str, found: &mut BTreeSet<String>) {
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{above}/{key}");
        keys(value, &path, found);
        found.insert(path);
    }
    for part in ["anyOf", "oneOf"] {
        schema[part].as_array().into_iter().flatten().for_each(|value| keys(value, above, found));
    }
    if schema["items"].is_object() {
        keys(&schema["items"], above, found);
    }
}

/// The path of the key on each line of a file in block style with one key a line; list items begin with a line `-`.
fn written(text: &str) -> Vec<(usize, String)> {
    let mut above: Vec<(usize, String)> = Vec::new();
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let Some((key, _)) = line.trim_start().split_once(':').filter(|_| !line.trim_start().starts_with(['#', '-']))
        else {
            continue;
        };
        above.retain(|(deeper, _)| *deeper < indent);
        above.push((indent, key.to_owned()));
        let path: Vec<&str> = above.iter().map(|(_, key)| &**key).collect();
        found.push((number, format!("/{}", path.join("/"))));
    }
    found
}

#[test]
fn the_reader_takes_every_key_of_the_schema_and_the_file_of_every_key_has_no_other() {
    config::load(EVERY_KEY, "every-key.yaml").unwrap_or_else(|wrong| panic!("{wrong}"));
    let mut in_schema = BTreeSet::new();
    keys(&config::schema(), "", &mut in_schema);
    let in_file: BTreeSet<String> = written(EVERY_KEY).into_iter().map(|(_, path)| path).collect();
    assert_eq!(in_file, in_schema);
}

#[test]
fn no_key_is_read_and_ignored() {
    let whole = config::load(EVERY_KEY, "x").unwrap();
    for (number, path) in written(EVERY_KEY) {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let lines: Vec<&str> = EVERY_KEY.lines().collect();
        let end =
            (number + 1..lines.len()).find(|next| indent(lines[*next]) <= indent(lines[number])).unwrap_or(lines.len());
        let without = [&lines[..number], &lines[end..]].concat().join("\n") + "\n";
        // The only mode there is changes nothing.
        if path == "/ports/mode" {
            continue;
        }
        if let Ok(model) = config::load(&without, "x") {
            assert!(model != whole, "{path} may be left out, and makes no difference");
        }
    }
}
