//! One AF_XDP socket: one receive queue of a device, with its own fill and completion rings over the worker's UMEM.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
        sockopt::{
            set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size, set_xdp_umem_fill_ring_size,
            set_xdp_umem_reg, xdp_mmap_offsets, xdp_statistics,
        },
        xdp::{
            SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
            XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpUmemReg, XdpUmemRegFlags,
        },
    },
};

use super::ring::{Consumer, Producer};
use crate::{
    port::{
        BelowCounters, Quota,
        umem::{Borrower, CHUNK_BYTES, Frame, Umem, UmemArea},
    },
    sys,
};

/// Most frames a kick sends in copy mode, where the kernel lets us choose.
const TX_BUDGET: u32 = 512;
/// How long a queue that is busy is asked again: a closed socket keeps it for some 20 ms, or longer under load.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
const BUSY_TRIES: u32 = 300;

/// What a socket is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) ifindex: u32,
    pub(super) queue: u16,
    /// Slots of each ring.
    pub(super) ring: u32,
    pub(super) direction: Direction,
}

/// Which ways frames go through a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Receive,
    Both,
}

/// Who touches the frames of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copying {
    ByDevice,
    ByKernel,
}

/// The step of opening a socket that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Create,
    Register,
    Rings,
    Bind,
    /// In the steering program's table, by the caller.
    Enter,
}

#[derive(Debug)]
pub(super) struct Socket {
    // The rings are unmapped before the descriptor is closed: a mapping keeps the socket alive.
    rx: Consumer<XdpDesc>,
    tx: Option<Producer<XdpDesc>>,
    fill: Producer<u64>,
    completion: Consumer<u64>,
    fd: OwnedFd,
    ring: u32,
    copying: Copying,
    /// Chunks of this socket in the fill and RX rings, or on their way between.
    receiving: u32,
    /// Frames of this socket in the TX and completion rings, or on their way between.
    sending: u32,
    /// The kernel refuses to send for now: the device is down or gone.
    stalled: bool,
    bad_descriptors: u64,
}

impl Socket {
    /// Makes a socket with its rings and binds it, waiting up to three seconds for a queue that is busy.
    pub(super) fn open(place: Place, area: &UmemArea, copying: Copying) -> Result<Self, (Step, Errno)> {
        let failed = |step| move |errno: Errno| (step, errno);
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map_err(failed(Step::Create))?;
        set_xdp_umem_reg(&fd, registration(area)).map_err(failed(Step::Register))?;
        let socket = Self::map_rings(fd, place, copying)
            .map_err(|error| (Step::Rings, Errno::from_io_error(&error).unwrap_or(Errno::NOMEM)))?;
        socket.bind(place).map_err(failed(Step::Bind))?;
        Ok(socket)
    }

    fn map_rings(fd: OwnedFd, place: Place, copying: Copying) -> io::Result<Self> {
        let Place { ring, direction, .. } = place;
        set_xdp_umem_fill_ring_size(&fd, ring)?;
        set_xdp_umem_completion_ring_size(&fd, ring)?;
        set_xdp_rx_ring_size(&fd, ring)?;
        if direction == Direction::Both {
            set_xdp_tx_ring_size(&fd, ring)?;
            if let Err(error) = sys::sockopt::set_max_tx_budget(fd.as_fd(), TX_BUDGET.min(ring)) {
                tracing::debug!(%error, "this kernel has its own limit of frames sent a call");
            }
        }
        let offsets = xdp_mmap_offsets(&fd)?;
        let at = fd.as_fd();
        Ok(Self {
            rx: Consumer::new(at, XDP_PGOFF_RX_RING, offsets.rx, ring)?,
            tx: match direction {
                Direction::Both => Some(Producer::new(at, XDP_PGOFF_TX_RING, offsets.tx, ring)?),
                Direction::Receive => None,
            },
            fill: Producer::new(at, XDP_UMEM_PGOFF_FILL_RING, offsets.fr, ring)?,
            completion: Consumer::new(at, XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, ring)?,
            fd,
            ring,
            copying,
            receiving: 0,
            sending: 0,
            stalled: false,
            bad_descriptors: 0,
        })
    }

    fn bind(&self, place: Place) -> Result<(), Errno> {
        let mode = match self.copying {
            Copying::ByDevice => SocketAddrXdpFlags::XDP_ZEROCOPY,
            Copying::ByKernel => SocketAddrXdpFlags::XDP_COPY,
        };
        let flags = mode | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        let address = SocketAddrXdp::new(flags, place.ifindex, u32::from(place.queue));
        for _ in 1..BUSY_TRIES {
            match bind(&self.fd, &address) {
                Err(Errno::BUSY) => sys::pause(BUSY_PAUSE),
                other => return other,
            }
        }
        bind(&self.fd, &address)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Appends received frames, at most `room`, and lends the kernel new chunks up to `quota`.
    pub(super) fn rx(&mut self, umem: &mut Umem, into: &mut Vec<Frame>, room: usize, quota: Quota, us: Borrower) {
        let count = self.rx.available().min(u32::try_from(room).unwrap_or(u32::MAX));
        for _ in 0..count {
            let XdpDesc { addr, len, options } = self.rx.pop();
            self.receiving = self.receiving.saturating_sub(1);
            match umem.reclaim_frame(addr, len, us) {
                // A frame of several chunks can not be: the socket did not ask for such (XDP_USE_SG).
                Ok(frame) if len != 0 && !options.contains(XdpDescOptions::XDP_PKT_CONTD) => into.push(frame),
                Ok(frame) => {
                    umem.discard(frame);
                    self.bad_descriptors += 1;
                }
                Err(chunk) => {
                    if let Some(chunk) = chunk {
                        umem.release(chunk);
                    }
                    self.bad_descriptors += 1;
                }
            }
        }
        if count > 0 {
            self.rx.release();
        }
        self.refill(umem, quota, us);
    }

    fn refill(&mut self, umem: &mut Umem, quota: Quota, us: Borrower) {
        let wanted = quota.most.min(self.ring).saturating_sub(self.receiving).min(self.fill.room());
        // The reserve is for frames on their way; a few chunks every queue may have all the same.
        let free = u32::try_from(umem.free_chunks()).unwrap_or(u32::MAX);
        let spare = free.saturating_sub(quota.reserve).max(quota.least.saturating_sub(self.receiving));
        let mut given = 0;
        while given < wanted.min(spare)
            && let Some(chunk) = umem.alloc()
        {
            self.fill.push(umem.lend(chunk, us));
            given += 1;
        }
        if given > 0 {
            self.receiving += given;
            self.fill.publish();
        }
        if self.fill.needs_wakeup() {
            // Only a driver in zero-copy mode asks for this, as long as it wants to. Its answer says nothing: there is no
            // data to read.
            let _ = recv(&self.fd, &mut [0; 0], RecvFlags::DONTWAIT);
        }
    }

    /// Sends frames from the front of `queue`, as many as the ring has room for.
    pub(super) fn tx(&mut self, umem: &mut Umem, queue: &mut Vec<Frame>, us: Borrower) {
        self.complete(umem, us);
        let Some(tx) = &mut self.tx else { return };
        // Never more on their way than the completion ring holds.
        let room = tx.room().min(self.ring.saturating_sub(self.sending));
        let count = queue.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let mut given = 0;
        for frame in queue.drain(..count) {
            if frame.len() == 0 {
                // The kernel would swallow it and never complete it.
                umem.discard(frame);
                self.bad_descriptors += 1;
                continue;
            }
            let (addr, len) = umem.lend_frame(frame, us);
            tx.push(XdpDesc { addr, len, options: XdpDescOptions::empty() });
            given += 1;
        }
        if given > 0 {
            self.sending += given;
            tx.publish();
        }
        self.kick();
    }

    /// Takes back the chunks of frames that are sent.
    fn complete(&mut self, umem: &mut Umem, us: Borrower) {
        let count = self.completion.available();
        for _ in 0..count {
            match umem.reclaim(self.completion.pop(), us) {
                Some(chunk) => umem.release(chunk),
                None => self.bad_descriptors += 1,
            }
        }
        if count > 0 {
            self.sending = self.sending.saturating_sub(count);
            self.completion.release();
        }
    }

    /// Makes the kernel send what waits in the TX ring, when it wants to be asked.
    fn kick(&mut self) {
        let Some(tx) = &self.tx else { return };
        if tx.pending() == 0 || !tx.needs_wakeup() {
            return;
        }
        // EAGAIN, EBUSY and ENOBUFS say "ask again": the next pass does.
        let sent = send(&self.fd, &[], SendFlags::DONTWAIT);
        self.stalled = matches!(sent, Err(Errno::NETDOWN | Errno::NXIO | Errno::NODEV | Errno::BADF));
    }

    /// True while frames wait in the TX ring that a further call can push out.
    pub(super) fn is_busy(&self) -> bool {
        !self.stalled && self.tx.as_ref().is_some_and(|tx| tx.pending() > 0)
    }

    /// True while frames given to the kernel are not known to be sent.
    pub(super) const fn is_sending(&self) -> bool {
        self.sending > 0
    }

    pub(super) fn below(&self) -> BelowCounters {
        let mut counters = BelowCounters { bad_descriptors: self.bad_descriptors, ..BelowCounters::default() };
        if let Ok(kernel) = xdp_statistics(&self.fd) {
            let starved = kernel.rx_fill_ring_empty_descs.unwrap_or(0);
            // A kernel that copies counts a frame for which no chunk was there under both.
            counters.rx_dropped = match self.copying {
                Copying::ByKernel => kernel.rx_dropped.saturating_sub(starved),
                Copying::ByDevice => kernel.rx_dropped,
            };
            counters.rx_ring_full = kernel.rx_ring_full.unwrap_or(0);
            counters.rx_fill_ring_empty = starved;
            counters.rx_invalid = kernel.rx_invalid_descs;
            counters.tx_invalid = kernel.tx_invalid_descs;
        }
        counters
    }
}

fn registration(area: &UmemArea) -> XdpUmemReg {
    const CHUNK: u32 = 4096;
    const _: () = assert!(CHUNK_BYTES == 4096);
    XdpUmemReg {
        addr: u64::try_from(area.address().as_ptr().addr()).unwrap_or(u64::MAX),
        len: u64::try_from(area.bytes()).unwrap_or(u64::MAX),
        chunk_size: CHUNK,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::{super::ring::tests::ends, *};
    use crate::port::BURST;

    const US: Borrower = Borrower(NonZeroU32::MIN);

    /// The kernel's ends of a socket's rings.
    struct Kernel {
        rx: Producer<XdpDesc>,
        tx: Consumer<XdpDesc>,
        fill: Consumer<u64>,
        completion: Producer<u64>,
    }

    fn socket(ring: u32) -> (Socket, Kernel) {
        let ((rx_in, rx), (tx, tx_out)) = (ends(ring), ends(ring));
        let ((fill, fill_out), (completion_in, completion)) = (ends(ring), ends(ring));
        let fd = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
        let socket = Socket {
            rx,
            tx: Some(tx),
            fill,
            completion,
            fd,
            ring,
            copying: Copying::ByKernel,
            receiving: 0,
            sending: 0,
            stalled: false,
            bad_descriptors: 0,
        };
        (socket, Kernel { rx: rx_in, tx: tx_out, fill: fill_out, completion: completion_in })
    }

    impl Kernel {
        /// Takes a chunk from the fill ring.
        fn chunk(&mut self) -> u64 {
            assert!(self.fill.available() > 0);
            let address = self.fill.pop();
            self.fill.release();
            address
        }

        fn deliver(&mut self, addr: u64, len: u32, options: XdpDescOptions) {
            self.rx.push(XdpDesc { addr, len, options });
            self.rx.publish();
        }

        fn complete(&mut self, address: u64) {
            self.completion.push(address);
            self.completion.publish();
        }
    }

    #[test]
    fn descriptors_that_are_empty_or_leave_their_chunk_are_counted_and_never_frames() {
        let mut umem = Umem::new(64).unwrap();
        let (mut socket, mut kernel) = socket(8);
        let mut frames = Vec::with_capacity(BURST);
        socket.rx(&mut umem, &mut frames, BURST, Quota::most(8), US);
        let none = XdpDescOptions::empty();
        let chunk = kernel.chunk();
        kernel.deliver(chunk + 256, 0, none);
        let chunk = kernel.chunk();
        kernel.deliver(chunk + 256, 3841, none);
        let chunk = kernel.chunk();
        kernel.deliver(chunk + 256, 60, XdpDescOptions::XDP_PKT_CONTD);
        kernel.deliver(63 * 4096 + 256, 60, none);
        kernel.deliver(u64::MAX, 60, none);
        let chunk = kernel.chunk();
        kernel.deliver(chunk + 256, 60, none);
        kernel.deliver(chunk + 256, 60, none);
        socket.rx(&mut umem, &mut frames, BURST, Quota::most(8), US);
        assert_eq!(frames.iter().map(Frame::len).collect::<Vec<_>>(), [60]);
        assert_eq!(socket.bad_descriptors, 6);
        assert_eq!(umem.free_chunks() + usize::try_from(umem.lent_chunks()).unwrap() + frames.len(), 64);
    }

    #[test]
    fn a_completion_of_what_was_never_sent_is_counted_and_frees_nothing() {
        let mut umem = Umem::new(16).unwrap();
        let (mut socket, mut kernel) = socket(8);
        let mut queue = vec![umem.copy_in(&[7; 60]).unwrap()];
        socket.tx(&mut umem, &mut queue, US);
        assert_eq!((kernel.tx.available(), umem.free_chunks()), (1, 15));
        let XdpDesc { addr, len, .. } = kernel.tx.pop();
        assert_eq!((addr % 4096, len), (256, 60));
        kernel.tx.release();
        kernel.complete(addr);
        kernel.complete(addr);
        kernel.complete(5 * 4096);
        socket.tx(&mut umem, &mut queue, US);
        assert_eq!((umem.free_chunks(), umem.lent_chunks(), socket.bad_descriptors), (16, 0, 2));
    }

    #[test]
    fn frames_stay_in_the_queue_while_the_ring_or_the_completions_have_no_room() {
        let mut umem = Umem::new(64).unwrap();
        let (mut socket, mut kernel) = socket(8);
        let mut queue: Vec<_> = (1..=20).map(|n| umem.copy_in(&[n; 60]).unwrap()).collect();
        socket.tx(&mut umem, &mut queue, US);
        assert_eq!(queue.len(), 12);
        let sent: Vec<_> = (0..8).map(|_| kernel.tx.pop().addr).collect();
        kernel.tx.release();
        // Sent, but not completed: the completion ring must have room for all that is on its way.
        socket.tx(&mut umem, &mut queue, US);
        assert_eq!(queue.len(), 12);
        sent.iter().take(5).for_each(|address| kernel.complete(*address));
        socket.tx(&mut umem, &mut queue, US);
        assert_eq!((queue.len(), umem.bytes(queue.first().unwrap())[0]), (7, 14), "in order");
    }

    #[test]
    fn the_kernel_holds_no_more_chunks_than_the_quota_and_gets_new_ones_when_some_are_free() {
        let mut umem = Umem::new(8).unwrap();
        let (mut socket, mut kernel) = socket(8);
        let mut frames = Vec::with_capacity(BURST);
        socket.rx(&mut umem, &mut frames, BURST, Quota::most(3), US);
        assert_eq!((kernel.fill.available(), umem.lent_chunks()), (3, 3));
        socket.rx(&mut umem, &mut frames, BURST, Quota::most(3), US);
        assert_eq!(umem.lent_chunks(), 3);
        socket.rx(&mut umem, &mut frames, BURST, Quota::most(100), US);
        assert_eq!((kernel.fill.available(), umem.free_chunks()), (8, 0), "the ring's size at most");
        for _ in 0..8 {
            let chunk = kernel.chunk();
            kernel.deliver(chunk + 256, 60, XdpDescOptions::empty());
        }
        socket.rx(&mut umem, &mut frames, 5, Quota::most(8), US);
        assert_eq!((frames.len(), kernel.fill.available()), (5, 0), "starved: no chunk is free");
        frames.drain(..).for_each(|frame| umem.discard(frame));
        socket.rx(&mut umem, &mut frames, 0, Quota::most(8), US);
        assert_eq!(kernel.fill.available(), 5, "and fed again");
    }
}
