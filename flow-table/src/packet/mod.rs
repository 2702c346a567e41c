//! Packets as bytes: the only place of this crate where numbers are in network order.

pub mod checksum;
pub mod fields;
pub mod parse;
pub mod vlan;

pub use parse::{Parsed, parse};
