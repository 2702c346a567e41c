//! The stages of a hit by themselves: parse, hash and look up, apply. Their sum is less than a pass: that also receives,
//! counts, queues, sends and expires.

use std::{hint::black_box, sync::Arc};

use flow_table::{
    field::{Field, Headers, PacketFields},
    hash::Seed,
    id::{Epoch, PathId},
    key::FlowKey,
    packet::{Parsed, parse, vlan::VlanEdit},
    rule::Edit,
    table::{FlowTable, Lookup, Slot, ValidFrom},
    time::Instant,
    transposition::{self, Decision, Ip6Addresses, Transposition, Way},
};
use serde::Serialize;

use crate::{
    clock,
    memory::room_for,
    rng::Rng,
    scenario::{FRAME_BYTES, FROM, TO},
    source::{BURST, Traffic},
    stats::{self, Summary},
};

/// Figures of the stages at one number of flows, in nanoseconds of thread CPU time a packet.
#[derive(Debug, Clone, Serialize)]
pub struct Stages {
    /// Flows.
    pub flows: u32,
    /// Bytes to key and offsets.
    pub parse: Summary,
    /// Hash and lookup, in bursts of 32.
    pub look_up: Summary,
    /// Five edits and two checksums, the frame copied anew for each.
    pub apply: Summary,
}

/// Measures each stage at each number of flows.
#[must_use]
pub fn measure(flows: &[u32], rounds: u32, packets: u32) -> Vec<Stages> {
    flows.iter().map(|flows| stage(*flows, rounds, packets)).collect()
}

fn stage(flows: u32, rounds: u32, packets: u32) -> Stages {
    let traffic = Traffic::new(flows, 1);
    let frames: Vec<&[u8]> = traffic.frames().collect();
    let parsed: Vec<Parsed> = frames.iter().filter_map(|frame| parse(frame, FROM).ok()).collect();
    let table = Looked::new(&parsed);
    let edit = Edited::new(&parsed);
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let round = [
            timed(packets, || parse_all(&traffic, packets)),
            timed(packets, || table.look_up(packets)),
            timed(packets, || edit.apply(&frames, packets)),
        ];
        for (all, one) in times.iter_mut().zip(round) {
            all.push(one);
        }
    }
    let [parse, look_up, apply] = times.map(|times| stats::summarize(&times));
    Stages { flows, parse, look_up, apply }
}

fn timed(packets: u32, work: impl FnOnce()) -> f64 {
    let start = clock::thread_cpu();
    work();
    clock::ns_each(clock::thread_cpu().saturating_sub(start), packets)
}

fn wanted(packets: u32) -> usize {
    flow_table::idx(u64::from(packets))
}

#[inline(never)]
fn parse_all(traffic: &Arc<Traffic>, packets: u32) {
    let endless = std::iter::repeat_with(|| traffic.frames()).flatten();
    for frame in endless.take(wanted(packets)) {
        black_box(parse(frame, FROM).is_ok_and(|parsed| black_box(&parsed).offsets.l4 != 0));
    }
}

/// A flow table with the flows in it, and their keys in another order.
struct Looked {
    table: FlowTable,
    keys: Vec<FlowKey>,
    valid: ValidFrom,
}

impl Looked {
    fn new(parsed: &[Parsed]) -> Self {
        let keys: Vec<FlowKey> = parsed.iter().map(|parsed| parsed.key).collect();
        let flows = u32::try_from(keys.len()).unwrap_or(u32::MAX);
        let mut table = FlowTable::new(room_for(flows), Seed::new(7));
        let mut order = keys.clone();
        Rng::new(3).shuffle(&mut order);
        for key in &order {
            let hash = table.hash(key);
            table.insert(key, hash, &Transposition::default(), &Ip6Addresses::default(), Epoch(1), Instant::default());
        }
        Self { table, keys, valid: ValidFrom::default() }
    }

    #[inline(never)]
    fn look_up(&self, packets: u32) {
        let mut lookups = Vec::with_capacity(BURST);
        let bursts = std::iter::repeat_with(|| self.keys.chunks(BURST)).flatten();
        let mut left = wanted(packets);
        for keys in bursts {
            lookups.clear();
            lookups.extend(keys.iter().map(|key| Lookup { hash: self.table.hash(key), slot: Slot::NONE }));
            self.table.get_burst(keys.iter(), &mut lookups, &self.valid);
            black_box(&lookups);
            left = left.saturating_sub(keys.len());
            if left == 0 {
                return;
            }
        }
    }
}

/// One record that rewrites as the scenario's rule does.
struct Edited {
    record: Transposition,
    wide: Ip6Addresses,
    parsed: Parsed,
}

impl Edited {
    fn new(parsed: &[Parsed]) -> Self {
        let parsed = parsed.first().copied().unwrap_or_default();
        let mut headers = Headers::new(&parsed.key, PacketFields::default());
        for edit in crate::scenario::edits() {
            if let Edit::Set(field, value) = edit {
                Field::write(field, &mut headers.words, value, u128::MAX);
            }
        }
        let decision = Decision {
            before: &parsed.key,
            after: &headers.words,
            decrement_ttl: true,
            way: Way::Port(TO, VlanEdit::Keep),
            path: PathId(0),
        };
        let (record, wide) = transposition::compile(&decision);
        Self { record, wide, parsed }
    }

    #[inline(never)]
    fn apply(&self, frames: &[&[u8]], packets: u32) {
        let mut bytes = [0; FRAME_BYTES];
        for frame in frames.iter().cycle().take(wanted(packets)) {
            bytes.copy_from_slice(frame);
            let done = transposition::apply(black_box(&self.record), &self.wide, &mut bytes, black_box(&self.parsed));
            black_box(done.is_ok());
            black_box(&bytes);
        }
    }
}
