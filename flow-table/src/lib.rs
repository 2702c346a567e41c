//! The packet core of Sluice: parsing, matching, the pipeline of tables, the compiled transposition and the flow table.
//!
//! Pure: no I/O, no clock, no threads. Nothing here allocates for a packet whose flow is known.

pub mod classifier;
pub mod counters;
pub mod fate;
pub mod fdb;
pub mod field;
pub mod hash;
pub mod id;
pub mod key;
pub mod mac;
pub mod matching;
pub mod output;
pub mod packet;
pub mod pipeline;
pub mod policy;
mod prefetch;
pub mod rule;
pub mod table;
pub mod time;
pub mod transposition;

const _: () = assert!(usize::BITS == 64, "indices are u64 in the tables and usize in the code");

/// The one conversion from a stored index to one the compiler indexes by.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted above")]
pub const fn idx(index: u64) -> usize {
    index as usize
}
