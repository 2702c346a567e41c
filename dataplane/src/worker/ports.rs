//! The worker's ports: what is attached, and what waits to leave.

use flow_table::{fate::DropReason, id::PortId, pipeline::Pipeline};

use super::{
    State,
    burst::{Burst, CAPACITY},
    no_rule,
};
use crate::{
    port::{
        BURST, Port, Quota,
        umem::{Frame, Umem},
    },
    report::Count,
};

/// Frames that may wait for one port within a pass.
const QUEUE: usize = 512;

/// One port of the policy, attached or not. Its counters live as long as the policy has it.
#[derive(Debug)]
pub(super) struct PortSlot {
    pub(super) id: PortId,
    pub(super) port: Option<Box<dyn Port>>,
    pub(super) mtu: u16,
    pub(super) rx: Count,
    pub(super) tx: Count,
    /// Frames to send, and the ports they came from, side by side.
    queue: Vec<Frame>,
    queue_bytes: u64,
    sources: Vec<PortId>,
}

/// All ports of the policy.
#[derive(Debug, Default)]
pub(super) struct Ports {
    slots: Vec<Option<PortSlot>>,
    /// Where the next pass starts, so that no port starves when a burst fills up.
    first: usize,
}

impl Ports {
    /// Forgets ports that the policy does not have and that are not attached.
    pub(super) fn forget_unknown(&mut self, policy: &Pipeline) {
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|slot| slot.port.is_none() && policy.port(slot.id).is_none()) {
                *slot = None;
            }
        }
    }

    /// Makes a slot for every port of the policy. Ports it no longer has are kept while they are attached.
    pub(super) fn adopt(&mut self, policy: &Pipeline) {
        self.forget_unknown(policy);
        for port in policy.ports() {
            if self.slots.len() <= port.id.index() {
                self.slots.resize_with(port.id.index() + 1, || None);
            }
            if let Some(slot @ None) = self.slots.get_mut(port.id.index()) {
                *slot = Some(PortSlot {
                    id: port.id,
                    port: None,
                    mtu: 0,
                    rx: Count::default(),
                    tx: Count::default(),
                    queue: Vec::with_capacity(QUEUE),
                    queue_bytes: 0,
                    sources: Vec::with_capacity(QUEUE),
                });
            }
        }
    }

    pub(super) fn attach(
        &mut self,
        id: PortId,
        port: Box<dyn Port>,
        mtu: u16,
        chunks: u32,
    ) -> Result<(), Box<dyn Port>> {
        match self.slot_mut(id) {
            Some(slot) if slot.port.is_none() => {
                slot.port = Some(port);
                slot.mtu = mtu;
                self.share(chunks);
                Ok(())
            }
            _ => Err(port),
        }
    }

    pub(super) fn detach(&mut self, id: PortId, chunks: u32) -> Option<Box<dyn Port>> {
        let port = self.slot_mut(id)?.port.take();
        self.share(chunks);
        port
    }

    /// Divides half of the chunks among the queues of all ports for receiving, also of those not attached yet; the other
    /// half is for frames on their way, and for ports that come later.
    fn share(&mut self, chunks: u32) {
        let queues: u32 = self.slots().map(|slot| slot.port.as_ref().map_or(1, |port| u32::from(port.queues()))).sum();
        let most = chunks / 2 / queues.max(1);
        let quota = Quota { most, least: most.min(64), reserve: chunks / 4 };
        for port in self.slots.iter_mut().flatten().filter_map(|slot| slot.port.as_mut()) {
            port.set_quota(quota);
        }
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, id: PortId) -> Option<&mut PortSlot> {
        self.slots.get_mut(id.index())?.as_mut()
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &PortSlot> {
        self.slots.iter().flatten()
    }

    /// The ports that are attached.
    pub(super) fn attached(&self) -> impl Iterator<Item = &dyn Port> {
        self.slots().filter_map(|slot| slot.port.as_deref())
    }

    /// Takes frames from every port, at most [`BURST`] each, until the burst is full. Returns how many.
    pub(super) fn receive(&mut self, umem: &mut Umem, burst: &mut Burst, state: &mut State) -> usize {
        let first = if self.first < self.slots.len() { self.first } else { 0 };
        self.first = 0;
        let (before, from) = self.slots.split_at_mut(first);
        for (at, slot) in (first..).zip(from).chain((0..).zip(before)) {
            let room = (CAPACITY - burst.frames.len()).min(BURST);
            if room == 0 {
                self.first = at;
                break;
            }
            let Some(slot) = slot else { continue };
            let Some(port) = &mut slot.port else { continue };
            let had = burst.frames.len();
            port.rx(umem, &mut burst.frames, room);
            for frame in burst.frames.iter().skip(had) {
                slot.rx.add(frame.len() as u64);
                burst.sources.push(slot.id);
            }
        }
        state.law.rx += burst.frames.len() as u64;
        burst.frames.len()
    }

    /// Queues a frame for output port `to`, if it fits its MTU and queue. `tag_bytes` of the frame are a VLAN tag.
    #[inline]
    pub(super) fn push(
        &mut self,
        to: PortId,
        frame: Frame,
        tag_bytes: usize,
        source: PortId,
        umem: &mut Umem,
    ) -> Result<(), DropReason> {
        let verdict = match self.slot_mut(to) {
            Some(slot) if slot.port.is_some() => {
                if frame.len() > usize::from(slot.mtu) + 14 + tag_bytes {
                    DropReason::Oversize
                } else if slot.queue.len() == QUEUE {
                    DropReason::TxFull
                } else {
                    slot.queue_bytes += frame.len() as u64;
                    slot.queue.push(frame);
                    slot.sources.push(source);
                    return Ok(());
                }
            }
            _ => DropReason::PortMissing,
        };
        umem.discard(frame);
        Err(verdict)
    }

    /// Gives every port its queue. What a port has no room for is dropped and counted for the port it came from.
    pub(super) fn send(&mut self, umem: &mut Umem, state: &mut State) {
        for slot in self.slots.iter_mut().flatten() {
            let Some(port) = &mut slot.port else { continue };
            let queued = slot.queue.len();
            port.tx(umem, &mut slot.queue);
            let taken = queued - slot.queue.len();
            let left: u64 = slot.queue.iter().map(|frame| frame.len() as u64).sum();
            slot.tx.merge(Count { packets: taken as u64, bytes: slot.queue_bytes - left });
            state.law.tx += taken as u64;
            for (frame, source) in slot.queue.drain(..).zip(slot.sources.drain(..).skip(taken)) {
                umem.discard(frame);
                state.count_drop(no_rule(DropReason::TxFull, source));
            }
            slot.sources.clear();
            slot.queue_bytes = 0;
        }
    }
}
