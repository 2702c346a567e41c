//! What this process may do: capabilities and the limit of locked memory.

use rustix::{
    process::{Resource, getrlimit},
    thread::{CapabilitySet, capabilities},
};

/// Those of the capabilities AF_XDP needs that the calling thread lacks: CAP_NET_RAW for the socket, CAP_BPF and
/// CAP_NET_ADMIN for the program. CAP_SYS_ADMIN counts as CAP_BPF. Empty when none is missing, or that can not be told.
#[must_use]
pub fn missing_capabilities() -> Vec<&'static str> {
    let Ok(sets) = capabilities(None) else { return Vec::new() };
    let has = |wanted| sets.effective.intersects(wanted);
    [
        ("CAP_NET_RAW", CapabilitySet::NET_RAW),
        ("CAP_BPF", CapabilitySet::BPF | CapabilitySet::SYS_ADMIN),
        ("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN),
    ]
    .into_iter()
    .filter_map(|(name, wanted)| (!has(wanted)).then_some(name))
    .collect()
}

/// The soft limit of locked memory (RLIMIT_MEMLOCK) in bytes, `None` when there is none.
#[must_use]
pub fn locked_memory_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}
