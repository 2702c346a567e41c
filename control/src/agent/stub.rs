//! Stand-ins for what the data plane is about to provide.

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker has stopped")]
pub(crate) struct Stopped;
