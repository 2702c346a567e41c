//! What hits and drops count into: interned lists, so that a hit adds to one line whatever the number of rules behind it.

use hashbrown::HashMap;

use crate::{
    fate::DropReason,
    hash::Seed,
    id::{PathId, PortId, RuleId},
    idx,
};

/// Packets and bytes. Bytes are of whole frames without FCS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    /// Counts one frame of `bytes` bytes.
    #[inline]
    pub const fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }

    /// Adds another count.
    #[inline]
    pub const fn merge(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// The most distinct lists of rules, and of drop counters, that are kept; further flows are walked packet by packet.
pub const MAX_INTERNED: usize = 1 << 20;

/// Lists of rules that walks hit, each with its count.
#[derive(Debug)]
pub struct RulePaths {
    ids: HashMap<Box<[RuleId]>, PathId, Seed>,
    paths: Vec<Box<[RuleId]>>,
    counts: Vec<Count>,
}

impl RulePaths {
    /// No lists yet.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self { ids: HashMap::with_hasher(seed), paths: Vec::new(), counts: Vec::new() }
    }

    /// The identifier of a list; `None` when it is new and there are [`MAX_INTERNED`] already.
    pub fn intern(&mut self, rules: &[RuleId]) -> Option<PathId> {
        if let Some(&id) = self.ids.get(rules) {
            return Some(id);
        }
        let id = next_index(self.paths.len()).map(PathId)?;
        self.ids.insert(rules.into(), id);
        self.paths.push(rules.into());
        self.counts.push(Count::default());
        Some(id)
    }

    /// Counts one frame of `bytes` bytes for every rule of the list.
    #[inline]
    pub fn count(&mut self, path: PathId, bytes: u64) {
        if let Some(count) = self.counts.get_mut(path.index()) {
            count.add(bytes);
        }
    }

    /// The rules of a list, in the order of the tables.
    #[must_use]
    pub fn rules(&self, path: PathId) -> &[RuleId] {
        self.paths.get(path.index()).map_or(&[], |rules| rules)
    }

    /// Every list with its count. A rule's own count is the sum over the lists it is in.
    pub fn iter(&self) -> impl Iterator<Item = (&[RuleId], Count)> {
        self.paths.iter().map(|rules| &**rules).zip(self.counts.iter().copied())
    }
}

/// Why, from where and by which rule frames were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DropCause {
    /// Why.
    pub reason: DropReason,
    /// Input port.
    pub port: PortId,
    /// The rule that decided it, where one did.
    pub rule: Option<RuleId>,
}

/// Drops by cause.
#[derive(Debug)]
pub struct DropCounters {
    ids: HashMap<DropCause, u32, Seed>,
    causes: Vec<DropCause>,
    counts: Vec<u64>,
}

impl DropCounters {
    /// Nothing dropped yet.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self { ids: HashMap::with_hasher(seed), causes: Vec::new(), counts: Vec::new() }
    }

    /// The counter of a cause; `None` when it is new and there are [`MAX_INTERNED`] already.
    pub fn intern(&mut self, cause: DropCause) -> Option<u32> {
        if let Some(&id) = self.ids.get(&cause) {
            return Some(id);
        }
        let id = next_index(self.causes.len())?;
        self.ids.insert(cause, id);
        self.causes.push(cause);
        self.counts.push(0);
        Some(id)
    }

    /// Counts one frame.
    #[inline]
    pub fn count(&mut self, counter: u32) {
        if let Some(count) = self.counts.get_mut(idx(u64::from(counter))) {
            *count += 1;
        }
    }

    /// The cause behind a counter.
    #[must_use]
    pub fn cause(&self, counter: u32) -> Option<DropCause> {
        self.causes.get(idx(u64::from(counter))).copied()
    }

    /// Every cause with its count.
    pub fn iter(&self) -> impl Iterator<Item = (DropCause, u64)> {
        self.causes.iter().copied().zip(self.counts.iter().copied())
    }
}

fn next_index(len: usize) -> Option<u32> {
    u32::try_from(len).ok().filter(|_| len < MAX_INTERNED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_share_a_counter_and_different_ones_do_not() {
        let mut paths = RulePaths::new(Seed::new(1));
        let a = paths.intern(&[RuleId(1), RuleId(2)]).unwrap();
        let b = paths.intern(&[RuleId(1)]).unwrap();
        assert_eq!(paths.intern(&[RuleId(1), RuleId(2)]), Some(a));
        paths.count(a, 60);
        paths.count(a, 40);
        paths.count(b, 7);
        let counts: Vec<_> = paths.iter().map(|(_, count)| (count.packets, count.bytes)).collect();
        assert_eq!(counts, [(2, 100), (1, 7)]);
        assert_eq!(paths.rules(a), [RuleId(1), RuleId(2)]);
    }
}
