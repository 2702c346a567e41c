//! Identifiers and the other small numbers that have a law.
//!
//! Each is a newtype, so that a port can not be passed where a network is meant; a constructor checks the law and its
//! error says which one was broken.

use core::fmt;

use bytemuck::Zeroable;
use thiserror::Error;

/// A number outside what its type allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum IdError {
    /// A VLAN id outside 1–4094 (IEEE 802.1Q-2018, 9.6: 0 is a priority tag, 4095 is reserved).
    #[error("a VLAN id is 1 to 4094, not {0}")]
    Vlan(u64),
    /// A VNI outside 1–16777215 (RFC 7348, section 5: 24 bits).
    #[error("a VNI is 1 to 16777215, not {0}")]
    Vni(u64),
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Zeroable)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The identifier as an index into a table of its kind.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                crate::idx(self.0 as u64)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A port of the switch. Stable for as long as the port's name is configured, across reloads and re-creation of its device.
    PortId(u16)
}
id! {
    /// A network: one set of L2 domains and its gateways.
    NetworkId(u16)
}
id! {
    /// A rule. Stable for as long as a rule of the same table and name is configured, so its counters survive a reload.
    RuleId(u32)
}
id! {
    /// A list of rules hit by one walk, interned by [`RulePaths`](crate::counters::RulePaths): what a flow entry counts into.
    PathId(u32)
}
id! {
    /// A list of output ports with their VLAN edits, interned by [`OutputSets`](crate::output::OutputSets).
    OutputSetId(u16)
}
id! {
    /// A generation of decisions. An entry stamped with an older epoch than its ports' is walked again.
    Epoch(u32)
}

impl PathId {
    /// No list: nothing is counted.
    pub const NONE: Self = Self(u32::MAX);
}

/// Higher wins. Two overlapping rules of one table with equal priority and different action are a configuration error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u16);

impl Priority {
    /// What a rule has that names no priority.
    pub const DEFAULT: Self = Self(1000);
}

/// A VLAN id, 1 to 4094 (IEEE 802.1Q-2018, 9.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VlanId(u16);

impl VlanId {
    /// Checks the range.
    ///
    /// # Errors
    /// [`IdError::Vlan`] when `id` is 0 or above 4094.
    pub const fn new(id: u64) -> Result<Self, IdError> {
        match id {
            #[expect(clippy::cast_possible_truncation, reason = "at most 4094")]
            1..=4094 => Ok(Self(id as u16)),
            _ => Err(IdError::Vlan(id)),
        }
    }

    /// The id as a number, host order.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A VXLAN network identifier, 24 bits and not zero (RFC 7348, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vni(u32);

impl Vni {
    /// Checks the range.
    ///
    /// # Errors
    /// [`IdError::Vni`] when `vni` is 0 or needs more than 24 bits.
    pub const fn new(vni: u64) -> Result<Self, IdError> {
        match vni {
            #[expect(clippy::cast_possible_truncation, reason = "at most 24 bits")]
            1..=0x00ff_ffff => Ok(Self(vni as u32)),
            _ => Err(IdError::Vni(vni)),
        }
    }

    /// The VNI as a number, host order.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlan_ids_outside_802_1q_are_refused_with_the_range() {
        assert_eq!(VlanId::new(0), Err(IdError::Vlan(0)));
        assert_eq!(VlanId::new(4095), Err(IdError::Vlan(4095)));
        assert_eq!(VlanId::new(4094).map(VlanId::get), Ok(4094));
        assert_eq!(IdError::Vlan(4095).to_string(), "a VLAN id is 1 to 4094, not 4095");
    }

    #[test]
    fn a_vni_is_24_bits_and_not_zero() {
        assert_eq!(Vni::new(0), Err(IdError::Vni(0)));
        assert_eq!(Vni::new(1 << 24), Err(IdError::Vni(1 << 24)));
        assert_eq!(Vni::new(0xff_ffff).map(Vni::get), Ok(0xff_ffff));
    }
}
