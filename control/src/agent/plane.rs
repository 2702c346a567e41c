//! The data plane as the agent sees it.

use std::sync::Arc;

use dataplane::{
    port::PortMode,
    report::{FdbReport, FlowReport, Report},
};
use flow_table::{id::PortId, pipeline::Pipeline};
use thiserror::Error;

pub(crate) use dataplane::runtime::Stopped;

use super::desired::{Owned, PortSpec};

/// What carries the packets. Every call may block for as long as the worker needs for one pass, `attach` and `detach`
/// for as long as the kernel does.
pub(crate) trait DataPlane: Send + Sync {
    /// Says what can be told to stand against attaching a port, without touching anything. A port that is attached to
    /// the same device does not.
    fn check(&self, port: &PortSpec) -> Result<(), NotAttached>;

    /// Attaches a port to its device, which exists. The worker has it from now on or, where the policy in force has no
    /// such port, from the next publication on.
    fn attach(&self, port: &PortSpec) -> Result<Attached, NotAttached>;

    /// Says what `port` takes from a device it shares with the host. The port is attached.
    fn own(&self, port: PortId, owned: &Owned) -> Result<(), NotAttached>;

    /// Detaches a port; nothing when it is not attached. What was counted for it stays.
    fn detach(&self, port: PortId) -> Result<(), Stopped>;

    /// Puts a pipeline in force and returns its generation once the worker runs it.
    fn publish(&self, pipeline: Arc<Pipeline>) -> Result<u64, Stopped>;

    /// All counters.
    fn report(&self) -> Result<Report, Stopped>;

    /// At most `limit` flow entries.
    fn flows(&self, limit: usize) -> Result<Vec<FlowReport>, Stopped>;

    /// The forwarding database.
    fn fdb(&self) -> Result<Vec<FdbReport>, Stopped>;

    /// Stops the worker. Afterwards every other call says that it has stopped.
    fn stop(&self);
}

/// How a port came to be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attached {
    /// How frames reach it.
    pub(crate) mode: PortMode,
    /// Queues bound.
    pub(crate) queues: u16,
    /// Largest IP packet in bytes.
    pub(crate) mtu: u16,
    /// What the operator should know, a sentence each.
    pub(crate) notes: Vec<String>,
}

/// Why a port is not attached.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum NotAttached {
    /// There is no device, or it is not usable now; it is waited for.
    #[error("{0}")]
    Missing(String),
    /// The device is there and can not be taken.
    #[error("{0}")]
    Refused(String),
    /// The worker is gone.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}
