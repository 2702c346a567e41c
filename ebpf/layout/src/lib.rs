//! Bytes that eBPF programs and user space both read: map keys, map names, indices, globals and records, with their sizes
//! asserted.
//!
//! Everything here is plain old data without padding, so that both sides agree whatever compiled them; keys that are
//! compared with packet bytes are arrays in network byte order. No `unsafe`, and no dependency in a program's build.
#![no_std]

pub mod steer;
pub mod transposition;
