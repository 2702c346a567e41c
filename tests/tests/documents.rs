//! The documents say what there is: tests that exist, and lists that are whole.
#![cfg(test)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use flow_table::{fate::DropReason, field::Field, rule::TableId};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The entries of a folder that are part of the tree: not hidden, and not built.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| !name(path).starts_with('.') && name(path) != "target").collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Names of every test in the tree.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                collect(&fs::read_to_string(&path).unwrap(), &mut names);
            }
        }
    }
    names
}

fn collect(text: &str, names: &mut BTreeSet<String>) {
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            marked = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| marked) {
            names.insert(rest.split('(').next().unwrap().to_owned());
            marked = false;
        }
    }
}

/// The rows of the table under a heading, cell by cell, without the heading of the table itself.
fn rows(text: &str, heading: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let section: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with('#')).collect();
    let cells = |line: &&str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    section.iter().filter(|line| line.starts_with('|')).skip(2).map(cells).collect()
}

/// The first cell of each row, without its back quotes.
fn firsts(text: &str, heading: &str) -> Vec<String> {
    rows(text, heading).iter().map(|row| row[0].trim_matches('`').to_owned()).collect()
}

/// Names of the variants of an enum, as they are written.
fn variants(source: &str, item: &str) -> Vec<(String, Option<String>)> {
    let body = source.split(item).nth(1).unwrap().split('}').next().unwrap().split_once('{').unwrap().1;
    let lines = body.lines().map(str::trim).filter(|line| line.starts_with(char::is_uppercase));
    lines
        .map(|line| match line.trim_end_matches(',').split_once(" = ") {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (line.trim_end_matches(',').to_owned(), None),
        })
        .collect()
}

#[test]
fn every_promise_names_a_test_that_exists_or_is_pending() {
    let text = read("SPECIFICATION.md");
    let tests = tests();
    let mut numbers = BTreeSet::new();
    for heading in ["Frames", "Decisions", "Ports", "Configuration", "The daemon", "The code"] {
        let rows = rows(&text, &format!("## {heading}"));
        assert!(!rows.is_empty(), "no promise under {heading}");
        for row in rows {
            let [number, _, by] = row.as_slice() else { panic!("{row:?} has not three cells") };
            assert!(numbers.insert(number.clone()), "{number} is given twice");
            let named: Vec<&str> = by.split('`').skip(1).step_by(2).collect();
            assert!(!named.is_empty() || by == "pending", "{number} has no test and is not pending");
            for test in named {
                assert!(tests.contains(test), "{number}: there is no test {test}");
            }
        }
    }
}

#[test]
fn every_drop_reason_and_table_is_documented_in_its_own_words() {
    let text = read("SPECIFICATION.md");
    let documented: Vec<(String, String)> = rows(&text, "### Drop reasons")
        .iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), row[1].clone()))
        .collect();
    let known: Vec<(String, String)> =
        DropReason::ALL.iter().map(|reason| (reason.name().to_owned(), reason.explain().to_owned())).collect();
    assert_eq!(documented, known);
    let names: Vec<String> = TableId::ALL.iter().map(|table| format!("`{}`", table.name())).collect();
    assert!(text.contains(&names.join(", ")), "the tables in their order: {}", names.join(", "));
    let architecture = read("ARCHITECTURE.md");
    assert!(names.iter().all(|name| architecture.contains(&format!("| {name} |"))), "each table has a row");
}

#[test]
fn every_get_and_every_exit_code_is_documented() {
    let text = read("SPECIFICATION.md");
    let whats = variants(&read("control/src/cli/get.rs"), "enum What");
    let whats: Vec<String> = whats.into_iter().map(|(name, _)| name.to_lowercase()).collect();
    assert_eq!(firsts(&text, "### What `sluice get` shows"), whats);
    let readme = read("README.md");
    assert!(whats.iter().all(|what| readme.contains(&format!("`{what}`"))), "README names each of {whats:?}");
    let codes = variants(&read("control/src/exit.rs"), "pub(crate) enum Exit");
    let codes: Vec<String> = codes.into_iter().filter_map(|(_, code)| code).collect();
    assert_eq!(firsts(&text, "### Exit codes"), codes);
}

#[test]
fn the_flow_keys_table_is_the_layout_of_the_code() {
    let rows = rows(&read("ARCHITECTURE.md"), "## The flow key");
    let stated = |field: Field, word: usize, shift: u32| {
        let high = shift + field.bits() - 1;
        let bits = if field.bits() == 1 { shift.to_string() } else { format!("{high}..{shift}") };
        let size = field.bits().to_string();
        let row = rows.iter().find(|row| row[0] == word.to_string() && row[1] == bits);
        assert!(row.is_some_and(|row| row[3] == size), "{field:?}: word {word}, bits {bits}, {size} in size");
    };
    use flow_table::field::Place;
    let fields = [
        Field::InPort,
        Field::EthType,
        Field::VlanTci,
        Field::IpProto,
        Field::IpDscp,
        Field::IpFragment,
        Field::EthDst,
        Field::EthSrc,
        Field::L4Src,
        Field::L4Dst,
        Field::Ip4Src,
        Field::Ip4Dst,
    ];
    for field in fields {
        let Place::Word { word, shift } = field.place() else { panic!("{field:?} is not in one word") };
        stated(field, word, shift);
    }
    let total: u32 = rows.iter().map(|row| row[3].parse::<u32>().unwrap()).sum();
    assert_eq!(total, 8 * 64, "the fields fill the key");
}

#[test]
fn the_readmes_index_names_every_directory_and_no_other() {
    let readme = read("README.md");
    let indexed: BTreeSet<String> = firsts(&readme, "## Where things are").into_iter().collect();
    let there: BTreeSet<String> = entries(&root()).iter().filter(|path| path.is_dir()).map(|path| name(path)).collect();
    assert_eq!(indexed, there);
}

#[test]
fn every_link_and_path_of_the_documents_leads_somewhere() {
    let documents = entries(&root()).into_iter().filter(|path| path.extension().is_some_and(|e| e == "md"));
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap();
            let outside = target.contains("://");
            assert!(outside || root().join(target).exists(), "{}: {target}", name(&document));
        }
        let firsts: Vec<String> = entries(&root()).iter().map(|path| name(path)).collect();
        for quoted in text.split('`').skip(1).step_by(2).filter(|quoted| !quoted.contains([' ', '*', '\n', '{'])) {
            let is_path = quoted.contains('/') && firsts.iter().any(|first| quoted.split('/').next() == Some(first));
            // What is built is not there in a clean clone.
            if is_path && !quoted.starts_with("target/") && !quoted.starts_with("fuzz/artifacts") {
                assert!(root().join(quoted).exists(), "{}: {quoted}", name(&document));
            }
        }
    }
}
