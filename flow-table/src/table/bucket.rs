//! Buckets: ten tags with the indices of their entries, in one cache line. A full bucket spills into the ones after it.

use core::ops::Range;

use bytemuck::Zeroable;

use crate::{idx, prefetch::prefetch};

/// Tags in a bucket.
const WAYS: usize = 10;
/// Buckets an entry may be away from its own.
const REACH: u32 = 4;

/// One cache line of the index. A tag of zero is an empty place.
#[derive(Debug, Clone, Copy, Zeroable)]
#[repr(C, align(64))]
struct Bucket {
    index: [u32; WAYS],
    tags: [u16; WAYS],
    /// Entries of this bucket that are in the ones after it.
    spilled: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64);

const EMPTY: Bucket = Bucket { index: [0; WAYS], tags: [0; WAYS], spilled: 0 };

/// The index over flow entries.
#[derive(Debug)]
pub(super) struct Buckets {
    buckets: Box<[Bucket]>,
    mask: u32,
}

/// Where an entry hangs: its home bucket in the high bits, how far it spilled in the low two.
fn place(home: u32, distance: u32) -> u32 {
    home << 2 | distance
}

fn tag_of(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

/// A place whose tag is `tag`: four tags a word, without a branch.
///
/// A lane of a word that is zero borrows from its top bit; lanes above such a one may do so wrongly, the lowest never.
#[inline]
fn way_of(tags: &[u16; WAYS], tag: u16) -> Option<usize> {
    const ONES: u64 = 0x0001_0001_0001_0001;
    let [a, b, c, d, e, f, g, h, i, j] = *tags;
    let lanes = |a, b, c, d| u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(d) << 48;
    let wanted = u64::from(tag) * ONES;
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 15);
    let low = zeros(lanes(a, b, c, d) ^ wanted) >> 15;
    let middle = zeros(lanes(e, f, g, h) ^ wanted) >> 14;
    // No tag is zero that was asked for, so the lanes without a place never agree.
    let high = zeros(lanes(i, j, 0, 0) ^ wanted) >> 13;
    let found = low | middle | high;
    let bit = idx(u64::from(found.trailing_zeros()));
    (found != 0).then_some((bit >> 4) + 4 * (bit & 3))
}

impl Buckets {
    /// For `capacity` entries, a power of two: about five of ten places used when full. `advise` is told the addresses
    /// before they are touched.
    pub(super) fn new(capacity: u32, advise: &mut impl FnMut(Range<usize>)) -> Self {
        let count = (capacity / 4).max(REACH);
        let len = idx(u64::from(count));
        let mut buckets = super::reserve(len, advise);
        buckets.resize(len, EMPTY);
        Self { buckets: buckets.into(), mask: count - 1 }
    }

    #[inline]
    fn home(&self, hash: u64) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "masked to the number of buckets")]
        {
            hash as u32 & self.mask
        }
    }

    #[inline]
    fn bucket(&self, home: u32, distance: u32) -> &Bucket {
        self.buckets.get(idx(u64::from((home + distance) & self.mask))).unwrap_or(&EMPTY)
    }

    fn bucket_mut(&mut self, home: u32, distance: u32) -> Option<&mut Bucket> {
        self.buckets.get_mut(idx(u64::from((home + distance) & self.mask)))
    }

    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(self.buckets.get(idx(u64::from(self.home(hash)))));
    }

    /// An entry of the home bucket whose tag agrees, `u32::MAX` when there is none.
    #[inline]
    pub(super) fn candidate(&self, hash: u64) -> u32 {
        let bucket = self.bucket(self.home(hash), 0);
        way_of(&bucket.tags, tag_of(hash)).and_then(|way| bucket.index.get(way)).copied().unwrap_or(u32::MAX)
    }

    /// Every entry whose tag agrees, home bucket first.
    pub(super) fn probe(&self, hash: u64) -> impl Iterator<Item = u32> {
        let home = self.home(hash);
        let tag = tag_of(hash);
        let reach = if self.bucket(home, 0).spilled == 0 { 1 } else { REACH };
        (0..reach).flat_map(move |distance| {
            let bucket = self.bucket(home, distance);
            bucket.tags.iter().zip(bucket.index).filter(move |(have, _)| **have == tag).map(|(_, index)| index)
        })
    }

    /// Every entry in the buckets that `hash` may use.
    pub(super) fn neighbourhood(&self, hash: u64) -> impl Iterator<Item = u32> {
        let home = self.home(hash);
        (0..REACH).flat_map(move |distance| {
            let bucket = self.bucket(home, distance);
            bucket.tags.iter().zip(bucket.index).filter(|(tag, _)| **tag != 0).map(|(_, index)| index)
        })
    }

    /// True when an entry under `hash` has a free place in reach.
    pub(super) fn has_room(&self, hash: u64) -> bool {
        let home = self.home(hash);
        (0..REACH).any(|distance| self.bucket(home, distance).tags.contains(&0))
    }

    /// Hangs entry `index` under `hash`: where it hangs, for [`remove`](Self::remove). `None` when there is no room.
    pub(super) fn insert(&mut self, hash: u64, index: u32) -> Option<u32> {
        let home = self.home(hash);
        for distance in 0..REACH {
            let bucket = self.bucket_mut(home, distance)?;
            let Some(way) = bucket.tags.iter().position(|tag| *tag == 0) else { continue };
            *bucket.tags.get_mut(way)? = tag_of(hash);
            *bucket.index.get_mut(way)? = index;
            if distance > 0 {
                self.bucket_mut(home, 0)?.spilled += 1;
            }
            return Some(place(home, distance));
        }
        None
    }

    /// Takes entry `index` from where it hangs.
    pub(super) fn remove(&mut self, place: u32, index: u32) {
        let (home, distance) = (place >> 2, place & 3);
        if let Some(bucket) = self.bucket_mut(home, distance) {
            for (tag, have) in bucket.tags.iter_mut().zip(bucket.index) {
                if have == index && *tag != 0 {
                    *tag = 0;
                }
            }
        }
        if distance > 0
            && let Some(bucket) = self.bucket_mut(home, 0)
        {
            bucket.spilled = bucket.spilled.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_wherever_it_is_and_nothing_else_is() {
        for way in 0..WAYS {
            for tag in [1_u16, 3, 0x7fff, 0x8001, 0xffff] {
                for other in [0, tag ^ 2, tag ^ 0x8000, tag.wrapping_add(2) | 1] {
                    let mut tags = [other; WAYS];
                    assert_eq!(way_of(&tags, tag), None, "{tag:#x} among {other:#x}");
                    tags[way] = tag;
                    assert_eq!(way_of(&tags, tag), Some(way), "{tag:#x} among {other:#x}");
                }
            }
        }
        assert!(way_of(&[5; WAYS], 5).is_some());
    }
}
