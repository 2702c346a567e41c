//! A ring shared with the kernel: one side produces, the other consumes, each through its own index.
//!
//! The law: the slots between the consumer's and the producer's index belong to the consumer, the others to the producer. An
//! index is published with release and read with acquire order, so a slot's bytes are there when its index says so.
#![expect(unsafe_code, reason = "rings are mapped kernel memory")]

use std::{
    io,
    os::fd::BorrowedFd,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

use flow_table::idx;
use rustix::{
    mm::{MapFlags, ProtFlags, mmap, munmap},
    net::xdp::{XdpRingFlags, XdpRingOffset},
};

/// A mapping of ring memory, unmapped when dropped.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(socket: BorrowedFd<'_>, bytes: usize, page_offset: u64) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choosing touches no existing memory.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, access, flags, socket, page_offset) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, bytes })
    }

    /// A pointer to `T` at `offset`, when all of `count` of them lie inside the mapping and are aligned.
    fn at<T>(&self, offset: u64, count: usize) -> io::Result<NonNull<T>> {
        let offset = idx(offset);
        let end = size_of::<T>().checked_mul(count).and_then(|bytes| bytes.checked_add(offset));
        if end.is_none_or(|end| end > self.bytes) || !offset.is_multiple_of(align_of::<T>()) {
            return Err(io::Error::other("the kernel described a ring outside its own memory"));
        }
        // SAFETY: `offset` is inside the mapping, checked above.
        Ok(unsafe { self.base.add(offset) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; the ring that owns this hands out no pointer into it.
        if let Err(error) = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) } {
            tracing::error!(%error, "a ring could not be unmapped");
        }
    }
}

/// One ring of `T`, as user space sees it.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    slots: NonNull<T>,
    size: u32,
    /// Keeps the pointers above valid.
    _mapping: Mapping,
}

// SAFETY: the pointers are into the mapping this owns; the kernel does not care which thread works a ring.
unsafe impl<T: Copy + Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps the ring of `size` slots (a power of two) at the socket's `page_offset`.
    fn new(socket: BorrowedFd<'_>, page_offset: u64, offsets: XdpRingOffset, size: u32) -> io::Result<Self> {
        if !size.is_power_of_two() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let slots = idx(u64::from(size));
        let bytes = idx(offsets.desc) + slots * size_of::<T>();
        let mapping = Mapping::new(socket, bytes, page_offset)?;
        Ok(Self {
            producer: mapping.at(offsets.producer, 1)?,
            consumer: mapping.at(offsets.consumer, 1)?,
            flags: offsets.flags.map(|offset| mapping.at(offset, 1)).transpose()?,
            slots: mapping.at(offsets.desc, slots)?,
            size,
            _mapping: mapping,
        })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: points into the mapping (checked by `at`), which lives as long as `self`; only ever used as an atomic.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    /// A pointer to the slot of `index`.
    #[inline]
    fn slot(&self, index: u32) -> NonNull<T> {
        let place = idx(u64::from(index & (self.size - 1)));
        // SAFETY: `place` is below `size`, and that many slots lie inside the mapping (checked by `new`).
        unsafe { self.slots.add(place) }
    }

    /// True when the kernel asks for a system call to go on.
    #[inline]
    fn needs_wakeup(&self) -> bool {
        let Some(flags) = self.flags else { return true };
        // SAFETY: as for `producer`.
        let flags = unsafe { flags.as_ref() };
        flags.load(Ordering::Relaxed) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }
}

/// The side of a ring that gives to the kernel: fill and TX.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Our index: slots up to here are written, published or not.
    next: u32,
}

impl<T: Copy> Producer<T> {
    pub(super) fn new(socket: BorrowedFd<'_>, page_offset: u64, offsets: XdpRingOffset, size: u32) -> io::Result<Self> {
        let ring = Ring::new(socket, page_offset, offsets, size)?;
        let next = ring.producer().load(Ordering::Relaxed);
        Ok(Self { ring, next })
    }

    /// Slots that may be written.
    #[inline]
    pub(super) fn room(&self) -> u32 {
        self.ring.size.saturating_sub(self.pending())
    }

    /// Slots the kernel has not consumed yet.
    #[inline]
    pub(super) fn pending(&self) -> u32 {
        self.next.wrapping_sub(self.ring.consumer().load(Ordering::Acquire)).min(self.ring.size)
    }

    /// Writes the next slot. The caller has seen [`room`](Self::room) for it; without, the oldest slot is overwritten.
    #[inline]
    pub(super) fn push(&mut self, value: T) {
        let slot = self.ring.slot(self.next);
        // SAFETY: inside the mapping, aligned; ours to write until published.
        unsafe { slot.write(value) };
        self.next = self.next.wrapping_add(1);
    }

    /// Gives everything pushed to the kernel.
    #[inline]
    pub(super) fn publish(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// True when the kernel asks for a system call to go on.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// The side of a ring that takes from the kernel: RX and completion.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Our index: slots up to here are read, released or not.
    next: u32,
}

impl<T: Copy> Consumer<T> {
    pub(super) fn new(socket: BorrowedFd<'_>, page_offset: u64, offsets: XdpRingOffset, size: u32) -> io::Result<Self> {
        let ring = Ring::new(socket, page_offset, offsets, size)?;
        let next = ring.consumer().load(Ordering::Relaxed);
        Ok(Self { ring, next })
    }

    /// Slots that may be read.
    #[inline]
    pub(super) fn available(&self) -> u32 {
        self.ring.producer().load(Ordering::Acquire).wrapping_sub(self.next).min(self.ring.size)
    }

    /// Reads the next slot. The caller has seen it [`available`](Self::available); without, an old value is read.
    #[inline]
    pub(super) fn pop(&mut self) -> T {
        let slot = self.ring.slot(self.next);
        // SAFETY: inside the mapping, aligned, and `T` is plain data for which every bit pattern is a value; ours until
        // released.
        let value = unsafe { slot.read() };
        self.next = self.next.wrapping_add(1);
        value
    }

    /// Gives every slot popped back to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    const OFFSETS: XdpRingOffset = XdpRingOffset { producer: 0, consumer: 64, desc: 192, flags: Some(128) };

    /// Both sides of one ring, which a file in memory stands for.
    pub(in super::super) fn ends<T: Copy>(size: u32) -> (Producer<T>, Consumer<T>) {
        let file = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, OFFSETS.desc + u64::from(size) * size_of::<T>() as u64).unwrap();
        let at = file.as_fd();
        (Producer::new(at, 0, OFFSETS, size).unwrap(), Consumer::new(at, 0, OFFSETS, size).unwrap())
    }

    #[test]
    fn what_is_pushed_is_seen_once_published_and_room_comes_back_once_released() {
        let (mut give, mut take) = ends::<u64>(4);
        for round in 0..10 {
            assert_eq!((give.room(), give.pending(), take.available()), (4, 0, 0));
            for n in 0..4 {
                give.push(round * 10 + n);
            }
            assert_eq!((give.room(), take.available()), (0, 0), "not published");
            give.publish();
            assert_eq!(take.available(), 4);
            for n in 0..3 {
                assert_eq!(take.pop(), round * 10 + n);
            }
            assert_eq!(give.room(), 0, "not released");
            take.release();
            assert_eq!((give.room(), give.pending()), (3, 1));
            assert_eq!(take.pop(), round * 10 + 3);
            take.release();
        }
    }

    #[test]
    fn indices_wrap_around_at_two_to_the_thirty_two() {
        let (mut give, mut take) = ends::<u64>(4);
        give.ring.producer().store(u32::MAX - 1, Ordering::Relaxed);
        give.ring.consumer().store(u32::MAX - 1, Ordering::Relaxed);
        (give.next, take.next) = (u32::MAX - 1, u32::MAX - 1);
        for n in 0..4 {
            give.push(n);
        }
        give.publish();
        assert_eq!((give.room(), take.available()), (0, 4));
        assert_eq!([take.pop(), take.pop(), take.pop(), take.pop()], [0, 1, 2, 3]);
        take.release();
        assert_eq!((give.room(), take.available()), (4, 0));
    }

    #[test]
    fn an_index_from_nowhere_never_makes_more_slots_than_there_are() {
        let (give, take) = ends::<u64>(4);
        give.ring.producer().store(1000, Ordering::Relaxed);
        assert_eq!(take.available(), 4);
        give.ring.consumer().store(2000, Ordering::Relaxed);
        assert_eq!((give.room(), give.pending()), (0, 4));
    }

    #[test]
    fn a_ring_described_outside_its_memory_is_refused() {
        let file = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4096).unwrap();
        let outside = XdpRingOffset { producer: 1 << 40, ..OFFSETS };
        assert!(Producer::<u64>::new(file.as_fd(), 0, outside, 4).is_err());
        let askew = XdpRingOffset { consumer: 65, ..OFFSETS };
        assert!(Consumer::<u64>::new(file.as_fd(), 0, askew, 4).is_err());
        assert!(Consumer::<u64>::new(file.as_fd(), 0, OFFSETS, 3).is_err(), "no power of two");
    }

    #[test]
    fn slots_pass_between_threads_whole() {
        let (mut give, mut take) = ends::<[u64; 2]>(64);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut next = 0;
                while next < 100_000 {
                    for _ in 0..give.room().min(7) {
                        give.push([next, !next]);
                        next += 1;
                    }
                    give.publish();
                }
            });
            let mut seen = 0;
            while seen < 100_000 {
                for _ in 0..take.available() {
                    assert_eq!(take.pop(), [seen, !seen]);
                    seen += 1;
                }
                take.release();
            }
        });
    }
}
