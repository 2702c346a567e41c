//! The sender: as many frames as its CPU can push, by an AF_XDP socket of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use dataplane::port::{
    Port,
    afxdp::{AfXdpPort, Attachment},
    umem::{Frame, Umem},
};

use super::{
    pin,
    world::{World, attached},
};
use crate::{
    error::BenchError,
    source::{Source, Traffic},
};

/// Chunks of its frame memory.
const CHUNKS: u32 = 2048;
/// Frames it gives its socket at once.
pub(super) const AT_ONCE: usize = 64;
/// Calls that wait for a socket to send what it has.
const PATIENCE: u32 = 1000;

/// Frames of a scenario and a socket to send them by.
#[derive(Debug)]
pub(super) struct Feeder {
    // Dropped first: no frame comes any more.
    attachment: Attachment,
    umem: Umem,
    port: AfXdpPort,
    source: Source,
    queue: Vec<Frame>,
}

impl Feeder {
    pub(super) fn new(world: &World, traffic: &Arc<Traffic>) -> Result<Self, BenchError> {
        let umem = Umem::new(CHUNKS)?;
        let (port, attachment) = attached(&world.start, "source", &umem.area(), 1)?;
        let source = Source::new(Arc::clone(traffic));
        Ok(Self { attachment, umem, port, source, queue: Vec::with_capacity(AT_ONCE) })
    }

    /// Gives the socket at most [`AT_ONCE`] frames: how many it took.
    fn give(&mut self) -> usize {
        while self.queue.len() < AT_ONCE && self.umem.free_chunks() > 0 {
            let room = AT_ONCE - self.queue.len();
            self.source.rx(&mut self.umem, &mut self.queue, room);
        }
        let waiting = self.queue.len();
        self.port.tx(&mut self.umem, &mut self.queue);
        waiting - self.queue.len()
    }

    /// Sends [`AT_ONCE`] frames and makes the kernel push them all out, unless it refuses for long.
    pub(super) fn send(&mut self) -> usize {
        let sent = self.give();
        let mut nothing = Vec::new();
        for _ in 0..PATIENCE {
            if !self.port.is_busy() {
                break;
            }
            self.port.tx(&mut self.umem, &mut nothing);
        }
        sent
    }

    pub(super) fn close(self) {
        drop(self.attachment);
        Box::new(self.port).close();
    }
}

/// A thread that sends until it is told to stop.
#[derive(Debug)]
pub(super) struct Sender {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    over: AtomicBool,
    sent: AtomicU64,
}

impl Sender {
    pub(super) fn start(world: &World, traffic: &Arc<Traffic>, core: usize) -> Result<Self, BenchError> {
        let mut feeder = Feeder::new(world, traffic)?;
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let send = move || {
            // A sender on any CPU is better than none; the figures show it.
            let _ = pin(core);
            while !seen.over.load(Ordering::Relaxed) {
                seen.sent.fetch_add(u64::try_from(feeder.give()).unwrap_or(0), Ordering::Relaxed);
            }
            feeder.close();
        };
        let thread = std::thread::Builder::new().name("sender".into()).spawn(send);
        Ok(Self { shared, thread: thread.map_err(BenchError::io("starting the sender"))? })
    }

    /// Frames its socket took so far.
    pub(super) fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    pub(super) fn stop(self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // A panic there was printed there; the figures stand without it.
        let _ = self.thread.join();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
