//! One keyed hash for everything a tenant's packets select: flow entries, tuples, the forwarding database.
//!
//! Folded multiplication over 64-bit words (the construction of wyhash): with a secret of the process a sender can not
//! choose packets that collide.

use core::hash::{BuildHasher, Hasher};

use crate::key::FlowKey;

/// The secret of a hash, drawn once a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed([u64; 4]);

impl Seed {
    /// Spreads `entropy` over the secret (splitmix64).
    #[must_use]
    pub const fn new(entropy: u64) -> Self {
        let mut state = entropy;
        let mut secret = [0; 4];
        let mut i = 0;
        while i < 4 {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            #[expect(clippy::indexing_slicing, reason = "i < 4, checked at compile time where the seed is constant")]
            {
                secret[i] = (z ^ (z >> 31)) | 1;
            }
            i += 1;
        }
        Self(secret)
    }

    /// Hash of a flow key: four words for what is not IPv6, eight for IPv6.
    #[inline]
    #[must_use]
    pub const fn of_key(&self, key: &FlowKey) -> u64 {
        let [a, b, c, d] = self.0;
        let [k0, k1, k2, k3, k4, k5, k6, k7] = key.0;
        let mut h = fold(k0 ^ a, k1 ^ b) ^ fold(k2 ^ c, k3 ^ d);
        if key.is_ipv6() {
            h ^= fold(k4 ^ b, k5 ^ c) ^ fold(k6 ^ d, k7 ^ a).rotate_left(23);
        }
        fold(h ^ a, d)
    }

    /// Hash of any words.
    #[inline]
    #[must_use]
    pub fn of_words(&self, words: &[u64]) -> u64 {
        let [a, b, c, d] = self.0;
        words.iter().fold(a, |h, word| fold(h ^ word ^ c, b.rotate_left(7) ^ h)).wrapping_add(d)
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both halves of the product are taken")]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

impl BuildHasher for Seed {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        let [a, b, c, _] = self.0;
        KeyedHasher { state: a, multiplier: b, increment: c }
    }
}

/// The hash as a [`Hasher`], for maps.
#[derive(Debug, Clone, Copy)]
pub struct KeyedHasher {
    state: u64,
    multiplier: u64,
    increment: u64,
}

impl Hasher for KeyedHasher {
    fn finish(&self) -> u64 {
        fold(self.state ^ self.increment, self.multiplier)
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(part) {
                *to = *from;
            }
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.state = fold(self.state ^ word ^ self.increment, self.multiplier ^ self.state.rotate_left(29));
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_seed_gives_another_order() {
        let (one, two) = (Seed::new(1), Seed::new(2));
        let key = |n| FlowKey([n, 0, 0, 0, 0, 0, 0, 0]);
        let same = (0..1000).filter(|&n| one.of_key(&key(n)) & 7 == two.of_key(&key(n)) & 7).count();
        assert!((60..200).contains(&same), "{same} of 1000 fall in the same eighth");
    }

    #[test]
    fn sequential_keys_spread_over_the_low_bits_and_the_high_ones() {
        let seed = Seed::new(7);
        for shift in [0, 48] {
            let mut seen = [0_u32; 256];
            for port in 0..25_600_u64 {
                let hash = seed.of_key(&FlowKey([0x0800 << 32, port, 80, 0x0a00_0001_0a00_0002, 0, 0, 0, 0]));
                seen[crate::idx((hash >> shift) & 255)] += 1;
            }
            let (least, most) = (seen.iter().min().unwrap(), seen.iter().max().unwrap());
            assert!(*least > 60 && *most < 150, "{least}..{most} at bit {shift}");
        }
    }
}
