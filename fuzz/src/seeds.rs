//! Writes the seeds that the targets start from, and the dictionary of the configuration's words.
//!
//! Usage: `seeds FOLDER`. Everything comes from files that other tests use too.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn main() -> io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or_else(|| io::Error::other("say where to write"))?);
    let frames = frames()?;
    let parse = made(&folder, "parse")?;
    for (number, frame) in frames.iter().enumerate() {
        fs::write(parse.join(format!("case-{number:03}")), frame)?;
    }
    let worker = made(&folder, "worker")?;
    for (number, few) in frames.chunks(8).enumerate() {
        fs::write(worker.join(format!("case-{number:03}")), script(few))?;
    }
    let config = made(&folder, "config")?;
    for place in ["config/examples", "config/tests", "config/tests/cases"] {
        for entry in fs::read_dir(Path::new(ROOT).join(place))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "yaml")
                && let Some(name) = path.file_name()
            {
                fs::copy(&path, config.join(name))?;
            }
        }
    }
    let mut words = BTreeSet::new();
    collect(&config::schema(), &mut words);
    let lines: Vec<String> = words.iter().map(|word| format!("\"{word}\"\n")).collect();
    fs::write(folder.join("config.dict"), lines.concat())
}

fn made(folder: &Path, name: &str) -> io::Result<PathBuf> {
    let path = folder.join(name);
    fs::create_dir_all(&path)?;
    Ok(path)
}

/// The frames of `tests/cases/packets.json`.
fn frames() -> io::Result<Vec<Vec<u8>>> {
    let text = fs::read_to_string(Path::new(ROOT).join("tests/cases/packets.json"))?;
    let cases: Value = serde_json::from_str(&text)?;
    let hex = |text: &str| {
        let digits: Vec<u8> =
            text.bytes().filter_map(|digit| char::from(digit).to_digit(16)?.try_into().ok()).collect();
        digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect()
    };
    Ok(cases.as_object().into_iter().flatten().filter_map(|(_, case)| Some(hex(case["hex"].as_str()?))).collect())
}

/// Frames as the worker's target reads them: each twice, so that the second finds what the first left; then time, another
/// policy, and once more.
fn script(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut script = Vec::new();
    for policy in 0..3 {
        script.extend([0xf0, policy]);
        for (port, frame) in (0_u8..).zip(frames) {
            let length = u16::try_from(frame.len()).unwrap_or(u16::MAX) & 0x0fff;
            for number in [1, 0] {
                script.extend([port % 4, number]);
                script.extend(length.to_be_bytes());
                script.extend(frame.iter().take(usize::from(length)));
            }
        }
        script.extend([0xf8, 160]);
    }
    script
}

/// Property names and enumerated values of a schema.
fn collect(schema: &Value, words: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("properties", Value::Object(properties)) => words.extend(properties.keys().cloned()),
                    ("enum", Value::Array(values)) => {
                        words.extend(values.iter().filter_map(|value| Some(value.as_str()?.to_owned())));
                    }
                    ("const", Value::String(value)) => drop(words.insert(value.clone())),
                    _ => {}
                }
                collect(value, words);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
        _ => {}
    }
}
