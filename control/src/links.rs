//! The devices of the host: an event is only a hint that something changed, the list read afterwards is the truth.
//!
//! So an event that was lost (`ENOBUFS`) costs nothing but the hint, and a slow periodic reading mends even that. What
//! a list can not show, a device that went and came back under the same index, is kept from the events.

use std::{
    collections::BTreeSet,
    io,
    os::fd::AsFd,
    sync::mpsc::Sender,
    thread,
    time::{Duration, Instant},
};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    link::{LinkAttribute, LinkMessage},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::debug;

use crate::agent::{Devices, view::Device};

/// Multicast group of link events, as a bit (`RTMGRP_LINK`).
const LINK_EVENTS: u32 = 1;
/// How long a burst of events may go on before the list is read.
const CALM: Duration = Duration::from_millis(50);
/// How often the list is read without any event.
pub(crate) const RESYNC: Duration = Duration::from_secs(5);
/// Bytes of one datagram: the kernel sends at most 32 KiB in a dump.
const DATAGRAM: usize = 64 * 1024;

/// That the devices are to be looked at, and the indices of those removed since the last time; one may be in use again.
#[derive(Debug)]
pub(crate) struct Hint {
    /// Indices of removed devices.
    pub(crate) gone: BTreeSet<u32>,
}

/// Reads the list of devices of this network namespace.
///
/// # Errors
/// What the kernel says.
pub(crate) fn list() -> io::Result<Devices> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    header.sequence_number = 1;
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut devices = Devices::new();
    loop {
        let datagram = receive(&socket)?;
        for payload in messages(&datagram) {
            match payload {
                // A kernel newer than this reader: one device it can not read does not hide the others.
                Err(error) => debug!("a device that can not be read: {error}"),
                Ok(payload) => match payload {
                    NetlinkPayload::Done(_) => return Ok(devices),
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                        if let Some((name, device)) = device(&link) {
                            devices.insert(name, device);
                        }
                    }
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    _ => {}
                },
            }
        }
    }
}

/// Subscribes to events and sends a [`Hint`] into `to` after each burst of them, and every [`RESYNC`], until nobody
/// receives any more. Events from the time of this call on are seen.
///
/// # Errors
/// What the kernel says to the subscription.
pub(crate) fn watch<T: Send + 'static>(to: Sender<T>, wrap: fn(Hint) -> T) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind(&SocketAddr::new(0, LINK_EVENTS))?;
    socket.set_non_blocking(true)?;
    let watch = move || while to.send(wrap(Hint { gone: wait(&socket) })).is_ok() {};
    thread::Builder::new().name("sluice-links".to_owned()).spawn(watch)?;
    Ok(())
}

/// Waits for a burst of events to calm down, or for [`RESYNC`]; returns the devices it removed.
fn wait(socket: &Socket) -> BTreeSet<u32> {
    let mut gone = BTreeSet::new();
    if !is_readable(socket, RESYNC) {
        return gone;
    }
    let until = Instant::now() + CALM;
    loop {
        drain(socket, &mut gone);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !is_readable(socket, left) {
            return gone;
        }
    }
}

fn is_readable(socket: &Socket, within: Duration) -> bool {
    let timeout = Timespec { tv_sec: within.as_secs().try_into().unwrap_or(1), tv_nsec: within.subsec_nanos().into() };
    let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    matches!(poll(&mut fds, Some(&timeout)), Ok(ready) if ready > 0)
}

fn drain(socket: &Socket, gone: &mut BTreeSet<u32>) {
    loop {
        match receive(socket) {
            Ok(datagram) => {
                for payload in messages(&datagram).flatten() {
                    if let NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) = payload
                        && link.header.interface_family == AddressFamily::Unspec
                    {
                        gone.insert(link.header.index);
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            // Events were lost (ENOBUFS) or the call was interrupted: the list is read anyway.
            Err(error) => {
                debug!("link events: {error}");
                return;
            }
        }
    }
}

fn receive(socket: &Socket) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(DATAGRAM);
    socket.recv(&mut buffer, 0)?;
    Ok(buffer)
}

/// The messages of one datagram.
fn messages(datagram: &[u8]) -> impl Iterator<Item = io::Result<NetlinkPayload<RouteNetlinkMessage>>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = match NetlinkBuffer::new_checked(rest) {
            Ok(buffer) => usize::try_from(buffer.length()).unwrap_or(usize::MAX),
            Err(error) => {
                rest = &[];
                return Some(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
        };
        let this = rest.get(..length.min(rest.len())).unwrap_or_default();
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(this);
        Some(message.map(|m| m.payload).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)))
    })
}

fn device(link: &LinkMessage) -> Option<(String, Device)> {
    let mut name = None;
    let mut mtu = 0;
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = Some(text.clone()),
            LinkAttribute::Mtu(bytes) => mtu = *bytes,
            _ => {}
        }
    }
    Some((name?, Device { index: link.header.index, mtu }))
}
