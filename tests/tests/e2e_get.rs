//! `sluice get`: what operators and programs read.
#![cfg(test)]

use std::{
    io::Read,
    process::{Command, Stdio},
    time::Duration,
};

use bench::transfer;
use serde_json::Value;
use tests::{
    daemon::Daemon,
    lab::Lab,
    program::{self, run},
};

const KINDS: [(&str, &str); 7] = [
    ("ports", "Ports"),
    ("flows", "Flows"),
    ("tables", "Tables"),
    ("fdb", "Fdb"),
    ("workers", "Workers"),
    ("drops", "Drops"),
    ("status", "Status"),
];

/// A daemon that has seen traffic, and dropped some.
fn busy(lab: &Lab) -> Daemon<'_> {
    let config = lab.config(
        "  - { name: p9, device: nowhere0, network: lan, mac: \"02:00:00:00:00:09\" }\nflows:\n  \
         - { name: no-telnet, table: acl-from, match: { tcp.dst: 23 }, action: deny }\n  \
         - { name: unused, table: acl-to, priority: 7, match: { udp.dst: 1 }, action: deny }\n",
    );
    let daemon = Daemon::start(&lab.switch, &config);
    transfer::tcp(lab.tenant(1).get(), lab.tenant(2).get(), "10.0.0.2:0".parse().unwrap(), 100_000).unwrap();
    let telnet = "10.0.0.2:23".parse().unwrap();
    let refused = lab.tenant(1).run(|| std::net::TcpStream::connect_timeout(&telnet, Duration::from_millis(300)));
    assert!(refused.is_err());
    daemon
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn every_list_has_version_kind_and_items_and_its_items_have_these_fields() {
    let lab = Lab::new(2);
    let daemon = busy(&lab);
    for (what, kind) in KINDS {
        let ended = daemon.cli(&[what, "-o", "json"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{what}");
        let list: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((list["apiVersion"].as_str(), list["kind"].as_str()), (Some("sluice/v1"), Some(kind)), "{what}");
        let first = &list["items"][0];
        let fields: &[&str] = match what {
            "ports" => &[
                "device", "drops", "kernel", "kind", "mode", "mtu", "name", "network", "queues", "rx", "state", "tx",
                "why",
            ],
            "flows" => &["bytes", "idle_ms", "key", "out", "packets", "reason", "rules", "verdict"],
            "tables" => &["action", "bytes", "match", "name", "packets", "place", "priority", "table"],
            "fdb" => &["age_ms", "mac", "network", "origin", "port", "vlan"],
            "workers" => &[
                "busy_polls",
                "checksums_completed",
                "chunks",
                "chunks_free",
                "chunks_lent",
                "evicted",
                "expired",
                "flow_capacity",
                "flows",
                "frames",
                "generation",
                "hits",
                "misses",
                "polls",
                "sleeps",
                "uncached",
            ],
            "drops" => &["explanation", "packets", "port", "reason", "rule"],
            _ => &[
                "config",
                "generation",
                "hash",
                "last_reload",
                "node",
                "pid",
                "ports",
                "ports_attached",
                "started",
                "version",
            ],
        };
        let has = keys(first);
        for field in fields {
            assert!(has.contains(field), "{what} has no {field}: {first}");
        }
    }
}

#[test]
fn the_values_are_those_of_the_traffic() {
    let lab = Lab::new(2);
    let daemon = busy(&lab);
    let port = daemon.port("p1");
    assert_eq!(
        (port["state"].as_str(), port["mode"].as_str(), port["mtu"].as_u64()),
        (Some("attached"), Some("copy"), Some(1500))
    );
    assert!(port["rx"]["bytes"].as_u64().unwrap() > 100_000);
    let missing = daemon.port("p9");
    assert_eq!(
        (missing["state"].as_str(), missing["why"].as_str()),
        (Some("missing"), Some("device nowhere0 does not exist"))
    );
    let flows = daemon.items("flows");
    let there = flows.iter().find(|flow| flow["key"]["ip.src"] == "10.0.0.1" && flow["verdict"] == "forward").unwrap();
    assert_eq!((there["key"]["in"].as_str(), &there["out"][0]), (Some("p1"), &Value::from("p2")), "{there}");
    let dropped = flows.iter().find(|flow| flow["verdict"] == "drop").unwrap();
    assert_eq!(dropped["reason"], "acl_from");
    assert_eq!(dropped["rules"][0], serde_json::json!({ "table": "acl-from", "name": "no-telnet" }));
    let rules = daemon.items("tables");
    let names: Vec<&str> = rules.iter().map(|rule| rule["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"no-telnet") && names.contains(&"unused"), "also rules without a hit: {names:?}");
    let stations = daemon.items("fdb");
    let place = |mac: &str| {
        let station = stations.iter().find(|station| station["mac"] == mac).unwrap();
        (station["port"].as_str().unwrap().to_owned(), station["origin"].as_str().unwrap().to_owned())
    };
    assert_eq!(place("02:00:00:00:00:01"), ("p1".to_owned(), "learned".to_owned()));
    assert_eq!(place("02:00:00:00:00:09"), ("p9".to_owned(), "static".to_owned()));
    let drops = daemon.items("drops");
    let telnet = drops.iter().find(|drop| drop["reason"] == "acl_from").unwrap();
    assert_eq!((telnet["port"].as_str(), telnet["rule"].as_str()), (Some("p1"), Some("no-telnet")));
    let status = daemon.status();
    assert_eq!(status["pid"], daemon.pid());
    assert_eq!((status["ports"].as_u64(), status["ports_attached"].as_u64()), (Some(3), Some(2)));
    assert_eq!(status["last_reload"], Value::Null);
}

#[test]
fn yaml_says_what_json_says_and_the_table_has_a_row_for_each_item() {
    let lab = Lab::new(2);
    let daemon = busy(&lab);
    for (what, _) in KINDS {
        let json: Value = serde_json::from_str(&daemon.cli(&[what, "-o", "json"]).stdout).unwrap();
        let yaml = daemon.cli(&[what, "-o", "yaml"]);
        assert_eq!(yaml.code, Some(0));
        assert!(yaml.stdout.starts_with("apiVersion: sluice/v1\nkind: "), "{what}: {}", yaml.stdout);
        let table = daemon.cli(&[what]);
        assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""), "{what}");
        let items = json["items"].as_array().unwrap().len();
        let rows = table.stdout.lines().filter(|line| !line.starts_with("total ")).count();
        assert_eq!(rows, items + 1, "{what}: headings and a row each\n{}", table.stdout);
        for line in table.stdout.lines() {
            assert_eq!(line, line.trim_end(), "{what}");
        }
    }
    let ports = daemon.cli(&["ports"]).stdout;
    assert!(ports.starts_with("NAME  DEVICE"), "{ports}");
    assert!(
        ports.lines().any(|line| line.contains("p9") && line.contains("device nowhere0 does not exist")),
        "{ports}"
    );
}

#[test]
fn without_a_daemon_get_ends_with_four_and_says_where_it_looked() {
    for (what, _) in KINDS {
        let ended = run(["get", what, "--socket", "/no/such/sluice.sock"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""), "{what}");
        assert!(ended.stderr.contains("no daemon answers on /no/such/sluice.sock"), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1);
    }
    let lab = Lab::new(1);
    let mut daemon = Daemon::start(&lab.switch, &lab.config(""));
    daemon.kill();
    assert!(daemon.socket().exists(), "a socket that nobody listens on any more");
    assert_eq!(daemon.cli(&["status"]).code, Some(4));
}

#[test]
fn a_wrong_command_line_ends_with_two() {
    for arguments in [vec!["get", "nothing"], vec!["get", "ports", "-o", "xml"], vec!["nonsense"], vec!["run"]] {
        let ended = run(&arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(!ended.stderr.is_empty());
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let lab = Lab::new(2);
    let daemon = busy(&lab);
    let socket = daemon.socket();
    let socket = socket.to_str().unwrap();
    for arguments in [vec!["schema"], vec!["man"], vec!["get", "ports", "-o", "json", "--socket", socket]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command: Command = program::sluice();
        let mut child = command.args(&arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        drop(command);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn no_more_flows_are_shown_than_asked_for_and_the_busiest_come_first() {
    let lab = Lab::new(2);
    let daemon = busy(&lab);
    let all = daemon.items("flows");
    assert!(all.len() > 2);
    let packets: Vec<u64> = all.iter().map(|flow| flow["packets"].as_u64().unwrap()).collect();
    assert!(packets.is_sorted_by(|a, b| a >= b), "{packets:?}");
    let two: Value = serde_json::from_str(&daemon.cli(&["flows", "-o", "json", "--limit", "2"]).stdout).unwrap();
    assert_eq!(two["items"].as_array().unwrap().len(), 2);
    assert!(two["total"].as_u64().unwrap() >= all.len() as u64, "{}", two["total"]);
}
