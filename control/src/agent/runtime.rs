//! The data plane of the daemon: the worker, and AF_XDP sockets on the devices.

use std::sync::Arc;

use super::{desired::Desired, plane::DataPlane};

/// Starts the worker with the pipeline of `desired` and no port.
pub(crate) fn start(_desired: &Desired, _entropy: u64) -> anyhow::Result<Arc<dyn DataPlane>> {
    anyhow::bail!("not yet")
}
