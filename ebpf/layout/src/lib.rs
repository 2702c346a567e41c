//! Bytes that eBPF programs and user space both read: map keys, map names, indices and globals, with their sizes asserted.
//!
//! One module a program. Everything here is plain old data without padding, so that both sides agree whatever compiled them;
//! keys that are compared with packet bytes are arrays in network byte order. No dependency and no `unsafe`.
#![no_std]

pub mod steer;
