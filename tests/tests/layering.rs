//! The shape of the code: which crate may depend on which, where unsafe code and clocks may be, and how long a file may be.
#![cfg(test)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Every arrow there may be, and no other. Those of `tests` go everywhere.
const ARROWS: &[(&str, &str)] = &[
    ("flow-table", "ebpf-layout"),
    ("dataplane", "flow-table"),
    ("dataplane", "ebpf-layout"),
    ("config", "flow-table"),
    ("bench", "dataplane"),
    ("bench", "flow-table"),
    ("bench", "config"),
    ("control", "config"),
    ("control", "dataplane"),
    ("control", "flow-table"),
    ("control", "bench"),
    ("sluice-ebpf", "ebpf-layout"),
    ("sluice-fuzz", "config"),
    ("sluice-fuzz", "dataplane"),
    ("sluice-fuzz", "flow-table"),
];
/// Where unsafe code may be.
const UNSAFE: &[&str] = &[
    "dataplane/src/port/",
    "dataplane/src/sys/",
    "flow-table/src/prefetch.rs",
    "ebpf/prog/",
    "bench/src/allocations.rs",   // a counting allocator
    "bench/src/packet_socket.rs", // whole frames of a device
    "tests/src/netns_",           // packet sockets and program loads of the tests' own
];
/// Where the clock may be read.
const CLOCKS: &[&str] = &["dataplane/src/runtime.rs", "control/", "tests/src/wait.rs", "bench/"];
/// The longest file, in lines.
const LONGEST: usize = 620;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust file of the tree with its path from the root and its text.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && name != "target" {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let from_root = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
                found.push((from_root, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The lines of a file that are code: without comments, and without what stands between double quotes.
fn code(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.lines().enumerate().map(|(number, line)| {
        let unquoted: String = line.split('"').step_by(2).collect();
        (number + 1, unquoted.split("//").next().unwrap_or_default().to_owned())
    })
}

fn is_in(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| path.starts_with(place))
}

/// Lines of code outside `places` that have one of `words`.
fn strays(places: &[&str], words: &[&str]) -> Vec<String> {
    let mut strays = Vec::new();
    // This file names what it looks for, in quotes only.
    for (path, text) in sources().iter().filter(|(path, _)| !is_in(path, places)) {
        for (number, line) in code(text).filter(|(_, line)| words.iter().any(|word| line.contains(word))) {
            strays.push(format!("{path}:{number}: {}", line.trim()));
        }
    }
    strays
}

/// Crates of a workspace, and the arrows between crates of this tree.
fn arrows(manifest: &str) -> (BTreeSet<String>, BTreeSet<(String, String)>) {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(root().join(manifest))
        .output()
        .unwrap();
    assert!(out.status.success(), "{manifest}: {}", String::from_utf8_lossy(&out.stderr));
    let metadata: Value = serde_json::from_slice(&out.stdout).unwrap();
    let (mut crates, mut arrows) = (BTreeSet::new(), BTreeSet::new());
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        crates.insert(name.to_owned());
        for dependency in package["dependencies"].as_array().unwrap() {
            if dependency["path"].is_string() {
                arrows.insert((name.to_owned(), dependency["name"].as_str().unwrap().to_owned()));
            }
        }
    }
    (crates, arrows)
}

#[test]
fn crates_depend_on_each_other_as_the_architecture_says_and_no_further() {
    let mut all = BTreeSet::new();
    for manifest in ["Cargo.toml", "ebpf/prog/Cargo.toml", "fuzz/Cargo.toml"] {
        let (crates, arrows) = arrows(manifest);
        all.extend(crates);
        let stray: Vec<_> = arrows
            .iter()
            .filter(|(from, to)| from != "tests" && !ARROWS.contains(&(from.as_str(), to.as_str())))
            .collect();
        assert!(stray.is_empty(), "{manifest}: {stray:?}");
        assert!(arrows.iter().all(|(_, to)| to != "tests"), "{manifest}: nothing depends on the tests");
    }
    let known: BTreeSet<String> = ARROWS.iter().flat_map(|(from, to)| [*from, *to]).map(str::to_owned).collect();
    let strange: Vec<_> = all.iter().filter(|name| *name != "tests" && !known.contains(*name)).collect();
    assert!(strange.is_empty(), "a crate without a place in the architecture: {strange:?}");
}

#[test]
fn code_that_is_unsafe_is_only_where_it_may_be() {
    let words = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe(", "(unsafe_code"];
    let found = strays(UNSAFE, &words);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn only_the_runtime_and_control_read_the_clock() {
    let found = strays(CLOCKS, &["Instant::now", "SystemTime::now", "thread::sleep"]);
    // Waiting for the kernel, on the control thread; see the function's own words.
    let found: Vec<_> = found.into_iter().filter(|line| !line.starts_with("dataplane/src/sys/mod.rs")).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let long: Vec<_> =
        sources().into_iter().filter(|(_, text)| text.lines().count() > LONGEST).map(|(path, _)| path).collect();
    assert!(long.is_empty(), "longer than {LONGEST} lines: {long:?}");
}

#[test]
fn a_lint_is_lifted_only_where_it_fires_and_with_a_reason() {
    let allowed = strays(&[], &["#[allow(", "#![allow("]);
    assert!(allowed.is_empty(), "use #[expect(.., reason = ..)]:\n{}", allowed.join("\n"));
    let mut bare = Vec::new();
    for (path, text) in sources() {
        let is_attribute = |at: usize| text[..at].lines().last().is_some_and(|line| matches!(line.trim(), "#" | "#!"));
        for (at, _) in text.match_indices("[expect(").filter(|(at, _)| is_attribute(*at)) {
            let end = text[at..].find(")]").map_or(text.len(), |length| at + length);
            if !text[at..end].contains("reason = \"") {
                bare.push(format!("{path}:{}", text[..at].lines().count()));
            }
        }
    }
    assert!(bare.is_empty(), "without a reason: {bare:?}");
}

#[test]
fn every_crate_has_a_readme_and_the_lint_table_of_the_workspace() {
    for manifest in ["flow-table", "dataplane", "config", "control", "bench", "tests", "ebpf/layout"] {
        let folder = root().join(manifest);
        let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert!(text.contains("[lints]\nworkspace = true"), "{manifest} has lints of its own");
        let readme = [folder.join("README.md"), folder.parent().unwrap().join("README.md")];
        assert!(readme[0].exists() || (manifest == "ebpf/layout" && readme[1].exists()), "{manifest} has no README.md");
    }
}
