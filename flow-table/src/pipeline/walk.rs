//! One packet's walk: what it knows, and what it leaves behind.

use crate::{
    classifier::Consulted,
    fate::DropReason,
    fdb::Domain,
    field::{Field, Headers, Words},
    id::{NetworkId, PortId, RuleId},
    output::Output,
    rule::Edit,
};

/// What the walk decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Sent by [`Walk::outputs`], of which there is at least one.
    Forward,
    /// Dropped.
    Drop {
        /// Why.
        reason: DropReason,
        /// The rule that decided it, where one did.
        rule: Option<RuleId>,
    },
    /// For an address of the switch itself in this network.
    Local(NetworkId),
}

/// State of one walk, reused from packet to packet so that its lists keep their memory.
#[derive(Debug, Default)]
pub struct Walk {
    pub(super) headers: Headers,
    pub(super) in_port: PortId,
    pub(super) domain: Option<Domain>,
    pub(super) consulted: Consulted,
    pub(super) volatile: bool,
    pub(super) admitted: bool,
    pub(super) decrement_ttl: bool,
    pub(super) toward: Option<PortId>,
    pub(super) rules: Vec<RuleId>,
    pub(super) outputs: Vec<Output>,
}

impl Walk {
    pub(super) fn begin(&mut self, headers: Headers) {
        self.headers = headers;
        self.domain = None;
        self.consulted = Consulted::default();
        self.volatile = false;
        self.admitted = false;
        self.decrement_ttl = false;
        self.toward = None;
        self.rules.clear();
        self.outputs.clear();
    }

    /// Rules hit, in the order of the tables.
    #[must_use]
    pub fn rules(&self) -> &[RuleId] {
        &self.rules
    }

    /// Where the packet goes.
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The one port the packet was to leave by, whatever became of it then.
    #[must_use]
    pub const fn toward(&self) -> Option<PortId> {
        self.toward
    }

    /// The headers' words after every edit.
    #[must_use]
    pub const fn words(&self) -> &Words {
        &self.headers.words
    }

    /// True when the TTL is to be decremented.
    #[must_use]
    pub const fn decrements_ttl(&self) -> bool {
        self.decrement_ttl
    }

    /// The domain the packet is in, when its sender may be learned there: it passed table `security`.
    #[must_use]
    pub fn learnable(&self) -> Option<Domain> {
        self.domain.filter(|_| self.admitted)
    }

    /// True when the outcome is good for every packet of the key until an epoch says otherwise.
    #[must_use]
    pub const fn is_cacheable(&self) -> bool {
        !self.consulted.outside_key && !self.volatile
    }

    /// Applies header edits to what later tables see. Edits of the tag belong to outputs and are not made here.
    pub(super) fn edit(&mut self, edits: &[Edit]) {
        for edit in edits {
            match *edit {
                Edit::Set(field, value) => field.write(&mut self.headers.words, value, u128::MAX),
                Edit::DecrementTtl => self.decrement_ttl = true,
                Edit::Vlan(_) => {}
            }
        }
    }

    pub(super) fn write(&mut self, field: Field, value: u64) {
        field.write(&mut self.headers.words, u128::from(value), u128::MAX);
    }
}
