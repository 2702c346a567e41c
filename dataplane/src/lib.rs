//! Packets in flight: the worker, its ports, and the slow path.

pub mod port;
pub mod replay;
pub mod report;
pub mod runtime;
pub mod sys;
pub mod worker;
