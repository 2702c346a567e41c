//! How fast the switch is, measured: scenarios, subjects, and the statistics that make a figure of rounds.
//!
//! The law: a figure is a median of interleaved rounds of one run, shown with its spread; a target on a ratio is met when the
//! 90 % interval of the paired ratios reaches it. Nothing here is a timed test.

pub mod allocations;
pub mod callgrind;
pub mod clock;
pub mod error;
pub mod memory;
pub mod netns;
pub mod packet_socket;
pub mod report;
pub mod rng;
pub mod scenario;
pub mod source;
pub mod stages;
pub mod stats;
pub mod subject;
pub mod transfer;
pub mod veth;
