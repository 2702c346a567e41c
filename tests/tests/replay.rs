//! `sluice replay` beyond the golden cases: formats, order, privilege, truncation, and rules in any order.
#![cfg(test)]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use bench::transfer::Bytes;
use etherparse::PacketBuilder;
use serde_json::Value;
use tempfile::TempDir;
use tests::{
    capture::{Record, read_pcap, write_pcap, write_pcap_big_endian, write_pcapng},
    golden::{EPOCH, Replayed, hex},
    program::{self, ended, run},
};

const LAN: &str = "\
apiVersion: sluice/v1
networks: [{ name: lan }]
ports:
  - { name: p1, device: veth-1, network: lan }
  - { name: p2, device: veth-2, network: lan }
  - { name: p3, device: veth-3, network: lan }
";

const fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

/// UDP from station `from` to station `to`.
fn udp(from: u8, to: u8, port: u16, data: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(mac(from), mac(to)).ipv4([10, 0, 0, from], [10, 0, 0, to], 64);
    builder.udp(4000, port).write(&mut frame, data).unwrap();
    frame
}

/// Frames a microsecond apart.
fn spaced(frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<Record> {
    frames.into_iter().zip(0_u64..).map(|(frame, n)| Record { at: EPOCH + n * 1000, frame }).collect()
}

fn with_config(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.yaml");
    fs::write(&path, text).unwrap();
    (dir, path)
}

fn replay(config: &str, inputs: &[(&str, Vec<Record>)]) -> Replayed {
    let (_dir, path) = with_config(config);
    let inputs: Vec<_> = inputs.iter().map(|(port, records)| ((*port).to_owned(), records.clone())).collect();
    Replayed::of(&path, &inputs)
}

#[test]
fn pcap_of_either_byte_order_and_pcapng_of_several_interfaces_replay_to_the_same_bytes() {
    let (dir, config) = with_config(LAN);
    let one = spaced((0..20).map(|n| udp(1, 2, 50 + n, b"one")));
    let two = spaced((0..20).map(|n| udp(2, 1, 50 + n, b"two")));
    let mut seen = Vec::new();
    for (name, write) in
        [("le", write_pcap as fn(&Path, &[Record])), ("be", write_pcap_big_endian), ("ng", write_pcapng)]
    {
        let path = |port: &str| dir.path().join(format!("{port}.{name}"));
        write(&path("p1"), &one);
        write(&path("p2"), &two);
        let _ = fs::remove_dir_all(dir.path().join("out"));
        let replayed = Replayed::of_files(&config, &[("p1", path("p1")), ("p2", path("p2"))], &dir);
        assert_eq!(replayed.ports["p2"], one, "{name}: every frame of p1, and its time");
        seen.push((replayed.report, replayed.ports));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn tcpdump_reads_what_replay_writes_and_replay_reads_what_tcpdump_writes() {
    let (dir, config) = with_config(LAN);
    let frames = spaced((0..5).map(|n| udp(1, 2, 5000 + n, b"for tcpdump")));
    let path = dir.path().join("in.pcap");
    write_pcap(&path, &frames);
    // Copied by tcpdump, which writes microseconds and a header of its own.
    let copy = dir.path().join("copy.pcap");
    let copied = ended(Command::new("tcpdump").arg("-r").arg(&path).arg("-w").arg(&copy));
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    assert_ne!(fs::read(&path).unwrap(), fs::read(&copy).unwrap());
    let replayed = Replayed::of_files(&config, &[("p1", copy)], &dir);
    assert_eq!(replayed.ports["p3"], frames);
    let shown = ended(Command::new("tcpdump").args(["-n", "-vv", "-tt", "-r"]).arg(dir.path().join("out/p3.pcap")));
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    let lines: Vec<&str> = shown.stdout.lines().filter(|line| line.contains("10.0.0.1.4000")).collect();
    assert_eq!(lines.len(), 5, "{}", shown.stdout);
    for (line, port) in lines.iter().zip(5000..) {
        assert!(line.contains(&format!("10.0.0.2.{port}: [udp sum ok] UDP, length 11")), "{line}");
    }
    assert!(shown.stdout.starts_with("1700000000.000000 IP"), "{}", shown.stdout);
}

#[test]
fn frames_of_one_time_come_in_the_order_of_in_and_others_by_time() {
    let (dir, config) = with_config(LAN);
    let at = |at, frame| Record { at: EPOCH + at, frame };
    write_pcap(&dir.path().join("1"), &[at(5, udp(1, 2, 1, b"")), at(9, udp(1, 2, 2, b""))]);
    write_pcap(&dir.path().join("2"), &[at(5, udp(2, 1, 1, b"")), at(1, udp(2, 1, 2, b""))]);
    let order = |inputs: [(&str, &str); 2]| {
        let inputs = inputs.map(|(port, file)| (port, dir.path().join(file)));
        let report = Replayed::of_files(&config, &inputs, &dir).json();
        let frames = report["frames"].as_array().unwrap().clone();
        frames
            .iter()
            .map(|frame| format!("{}[{}]", frame["port"].as_str().unwrap(), frame["index"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(order([("p1", "1"), ("p2", "2")]), ["p2[1]", "p1[0]", "p2[0]", "p1[1]"]);
    assert_eq!(order([("p2", "2"), ("p1", "1")]), ["p2[1]", "p2[0]", "p1[0]", "p1[1]"]);
}

#[test]
fn a_capture_that_begins_at_time_zero_learns_and_ages_like_any_other() {
    let lan = LAN.replace("{ name: lan }", "{ name: lan, aging: 10s }");
    let second = 1_000_000_000;
    let one = [0, 5 * second].map(|at| Record { at, frame: udp(1, 2, 1, b"") });
    let two = [second, 14 * second, 30 * second].map(|at| Record { at, frame: udp(2, 1, 1, b"") });
    let fates = replay(&lan, &[("p1", one.to_vec()), ("p2", two.to_vec())]).fates_of("p2");
    assert_eq!(fates, ["p1", "p1", "p1 p3"]);
}

#[test]
fn a_replay_runs_as_nobody_without_any_capability() {
    let (dir, config) = with_config(LAN);
    // The program may lie where nobody can look.
    let program = dir.path().join("sluice");
    fs::copy(program::path(), &program).unwrap();
    for (path, mode) in [(dir.path(), 0o777), (&program, 0o755), (&config, 0o644)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let input = dir.path().join("in.pcap");
    write_pcap(&input, &spaced([udp(1, 2, 1, b"")]));
    let out = dir.path().join("out");
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--no-new-privs"];
    // Who is not root has nothing to give up.
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(nobody).arg(&program);
        command
    } else {
        Command::new(&program)
    };
    command.args(["replay", "-c"]).arg(&config).arg("--out").arg(&out);
    let ended = ended(command.args(["--in", &format!("p1={}", input.display())]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(Replayed::read(&out, ended).ports["p2"].len(), 1);
}

#[test]
fn a_replay_needs_no_device_and_no_daemon_and_touches_no_other_file() {
    let (dir, config) = with_config(LAN);
    let input = dir.path().join("in.pcap");
    write_pcap(&input, &spaced([udp(1, 2, 1, b"")]));
    let _ = Replayed::of_files(&config, &[("p1", input)], &dir);
    let names = |dir: &Path| {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(dir.path()), ["in.pcap", "node.yaml", "out"]);
    assert_eq!(names(&dir.path().join("out")), ["p1.pcap", "p2.pcap", "p3.pcap", "report.json"]);
}

#[test]
fn an_input_for_a_port_that_is_not_there_is_refused_before_anything_is_written() {
    let (dir, config) = with_config(LAN);
    let out = dir.path().join("out");
    for (input, told) in [
        ("p4=x.pcap", "did you mean \"p1\"?"),
        ("uplink=x.pcap", "its ports are p1, p2, p3"),
        ("p1=no-such-file.pcap", "no-such-file.pcap: No such file or directory"),
    ] {
        let ended = run(["replay", "-c", config.to_str().unwrap(), "--in", input, "--out", out.to_str().unwrap()]);
        assert_eq!(ended.code, Some(2), "{input}: {}", ended.stderr);
        assert!(ended.stderr.contains(told), "{input}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(!out.join("report.json").exists(), "{input}");
    }
}

/// What the bytes of a frame cut at `length` are: the headers alone say it, read here anew.
fn judge(frame: &[u8], length: usize) -> &'static str {
    let word = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    if length < 14 {
        return "runt";
    }
    let (kind, l3) = (word(12), 14);
    let end = match kind {
        0x0800 if length < l3 + 20 => return "malformed",
        0x0800 => l3 + word(l3 + 2),
        0x86dd if length < l3 + 40 => return "malformed",
        0x86dd => l3 + 40 + word(l3 + 4),
        0x0806 => l3 + 28,
        _ => 0,
    };
    if length < end { "malformed" } else { "whole" }
}

#[test]
fn every_prefix_of_every_known_bad_packet_has_one_fate_and_none_reaches_a_port_rule() {
    let config = format!(
        "{LAN}flows:\n  - {{ name: tcp, table: acl-from, priority: 2, match: {{ tcp.dst: 0-65535 }}, action: deny }}\n  \
         - {{ name: udp, table: acl-from, priority: 1, match: {{ udp.dst: 0-65535 }}, action: deny }}\n"
    );
    let text = include_str!("../cases/packets.json");
    let packets: BTreeMap<String, Value> = serde_json::from_str(text).unwrap();
    let mut frames = Vec::new();
    let mut must = Vec::new();
    for (name, packet) in &packets {
        let frame = hex(packet["hex"].as_str().unwrap()).unwrap();
        for length in 0..=frame.len() {
            frames.push(frame[..length].to_vec());
            must.push((name, length, judge(&frame, length)));
        }
    }
    let count = frames.len();
    assert!(count > 3000, "{count}");
    let replayed = replay(&config, &[("p1", spaced(frames))]);
    let report = replayed.json();
    let fates = report["frames"].as_array().unwrap();
    assert_eq!(fates.len(), count);
    for (fate, (name, length, judged)) in fates.iter().zip(&must) {
        let (reason, rule) = (fate["reason"].as_str(), fate["rule"].as_str());
        match *judged {
            // What is whole by its length may lie in another way; then it is malformed too.
            "whole" => assert_ne!(reason, Some("runt"), "{name} cut at {length}"),
            cut => {
                assert_eq!(reason, Some(cut), "{name} cut at {length}");
                assert_eq!(rule, None, "{name} cut at {length}");
            }
        }
    }
    let dropped: u64 = report["drops"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    let sent = fates.iter().filter(|fate| fate["fate"] == "sent").count() as u64;
    assert_eq!(dropped + sent, count as u64, "every frame has one fate, and every drop is counted");
}

/// Rules that overlap in every way, none of equal priority.
fn rules() -> Vec<String> {
    // From wide to narrow.
    let parts = [
        "eth.type: ipv4",
        "ip.dst: 10.0.0.0/8",
        "udp.src: 4000",
        "udp.dst: 512-65535",
        "ip.dst: 10.0.0.0/30",
        "udp.dst: 0-1023",
        "ip.src: [10.0.0.1, 10.0.0.3]",
        "udp.dst: [50-60, 70-80]",
        "ip.dst: 10.0.0.2",
        "udp.dst: 53",
    ];
    let pairs = parts.iter().enumerate().flat_map(|(n, a)| parts.iter().skip(n + 2).map(move |b| (*a, *b)));
    let key = |part: &str| part.split(':').next().unwrap().to_owned();
    pairs
        .filter(|(a, b)| key(a) != key(b))
        .enumerate()
        .map(|(n, (a, b))| {
            let action = if n % 2 == 0 { "deny" } else { "allow-stateless" };
            format!(
                "  - {{ name: rule-{n}, table: acl-from, priority: {}, match: {{ {a}, {b} }}, action: {action} }}\n",
                n * 37 % 101
            )
        })
        .collect()
}

#[test]
fn rules_of_unequal_priority_decide_the_same_in_a_hundred_orders_of_the_file() {
    let mut rules = rules();
    assert!(rules.len() > 15);
    let mut random = Bytes::new(20);
    let mut draw = |below: usize| {
        usize::try_from(u64::from_le_bytes(*random.take(8).first_chunk().unwrap()) % below as u64).unwrap()
    };
    let mut frames = Vec::new();
    for port in [1, 53, 55, 60, 61, 75, 512, 1023, 1024, 65535] {
        for (from, to) in [(1, 2), (1, 4), (3, 2), (3, 4), (9, 2)] {
            frames.push(udp(from, to, port, b"x"));
        }
    }
    let input = [("p1".to_owned(), spaced(frames))];
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("node.yaml");
    let mut first: Option<Replayed> = None;
    for order in 0..100 {
        for n in (1..rules.len()).rev() {
            rules.swap(n, draw(n + 1));
        }
        fs::write(&config, format!("{LAN}flows:\n{}", rules.concat())).unwrap();
        let now = Replayed::of(&config, &input);
        let Some(first) = &first else {
            let names: std::collections::BTreeSet<String> = now.fates_of("p1").into_iter().collect();
            assert!(names.len() > 3, "several rules decide: {names:?}");
            first = Some(now);
            continue;
        };
        assert_eq!(first.report, now.report, "order {order}");
        assert_eq!(first.ports, now.ports, "order {order}");
    }
}

#[test]
fn two_overlapping_rules_of_one_priority_and_opposite_actions_are_refused_with_both_places_in_any_order() {
    let rules = [
        "  - { name: ssh, table: acl-from, match: { tcp.dst: 22 }, action: deny }\n",
        "  - { name: ours, table: acl-from, match: { ip.dst: 10.0.0.0/8 }, action: allow-stateless }\n",
        "  - { name: web, table: acl-from, match: { tcp.dst: 80 }, action: deny, priority: 7 }\n",
    ];
    for order in [[0, 1, 2], [1, 0, 2], [2, 0, 1], [1, 2, 0]] {
        let (dir, config) = with_config(&format!("{LAN}flows:\n{}", order.map(|n| rules[n]).concat()));
        let input = dir.path().join("in.pcap");
        write_pcap(&input, &[]);
        let line = |rule: usize| 8 + order.iter().position(|n| *n == rule).unwrap();
        let (first, second) = (line(0).min(line(1)), line(0).max(line(1)));
        let input = format!("p1={}", input.display());
        let path = config.to_str().unwrap();
        for arguments in [vec!["check", path], vec!["replay", "-c", path, "--in", &input, "--out", "/nowhere"]] {
            let refused = run(&arguments);
            assert_eq!((refused.code, refused.stdout.as_str()), (Some(3), ""), "{}", refused.stderr);
            let (at, also) = (format!("{path}:{second}:"), format!("also here: {path}:{first}:"));
            assert!(refused.stderr.starts_with(&at), "{order:?}: {}", refused.stderr);
            assert!(refused.stderr.contains(&also), "{order:?}: {}", refused.stderr);
            assert!(refused.stderr.contains("ours"), "{}", refused.stderr);
        }
    }
}

#[test]
fn what_leaves_is_written_with_the_time_of_what_caused_it() {
    let at = EPOCH + 123_456_789;
    let replayed = replay(LAN, &[("p1", vec![Record { at, frame: udp(1, 2, 1, b"") }])]);
    assert_eq!(replayed.ports["p2"][0].at, at);
    assert_eq!(replayed.ports["p1"], []);
    assert_eq!(read_pcap_of_nothing(), []);
}

/// An input without frames is an input.
fn read_pcap_of_nothing() -> Vec<Record> {
    let (dir, config) = with_config(LAN);
    let input = dir.path().join("in.pcap");
    write_pcap(&input, &[]);
    let _ = Replayed::of_files(&config, &[("p1", input)], &dir);
    read_pcap(&dir.path().join("out/p2.pcap"))
}
