//! The AF_XDP port: frames of a device straight into the worker's UMEM, one socket a receive queue.
//!
//! [`attach()`] runs on the control thread and makes two halves. The [`AfXdpPort`] is the worker's: it works the rings and needs
//! no privilege. The [`Attachment`] stays in control: it holds the XDP program on the device, which ends with it. Drop the
//! attachment first, then close the port: frames stop coming before the sockets go.
//!
//! All frames are sent on the first queue, so the order of a flow never changes; the other sockets only receive.

mod attach;
mod error;
mod ring;
mod socket;
mod steering;

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

pub use attach::{Attachment, DEFAULT_RING, MAX_MTU, MAX_RING, MIN_RING, Mode, Options, Steer, attach, check};
pub use error::AttachError;
pub use steering::{OwnedError, SteeringCounters};

use self::socket::Socket;
use super::{
    BelowCounters, Port, PortMode, PortStatus, Quota,
    umem::{Borrower, Frame, Umem, UmemArea},
};
use crate::sys;

/// How long a device may go on using a socket's chunks after it is closed: writing them in zero-copy mode, sending from
/// them where its driver takes pages as they are.
const DEVICE_TEARDOWN: Duration = Duration::from_millis(100);

/// The worker's half of an AF_XDP port.
///
/// It moves frames only between its device and the UMEM it was attached with; called with another one it does nothing.
#[derive(Debug)]
pub struct AfXdpPort {
    /// The first one sends; never empty.
    sockets: Vec<Socket>,
    /// The socket that is asked first in the next pass, so that none starves.
    first: usize,
    /// Wakes when any of several sockets does.
    epoll: Option<OwnedFd>,
    /// The memory the sockets are registered with.
    area: UmemArea,
    borrower: Borrower,
    mode: PortMode,
    quota: Quota,
}

impl Port for AfXdpPort {
    fn rx(&mut self, umem: &mut Umem, into: &mut Vec<Frame>, room: usize) {
        if !self.area.is_of(umem) {
            // Chunks of another UMEM would name memory of this one that is not lent.
            return;
        }
        let limit = into.len().saturating_add(room);
        let first = if self.first < self.sockets.len() { self.first } else { 0 };
        self.first = first + 1;
        let (before, from) = self.sockets.split_at_mut(first);
        for socket in from.iter_mut().chain(before) {
            let room = limit.saturating_sub(into.len());
            socket.rx(umem, into, room, self.quota, self.borrower);
        }
    }

    fn tx(&mut self, umem: &mut Umem, queue: &mut Vec<Frame>) {
        if let Some(socket) = self.sockets.first_mut()
            && self.area.is_of(umem)
        {
            socket.tx(umem, queue, self.borrower);
        }
    }

    /// Never more than the ring's size, which it is at first. A lower quota is reached as frames arrive.
    fn set_quota(&mut self, quota: Quota) {
        self.quota = quota;
    }

    fn queues(&self) -> u16 {
        u16::try_from(self.sockets.len()).unwrap_or(u16::MAX)
    }

    fn is_busy(&self) -> bool {
        self.sockets.first().is_some_and(Socket::is_busy)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        match &self.epoll {
            Some(epoll) => Some(epoll.as_fd()),
            None => self.sockets.first().map(Socket::fd),
        }
    }

    fn status(&self) -> PortStatus {
        let mut below = BelowCounters::default();
        for counters in self.sockets.iter().map(Socket::below) {
            below.merge(counters);
        }
        PortStatus { mode: self.mode, queues: self.queues(), below }
    }

    fn close(self: Box<Self>) -> Option<Borrower> {
        let Self { sockets, borrower, mode, epoll, .. } = *self;
        let unsent = sockets.iter().any(Socket::is_sending);
        drop(epoll);
        // Closing waits until the kernel no longer copies into our chunks. What a device does itself may end a little later,
        // and nothing tells when.
        drop(sockets);
        if mode == PortMode::ZeroCopy || unsent {
            sys::pause(DEVICE_TEARDOWN);
        }
        Some(borrower)
    }
}
