//! Capture files, written and read by a few lines of their own: what Sluice reads and writes is checked against these.
#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a test whose files are not as they must be fails at once"
)]

use std::{fs, path::Path};

/// A frame and when it was on the wire, in nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub at: u64,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// Link type Ethernet.
const ETHERNET: u32 = 1;

/// Writes a pcap file with nanoseconds, little-endian.
pub fn write_pcap(path: &Path, records: &[Record]) {
    let mut file = words([0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, ETHERNET]);
    for Record { at, frame } in records {
        file.extend(words([low(at / 1_000_000_000), low(at % 1_000_000_000), length(frame), length(frame)]));
        file.extend(frame);
    }
    fs::write(path, file).expect("a capture written");
}

/// Writes a classic pcap file, microseconds and big-endian, as written by a host of the other byte order.
pub fn write_pcap_big_endian(path: &Path, records: &[Record]) {
    let big = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let mut file = big(&[0xa1b2_c3d4, 0x0002_0004, 0, 0, 65_535, ETHERNET]);
    for Record { at, frame } in records {
        let micros = low(at % 1_000_000_000 / 1000);
        file.extend(big(&[low(at / 1_000_000_000), micros, length(frame), length(frame)]));
        file.extend(frame);
    }
    fs::write(path, file).expect("a capture written");
}

/// Writes a pcapng file of two interfaces, one with microseconds and one with nanoseconds, frames in turn on each, and with
/// a block of a kind nobody knows in between.
pub fn write_pcapng(path: &Path, records: &[Record]) {
    let mut file = block(0x0a0d_0d0a, &words([0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    file.extend(block(1, &words([ETHERNET, 0])));
    // if_tsresol = 9: nanoseconds; then the end of the options.
    file.extend(block(1, &[words([ETHERNET, 0]), words([0x0001_0009, 9, 0])].concat()));
    file.extend(block(0x0000_0bad, &words([1, 2, 3])));
    for (index, Record { at, frame }) in records.iter().enumerate() {
        let interface = u32::from(index % 2 == 1);
        let ticks = if interface == 1 { *at } else { at / 1000 };
        let head = words([interface, low(ticks >> 32), low(ticks & 0xffff_ffff), length(frame), length(frame)]);
        file.extend(block(6, &[head, frame.clone()].concat()));
    }
    fs::write(path, file).expect("a capture written");
}

/// Reads a pcap file of nanoseconds or microseconds, little-endian.
#[must_use]
pub fn read_pcap(path: &Path) -> Vec<Record> {
    let file = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let word = |at: usize| u32::from_le_bytes(*file[at..].first_chunk().expect("four bytes"));
    let nanos = match word(0) {
        0xa1b2_3c4d => 1,
        0xa1b2_c3d4 => 1000,
        other => panic!("{}: no pcap file: {other:08x}", path.display()),
    };
    assert_eq!((word(4), word(20)), (0x0004_0002, ETHERNET), "{}: version and link type", path.display());
    let mut records = Vec::new();
    let mut at = 24;
    while at < file.len() {
        let (seconds, fraction, caught, original) = (word(at), word(at + 4), word(at + 8), word(at + 12));
        assert_eq!(caught, original, "a frame cut off");
        let end = at + 16 + caught as usize;
        records.push(Record {
            at: u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * nanos,
            frame: file[at + 16..end].to_vec(),
        });
        at = end;
    }
    records
}

/// A block of pcapng: type, length, body with padding, length.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let total = length(&body) + 12;
    [words([kind, total]), body, words([total])].concat()
}

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn low(number: u64) -> u32 {
    u32::try_from(number).expect("32 bits")
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("32 bits")
}
