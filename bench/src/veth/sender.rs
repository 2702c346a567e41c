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
const AT_ONCE: usize = 64;

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
        let mut umem = Umem::new(CHUNKS)?;
        let (mut port, attachment) = attached(&world.start, "source", &umem.area(), 1)?;
        let mut source = Source::new(Arc::clone(traffic));
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let send = move || {
            // A sender on any CPU is better than none; the figures show it.
            let _ = pin(core);
            let mut queue: Vec<Frame> = Vec::with_capacity(AT_ONCE);
            while !seen.over.load(Ordering::Relaxed) {
                while queue.len() < AT_ONCE && umem.free_chunks() > 0 {
                    let room = AT_ONCE - queue.len();
                    source.rx(&mut umem, &mut queue, room);
                }
                let waiting = queue.len();
                port.tx(&mut umem, &mut queue);
                let taken = waiting - queue.len();
                seen.sent.fetch_add(u64::try_from(taken).unwrap_or(0), Ordering::Relaxed);
            }
            drop(attachment);
            Box::new(port).close();
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
