//! Replays of small captures: the report word for word, and what is refused.

#![cfg(test)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use assert_cmd::Command;
use tempfile::TempDir;

const FILE: &str = "\
apiVersion: sluice/v1
ports:
  - { name: web-1, device: veth-1, network: blue }
  - { name: web-2, device: veth-2, network: blue }
  - { name: web-3, device: veth-3, network: blue }
networks: [{ name: blue }]
flows:
  - { name: unused, table: output, match: { ip.dscp: 46 }, action: { vlan: untagged } }
  - { name: no-telnet, table: acl-from, match: { tcp.dst: 23 }, action: deny }
  - { name: marked, table: classify, match: { tcp.dst: 80 }, action: { mark: 7 } }
";

/// A pcap file of frames with their times in microseconds.
fn pcap(path: &Path, frames: &[(u32, Vec<u8>)]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (micros, frame) in frames {
        let length = u32::try_from(frame.len()).unwrap();
        for word in [1_700_000_000, *micros, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    fs::write(path, file).unwrap();
}

/// A TCP SYN between two stations of 10.0.0.0/24, 54 bytes; checksums are left zero, which the switch does not mind.
fn syn(from: u8, to: u8, port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
    frame.extend([0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    let sum = frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
    let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend(40_000_u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    frame
}

struct Case {
    dir: TempDir,
}

impl Case {
    fn new() -> Self {
        let case = Self { dir: tempfile::tempdir().unwrap() };
        fs::write(case.path("node.yaml"), FILE).unwrap();
        pcap(&case.path("1.pcap"), &[(0, syn(1, 2, 80)), (20, syn(1, 2, 23)), (30, vec![0; 9]), (40, syn(1, 2, 80))]);
        pcap(&case.path("2.pcap"), &[(10, syn(2, 1, 80))]);
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn replay(&self, inputs: &[&str], out: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.current_dir(self.dir.path()).args(["replay", "-c", "node.yaml", "--out", out]);
        for input in inputs {
            command.args(["--in", input]);
        }
        command
    }

    fn refused(&self, inputs: &[&str], out: &str, code: i32) -> String {
        let output = self.replay(inputs, out).assert().code(code).get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn every_frame_has_its_fate_and_every_rule_its_count_also_those_without_a_hit() {
    let case = Case::new();
    let output = case.replay(&["web-1=1.pcap", "web-2=2.pcap"], "out").assert().code(0).get_output().clone();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "out/report.json: 5 frames in, 4 out, 2 dropped, 0 held\n");
    let report = fs::read_to_string(case.path("out/report.json")).unwrap();
    assert_eq!(
        report,
        r#"{
"ports": {
  "web-1": {"rx":4,"tx":1},
  "web-2": {"rx":1,"tx":2},
  "web-3": {"rx":0,"tx":1}
},
"held": 0,
"drops": {
  "runt": 1,
  "acl_from": 1
},
"rules": [
  {"name":"marked","table":"classify","packets":3,"bytes":162},
  {"name":"no-telnet","table":"acl-from","packets":1,"bytes":54},
  {"name":"unused","table":"output","packets":0,"bytes":0}
],
"frames": [
  {"port":"web-1","index":0,"fate":"sent","reason":null,"rule":"marked","out":[{"port":"web-2","index":0},{"port":"web-3","index":0}]},
  {"port":"web-2","index":0,"fate":"sent","reason":null,"rule":"marked","out":[{"port":"web-1","index":0}]},
  {"port":"web-1","index":1,"fate":"dropped","reason":"acl_from","rule":"no-telnet","out":[]},
  {"port":"web-1","index":2,"fate":"dropped","reason":"runt","rule":null,"out":[]},
  {"port":"web-1","index":3,"fate":"sent","reason":null,"rule":"marked","out":[{"port":"web-2","index":1}]}
]
}
"#
    );
    let _: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(fs::metadata(case.path("out/web-2.pcap")).unwrap().len(), 24 + 2 * (16 + 54));
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let case = Case::new();
    for out in ["a", "b"] {
        case.replay(&["web-2=2.pcap", "web-1=1.pcap"], out).assert().code(0);
    }
    for file in ["report.json", "web-1.pcap", "web-2.pcap", "web-3.pcap"] {
        let read = |out: &str| fs::read(case.path(out).join(file)).unwrap();
        assert_eq!(read("a"), read("b"), "{file}");
    }
}

#[test]
fn an_unknown_port_is_a_usage_error_with_the_near_miss() {
    let case = Case::new();
    assert_eq!(
        case.refused(&["wbe-1=1.pcap"], "out", 2),
        "sluice: --in wbe-1: node.yaml has no port of that name; did you mean \"web-1\"?\n"
    );
    assert_eq!(
        case.refused(&["uplink=1.pcap"], "out", 2),
        "sluice: --in uplink: node.yaml has no port of that name; its ports are web-1, web-2, web-3\n"
    );
    assert!(!case.path("out").exists());
}

#[test]
fn one_port_has_one_capture_and_an_input_says_both() {
    let case = Case::new();
    assert_eq!(
        case.refused(&["web-1=1.pcap", "web-1=2.pcap"], "out", 2),
        "sluice: --in web-1: given twice; a port has one capture\n"
    );
    assert!(case.refused(&["web-1"], "out", 2).contains("such as web-1=web-1.pcap"));
    assert!(case.refused(&[], "out", 2).contains("--in"));
}

#[test]
fn a_capture_that_is_missing_or_is_none_is_a_usage_error() {
    let case = Case::new();
    assert_eq!(case.refused(&["web-1=9.pcap"], "out", 2), "sluice: 9.pcap: No such file or directory (os error 2)\n");
    assert!(case.refused(&["web-1=node.yaml"], "out", 2).contains("node.yaml: not a pcap or pcapng file"));
}

#[test]
fn a_capture_is_never_overwritten_by_the_output() {
    let case = Case::new();
    fs::copy(case.path("1.pcap"), case.path("web-2.pcap")).unwrap();
    let before = fs::read(case.path("web-2.pcap")).unwrap();
    let told = case.refused(&["web-1=web-2.pcap"], ".", 2);
    assert!(told.contains("web-2.pcap: it would be overwritten by the output"), "{told}");
    assert_eq!(fs::read(case.path("web-2.pcap")).unwrap(), before);
}

#[test]
fn an_output_that_can_not_be_written_is_refused_and_an_invalid_file_is_told() {
    let case = Case::new();
    let told = case.refused(&["web-1=1.pcap"], "node.yaml/out", 5);
    assert!(told.starts_with("sluice: can not write node.yaml/out: "), "{told}");
    fs::write(case.path("node.yaml"), "apiVersion: sluice/v2\n").unwrap();
    assert!(case.refused(&["web-1=1.pcap"], "out", 3).starts_with("node.yaml:1:13: "));
}
