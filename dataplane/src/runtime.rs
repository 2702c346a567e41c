//! The worker's thread: the clock, the commands between passes, and sleep when nothing comes.
//!
//! Only this file reads a clock. Commands run on the worker's thread between two passes, so that nothing the worker owns is
//! ever shared; they are rare, and may allocate.

use std::{
    num::NonZeroU32,
    os::fd::{AsFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use flow_table::{
    hash::Seed,
    id::{NetworkId, PortId},
    pipeline::Pipeline,
    time::Instant,
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    thread::{CpuSet, sched_setaffinity},
};
use thiserror::Error;

use crate::{
    port::{
        Port, PortStatus,
        umem::{Borrower, Umem, UmemArea, UmemError},
    },
    report::{FdbReport, FlowReport, Report},
    worker::Worker,
};

/// How a worker waits for frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Poll {
    /// Polls while frames come, sleeps when none do.
    #[default]
    Adaptive,
    /// Never sleeps.
    Busy,
}

/// What a worker is made of.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Chunks of its UMEM, a power of two.
    pub chunks: u32,
    /// Flow entries it has room for.
    pub flows: u32,
    /// How it waits.
    pub poll: Poll,
    /// The CPU it is pinned to.
    pub core: Option<usize>,
    /// Entropy for its hashes.
    pub seed: u64,
}

/// Why a worker could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// Its memory.
    #[error(transparent)]
    Umem(#[from] UmemError),
    /// Its thread, or what wakes it.
    #[error("the worker's thread could not be started: {0}")]
    Thread(#[source] std::io::Error),
    /// The CPU it should run on.
    #[error("the worker can not be pinned to core {core}: {source}")]
    Core {
        /// As configured.
        core: usize,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// The worker's thread is gone: it panicked or was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the worker has stopped")]
pub struct Stopped;

/// Why a port was not attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AttachRefused {
    /// See [`Stopped`].
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// One is attached already.
    #[error("a port is attached already")]
    Exists,
    /// The policy in force has no such port.
    #[error("the policy has no such port")]
    Missing,
}

/// The handle of a worker's thread.
#[derive(Debug)]
pub struct Runtime {
    commands: SyncSender<Command>,
    wake: Arc<OwnedFd>,
    thread: JoinHandle<()>,
    area: UmemArea,
    borrowers: u32,
}

enum Command {
    Attach { id: PortId, port: Box<dyn Port>, mtu: u16, reply: SyncSender<Result<(), Box<dyn Port>>> },
    Detach { id: PortId, reply: SyncSender<Option<Box<dyn Port>>> },
    Reclaim(Borrower),
    Publish { policy: Arc<Pipeline>, reply: SyncSender<u64> },
    Report(SyncSender<Report>),
    Flows { limit: usize, reply: SyncSender<Vec<FlowReport>> },
    Fdb(SyncSender<Vec<FdbReport>>),
    FlushFdb { network: Option<NetworkId>, reply: SyncSender<u64> },
    Stop(SyncSender<Report>),
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Command")
    }
}

impl Runtime {
    /// Starts a worker with this policy and no ports.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(options: Options, policy: Arc<Pipeline>) -> Result<Self, StartError> {
        let umem = Umem::new(options.chunks)?;
        let area = umem.area();
        let wake =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| StartError::Thread(e.into()))?;
        let wake = Arc::new(wake);
        let (commands, queue) = sync_channel(64);
        let (started, result) = sync_channel(1);
        let thread_wake = Arc::clone(&wake);
        let run = move || {
            if let Some(core) = options.core
                && let Err(error) = pin(core)
            {
                // The starter waits for exactly one answer.
                let _ = started.send(Err(StartError::Core { core, source: error }));
                return;
            }
            let _ = started.send(Ok(()));
            let worker = Worker::new(policy, umem, options.flows, Seed::new(options.seed));
            let mut thread = Thread { worker, queue, wake: thread_wake, poll: options.poll, sleeps: 0 };
            if catch_unwind(AssertUnwindSafe(|| thread.run())).is_err() {
                tracing::error!("the worker panicked; no packet is moved any more");
            }
        };
        let thread = std::thread::Builder::new().name("sluice-worker".into()).spawn(run).map_err(StartError::Thread)?;
        match result.recv() {
            Ok(Ok(())) => Ok(Self { commands, wake, thread, area, borrowers: 0 }),
            Ok(Err(error)) => Err(error),
            Err(gone) => Err(StartError::Thread(std::io::Error::other(gone))),
        }
    }

    /// The frame memory, to register with sockets.
    #[must_use]
    pub fn area(&self) -> UmemArea {
        self.area.clone()
    }

    /// A name for a port's sockets, used by no other port that is attached. Comes round again after 2³² - 1.
    pub fn next_borrower(&mut self) -> Borrower {
        self.borrowers = self.borrowers.wrapping_add(1).max(1);
        Borrower(NonZeroU32::new(self.borrowers).unwrap_or(NonZeroU32::MIN))
    }

    /// Attaches a port.
    ///
    /// # Errors
    /// See [`AttachRefused`]; the port is closed then.
    pub fn attach(&self, id: PortId, port: Box<dyn Port>, mtu: u16) -> Result<(), AttachRefused> {
        let refused = self.ask(|reply| Command::Attach { id, port, mtu, reply })?;
        let Err(port) = refused else { return Ok(()) };
        let exists = self.report()?.ports.iter().any(|port| port.id == id && port.status.is_some());
        self.close(port)?;
        Err(if exists { AttachRefused::Exists } else { AttachRefused::Missing })
    }

    /// Detaches a port and closes it: its last status, `None` when none was attached.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn detach(&self, id: PortId) -> Result<Option<PortStatus>, Stopped> {
        let Some(port) = self.ask(|reply| Command::Detach { id, reply })? else { return Ok(None) };
        let last = port.status();
        self.close(port)?;
        Ok(Some(last))
    }

    fn close(&self, port: Box<dyn Port>) -> Result<(), Stopped> {
        match port.close() {
            Some(borrower) => self.send(Command::Reclaim(borrower)),
            None => Ok(()),
        }
    }

    /// Puts a policy in force, and returns its generation once the worker runs it.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn publish(&self, policy: Arc<Pipeline>) -> Result<u64, Stopped> {
        self.ask(|reply| Command::Publish { policy, reply })
    }

    /// Everything counted so far.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn report(&self) -> Result<Report, Stopped> {
        self.ask(Command::Report)
    }

    /// At most `limit` flow entries, the busiest first.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn flows(&self, limit: usize) -> Result<Vec<FlowReport>, Stopped> {
        self.ask(|reply| Command::Flows { limit, reply })
    }

    /// The forwarding database.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn fdb(&self) -> Result<Vec<FdbReport>, Stopped> {
        self.ask(Command::Fdb)
    }

    /// Forgets the learned stations of a network, or of all: how many.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn flush_fdb(&self, network: Option<NetworkId>) -> Result<u64, Stopped> {
        self.ask(|reply| Command::FlushFdb { network, reply })
    }

    /// Stops the worker and waits for its thread. `None` when it had stopped by itself.
    pub fn stop(self) -> Option<Report> {
        let report = self.ask(Command::Stop).ok();
        self.thread.join().ok()?;
        report
    }

    fn ask<T>(&self, command: impl FnOnce(SyncSender<T>) -> Command) -> Result<T, Stopped> {
        let (reply, answer) = sync_channel(1);
        self.send(command(reply))?;
        answer.recv().ok().ok_or(Stopped)
    }

    fn send(&self, command: Command) -> Result<(), Stopped> {
        self.commands.send(command).ok().ok_or(Stopped)?;
        // A full counter wakes just as well.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        Ok(())
    }
}

fn pin(core: usize) -> std::io::Result<()> {
    let mut cpus = CpuSet::new();
    if core >= CpuSet::MAX_CPU {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    cpus.set(core);
    sched_setaffinity(None, &cpus).map_err(Into::into)
}

/// Passes without a frame before the worker sleeps: some tens of microseconds.
const IDLE_PASSES: u32 = 256;
/// Longest sleep: expiry and aging go on.
const NAP: Duration = Duration::from_millis(100);

struct Thread {
    worker: Worker,
    queue: Receiver<Command>,
    wake: Arc<OwnedFd>,
    poll: Poll,
    sleeps: u64,
}

impl Thread {
    fn run(&mut self) {
        let clock = Clock::start();
        let mut idle = 0;
        loop {
            let received = self.worker.poll(clock.now());
            idle = if received > 0 || self.worker.is_busy() { 0 } else { idle + 1 };
            match self.queue.try_recv() {
                Ok(Command::Stop(reply)) => {
                    let _ = reply.send(self.report());
                    return;
                }
                Ok(command) => self.execute(command, clock.now()),
                Err(TryRecvError::Empty) if idle > IDLE_PASSES && self.poll == Poll::Adaptive => self.sleep(),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Waits for a frame, a command or the nap's end.
    #[cold]
    fn sleep(&mut self) {
        self.sleeps += 1;
        let mut waits: Vec<PollFd<'_>> =
            self.worker.readiness().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        waits.push(PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN));
        let nap = Timespec { tv_sec: 0, tv_nsec: i64::from(NAP.subsec_nanos()) };
        // Interrupted, or woken: either way there is a pass to make.
        let _ = poll(&mut waits, Some(&nap));
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
    }

    fn report(&self) -> Report {
        let mut report = self.worker.report();
        report.worker.sleeps = self.sleeps;
        report
    }

    /// Executes a command. Nobody waiting for the answer is no error.
    fn execute(&mut self, command: Command, now: Instant) {
        match command {
            Command::Attach { id, port, mtu, reply } => drop(reply.send(self.worker.attach(id, port, mtu))),
            Command::Detach { id, reply } => drop(reply.send(self.worker.detach(id))),
            Command::Reclaim(borrower) => self.worker.reclaim(borrower),
            Command::Publish { policy, reply } => drop(reply.send(self.worker.publish(policy))),
            Command::Report(reply) => drop(reply.send(self.report())),
            Command::Flows { limit, reply } => drop(reply.send(self.worker.flows(limit, now))),
            Command::Fdb(reply) => drop(reply.send(self.worker.fdb(now))),
            Command::FlushFdb { network, reply } => drop(reply.send(self.worker.flush_fdb(network))),
            Command::Stop(_) => {}
        }
    }
}

/// Monotonic time since the thread's start.
struct Clock(std::time::Instant);

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
impl Clock {
    fn start() -> Self {
        Self(std::time::Instant::now())
    }

    fn now(&self) -> Instant {
        let elapsed = std::time::Instant::now().saturating_duration_since(self.0);
        // From one second on, so that nothing at the start looks as if it had never happened.
        Instant::from_nanos(1_000_000_000) + elapsed
    }
}
