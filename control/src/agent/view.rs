//! What the agent knows at one moment, for readers that must not wait for it.

use std::{collections::BTreeMap, sync::Arc};

use flow_table::id::PortId;

use super::desired::{Desired, PortSpec};
use crate::report::{names::Names, shape::Reload};

/// One moment: what is in force and what became of it. Readers take a whole one.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// What is in force.
    pub(crate) desired: Arc<Desired>,
    /// Its generation.
    pub(crate) generation: u64,
    /// Names of it, and of what was in force before.
    pub(crate) names: Arc<Names>,
    /// The ports.
    pub(crate) ports: BTreeMap<PortId, PortRecord>,
    /// The last reload.
    pub(crate) last_reload: Option<Reload>,
    /// When the daemon started, RFC 3339.
    pub(crate) started: String,
}

/// A port and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortRecord {
    /// What is wanted.
    pub(crate) spec: PortSpec,
    /// What is.
    pub(crate) state: PortState,
}

/// What became of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PortState {
    /// Attached to this device.
    Attached(Device),
    /// Its device is not there, or not usable; it is attached when it is.
    Missing(String),
    /// Its device is there and can not be taken, for this reason; it is tried again.
    Refused(String),
}

impl PortState {
    /// The name used in reports.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Attached(_) => "attached",
            Self::Missing(_) => "missing",
            Self::Refused(_) => "refused",
        }
    }

    /// Why it is not attached.
    pub(crate) fn why(&self) -> Option<&str> {
        match self {
            Self::Attached(_) => None,
            Self::Missing(why) | Self::Refused(why) => Some(why),
        }
    }
}

/// A device of the host. Another one may have the same name later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Device {
    /// Its index, which no other device has in this boot and network namespace.
    pub(crate) index: u32,
    /// Most bytes of an IP packet it carries.
    pub(crate) mtu: u32,
}
