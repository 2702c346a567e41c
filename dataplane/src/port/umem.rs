//! UMEM: one memory area of fixed-size chunks, each holding one frame.
//!
//! The law: a chunk has exactly one holder — the free pool, a [`Frame`] somewhere in this worker, or the kernel (lent to a
//! socket's rings). A [`FrameId`] is neither `Copy` nor `Clone`; lending consumes it and only [`Umem::reclaim`] of a chunk
//! that was lent makes it again. So `free + lent + in flight == chunks`, always.

use std::{fmt, num::NonZeroU32, ptr::NonNull, sync::Arc};

use flow_table::idx;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use thiserror::Error;

/// Bytes in a chunk: a page, the most the kernel takes in aligned mode.
pub const CHUNK_BYTES: usize = 4096;
/// Free bytes before a received frame: the kernel's XDP headroom (`XDP_PACKET_HEADROOM`). Headers pushed go here.
pub const HEADROOM_BYTES: usize = 256;
/// The longest frame a chunk holds, from the destination MAC on, without FCS.
pub const MAX_FRAME_BYTES: usize = CHUNK_BYTES - HEADROOM_BYTES;

/// The right to use one chunk. Owned: not `Copy`, not `Clone`.
#[derive(Debug, PartialEq, Eq)]
pub struct FrameId(u32);

/// One Ethernet frame, in a chunk.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    id: FrameId,
    start: u16,
    len: u16,
}

impl Frame {
    /// Length in bytes, without FCS.
    #[inline]
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a frame's length is a number to compare, emptiness has no meaning of its own"
    )]
    pub const fn len(&self) -> usize {
        self.len as usize
    }
}

/// Names the socket a chunk is lent to, within one UMEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Borrower(pub NonZeroU32);

/// Why a UMEM could not be made.
#[derive(Debug, Error)]
pub enum UmemError {
    /// The count is zero, not a power of two, or more than 2^20.
    #[error("a UMEM has a power of two of chunks, at most 1048576, not {0}")]
    Chunks(u32),
    /// The memory could not be had.
    #[error("no memory for a UMEM of {bytes} bytes")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// What the kernel said.
        source: rustix::io::Errno,
    },
}

/// The mapped memory itself: unmapped when the UMEM and every [`UmemArea`] of it are gone.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping may be unmapped by any thread, and sharing it gives no access to its bytes.
#[expect(unsafe_code, reason = "the mapping is owned, and this type never reaches into it")]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "the mapping is owned, and this type never reaches into it")]
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    #[expect(unsafe_code, reason = "unmaps the area")]
    fn drop(&mut self) {
        // SAFETY: mapped by `Umem::new` with this length; every slice into it borrowed the `Umem`, which is gone. Sockets
        // hold their own reference to the pages.
        if let Err(error) = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) } {
            tracing::error!(%error, "the UMEM could not be unmapped");
        }
    }
}

/// The right to register a UMEM's memory with a socket. It keeps the memory mapped, and gives no access to it.
#[derive(Clone)]
pub struct UmemArea(Arc<Mapping>);

impl UmemArea {
    /// Address of the area. It does not move.
    #[must_use]
    pub fn address(&self) -> NonNull<u8> {
        self.0.base
    }

    /// Length in bytes: a whole number of chunks.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Whether this is the area of `umem`.
    #[inline]
    #[must_use]
    pub fn is_of(&self, umem: &Umem) -> bool {
        Arc::ptr_eq(&self.0, &umem.mapping)
    }
}

impl fmt::Debug for UmemArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UmemArea").field("bytes", &self.0.bytes).finish_non_exhaustive()
    }
}

/// A worker's frame memory.
pub struct Umem {
    base: NonNull<u8>,
    mapping: Arc<Mapping>,
    chunks: u32,
    free: Vec<FrameId>,
    /// Who holds each chunk that is in the kernel.
    lent: Box<[Option<Borrower>]>,
    lent_count: u32,
}

// SAFETY: the area is owned by this value alone; `base` is only dereferenced through `&self` and `&mut self`.
#[expect(unsafe_code, reason = "the mapped area is reached by pointer, and is owned")]
unsafe impl Send for Umem {}

impl fmt::Debug for Umem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Umem")
            .field("chunks", &self.chunks)
            .field("free", &self.free.len())
            .field("lent", &self.lent_count)
            .finish_non_exhaustive()
    }
}

impl Umem {
    /// Maps an area of `chunks` chunks, all free. The pages are touched when first used or registered with a socket.
    ///
    /// # Errors
    /// [`UmemError::Chunks`] for a count out of range, [`UmemError::Memory`] when the map fails.
    #[expect(unsafe_code, reason = "maps the area")]
    pub fn new(chunks: u32) -> Result<Self, UmemError> {
        if !chunks.is_power_of_two() || chunks > 1 << 20 {
            return Err(UmemError::Chunks(chunks));
        }
        let bytes = idx(u64::from(chunks)) * CHUNK_BYTES;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choosing touches no existing memory.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }
            .map_err(|source| UmemError::Memory { bytes, source })?;
        let base =
            NonNull::new(base.cast::<u8>()).ok_or(UmemError::Memory { bytes, source: rustix::io::Errno::NOMEM })?;
        Ok(Self {
            base,
            mapping: Arc::new(Mapping { base, bytes }),
            chunks,
            free: (0..chunks).rev().map(FrameId).collect(),
            lent: vec![None; idx(u64::from(chunks))].into(),
            lent_count: 0,
        })
    }

    /// Chunks in all.
    #[must_use]
    pub const fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Chunks nobody holds.
    #[must_use]
    pub fn free_chunks(&self) -> usize {
        self.free.len()
    }

    /// Chunks in the rings of sockets.
    #[must_use]
    pub const fn lent_chunks(&self) -> u32 {
        self.lent_count
    }

    /// The area, for registration with a socket, by any thread.
    #[must_use]
    pub fn area(&self) -> UmemArea {
        UmemArea(Arc::clone(&self.mapping))
    }

    /// Takes a chunk from the free pool.
    #[inline]
    pub fn alloc(&mut self) -> Option<FrameId> {
        self.free.pop()
    }

    /// Gives a chunk back to the free pool.
    #[inline]
    pub fn release(&mut self, id: FrameId) {
        // Never grows: the pool was made with room for every chunk, and each exists once.
        self.free.push(id);
    }

    /// Gives a frame's chunk back to the free pool.
    #[inline]
    pub fn discard(&mut self, frame: Frame) {
        self.release(frame.id);
    }

    /// An empty frame in a free chunk, with the usual headroom before it.
    #[inline]
    pub fn alloc_frame(&mut self) -> Option<Frame> {
        #[expect(clippy::cast_possible_truncation, reason = "256")]
        self.alloc().map(|id| Frame { id, start: HEADROOM_BYTES as u16, len: 0 })
    }

    /// A frame holding a copy of `bytes`, `None` when no chunk is free or `bytes` is longer than [`MAX_FRAME_BYTES`].
    pub fn copy_in(&mut self, bytes: &[u8]) -> Option<Frame> {
        if bytes.len() > MAX_FRAME_BYTES {
            return None;
        }
        let mut frame = self.alloc_frame()?;
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_FRAME_BYTES")]
        {
            frame.len = bytes.len() as u16;
        }
        self.bytes_mut(&mut frame).copy_from_slice(bytes);
        Some(frame)
    }

    /// A copy of a frame, at the same place in another chunk; `None` when no chunk is free.
    #[expect(unsafe_code, reason = "copies within the mapped area")]
    pub fn duplicate(&mut self, frame: &Frame) -> Option<Frame> {
        let mut copy = Frame { id: self.alloc()?, start: frame.start, len: frame.len };
        let from = self.bytes(frame).as_ptr();
        let to = self.bytes_mut(&mut copy).as_mut_ptr();
        // SAFETY: two chunks of this area, each held by its own frame, so they do not overlap; both slices are `len` long.
        unsafe { std::ptr::copy_nonoverlapping(from, to, frame.len()) };
        Some(copy)
    }

    /// The frame's bytes.
    #[inline]
    #[must_use]
    #[expect(unsafe_code, reason = "reads the mapped area")]
    pub fn bytes(&self, frame: &Frame) -> &[u8] {
        let at = self.offset(frame);
        // SAFETY: `offset` is inside the area, which lives as long as `self`.
        let start = unsafe { self.base.as_ptr().add(at) };
        // SAFETY: start + len stays inside the frame's chunk (the `Frame` law), and the frame's owner is the only holder of
        // the chunk, so nobody writes it while `&Frame` is borrowed.
        unsafe { std::slice::from_raw_parts(start, frame.len()) }
    }

    /// The frame's bytes, to change.
    #[inline]
    #[must_use]
    #[expect(unsafe_code, reason = "writes the mapped area")]
    pub fn bytes_mut(&mut self, frame: &mut Frame) -> &mut [u8] {
        let at = self.offset(frame);
        // SAFETY: `offset` is inside the area, which lives as long as `self`.
        let start = unsafe { self.base.as_ptr().add(at) };
        // SAFETY: as in `bytes`; `&mut Frame` and `&mut self` make this the only reference into the chunk.
        unsafe { std::slice::from_raw_parts_mut(start, frame.len()) }
    }

    /// Moves the frame's start by `front` bytes towards the chunk's start (negative: away from it), keeping its end.
    ///
    /// False, and nothing changed, when the start would leave the chunk or pass the end.
    #[inline]
    #[must_use]
    pub fn grow_front(&self, frame: &mut Frame, front: i16) -> bool {
        let start = i32::from(frame.start) - i32::from(front);
        let len = i32::from(frame.len) + i32::from(front);
        match (u16::try_from(start), u16::try_from(len)) {
            (Ok(start), Ok(len)) => {
                frame.start = start;
                frame.len = len;
                true
            }
            _ => false,
        }
    }

    /// Sets the frame's length, keeping its start. False, and nothing changed, when it would leave the chunk.
    #[inline]
    #[must_use]
    pub fn set_len(&self, frame: &mut Frame, len: usize) -> bool {
        match u16::try_from(len) {
            Ok(new) if usize::from(frame.start) + len <= CHUNK_BYTES => {
                frame.len = new;
                true
            }
            _ => false,
        }
    }

    /// Gives a frame to the kernel: its address in the area and its length, for a TX descriptor.
    #[inline]
    pub fn lend_frame(&mut self, frame: Frame, to: Borrower) -> (u64, u32) {
        let at = self.offset(&frame);
        let len = u32::from(frame.len);
        self.lend(frame.id, to);
        (u64::try_from(at).unwrap_or(u64::MAX), len)
    }

    /// Gives a chunk to the kernel: its address in the area, for a fill ring.
    #[inline]
    pub fn lend(&mut self, id: FrameId, to: Borrower) -> u64 {
        let FrameId(index) = id;
        if let Some(slot) = self.lent.get_mut(idx(u64::from(index))) {
            *slot = Some(to);
            self.lent_count += 1;
        }
        u64::from(index) * const { CHUNK_BYTES as u64 }
    }

    /// Takes a chunk back from the kernel: `address` is any address inside it.
    ///
    /// `None` when that chunk was not lent to `from`: the kernel named a chunk it does not hold, and nothing is made of it.
    #[inline]
    pub fn reclaim(&mut self, address: u64, from: Borrower) -> Option<FrameId> {
        let index = address / const { CHUNK_BYTES as u64 };
        let slot = self.lent.get_mut(idx(index))?;
        if *slot != Some(from) {
            return None;
        }
        *slot = None;
        self.lent_count -= 1;
        u32::try_from(index).ok().map(FrameId)
    }

    /// Takes a received frame back from the kernel, as an RX descriptor names it.
    ///
    /// A descriptor that reaches outside its chunk gives the chunk alone back, as `Err(Some(_))`; one of a chunk that is not
    /// lent, `Err(None)`.
    ///
    /// # Errors
    /// As above: the frame is not to be read.
    #[inline]
    pub fn reclaim_frame(&mut self, address: u64, len: u32, from: Borrower) -> Result<Frame, Option<FrameId>> {
        let id = self.reclaim(address, from).ok_or(None)?;
        let start = address % const { CHUNK_BYTES as u64 };
        match (u16::try_from(start), u16::try_from(len)) {
            (Ok(first), Ok(short)) if start + u64::from(len) <= const { CHUNK_BYTES as u64 } => {
                Ok(Frame { id, start: first, len: short })
            }
            _ => Err(Some(id)),
        }
    }

    /// Takes back every chunk lent to `from`, whose socket is closed, into the free pool. O(chunks).
    pub fn reclaim_all(&mut self, from: Borrower) -> u32 {
        let mut count = 0;
        for (index, slot) in (0..self.chunks).zip(self.lent.iter_mut()) {
            if *slot == Some(from) {
                *slot = None;
                self.free.push(FrameId(index));
                count += 1;
            }
        }
        self.lent_count -= count;
        count
    }

    #[inline]
    fn offset(&self, frame: &Frame) -> usize {
        idx(u64::from(frame.id.0)) * CHUNK_BYTES + usize::from(frame.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn borrower(n: u32) -> Borrower {
        Borrower(NonZeroU32::new(n).unwrap())
    }

    #[test]
    fn a_chunk_comes_back_only_from_the_socket_it_was_lent_to() {
        let mut umem = Umem::new(4).unwrap();
        let id = umem.alloc().unwrap();
        let address = umem.lend(id, borrower(1));
        assert_eq!(umem.reclaim(address, borrower(2)), None);
        assert_eq!(umem.reclaim(address + 4096 * 9, borrower(1)), None);
        let id = umem.reclaim(address + 300, borrower(1)).unwrap();
        assert_eq!(umem.reclaim(address, borrower(1)), None, "only once");
        umem.release(id);
        assert_eq!((umem.free_chunks(), umem.lent_chunks()), (4, 0));
    }

    #[test]
    fn a_descriptor_that_leaves_its_chunk_is_not_a_frame() {
        let mut umem = Umem::new(2).unwrap();
        let id = umem.alloc().unwrap();
        let address = umem.lend(id, borrower(1));
        let chunk = umem.reclaim_frame(address + 256, 3841, borrower(1)).unwrap_err().unwrap();
        let address = umem.lend(chunk, borrower(1));
        assert_eq!(umem.reclaim_frame(address + 256, 3840, borrower(1)).unwrap().len(), 3840);
    }

    #[test]
    fn a_frame_grows_into_its_headroom_and_no_further() {
        let mut umem = Umem::new(1).unwrap();
        let mut frame = umem.copy_in(&[1, 2, 3]).unwrap();
        assert!(umem.grow_front(&mut frame, 256));
        assert!(!umem.grow_front(&mut frame, 1));
        assert_eq!(umem.bytes(&frame)[256..], [1, 2, 3]);
        assert!(umem.grow_front(&mut frame, -257));
        assert_eq!(umem.bytes(&frame), [2, 3]);
        assert!(!umem.grow_front(&mut frame, -3));
        assert!(umem.set_len(&mut frame, MAX_FRAME_BYTES - 1) && !umem.set_len(&mut frame, MAX_FRAME_BYTES));
    }

    #[test]
    fn a_closed_sockets_chunks_all_come_back() {
        let mut umem = Umem::new(8).unwrap();
        for n in 0..6 {
            let id = umem.alloc().unwrap();
            umem.lend(id, borrower(1 + n % 2));
        }
        assert_eq!(umem.reclaim_all(borrower(1)), 3);
        assert_eq!((umem.free_chunks(), umem.lent_chunks()), (5, 3));
    }

    #[test]
    fn counts_that_are_no_power_of_two_are_refused() {
        assert!(matches!(Umem::new(0), Err(UmemError::Chunks(0))));
        assert!(matches!(Umem::new(3000), Err(UmemError::Chunks(3000))));
    }
}
