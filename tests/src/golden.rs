//! Replay cases: a folder each, run through the built program and compared to the byte.
//!
//! `config.yaml` is the configuration and `in.txt` what the ports receive:
//!
//! ```text
//! in web-1 web-2                 the order of --in, which decides ties; that of first mention when left out
//! checksums as sent              frames that leave may have wrong checksums
//! 0.000020 web-1 0200…           seconds, port, frame in hex
//!   -> web-2 web-3 by marked     what must become of it, written by a person and never by a program:
//!   -> answered web-1            ports it leaves by, `answered` where the switch answers, `dropped REASON`;
//!   -> dropped acl_from by ssh   `by` names the rule that decided last, where one did
//! ```
//!
//! `expect/report.json` and `expect/PORT.hex` hold the report and what leaves each port; `UPDATE=1` writes them anew. Lines of
//! `->` are never written by `UPDATE`, and every frame must have one.
#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a case that is not as it must be fails its test at once"
)]

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use etherparse::{LaxSlicedPacket, NetSlice, SlicedPacket, TransportSlice};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    capture::{Record, read_pcap, write_pcap},
    program::{Ended, run},
};

/// What frames of cases are timed from, so that no time is near zero.
pub const EPOCH: u64 = 1_700_000_000_000_000_000;

/// The folder of all cases.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/replay")
}

/// Runs the case of that folder, twice.
pub fn check(name: &str) {
    let folder = folder().join(name);
    let case = Case::read(&folder);
    let first = Replayed::of(&folder.join("config.yaml"), &case.inputs());
    let second = Replayed::of(&folder.join("config.yaml"), &case.inputs());
    assert_eq!(first.report, second.report, "{name}: two replays, two reports");
    assert_eq!(first.ports, second.ports, "{name}: two replays, different frames");
    case.judge(name, &first);
    if !case.checksums_as_sent {
        for (port, records) in &first.ports {
            for (index, record) in records.iter().enumerate() {
                check_sums(&record.frame).unwrap_or_else(|why| panic!("{name}: {port}[{index}]: {why}"));
            }
        }
    }
    compare(&folder.join("expect"), &first);
}

/// What one frame of a case is, and what must become of it.
#[derive(Debug)]
struct Step {
    line: usize,
    at: u64,
    port: String,
    frame: Vec<u8>,
    fate: Option<String>,
}

#[derive(Debug)]
struct Case {
    order: Vec<String>,
    checksums_as_sent: bool,
    steps: Vec<Step>,
}

impl Case {
    fn read(folder: &Path) -> Self {
        let path = folder.join("in.txt");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut case = Self { order: Vec::new(), checksums_as_sent: false, steps: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            case.take(number + 1, line.trim())
                .unwrap_or_else(|| panic!("{}:{}: not understood: {line}", path.display(), number + 1));
        }
        case
    }

    fn take(&mut self, line: usize, text: &str) -> Option<()> {
        if text.is_empty() || text.starts_with('#') {
        } else if let Some(ports) = text.strip_prefix("in ") {
            self.order = ports.split_whitespace().map(str::to_owned).collect();
        } else if text == "checksums as sent" {
            self.checksums_as_sent = true;
        } else if let Some(fate) = text.strip_prefix("-> ") {
            let step = self.steps.last_mut().filter(|step| step.fate.is_none())?;
            step.fate = Some(fate.to_owned());
        } else {
            let mut words = text.split_whitespace();
            let (at, port) = (EPOCH + nanos(words.next()?)?, words.next()?.to_owned());
            let frame = hex(words.next().unwrap_or(""))?;
            if !self.order.contains(&port) {
                self.order.push(port.clone());
            }
            self.steps.push(Step { line, at, port, frame, fate: None });
        }
        Some(())
    }

    /// What each port receives, in the order of `--in`.
    fn inputs(&self) -> Vec<(String, Vec<Record>)> {
        let of = |port: &String| {
            let steps = self.steps.iter().filter(|step| step.port == *port);
            steps.map(|step| Record { at: step.at, frame: step.frame.clone() }).collect()
        };
        self.order.iter().map(|port| (port.clone(), of(port))).collect()
    }

    /// Compares the fates a person wrote with the report.
    fn judge(&self, name: &str, replayed: &Replayed) {
        let mut told = replayed.fates();
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        let mut wrong = String::new();
        for step in &self.steps {
            let index = counts.entry(&step.port).or_insert(0);
            let is = told.remove(&(step.port.clone(), *index));
            *index += 1;
            if is != step.fate {
                let shown = |fate: Option<&str>| fate.unwrap_or("nothing").to_owned();
                let _ = writeln!(
                    wrong,
                    "  in.txt:{}: must be: {}\n{:>14} is: {}",
                    step.line,
                    shown(step.fate.as_deref()),
                    "",
                    shown(is.as_deref())
                );
            }
        }
        assert!(wrong.is_empty(), "{name}: the fates of frames\n{wrong}");
        assert!(told.is_empty(), "{name}: fates of frames that nobody sent: {told:?}");
    }
}

/// What a replay gave.
#[derive(Debug)]
pub struct Replayed {
    /// `report.json`.
    pub report: String,
    /// What left each port.
    pub ports: BTreeMap<String, Vec<Record>>,
    /// The program's end.
    pub ended: Ended,
}

impl Replayed {
    /// Replays `inputs` through the configuration at `config`. Fails the test when the program does not end well.
    #[must_use]
    pub fn of(config: &Path, inputs: &[(String, Vec<Record>)]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut files = Vec::new();
        for (port, records) in inputs {
            let path = dir.path().join(format!("in-{port}.pcap"));
            write_pcap(&path, records);
            files.push((port.as_str(), path));
        }
        Self::of_files(config, &files, &dir)
    }

    /// The same of files that are there, with the output into `dir`.
    #[must_use]
    pub fn of_files(config: &Path, files: &[(&str, PathBuf)], dir: &TempDir) -> Self {
        let out = dir.path().join("out");
        let mut arguments =
            vec!["replay".into(), "-c".into(), config.display().to_string(), "--out".into(), out.display().to_string()];
        for (port, path) in files {
            arguments.extend(["--in".to_owned(), format!("{port}={}", path.display())]);
        }
        let ended = run(&arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
        Self::read(&out, ended)
    }

    /// Reads what a replay wrote into `out`.
    #[must_use]
    pub fn read(out: &Path, ended: Ended) -> Self {
        let mut ports = BTreeMap::new();
        for entry in fs::read_dir(out).expect("the output").map(|entry| entry.expect("an entry").path()) {
            if entry.extension().is_some_and(|extension| extension == "pcap") {
                let port = entry.file_stem().and_then(|name| name.to_str()).expect("a port's name").to_owned();
                ports.insert(port, read_pcap(&entry));
            }
        }
        let report = fs::read_to_string(out.join("report.json")).expect("the report");
        Self { report, ports, ended }
    }

    /// The report as a value.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.report).expect("a report is JSON")
    }

    /// What became of each frame, by port and index, in the words of `in.txt`.
    #[must_use]
    pub fn fates(&self) -> BTreeMap<(String, u64), String> {
        let report = self.json();
        let frames = report.get("frames").and_then(Value::as_array).expect("frames");
        frames.iter().map(fate).collect()
    }

    /// The same of one port, in the order of its file.
    #[must_use]
    pub fn fates_of(&self, port: &str) -> Vec<String> {
        self.fates().into_iter().filter(|((of, _), _)| of == port).map(|(_, fate)| fate).collect()
    }
}

/// One frame of the report, in the words of `in.txt`.
fn fate(frame: &Value) -> ((String, u64), String) {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let out = frame.get("out").and_then(Value::as_array).expect("out");
    let ports: Vec<String> = out.iter().filter_map(|out| text(out, "port")).collect();
    let kind = text(frame, "fate").expect("a fate");
    let mut words = match kind.as_str() {
        "sent" => ports,
        "dropped" => vec![kind, text(frame, "reason").expect("a reason")].into_iter().chain(ports).collect(),
        _ => vec![kind].into_iter().chain(ports).collect(),
    };
    words.extend(text(frame, "rule").map(|rule| format!("by {rule}")));
    let index = frame.get("index").and_then(Value::as_u64).expect("an index");
    ((text(frame, "port").expect("a port"), index), words.join(" "))
}

/// Compares with the files of `folder`, or writes them.
fn compare(folder: &Path, replayed: &Replayed) {
    let mut is: BTreeMap<String, String> = BTreeMap::from([("report.json".to_owned(), replayed.report.clone())]);
    for (port, records) in replayed.ports.iter().filter(|(_, records)| !records.is_empty()) {
        is.insert(format!("{port}.hex"), lines(records));
    }
    if env::var_os("UPDATE").is_some_and(|value| value == "1") {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).expect("a folder");
        for (name, text) in &is {
            fs::write(folder.join(name), text).expect("a file written");
        }
        return;
    }
    let mut must: BTreeMap<String, String> = BTreeMap::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|_| panic!("{}: run with UPDATE=1", folder.display()));
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_string().expect("a name");
        must.insert(name, fs::read_to_string(entry.path()).expect("text"));
    }
    for (name, text) in &must {
        let now = is.get(name).map_or("", String::as_str);
        let first = text.lines().zip(now.lines()).position(|(must, is)| must != is);
        let at = first.unwrap_or_else(|| text.lines().count().min(now.lines().count()));
        let line = |text: &str| text.lines().nth(at).unwrap_or("nothing").to_owned();
        let file = folder.join(name);
        assert!(
            text == now,
            "{}:{}\nmust be: {}\n     is: {}\n(UPDATE=1 writes it anew)",
            file.display(),
            at + 1,
            line(text),
            line(now)
        );
    }
    let more: Vec<&String> = is.keys().filter(|name| !must.contains_key(*name)).collect();
    assert!(more.is_empty(), "{}: not there: {more:?}", folder.display());
}

/// Frames as lines of time and hex.
fn lines(records: &[Record]) -> String {
    let line = |record: &Record| {
        let since = record.at - EPOCH;
        let hex: String = record.frame.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}.{:09} {hex}\n", since / 1_000_000_000, since % 1_000_000_000)
    };
    records.iter().map(line).collect()
}

/// Nanoseconds of a decimal number of seconds.
fn nanos(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction: u64 = format!("{fraction:0<9}").parse().ok()?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + fraction)
}

/// Bytes of hex digits.
#[must_use]
pub fn hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// Checks the checksums of a frame with a library that did not make them. Fragments, and what is not IP, have none that can
/// be checked.
///
/// # Errors
/// Says which one is wrong.
pub fn check_sums(frame: &[u8]) -> Result<(), String> {
    if LaxSlicedPacket::from_ethernet(frame).is_ok_and(|packet| packet.net.is_none()) {
        return Ok(());
    }
    let packet = SlicedPacket::from_ethernet(frame).map_err(|error| error.to_string())?;
    let wrong = |what: &str, is: u16, must: u16| {
        if is == must { Ok(()) } else { Err(format!("{what} checksum is {is:04x} and must be {must:04x}")) }
    };
    if packet.is_ip_payload_fragmented() {
        return Ok(());
    }
    match (&packet.net, &packet.transport) {
        (Some(NetSlice::Ipv4(net)), transport) => {
            let header = net.header().to_header();
            wrong("IPv4 header", header.header_checksum, header.calc_header_checksum())?;
            let (from, to) = (header.source, header.destination);
            match transport {
                Some(TransportSlice::Tcp(tcp)) => {
                    let must = tcp.calc_checksum_ipv4(from, to).map_err(|error| error.to_string())?;
                    wrong("TCP", tcp.checksum(), must)
                }
                Some(TransportSlice::Udp(udp)) if udp.checksum() != 0 => {
                    let must = udp.to_header().calc_checksum_ipv4_raw(from, to, udp.payload());
                    wrong("UDP", udp.checksum(), must.map_err(|error| error.to_string())?)
                }
                Some(TransportSlice::Icmpv4(icmp)) => {
                    wrong("ICMP", icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()))
                }
                _ => Ok(()),
            }
        }
        (Some(NetSlice::Ipv6(net)), transport) => {
            let header = net.header().to_header();
            let (from, to) = (header.source, header.destination);
            match transport {
                Some(TransportSlice::Tcp(tcp)) => {
                    let must = tcp.calc_checksum_ipv6(from, to).map_err(|error| error.to_string())?;
                    wrong("TCP", tcp.checksum(), must)
                }
                Some(TransportSlice::Udp(udp)) => {
                    let must = udp.to_header().calc_checksum_ipv6_raw(from, to, udp.payload());
                    wrong("UDP", udp.checksum(), must.map_err(|error| error.to_string())?)
                }
                Some(TransportSlice::Icmpv6(icmp)) if icmp.is_checksum_valid(from, to) => Ok(()),
                Some(TransportSlice::Icmpv6(_)) => Err("ICMPv6 checksum is wrong".to_owned()),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}
