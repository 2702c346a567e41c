//! The flow table: exact lookup of a flow's entry, a burst at a time.
//!
//! Buckets of ten tags and indices, one cache line each; entries and transpositions in arrays of their own, one line each;
//! IPv6 addresses in a third. A lookup of a burst touches each kind of line for all packets before it waits for the first.
//! Memory is claimed from the system as it is used.

mod bucket;

use core::{ops::Range, time::Duration};

use bytemuck::Zeroable;

use crate::{
    hash::Seed,
    id::{Epoch, PortId},
    idx,
    key::{FlowKey, SHORT_WORDS},
    prefetch::prefetch,
    time::Instant,
    transposition::{Ip6Addresses, Transposition, kind},
};
use bucket::Buckets;

/// Where a flow entry is. Good until the entry is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub(crate) u32);

impl Slot {
    /// No entry.
    pub const NONE: Self = Self(u32::MAX);

    /// True when there is an entry.
    #[inline]
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.0 != u32::MAX
    }
}

/// One flow, one cache line: the key's short words, and what its packets change.
#[derive(Debug, Clone, Copy, Zeroable)]
#[repr(C, align(64))]
struct Entry {
    key: [u64; SHORT_WORDS],
    packets: u64,
    bytes: u64,
    /// Milliseconds, wrapping.
    last_seen: u32,
    epoch: Epoch,
    bucket: u32,
    is_live: u32,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// An IPv6 flow's further line: the key's address words and the addresses to write.
#[derive(Debug, Clone, Copy, Zeroable)]
#[repr(C, align(64))]
struct WideLine {
    key: [u64; SHORT_WORDS],
    new: Ip6Addresses,
}

const _: () = assert!(size_of::<WideLine>() == 64);

/// One packet of a burst, to be looked up.
#[derive(Debug, Clone, Copy)]
pub struct Lookup {
    /// Hash of its key, by [`FlowTable::hash`].
    pub hash: u64,
    /// Where its entry is, or [`Slot::NONE`]: the answer.
    pub slot: Slot,
}

/// From which epoch on the entries of each port are valid.
#[derive(Debug, Clone, Default)]
pub struct ValidFrom(Vec<Epoch>);

impl ValidFrom {
    /// Entries with `port` as input or output must be of `epoch` or later from now on.
    pub fn raise(&mut self, port: PortId, epoch: Epoch) {
        if self.0.len() <= port.index() {
            self.0.resize(port.index() + 1, Epoch::default());
        }
        if let Some(slot) = self.0.get_mut(port.index()) {
            *slot = epoch.max(*slot);
        }
    }

    #[inline]
    fn of(&self, port: PortId) -> Epoch {
        self.0.get(port.index()).copied().unwrap_or_default()
    }
}

/// What a flow entry says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowView {
    /// The key.
    pub key: FlowKey,
    /// The record.
    pub record: Transposition,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Since its last packet; wraps after 49 days.
    pub idle: Duration,
}

/// Flow entries by exact key.
#[derive(Debug)]
pub struct FlowTable {
    seed: Seed,
    buckets: Buckets,
    /// Entry, record and further line of one flow have one index. As long as the entries ever used; their memory, for
    /// `capacity` of each, is had at the start and never moves.
    entries: Vec<Entry>,
    records: Vec<Transposition>,
    wide: Vec<WideLine>,
    capacity: u32,
    free: Vec<u32>,
    /// Entries from here on were never used.
    used: u32,
    live: u32,
    cursor: u32,
    swept: Instant,
    evicted: u64,
    expired: u64,
}

/// Time in which expiry visits every entry once.
pub const SWEEP: Duration = Duration::from_secs(8);

impl FlowTable {
    /// Room for at least `capacity` flows (a power of two is kept as it is, others are rounded up; at least 64).
    #[must_use]
    pub fn new(capacity: u32, seed: Seed) -> Self {
        Self::with_advice(capacity, seed, |_| ())
    }

    /// As [`new`](Self::new); `advise` is told the addresses of each large array before it is first touched.
    #[must_use]
    pub fn with_advice(capacity: u32, seed: Seed, mut advise: impl FnMut(Range<usize>)) -> Self {
        let capacity = capacity.clamp(64, 1 << 30).next_power_of_two();
        let len = idx(u64::from(capacity));
        Self {
            seed,
            buckets: Buckets::new(capacity, &mut advise),
            entries: reserve(len, &mut advise),
            records: reserve(len, &mut advise),
            wide: reserve(len, &mut advise),
            capacity,
            free: Vec::with_capacity(len),
            used: 0,
            live: 0,
            cursor: 0,
            swept: Instant::default(),
            evicted: 0,
            expired: 0,
        }
    }

    /// Flow entries now.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.live
    }

    /// True when there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Room for flow entries.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        idx(self.capacity as u64)
    }

    /// Entries removed to make room, since the start.
    #[must_use]
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Entries removed because they were idle, since the start.
    #[must_use]
    pub const fn expired(&self) -> u64 {
        self.expired
    }

    /// The hash a key is looked up by.
    #[inline]
    #[must_use]
    pub const fn hash(&self, key: &FlowKey) -> u64 {
        self.seed.of_key(key)
    }

    /// Looks a burst up: `keys` and `lookups` run side by side, and each lookup's slot is set.
    ///
    /// An entry older than `valid` allows is not found. O(burst), no allocation.
    #[inline]
    pub fn get_burst<'k>(
        &self,
        keys: impl Iterator<Item = &'k FlowKey> + Clone,
        lookups: &mut [Lookup],
        valid: &ValidFrom,
    ) {
        for lookup in lookups.iter() {
            self.buckets.prefetch(lookup.hash);
        }
        for lookup in lookups.iter_mut() {
            lookup.slot = Slot(self.buckets.candidate(lookup.hash));
            prefetch(self.entries.get(idx(u64::from(lookup.slot.0))));
            prefetch(self.records.get(idx(u64::from(lookup.slot.0))));
        }
        for (key, lookup) in keys.clone().zip(lookups.iter()) {
            if key.is_ipv6() {
                prefetch(self.wide.get(idx(u64::from(lookup.slot.0))));
            }
        }
        for (key, lookup) in keys.zip(lookups.iter_mut()) {
            if !self.is_entry_of(lookup.slot.0, key) {
                lookup.slot = self.find(key, lookup.hash);
            }
            if lookup.slot.is_some() && !self.is_valid(lookup.slot, key, valid) {
                lookup.slot = Slot::NONE;
            }
        }
    }

    /// The entry of one key, whatever its epoch.
    #[must_use]
    pub fn find(&self, key: &FlowKey, hash: u64) -> Slot {
        self.buckets.probe(hash).find(|&index| self.is_entry_of(index, key)).map_or(Slot::NONE, Slot)
    }

    /// The entry of one key, if `valid` allows its epoch.
    #[must_use]
    pub fn find_valid(&self, key: &FlowKey, hash: u64, valid: &ValidFrom) -> Slot {
        let slot = self.find(key, hash);
        if slot.is_some() && self.is_valid(slot, key, valid) { slot } else { Slot::NONE }
    }

    /// True when `slot` holds the entry of `key`. A slot found earlier may have been given to another flow since.
    #[inline]
    #[must_use]
    pub fn holds(&self, slot: Slot, key: &FlowKey) -> bool {
        self.is_entry_of(slot.0, key)
    }

    #[inline]
    fn is_entry_of(&self, index: u32, key: &FlowKey) -> bool {
        let at = idx(u64::from(index));
        let [a, b, c, d, e, f, g, h] = key.0;
        let Some(entry) = self.entries.get(at) else { return false };
        entry.key == [a, b, c, d]
            && entry.is_live != 0
            && (!key.is_ipv6() || self.wide.get(at).is_some_and(|line| line.key == [e, f, g, h]))
    }

    #[inline]
    fn is_valid(&self, slot: Slot, key: &FlowKey, valid: &ValidFrom) -> bool {
        let at = idx(u64::from(slot.0));
        let (Some(entry), Some(record)) = (self.entries.get(at), self.records.get(at)) else { return false };
        let out = if record.kind == kind::SET { Epoch::default() } else { valid.of(PortId(record.out_port)) };
        entry.epoch >= valid.of(key.in_port()).max(out)
    }

    /// The record of an entry.
    #[inline]
    #[must_use]
    pub fn record(&self, slot: Slot) -> Option<&Transposition> {
        self.records.get(idx(u64::from(slot.0)))
    }

    /// The addresses an IPv6 entry's record writes.
    #[inline]
    #[must_use]
    pub fn addresses(&self, slot: Slot) -> Option<&Ip6Addresses> {
        self.wide.get(idx(u64::from(slot.0))).map(|line| &line.new)
    }

    /// Counts one packet of `bytes` bytes.
    #[inline]
    pub fn count(&mut self, slot: Slot, bytes: u64, now: Instant) {
        if let Some(entry) = self.entries.get_mut(idx(u64::from(slot.0))) {
            entry.packets += 1;
            entry.bytes += bytes;
            entry.last_seen = millis(now);
        }
    }

    /// Adds an entry, or restamps the one the key has, keeping its counts.
    ///
    /// When there is no room near its place the entry idle longest there is evicted. O(1).
    pub fn insert(
        &mut self,
        key: &FlowKey,
        hash: u64,
        record: &Transposition,
        new: &Ip6Addresses,
        epoch: Epoch,
        now: Instant,
    ) -> Slot {
        let known = self.find(key, hash);
        let slot = if known.is_some() { known } else { self.claim(hash, now) };
        let at = idx(u64::from(slot.0));
        let [a, b, c, d, e, f, g, h] = key.0;
        if let Some(entry) = self.entries.get_mut(at) {
            entry.epoch = epoch;
            entry.last_seen = millis(now);
            if !known.is_some() {
                (entry.key, entry.packets, entry.bytes, entry.is_live) = ([a, b, c, d], 0, 0, 1);
            }
        }
        if let Some(line) = self.records.get_mut(at) {
            *line = *record;
        }
        if key.is_ipv6()
            && let Some(line) = self.wide.get_mut(at)
        {
            *line = WideLine { key: [e, f, g, h], new: *new };
        }
        slot
    }

    /// An unused entry, linked under `hash`.
    fn claim(&mut self, hash: u64, now: Instant) -> Slot {
        if self.free.is_empty() && self.used == self.capacity || !self.buckets.has_room(hash) {
            self.evict_near(hash, now);
        }
        let index = self.free.pop().unwrap_or_else(|| self.first_use());
        if let Some(bucket) = self.buckets.insert(hash, index)
            && let Some(entry) = self.entries.get_mut(idx(u64::from(index)))
        {
            entry.bucket = bucket;
            self.live += 1;
        }
        Slot(index)
    }

    /// The first entry never used; the last one of all when there is none.
    fn first_use(&mut self) -> u32 {
        if self.used == self.capacity {
            return self.capacity - 1;
        }
        self.entries.push(Entry::zeroed());
        self.records.push(Transposition::zeroed());
        self.wide.push(WideLine::zeroed());
        self.used += 1;
        self.used - 1
    }

    /// Removes the entry idle longest among those near `hash`; when there is none near, the table is full elsewhere and the
    /// one that expiry would visit next goes.
    fn evict_near(&mut self, hash: u64, now: Instant) {
        let idle = |index: u32| {
            let entry = self.entries.get(idx(u64::from(index)));
            entry.map_or(0, |entry| millis(now).wrapping_sub(entry.last_seen))
        };
        let oldest = self.buckets.neighbourhood(hash).max_by_key(|&index| idle(index));
        let victim = oldest.unwrap_or(self.cursor);
        if self.is_live(victim) {
            self.remove(victim);
            self.evicted += 1;
        }
    }

    fn is_live(&self, index: u32) -> bool {
        self.entries.get(idx(u64::from(index))).is_some_and(|entry| entry.is_live != 0)
    }

    fn remove(&mut self, index: u32) {
        if let Some(entry) = self.entries.get_mut(idx(u64::from(index))) {
            entry.is_live = 0;
            self.buckets.remove(entry.bucket, index);
            self.free.push(index);
            self.live -= 1;
        }
    }

    /// Visits as many entries as the time since the last call asks for, so that each is visited once a [`SWEEP`]; at most
    /// `budget`, and what that leaves is visited by the next calls. Entries idle for `timeout` or longer are removed; of the others `alive` is told, with the time of
    /// their last packet.
    pub fn expire(&mut self, now: Instant, budget: u32, timeout: Duration, mut alive: impl FnMut(&FlowKey, Instant)) {
        let elapsed = now.since(self.swept).as_nanos();
        let share = u128::from(self.used) * elapsed / SWEEP.as_nanos();
        let visits = u32::try_from(share).unwrap_or(u32::MAX).min(self.used);
        if visits == 0 {
            if self.used == 0 {
                self.swept = now;
            }
            return;
        }
        if visits <= budget {
            self.swept = now;
        } else {
            // As far as the budget reaches.
            self.swept = self.swept + SWEEP * budget / self.used;
        }
        for _ in 0..visits.min(budget) {
            self.cursor = if self.cursor + 1 >= self.used { 0 } else { self.cursor + 1 };
            let index = self.cursor;
            let Some(entry) = self.entries.get(idx(u64::from(index))).filter(|entry| entry.is_live != 0) else {
                continue;
            };
            let idle = Duration::from_millis(u64::from(millis(now).wrapping_sub(entry.last_seen)));
            if idle >= timeout {
                self.remove(index);
                self.expired += 1;
            } else if let Some(key) = self.key(index) {
                let idle = u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX);
                alive(&key, Instant::from_nanos(now.as_nanos().saturating_sub(idle)));
            }
        }
    }

    fn key(&self, index: u32) -> Option<FlowKey> {
        let at = idx(u64::from(index));
        let [a, b, c, d] = self.entries.get(at)?.key;
        let short = FlowKey([a, b, c, d, 0, 0, 0, 0]);
        if !short.is_ipv6() {
            return Some(short);
        }
        let [e, f, g, h] = self.wide.get(at)?.key;
        Some(FlowKey([a, b, c, d, e, f, g, h]))
    }

    /// Forgets every entry. O(capacity used).
    pub fn clear(&mut self) {
        for index in 0..self.used {
            if self.is_live(index) {
                self.remove(index);
            }
        }
    }

    /// At most `limit` entries, those with most packets first. O(entries).
    #[must_use]
    pub fn busiest(&self, limit: usize, now: Instant) -> Vec<FlowView> {
        let live = (0..self.used).zip(&self.entries).filter(|(_, entry)| entry.is_live != 0);
        let mut ranked: Vec<_> =
            live.map(|(index, entry)| (core::cmp::Reverse(entry.packets), entry.key, index)).collect();
        if limit < ranked.len() {
            ranked.select_nth_unstable(limit);
            ranked.truncate(limit);
        }
        ranked.sort_unstable();
        ranked.into_iter().filter_map(|(_, _, index)| self.view(index, now)).collect()
    }

    fn view(&self, index: u32, now: Instant) -> Option<FlowView> {
        let at = idx(u64::from(index));
        let entry = self.entries.get(at).filter(|entry| entry.is_live != 0)?;
        Some(FlowView {
            key: self.key(index)?,
            record: *self.records.get(at)?,
            packets: entry.packets,
            bytes: entry.bytes,
            idle: Duration::from_millis(u64::from(millis(now).wrapping_sub(entry.last_seen))),
        })
    }
}

/// Memory for `len` of them, whose addresses `advise` is told.
fn reserve<T>(len: usize, advise: &mut impl FnMut(Range<usize>)) -> Vec<T> {
    let items = Vec::<T>::with_capacity(len);
    let start = items.as_ptr().addr();
    advise(start..start + len * size_of::<T>());
    items
}

#[inline]
fn millis(now: Instant) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "wraps, and differences are taken wrapping")]
    {
        (now.as_nanos() / 1_000_000) as u32
    }
}

#[cfg(test)]
mod tests;
