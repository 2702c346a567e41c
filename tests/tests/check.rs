//! `sluice check` on files that are wrong in the ways that cost most: exit 3, the place, and the way out.
#![cfg(test)]

use std::fs;

use tests::program::run;

/// Checks a text: exit code, standard output, standard error with `FILE` for the file.
fn check(text: &str) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.yaml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let ended = run(["check", path]);
    (ended.code, ended.stdout.replace(path, "FILE"), ended.stderr.replace(path, "FILE"))
}

/// The places a text is refused at, with the first line of what is said.
fn refused(text: &str) -> Vec<String> {
    let (code, stdout, stderr) = check(text);
    assert_eq!((code, stdout.as_str()), (Some(3), ""), "{text}\n{stderr}");
    stderr.lines().filter(|line| line.starts_with("FILE:")).map(str::to_owned).collect()
}

/// One rule after two lines.
fn rule(matches: &str, action: &str) -> String {
    format!(
        "apiVersion: sluice/v1\nflows:\n  - {{ name: r, table: acl-from, match: {{ {matches} }}, action: {action} }}\n"
    )
}

#[test]
fn a_valid_file_is_told_in_one_line() {
    let (code, stdout, stderr) = check(&rule("tcp.dst: 22", "deny"));
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "FILE: ok (0 ports, 0 networks, 1 rule)\n", ""));
}

#[test]
fn an_unknown_key_is_refused_with_its_place_and_the_near_miss() {
    let (code, _, stderr) = check(&rule("ip.proto: tcp, dstport: 22", "Drop"));
    assert_eq!(code, Some(3));
    assert_eq!(
        stderr,
        r#"FILE:3:57: unknown key "dstport" in a match
  |   - { name: r, table: acl-from, match: { ip.proto: tcp, dstport: 22 }, action: Drop }
  |                                                         ^^^^^^^
  hint: did you mean "tcp.dst"?

FILE:3:80: action: expected an action, found "Drop"
  |   - { name: r, table: acl-from, match: { ip.proto: tcp, dstport: 22 }, action: Drop }
  |                                                                                ^^^^
  hint: did you mean "drop"?
"#
    );
}

#[test]
fn a_key_one_indent_too_far_left_is_refused_and_the_rule_is_not_wider() {
    let told = refused(
        "apiVersion: sluice/v1\nflows:\n  - name: r\n    table: acl-from\n    match:\n      ip.proto: tcp\n    tcp.dst: 22\n    action: deny\n",
    );
    assert_eq!(told, ["FILE:7:5: unknown key \"tcp.dst\" in a flow"]);
}

#[test]
fn what_is_given_twice_is_refused_at_the_second_place_and_names_the_first() {
    for (text, at, also) in [
        (rule("ip.dst: 10.0.0.1, ip.dst: 10.0.0.2", "deny"), "FILE:3:60: ", "also here: FILE:3:42"),
        (
            "apiVersion: sluice/v1\nports:\n  - { name: a, device: x }\n  - { name: a, device: y }\n".to_owned(),
            "FILE:4:13: another port is named \"a\"",
            "also here: FILE:3:13",
        ),
        (
            "apiVersion: sluice/v1\nflows: []\nports: []\nflows: []\n".to_owned(),
            "FILE:4:1: the key \"flows\" is given twice",
            "also here: FILE:2:1",
        ),
        (
            format!("{}  - {{ name: r, table: acl-to, match: {{}}, action: deny }}\n", rule("tcp.dst: 1", "deny")),
            "FILE:4:13: another ",
            "also here: FILE:3:13",
        ),
    ] {
        let (code, _, stderr) = check(&text);
        assert_eq!(code, Some(3), "{text}");
        assert!(stderr.starts_with(at), "{text}\n{stderr}");
        assert!(stderr.contains(also), "{text}\n{stderr}");
    }
}

#[test]
fn merge_keys_anchors_and_second_documents_are_refused() {
    for (text, at) in [
        ("apiVersion: sluice/v1\nnode: { name: a, <<: { vtep: 192.0.2.1 } }\n", "FILE:2:18: "),
        ("apiVersion: sluice/v1\nnode: &n { name: a }\n", "FILE:2:"),
        ("apiVersion: sluice/v1\n---\napiVersion: sluice/v1\n", "FILE:2:"),
    ] {
        let told = refused(text);
        assert!(told[0].starts_with(at), "{text}\n{told:?}");
    }
}

#[test]
fn a_boolean_is_on_or_off_and_names_keep_their_text() {
    let port = |name: &str, security: &str| {
        format!("apiVersion: sluice/v1\nports: [{{ name: {name}, device: x, security: {security} }}]\n")
    };
    for word in ["yes", "y", "True", "\"true\"", "1", "On", "OFF"] {
        let told = refused(&port("a", word));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("FILE:2:41: security: expected on or off, found "), "{told:?}");
    }
    for missing in ["~", "null", ""] {
        let (code, _, stderr) = check(&port("a", missing));
        assert_eq!(code, Some(3), "security: {missing}\n{stderr}");
    }
    for name in ["on", "no", "\"null\"", "1e3", "0x10"] {
        assert_eq!(check(&port(name, "off")).0, Some(0), "{name}");
    }
}

#[test]
fn an_ipv4_address_that_programs_read_in_two_ways_is_refused() {
    for address in [
        "10.0.0.010",
        "010.1.1.1",
        "10.1",
        "0x0a000001",
        "167772161",
        "10.0.0.1/08",
        "10.0.0.1/33",
        "10.0.0.1/",
        "10.0.0.1/255.255.255.0",
        "10.0.0.256",
    ] {
        let told = refused(&rule(&format!("ip.dst: {address}"), "deny"));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("FILE:3:50: ip.dst: "), "{address}: {told:?}");
    }
    assert_eq!(check(&rule("ip.dst: 10.0.0.10", "deny")).0, Some(0));
}

#[test]
fn a_port_without_a_protocol_and_a_protocol_that_can_not_be_are_refused() {
    for (matches, says) in [
        ("dst_port: 53", "FILE:3:42: unknown key \"dst_port\" in a match"),
        ("icmp.type: 8, ip.proto: tcp", "FILE:3:42: \"icmp.type\" is about icmp, and \"ip.proto\" allows tcp"),
        ("tcp.flags: syn, ip.proto: udp", "FILE:3:42: \"tcp.flags\" is about tcp, and \"ip.proto\" allows udp"),
        ("tcp.dst: 1, udp.dst: 1", "FILE:3:"),
    ] {
        let told = refused(&rule(matches, "deny"));
        assert!(told[0].starts_with(says), "{matches}: {told:?}");
    }
    let group = "apiVersion: sluice/v1\ngroups:\n  - { name: g, to: [{ deny: { ports: [53] } }] }\n";
    assert_eq!(refused(group), ["FILE:3:31: \"ports\" says nothing without \"proto\""]);
}

#[test]
fn a_ring_that_is_no_allowed_power_of_two_is_refused_with_those_allowed() {
    for ring in ["0", "2", "32", "3000", "65536", "-64", "64.0"] {
        let (code, _, stderr) = check(&format!("apiVersion: sluice/v1\ndatapath: {{ ring: {ring} }}\n"));
        assert_eq!(code, Some(3), "{ring}");
        assert!(stderr.starts_with("FILE:2:19: ring: "), "{ring}: {stderr}");
        assert!(stderr.contains("power of two from 64 to 32768"), "{ring}: {stderr}");
    }
    for ring in ["64", "32768"] {
        let text = format!("apiVersion: sluice/v1\ndatapath: {{ ring: {ring}, umem: {{ chunks: 1048576 }} }}\n");
        assert_eq!(check(&text).0, Some(0), "{ring}");
    }
}

#[test]
fn every_error_of_a_file_is_told_at_once_in_the_order_of_the_file() {
    let told = refused(
        "apiVersion: sluice/v2\nports:\n  - { name: a, device: a-name-of-many-letters }\n  - { name: a, device: y, mtu: 1 }\nnope: 1\n",
    );
    let places: Vec<&str> = told.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["FILE:1:13", "FILE:3:24", "FILE:4:13", "FILE:4:32", "FILE:5:1"], "{told:#?}");
}

#[test]
fn a_file_that_is_not_there_is_invalid_and_named() {
    let ended = run(["check", "/no/such/file.yaml"]);
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("/no/such/file.yaml"), "{}", ended.stderr);
}
