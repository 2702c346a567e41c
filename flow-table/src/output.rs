//! Where packets leave: single outputs, and the sets that flooding uses.

use hashbrown::HashMap;

use crate::{
    hash::Seed,
    id::{OutputSetId, PortId},
    packet::vlan::VlanEdit,
};

/// One way out of the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Output {
    /// Port.
    pub port: PortId,
    /// How the tag changes on the way.
    pub vlan: VlanEdit,
    /// DSCP set for this output alone, by table `output`.
    pub dscp: Option<u8>,
}

/// The most sets kept; flows that would need a further one are walked packet by packet.
pub const MAX_SETS: usize = 4096;

/// Sets of outputs, interned.
#[derive(Debug)]
pub struct OutputSets {
    ids: HashMap<Box<[Output]>, OutputSetId, Seed>,
    sets: Vec<Box<[Output]>>,
}

impl OutputSets {
    /// No sets yet.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self { ids: HashMap::with_hasher(seed), sets: Vec::new() }
    }

    /// The identifier of a set; `None` when it is new and there are [`MAX_SETS`] already.
    pub fn intern(&mut self, outputs: &[Output]) -> Option<OutputSetId> {
        if let Some(&id) = self.ids.get(outputs) {
            return Some(id);
        }
        let id = u16::try_from(self.sets.len()).ok().filter(|_| self.sets.len() < MAX_SETS).map(OutputSetId)?;
        self.ids.insert(outputs.into(), id);
        self.sets.push(outputs.into());
        Some(id)
    }

    /// The members of a set.
    #[inline]
    #[must_use]
    pub fn get(&self, id: OutputSetId) -> &[Output] {
        self.sets.get(id.index()).map_or(&[], |outputs| outputs)
    }

    /// True when half the room is used: a good time to forget all sets and every entry that names one.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.sets.len() > MAX_SETS / 2
    }

    /// Forgets all sets.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.sets.clear();
    }
}
