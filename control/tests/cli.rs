//! What a user of the command line sees: output, messages and exit codes.

#![cfg(test)]

use std::{fs, path::PathBuf, process::Stdio};

use assert_cmd::Command;
use tempfile::TempDir;

const GOOD: &str = "\
apiVersion: sluice/v1
ports:
  - { name: web-1, device: veth-web1, network: blue }
  - { name: web-2, device: veth-web2, network: blue }
networks: [{ name: blue }]
flows:
  - { name: no-telnet, table: acl-from, match: { tcp.dst: 23 }, action: deny }
";

const BAD: &str = "\
apiVersion: sluice/v1
port: []
flows:
  - { name: x, table: acl-from, match: { dstport: 22 }, action: deny }
";

fn sluice() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sluice"))
}

fn file(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.yaml");
    fs::write(&path, text).unwrap();
    (dir, path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_valid_file_is_told_in_one_line() {
    let (_dir, path) = file(GOOD);
    let output = sluice().arg("check").arg(&path).assert().code(0).get_output().clone();
    assert_eq!(text(&output.stdout), format!("{}: ok (2 ports, 1 network, 1 rule)\n", path.display()));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn all_that_is_wrong_with_a_file_is_told_at_once_with_places_and_hints() {
    let (_dir, path) = file(BAD);
    let output = sluice().arg("check").arg(&path).assert().code(3).get_output().clone();
    assert_eq!(text(&output.stdout), "");
    let told = text(&output.stderr);
    let path = path.display();
    for part in [
        format!("{path}:2:1: unknown key \"port\""),
        "did you mean \"ports\"?".to_owned(),
        format!("{path}:4:42: unknown key \"dstport\""),
        "did you mean \"tcp.dst\"?".to_owned(),
    ] {
        assert!(told.contains(&part), "{part}\nis not in\n{told}");
    }
}

#[test]
fn a_check_as_json_goes_to_standard_output_either_way() {
    let (_dir, path) = file(GOOD);
    let output = sluice().args(["check", "-o", "json"]).arg(&path).assert().code(0).get_output().clone();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["apiVersion"], &told["valid"], &told["ports"]), (&"sluice/v1".into(), &true.into(), &2.into()));
    let (_dir, path) = file(BAD);
    let output = sluice().args(["check", "-o", "json"]).arg(&path).assert().code(3).get_output().clone();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["valid"], false);
    assert_eq!(told["errors"][0]["place"]["line"], 2);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_file_that_can_not_be_read_is_as_invalid_as_a_wrong_one() {
    for command in ["check", "run"] {
        let mut sluice = sluice();
        if command == "run" {
            sluice.args(["run", "-c"]);
        } else {
            sluice.arg(command);
        }
        let output = sluice.arg("/nowhere/node.yaml").assert().code(3).get_output().clone();
        let told = text(&output.stderr);
        assert!(told.starts_with("/nowhere/node.yaml: "), "{told}");
        assert!(told.contains("No such file"), "{told}");
    }
}

#[test]
fn a_pipe_nobody_writes_to_is_no_file_and_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    for command in [&["check"][..], &["run", "-c"]] {
        let output = sluice()
            .args(command)
            .arg(&path)
            .timeout(std::time::Duration::from_secs(10))
            .assert()
            .code(3)
            .get_output()
            .clone();
        assert_eq!(text(&output.stderr), format!("{}: this is not a regular file\n", path.display()));
    }
}

#[test]
fn a_daemon_and_a_check_read_no_more_than_a_file_may_have() {
    let (_dir, path) = file("");
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    for command in [&["check"][..], &["run", "-c"]] {
        let output = sluice().args(command).arg(&path).assert().code(3).get_output().clone();
        let told = text(&output.stderr);
        assert!(told.contains("the file is longer than 67108864 bytes, the most that is read"), "{told}");
    }
}

#[test]
fn a_wrong_log_level_is_exit_code_2_with_those_there_are() {
    let (_dir, path) = file(GOOD);
    let output =
        sluice().env("SLUICE_LOG", "verbose").args(["run", "-c"]).arg(&path).assert().code(2).get_output().clone();
    assert_eq!(text(&output.stderr), "sluice: SLUICE_LOG is \"verbose\", and may be error, warn, info or debug\n");
}

#[test]
fn a_daemon_does_not_start_with_an_invalid_file_and_tells_all_of_it() {
    let (dir, path) = file(BAD);
    let socket = dir.path().join("s.sock");
    let output =
        sluice().args(["run", "-c"]).arg(&path).arg("--socket").arg(&socket).assert().code(3).get_output().clone();
    let told = text(&output.stderr);
    assert!(told.contains("unknown key \"port\"") && told.contains("unknown key \"dstport\""), "{told}");
    assert!(!socket.exists());
}

#[test]
fn without_a_daemon_every_get_is_one_sentence_and_exit_code_4() {
    for what in ["ports", "flows", "tables", "fdb", "workers", "drops", "status"] {
        let output = sluice().args(["get", what, "--socket", "/nowhere/s.sock"]).assert().code(4).get_output().clone();
        let told = text(&output.stderr);
        assert!(told.starts_with("sluice: no daemon answers on /nowhere/s.sock: "), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn a_wrong_command_line_is_exit_code_2_with_the_near_miss() {
    let output = sluice().args(["get", "prts"]).assert().code(2).get_output().clone();
    assert!(text(&output.stderr).contains("'ports'"));
    sluice().assert().code(2);
    sluice().args(["run"]).assert().code(2);
    let output = sluice().args(["get", "flows", "--limit", "100001"]).assert().code(2).get_output().clone();
    assert!(text(&output.stderr).contains("100001 is not in 0..=100000"));
    sluice().args(["--help"]).assert().code(0);
    sluice().args(["--version"]).assert().code(0);
}

#[test]
fn a_reader_that_went_away_is_not_an_error() {
    for args in [&["schema"][..], &["completions", "bash"], &["man"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = std::process::Command::new(env!("CARGO_BIN_EXE_sluice"))
            .args(args)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(text(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn a_full_disk_is_told() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_sluice"))
        .arg("schema")
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    let told = text(&output.stderr);
    assert!(told.starts_with("sluice: can not write to standard output: No space left on device"), "{told}");
}

#[test]
fn the_schema_is_json_and_names_its_draft() {
    let output = sluice().arg("schema").assert().code(0).get_output().clone();
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn every_shell_has_completions_and_every_command_a_manual_page() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = sluice().args(["completions", shell]).assert().code(0).get_output().clone();
        assert!(text(&output.stdout).contains("replay"), "{shell}");
    }
    let dir = tempfile::tempdir().unwrap();
    sluice().arg("man").arg(dir.path()).assert().code(0);
    for page in ["sluice.1", "sluice-run.1", "sluice-check.1", "sluice-get.1", "sluice-replay.1"] {
        assert!(fs::metadata(dir.path().join(page)).unwrap().len() > 100, "{page}");
    }
    let output = sluice().args(["man", "/nowhere"]).assert().code(5).get_output().clone();
    assert!(text(&output.stderr).starts_with("sluice: can not write manual pages to /nowhere: "));
}
