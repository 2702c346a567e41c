//! The committed eBPF object belongs to the sources beside it.
#![cfg(test)]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

#[test]
fn the_committed_object_was_built_from_these_sources() {
    let ebpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ebpf");
    let mut files = vec![PathBuf::from("prog/Cargo.toml"), PathBuf::from("prog/Cargo.lock")];
    collect(&ebpf, Path::new("prog/src"), &mut files);
    collect(&ebpf, Path::new("layout/src"), &mut files);
    let mut names: Vec<_> = files.iter().map(|file| file.to_str().unwrap()).collect();
    names.sort_unstable();
    // As `sha256sum` prints them, one a line; see ebpf/build.
    let mut list = String::new();
    for name in names {
        writeln!(list, "{}  {name}", hex(&fs::read(ebpf.join(name)).unwrap())).unwrap();
    }
    let committed = fs::read_to_string(ebpf.join("sluice.bpf.sha256")).unwrap();
    assert_eq!(hex(list.as_bytes()), committed.trim(), "ebpf/sluice.bpf.o is older than its sources: run ebpf/build");
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            collect(root, &path, files);
        } else {
            files.push(path);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
