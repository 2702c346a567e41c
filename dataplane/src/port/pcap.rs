//! Capture files: reading pcap and pcapng, writing pcap, and a port between two of them.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use flow_table::time::Instant;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};
use thiserror::Error;

use super::{
    Port, PortMode, PortStatus,
    umem::{Borrower, Frame, MAX_FRAME_BYTES, Umem},
};

/// One frame of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When it was captured, since 1970.
    pub at: Instant,
    /// Its bytes, as far as they were captured.
    pub bytes: Vec<u8>,
}

/// Why a capture could not be read or written.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The file could not be opened, read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not pcap or pcapng, or cut off.
    #[error("{path}: not a pcap or pcapng file, or damaged: {why}")]
    Format {
        /// Which.
        path: PathBuf,
        /// What the reader said.
        why: String,
    },
    /// Not Ethernet.
    #[error("{path}: its frames are of link type {link}, not Ethernet (1)")]
    LinkType {
        /// Which.
        path: PathBuf,
        /// LINKTYPE number.
        link: i32,
    },
}

/// Reads every frame of a pcap or pcapng file, in the order of the file.
///
/// # Errors
/// See [`CaptureError`].
pub fn read(path: &Path) -> Result<Vec<Record>, CaptureError> {
    let file = File::open(path).map_err(|source| CaptureError::File { path: path.into(), source })?;
    let format = |why: String| CaptureError::Format { path: path.into(), why };
    let mut reader = create_reader(1 << 17, file).map_err(|error| format(error.to_string()))?;
    let mut decoder = Decoder { path, interfaces: Vec::new(), units: 1_000_000 };
    let mut records = Vec::new();
    loop {
        let consumed = match reader.next() {
            Ok((offset, block)) => {
                records.extend(decoder.decode(&block)?);
                Some(offset)
            }
            Err(PcapError::Eof) => return Ok(records),
            Err(PcapError::Incomplete(_)) => None,
            Err(error) => return Err(format(error.to_string())),
        };
        match consumed {
            Some(offset) => reader.consume(offset),
            None if reader.reader_exhausted() => return Err(format("it ends in the middle of a frame".into())),
            None => reader.refill().map_err(|error| format(error.to_string()))?,
        }
    }
}

/// What the blocks read so far say of those to come.
struct Decoder<'a> {
    path: &'a Path,
    /// Timestamp units a second, and seconds to add, of each pcapng interface.
    interfaces: Vec<(u64, u64)>,
    /// Timestamp units a second of a pcap file.
    units: u64,
}

impl Decoder<'_> {
    fn decode(&mut self, block: &PcapBlockOwned<'_>) -> Result<Option<Record>, CaptureError> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.check_link(header.network.0)?;
                self.units = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                Ok(None)
            }
            PcapBlockOwned::Legacy(frame) => {
                let at = instant(u64::from(frame.ts_sec), u64::from(frame.ts_usec), self.units);
                Ok(Some(Record { at, bytes: frame.data.to_vec() }))
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                Ok(None)
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                self.check_link(interface.linktype.0)?;
                let units = interface.ts_resolution().unwrap_or(1_000_000);
                self.interfaces.push((units, u64::try_from(interface.ts_offset()).unwrap_or(0)));
                Ok(None)
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let interface = self.interfaces.get(flow_table::idx(u64::from(packet.if_id)));
                let (units, offset) = interface.copied().unwrap_or((1_000_000, 0));
                let ticks = (u64::from(packet.ts_high) << 32) | u64::from(packet.ts_low);
                let whole = ticks.checked_div(units).unwrap_or(0);
                let at = instant(whole.saturating_add(offset), ticks - whole * units, units);
                let length = flow_table::idx(u64::from(packet.caplen)).min(packet.data.len());
                Ok(packet.data.get(..length).map(|data| Record { at, bytes: data.to_vec() }))
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                Ok(Some(Record { at: Instant::default(), bytes: packet.data.to_vec() }))
            }
            PcapBlockOwned::NG(_) => Ok(None),
        }
    }

    fn check_link(&self, link: i32) -> Result<(), CaptureError> {
        if link == 1 { Ok(()) } else { Err(CaptureError::LinkType { path: self.path.into(), link }) }
    }
}

fn instant(seconds: u64, fraction: u64, units: u64) -> Instant {
    let nanos = u128::from(fraction) * 1_000_000_000 / u128::from(units.max(1));
    let total = u128::from(seconds) * 1_000_000_000 + nanos;
    Instant::from_nanos(u64::try_from(total).unwrap_or(u64::MAX))
}

/// Writes a pcap file with nanosecond timestamps, link type Ethernet, little-endian.
#[derive(Debug)]
pub struct CaptureWriter {
    path: PathBuf,
    out: BufWriter<File>,
    frames: u64,
    failed: Option<io::Error>,
}

impl CaptureWriter {
    /// Creates the file, replacing one that is there.
    ///
    /// # Errors
    /// [`CaptureError::File`].
    pub fn create(path: &Path) -> Result<Self, CaptureError> {
        let file_error = |source| CaptureError::File { path: path.into(), source };
        let mut out = BufWriter::new(File::create(path).map_err(file_error)?);
        let mut header = Vec::with_capacity(24);
        for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
            header.extend_from_slice(&word.to_le_bytes());
        }
        out.write_all(&header).map_err(file_error)?;
        Ok(Self { path: path.into(), out, frames: 0, failed: None })
    }

    /// Appends a frame. A failure is told by [`finish`](Self::finish).
    pub fn write(&mut self, at: Instant, frame: &[u8]) {
        let nanos = at.as_nanos();
        let seconds = u32::try_from(nanos / 1_000_000_000).unwrap_or(u32::MAX);
        let fraction = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let mut record = Vec::with_capacity(16 + frame.len());
        for word in [seconds, fraction, length, length] {
            record.extend_from_slice(&word.to_le_bytes());
        }
        record.extend_from_slice(frame);
        if let Err(error) = self.out.write_all(&record) {
            self.failed.get_or_insert(error);
        }
        self.frames += 1;
    }

    /// Frames written.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// [`CaptureError::File`], also for an earlier write.
    pub fn finish(mut self) -> Result<(), CaptureError> {
        let flushed = self.out.flush();
        match self.failed.map_or(flushed, Err) {
            Ok(()) => Ok(()),
            Err(source) => Err(CaptureError::File { path: self.path, source }),
        }
    }
}

/// A port that receives a capture's frames as they are released, and writes what it is given.
#[derive(Debug)]
pub struct PcapPort {
    frames: std::vec::IntoIter<Vec<u8>>,
    shared: Arc<Shared>,
    taken: usize,
    out: Option<CaptureWriter>,
}

#[derive(Debug, Default)]
struct Shared {
    released: AtomicUsize,
    clock: AtomicU64,
    written: AtomicU64,
    ended: std::sync::OnceLock<Result<(), CaptureError>>,
}

/// Releases a [`PcapPort`]'s frames one by one, and sees how many it wrote.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Shared>);

impl PcapPort {
    /// A port that receives `frames`, none of them released yet, and writes to `out`.
    #[must_use]
    pub fn new(frames: Vec<Vec<u8>>, out: CaptureWriter) -> (Self, Gate) {
        let shared = Arc::new(Shared::default());
        let port = Self { frames: frames.into_iter(), shared: Arc::clone(&shared), taken: 0, out: Some(out) };
        (port, Gate(shared))
    }
}

impl Gate {
    /// Lets the port receive one more frame.
    pub fn release(&self) {
        self.0.released.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the time at which frames are written.
    pub fn set_clock(&self, now: Instant) {
        self.0.clock.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// How many frames the port has written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    /// How writing ended, once the port is closed.
    ///
    /// # Errors
    /// [`CaptureError::File`] when the file could not be written.
    pub fn into_result(self) -> Result<(), CaptureError> {
        Arc::into_inner(self.0).and_then(|shared| shared.ended.into_inner()).unwrap_or(Ok(()))
    }
}

impl Port for PcapPort {
    fn rx(&mut self, umem: &mut Umem, into: &mut Vec<Frame>, room: usize) {
        let released = self.shared.released.load(Ordering::Relaxed);
        for _ in 0..room.min(released - self.taken).min(umem.free_chunks()) {
            let Some(bytes) = self.frames.next() else { break };
            self.taken += 1;
            debug_assert!(bytes.len() <= MAX_FRAME_BYTES, "longer frames are not given to the port");
            into.extend(umem.copy_in(&bytes));
        }
    }

    fn tx(&mut self, umem: &mut Umem, queue: &mut Vec<Frame>) {
        let now = Instant::from_nanos(self.shared.clock.load(Ordering::Relaxed));
        for frame in queue.drain(..) {
            if let Some(out) = &mut self.out {
                out.write(now, umem.bytes(&frame));
                self.shared.written.store(out.frames(), Ordering::Relaxed);
            }
            umem.discard(frame);
        }
    }

    fn status(&self) -> PortStatus {
        PortStatus { mode: PortMode::Pcap, queues: 1, ..PortStatus::default() }
    }

    fn close(mut self: Box<Self>) -> Option<Borrower> {
        if let Some(out) = self.out.take() {
            // Set once: a port closes once.
            let _ = self.shared.ended.set(out.finish());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_to_the_nanosecond() {
        let path = std::env::temp_dir().join(format!("sluice-pcap-{}.pcap", std::process::id()));
        let records: Vec<Record> = (0_u8..5)
            .map(|n| Record {
                at: Instant::from_nanos(1_700_000_000_123_456_789 + u64::from(n)),
                bytes: vec![n; 60 + usize::from(n)],
            })
            .collect();
        let mut writer = CaptureWriter::create(&path).unwrap();
        for record in &records {
            writer.write(record.at, &record.bytes);
        }
        writer.finish().unwrap();
        assert_eq!(read(&path).unwrap(), records);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(matches!(read(&path), Err(CaptureError::Format { .. })), "a file that is cut off");
        std::fs::write(&path, b"no capture at all, not by any reading of it").unwrap();
        assert!(matches!(read(&path), Err(CaptureError::Format { .. })));
        std::fs::remove_file(&path).unwrap();
    }
}
