//! Executing transpositions on frames in hand.

use flow_table::{
    fate::DropReason,
    id::{OutputSetId, PathId, PortId},
    output::Output,
    packet::{
        Parsed, checksum,
        vlan::{self, TAG_BYTES, VlanEdit},
    },
    table::{FlowTable, Slot},
    transposition::{self, Ip6Addresses, Transposition, kind},
};

use super::{Fate, State, burst::Packet, no_rule, ports::Ports};
use crate::port::umem::{Frame, Umem};

/// A packet whose flow is known.
#[inline]
pub(super) fn hit(
    packet: Packet<'_>,
    slot: Slot,
    flows: &mut FlowTable,
    umem: &mut Umem,
    ports: &mut Ports,
    state: &mut State,
) {
    let bytes = packet.frame.len() as u64;
    flows.count(slot, bytes, state.now);
    if let (Some(record), Some(wide)) = (flows.record(slot), flows.addresses(slot)) {
        state.paths.count(PathId(record.path), bytes);
        run(record, wide, packet, umem, ports, state);
    }
}

/// Executes a record on one packet.
#[inline]
pub(super) fn run(
    record: &Transposition,
    wide: &Ip6Addresses,
    packet: Packet<'_>,
    umem: &mut Umem,
    ports: &mut Ports,
    state: &mut State,
) {
    let Packet { parsed, mut frame } = packet;
    let source = parsed.key.in_port();
    if record.kind == kind::DROP {
        umem.discard(frame);
        state.drop_by_counter(record.drop_counter);
        return;
    }
    let bytes = umem.bytes_mut(&mut frame);
    state.counters.checksums_completed += u64::from(checksum::complete_partial(bytes, parsed));
    if let Err(reason) = transposition::apply(record, wide, bytes, parsed) {
        umem.discard(frame);
        state.drop_received(no_rule(reason, source));
        return;
    }
    let path = PathId(record.path);
    if record.kind == kind::SET {
        send_copies(frame, parsed, OutputSetId(record.out_set), path, umem, ports, state);
        return;
    }
    match send(frame, parsed, PortId(record.out_port), transposition::vlan_edit(record), umem, ports) {
        Ok(()) => state.note(Fate::Sent(path)),
        Err(reason) => state.drop_received(no_rule(reason, source)),
    }
}

/// Edits the tag and queues the frame for its output port.
#[inline]
fn send(
    frame: Frame,
    parsed: &Parsed,
    to: PortId,
    tag: VlanEdit,
    umem: &mut Umem,
    ports: &mut Ports,
) -> Result<(), DropReason> {
    let source = parsed.key.in_port();
    let (frame, tag_bytes) = edit_tag(frame, parsed, tag, umem)?;
    ports.push(to, frame, tag_bytes, source, umem)
}

/// The frame with its tag edited, and how many of its bytes are a tag.
#[inline]
fn edit_tag(mut frame: Frame, parsed: &Parsed, tag: VlanEdit, umem: &mut Umem) -> Result<(Frame, usize), DropReason> {
    const TAG: i16 = 4;
    let tagged = if parsed.key.vlan_tci() == 0 { 0 } else { TAG_BYTES };
    match tag {
        VlanEdit::Keep => Ok((frame, tagged)),
        VlanEdit::Set(tci) => {
            vlan::set(umem.bytes_mut(&mut frame), tci);
            Ok((frame, tagged))
        }
        VlanEdit::Push(tci) if umem.grow_front(&mut frame, TAG) => {
            vlan::push(umem.bytes_mut(&mut frame), tci);
            Ok((frame, TAG_BYTES))
        }
        VlanEdit::Pop => {
            vlan::pop(umem.bytes_mut(&mut frame));
            if umem.grow_front(&mut frame, -TAG) { Ok((frame, 0)) } else { oversize(frame, umem) }
        }
        VlanEdit::Push(_) => oversize(frame, umem),
    }
}

#[cold]
fn oversize(frame: Frame, umem: &mut Umem) -> Result<(Frame, usize), DropReason> {
    umem.discard(frame);
    Err(DropReason::Oversize)
}

/// Sends a copy of the frame by every member of a set but the last, and the frame itself by that one. It counts as sent
/// when one member took it, and each member that did not as a drop.
fn send_copies(
    frame: Frame,
    parsed: &Parsed,
    set: OutputSetId,
    path: PathId,
    umem: &mut Umem,
    ports: &mut Ports,
    state: &mut State,
) {
    let source = parsed.key.in_port();
    let mut refused = Refused::default();
    let mut sent = 0;
    match state.sets.get(set).split_last() {
        Some((last, others)) => {
            for output in others {
                let result = match umem.duplicate(&frame) {
                    Some(copy) => send_edited(copy, parsed, output, umem, ports),
                    None => Err(DropReason::NoChunk),
                };
                sent += refused.unless_sent(result);
            }
            sent += refused.unless_sent(send_edited(frame, parsed, last, umem, ports));
            state.law.copies += others.len() as u64;
        }
        None => {
            umem.discard(frame);
            sent += refused.unless_sent(Err(DropReason::NoDestination));
        }
    }
    if sent > 0 {
        state.note(Fate::Sent(path));
    } else if let Some(reason) = refused.iter().next() {
        state.note(Fate::Dropped(no_rule(reason, source)));
    }
    for reason in refused.iter() {
        state.count_drop(no_rule(reason, source));
    }
}

fn send_edited(
    mut frame: Frame,
    parsed: &Parsed,
    output: &Output,
    umem: &mut Umem,
    ports: &mut Ports,
) -> Result<(), DropReason> {
    if let Some(dscp) = output.dscp {
        transposition::set_dscp(umem.bytes_mut(&mut frame), parsed, dscp);
    }
    send(frame, parsed, output.port, output.vlan, umem, ports)
}

/// Drops among the copies of one frame, by reason, without memory of their own.
#[derive(Default)]
struct Refused([u32; DropReason::COUNT]);

impl Refused {
    /// Notes why a copy was not sent; one when it was.
    fn unless_sent(&mut self, result: Result<(), DropReason>) -> u32 {
        let Err(reason) = result else { return 1 };
        if let Some(count) = self.0.get_mut(reason.index()) {
            *count += 1;
        }
        0
    }

    fn iter(&self) -> impl Iterator<Item = DropReason> {
        let counted = DropReason::ALL.iter().zip(self.0);
        counted.flat_map(|(reason, count)| (0..count).map(|_| *reason))
    }
}
