//! What an operator is told about the mistakes that cost most, word for word.
#![cfg(test)]

fn said(text: &str) -> String {
    config::load(text, "sluice.yaml").unwrap_err().to_string()
}

#[test]
fn a_misspelt_key_is_refused_and_never_makes_a_rule_wider() {
    let text = "apiVersion: sluice/v1
flows:
  - name: ssh
    table: acl-from
    match: { ip.proto: tcp, dstport: 22 }
    action: Deny
    tcp.dst: 22
";
    assert_eq!(
        said(text),
        r#"sluice.yaml:5:29: unknown key "dstport" in a match
  |     match: { ip.proto: tcp, dstport: 22 }
  |                             ^^^^^^^
  hint: did you mean "tcp.dst"?

sluice.yaml:6:13: action: expected an action, found "Deny"
  |     action: Deny
  |             ^^^^
  hint: did you mean "deny"?

sluice.yaml:7:5: unknown key "tcp.dst" in a flow
  |     tcp.dst: 22
  |     ^^^^^^^
  hint: "tcp.dst" belongs under "match"; is the indentation right?
"#
    );
}

#[test]
fn what_is_given_twice_is_refused_with_both_places() {
    let text = "apiVersion: sluice/v1
ports:
  - { name: a, device: veth-a }
  - { name: a, device: veth-b }
ports:
  - { name: c, device: veth-c, name: d }
";
    assert_eq!(
        said(text),
        r#"sluice.yaml:4:13: another port is named "a"
  |   - { name: a, device: veth-b }
  |             ^
  also here: sluice.yaml:3:13

sluice.yaml:5:1: the key "ports" is given twice in one map
  | ports:
  | ^^^^^
  also here: sluice.yaml:2:1

sluice.yaml:6:32: the key "name" is given twice in one map
  |   - { name: c, device: veth-c, name: d }
  |                                ^^^^
  also here: sluice.yaml:6:7
"#
    );
}

#[test]
fn a_word_is_not_guessed_to_be_another() {
    let text = "apiVersion: sluice/v1
ports:
  - { name: on, device: no, security: yes }
  - { name: ~, device: null, queues: on }
";
    assert_eq!(
        said(text),
        r#"sluice.yaml:3:39: security: expected on or off, found "yes"
  |   - { name: on, device: no, security: yes }
  |                                       ^^^

sluice.yaml:4:13: name: a value is missing; expected a name
  |   - { name: ~, device: null, queues: on }
  |             ^

sluice.yaml:4:38: queues: expected a whole number from 1 to 64, found "on"
  |   - { name: ~, device: null, queues: on }
  |                                      ^^
"#
    );
}

#[test]
fn an_address_is_refused_with_the_way_to_write_it() {
    let text = "apiVersion: sluice/v1
sets:
  - { name: s, cidrs: [10.0.0.010, 10.0.0.1/24, 10.0.0.0/255.255.255.0] }
";
    assert_eq!(
        said(text),
        r#"sluice.yaml:3:24: cidrs: "10.0.0.010" has a leading zero, which some programs read as octal
  |   - { name: s, cidrs: [10.0.0.010, 10.0.0.1/24, 10.0.0.0/255.255.255.0] }
  |                        ^^^^^^^^^^
  hint: write 10.0.0.10 if that is meant

sluice.yaml:3:36: cidrs: "10.0.0.1/24" has bits set beyond its prefix length
  |   - { name: s, cidrs: [10.0.0.010, 10.0.0.1/24, 10.0.0.0/255.255.255.0] }
  |                                    ^^^^^^^^^^^
  hint: write 10.0.0.0/24 for the whole network, or 10.0.0.1 for the one address

sluice.yaml:3:49: cidrs: "10.0.0.0/255.255.255.0" has a mask, where a prefix length is expected
  |   - { name: s, cidrs: [10.0.0.010, 10.0.0.1/24, 10.0.0.0/255.255.255.0] }
  |                                                 ^^^^^^^^^^^^^^^^^^^^^^
  hint: write 10.0.0.0/24
"#
    );
}

#[test]
fn conditions_that_no_packet_meets_at_once_are_refused() {
    let text = "apiVersion: sluice/v1
flows:
  - { name: ping, table: acl-from, match: { icmp.type: 8, ip.proto: tcp }, action: deny }
groups:
  - { name: web, to: [{ deny: { ports: [53] } }] }
";
    assert_eq!(
        said(text),
        r#"sluice.yaml:3:45: "icmp.type" is about icmp, and "ip.proto" allows tcp
  |   - { name: ping, table: acl-from, match: { icmp.type: 8, ip.proto: tcp }, action: deny }
  |                                             ^^^^^^^^^
  also here: sluice.yaml:3:59
  hint: "icmp.type" implies ip.proto: icmp; leave ip.proto out

sluice.yaml:5:33: "ports" says nothing without "proto"
  |   - { name: web, to: [{ deny: { ports: [53] } }] }
  |                                 ^^^^^
  hint: write proto: tcp, proto: udp or proto: [tcp, udp]
"#
    );
}

#[test]
fn two_rules_that_contradict_each_other_are_refused_with_both_places() {
    let text = "apiVersion: sluice/v1
flows:
  - { name: ssh, table: acl-from, match: { tcp.dst: 22 }, action: deny }
  - { name: any, table: acl-from, match: { ip.dst: 10.0.0.0/8 }, action: allow-stateless }
  - { name: ssh-6, table: acl-from, match: { tcp.dst: 22, eth.type: ipv6 }, action: allow-stateless }
";
    assert_eq!(
        said(text),
        r#"sluice.yaml:4:13: rules "any" and "ssh" of table acl-from have equal priority (1000), may match the same packet, and do different things
  |   - { name: any, table: acl-from, match: { ip.dst: 10.0.0.0/8 }, action: allow-stateless }
  |             ^^^
  also here: sluice.yaml:3:13
  hint: give the one that is to win a higher priority

sluice.yaml:5:13: rules "ssh-6" and "ssh" of table acl-from have equal priority (1000), may match the same packet, and do different things
  |   - { name: ssh-6, table: acl-from, match: { tcp.dst: 22, eth.type: ipv6 }, action: allow-stateless }
  |             ^^^^^
  also here: sluice.yaml:3:13
  hint: give the one that is to win a higher priority
"#
    );
}

#[test]
fn a_file_that_can_not_be_read_is_told_with_its_name() {
    let missing = config::load_file("/nonexistent/sluice.yaml".as_ref()).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "/nonexistent/sluice.yaml: the file can not be read: No such file or directory (os error 2)\n"
    );
    assert_eq!(missing.items()[0].place, None);
}
