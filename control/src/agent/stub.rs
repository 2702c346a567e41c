//! Stand-ins for what the data plane is about to provide.
use flow_table::policy::Policy;

#[derive(Debug)]
pub(crate) struct Pipeline;
impl Pipeline {
    pub(crate) fn new(_policy: &Policy) -> Self {
        Self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker has stopped")]
pub(crate) struct Stopped;
