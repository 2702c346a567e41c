//! Record layouts shared by the eBPF programs and user space.
//!
//! Every record has a fixed size that is asserted here, so that both sides agree or do not build.
#![no_std]

pub mod transposition;
