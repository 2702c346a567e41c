//! Attaching a device: everything is checked first, then made in the order that leaves no moment in which a frame is lost to
//! the host, and undone by dropping when a step fails.

use std::{
    io,
    net::IpAddr,
    os::fd::{AsFd, OwnedFd},
};

use aya::EbpfError;
use ebpf_layout::steer;
use flow_table::mac::MacAddr;
use rustix::{event::epoll, io::Errno};

use super::{
    AfXdpPort, AttachError,
    error::{kernel, privilege, program_refused},
    socket::{Copying, Direction, Place, Socket, Step},
    steering::{OwnedError, Steering, SteeringCounters},
};
use crate::{
    port::{
        PortMode, Quota,
        umem::{Borrower, MAX_FRAME_BYTES, UmemArea},
    },
    sys::{
        bpf::{XdpHook, attach_xdp, program_name},
        limits,
        link::{self, LinkFacts},
        promiscuous::Promiscuous,
    },
};

/// The largest MTU whose frames fit a chunk: without the Ethernet header (14 bytes) and one VLAN tag (4).
pub const MAX_MTU: u32 = {
    assert!(MAX_FRAME_BYTES == 3840);
    3840 - 14 - 4
};
/// The smallest ring.
pub const MIN_RING: u32 = 64;
/// The largest ring.
pub const MAX_RING: u32 = 32768;

/// Slots of a ring when nothing else is wanted: a few milliseconds of a full-rate flood in copy mode.
pub const DEFAULT_RING: u32 = 2048;

/// How to attach a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Its name, in the calling thread's network namespace.
    pub device: String,
    /// How many receive queues it has, `None` to take whatever it has. Another number than it has is refused.
    pub queues: Option<u16>,
    /// Slots of each ring of each queue: a power of two from [`MIN_RING`] to [`MAX_RING`].
    pub ring: u32,
    /// Whose the frames are.
    pub steer: Steer,
    /// Receive frames to every address, not the device's alone; ends with the [`Attachment`] or the process.
    pub promiscuous: bool,
    /// How frames are to reach the port.
    pub mode: Mode,
}

impl Options {
    /// All queues of a device in its best mode, with rings of [`DEFAULT_RING`] and no promiscuous mode.
    pub fn new(device: impl Into<String>, steer: Steer) -> Self {
        Self { device: device.into(), queues: None, ring: DEFAULT_RING, steer, promiscuous: false, mode: Mode::Best }
    }
}

/// Which frames of a device are the switch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steer {
    /// Every frame; the host sees none.
    All,
    /// Those to addresses given to [`Attachment::set_owned`]; the host's stack sees the others.
    Owned,
}

/// How frames are to reach a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Zero-copy; if the device can not, copy; if its driver has no XDP, generic.
    #[default]
    Best,
    /// As [`Best`](Self::Best), but never zero-copy.
    Copy,
    /// Generic, whatever the driver can.
    Generic,
}

/// Control's half of an AF_XDP port: the program on the device. Dropping it detaches; so does the death of the process.
#[derive(Debug)]
pub struct Attachment {
    // Dropped in this order: no frame comes any more, then the program and its maps go.
    _link: OwnedFd,
    steering: Steering,
    _promiscuous: Option<Promiscuous>,
    device: String,
    facts: LinkFacts,
    mode: PortMode,
    notes: Vec<String>,
}

impl Attachment {
    /// The device as it was when it was attached: index, MTU, address, queues.
    #[must_use]
    pub const fn facts(&self) -> &LinkFacts {
        &self.facts
    }

    /// Whether the device of that name, in the calling thread's network namespace, is still the one attached and still runs
    /// our program. False once it was deleted, moved, renamed, or detached by force; the port is then to be closed.
    ///
    /// # Errors
    /// Those of asking the kernel.
    pub fn is_in_place(&self) -> io::Result<bool> {
        let program = self.steering.program_id().map_err(io::Error::other)?;
        let now = link::facts(&self.device)?;
        Ok(now.is_some_and(|now| now.ifindex == self.facts.ifindex && now.xdp_program == Some(program)))
    }

    /// The kernel's number of our program, `None` when it does not say.
    #[must_use]
    pub fn program_id(&self) -> Option<u32> {
        self.steering.program_id().ok()
    }

    /// How frames reach the port.
    #[must_use]
    pub const fn mode(&self) -> PortMode {
        self.mode
    }

    /// What the operator should know: why a faster mode was not had, and what the device does to frames first. A sentence each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Makes exactly these addresses the switch's, for [`Steer::Owned`]. Nobody's frames are affected but theirs.
    ///
    /// # Errors
    /// [`OwnedError::TooMany`], and nothing changed, when the new and the leaving ones do not fit together;
    /// [`OwnedError::Map`] when the kernel refuses.
    pub fn set_owned(&mut self, macs: &[MacAddr], addresses: &[IpAddr]) -> Result<(), OwnedError> {
        self.steering.set_owned(macs, addresses)
    }

    /// What the steering program counted.
    ///
    /// # Errors
    /// The kernel's, in reading the map.
    pub fn counters(&self) -> Result<SteeringCounters, aya::maps::MapError> {
        self.steering.counters()
    }
}

/// Attaches a device: opens a socket for each of its receive queues over `area`, and puts the steering program on it by a link.
///
/// Blocks for some milliseconds, or up to three seconds when a queue is still busy with a socket that was closed. Chunks will
/// be lent to `borrower`, one name for all queues, which must not be in use in that UMEM.
///
/// # Errors
/// As [`AttachError`] says; nothing is left behind.
pub fn attach(options: &Options, area: &UmemArea, borrower: Borrower) -> Result<(AfXdpPort, Attachment), AttachError> {
    let (facts, queues) = checked(options, &[])?;
    let mode = match options.steer {
        Steer::All => &steer::TAKE_ALL,
        Steer::Owned => &steer::TAKE_OWNED,
    };
    let steering = Steering::load(mode).map_err(|error| program_refused(&options.device, error))?;
    let mut work = Work { options, area, facts, queues, steering, notes: Vec::new() };
    let (sockets, link, mode) = work.open_and_link()?;
    let promiscuous = if options.promiscuous {
        let on = Promiscuous::on(facts.ifindex);
        Some(on.map_err(|error| work.kernel("asking for promiscuous mode", error))?)
    } else {
        None
    };
    let epoll = watch(&sockets).map_err(|error| work.kernel("watching several queues", error.into()))?;
    let Work { steering, mut notes, .. } = work;
    notes.extend(vlan_note(&options.device, &facts));
    let port =
        AfXdpPort { sockets, first: 0, epoll, area: area.clone(), borrower, mode, quota: Quota::most(options.ring) };
    let device = options.device.clone();
    Ok((port, Attachment { _link: link, steering, _promiscuous: promiscuous, device, facts, mode, notes }))
}

/// Whether [`attach`] would refuse, as far as can be told before anything is made: the device's facts when it would not. The
/// programs in `ours` count as none: they leave before the port comes.
///
/// # Errors
/// As [`attach`]'s.
pub fn check(options: &Options, ours: &[u32]) -> Result<LinkFacts, AttachError> {
    checked(options, ours).map(|(facts, _)| facts)
}

fn checked(options: &Options, ours: &[u32]) -> Result<(LinkFacts, u16), AttachError> {
    let Options { device, queues, ring, .. } = options;
    if !ring.is_power_of_two() || !(MIN_RING..=MAX_RING).contains(ring) {
        return Err(AttachError::Ring { ring: *ring });
    }
    let facts = facts_of(device)?;
    if !facts.up {
        return Err(AttachError::Down { device: device.clone() });
    }
    if facts.mtu > MAX_MTU {
        return Err(AttachError::Mtu { device: device.clone(), mtu: facts.mtu });
    }
    if facts.xdp_program.is_none_or(|program| !ours.contains(&program)) {
        refuse_foreign(device, &facts)?;
    }
    let has = facts.rx_queues;
    match (u16::try_from(has), queues) {
        (_, Some(asked)) if u32::from(*asked) != has => {
            Err(AttachError::Queues { device: device.clone(), asked: *asked, has })
        }
        (Ok(count), _) if has <= steer::MAX_QUEUES => Ok((facts, count)),
        _ => Err(AttachError::TooManyQueues { device: device.clone(), has }),
    }
}

/// Who takes VLAN tags off frames before the steering program runs, and how to stop it.
fn vlan_note(device: &str, facts: &LinkFacts) -> Option<String> {
    if facts.is_veth {
        // Measured: what the peer's kernel tags, it tags beside the frame, and the tag is gone at XDP; only the peer's own
        // setting puts it in the frame.
        Some(format!(
            "{device} is a veth: VLAN tags that its peer's kernel puts on frames are lost unless the peer has txvlan off \
             (ethtool -K PEER txvlan off)"
        ))
    } else if facts.rx_vlan_offload == Some(true) {
        Some(format!(
            "{device} may take VLAN tags off received frames before the switch sees them: ethtool -K {device} rxvlan off"
        ))
    } else {
        None
    }
}

fn facts_of(device: &str) -> Result<LinkFacts, AttachError> {
    link::facts(device)
        .map_err(|error| kernel(device, "asking about the device", error))?
        .ok_or_else(|| AttachError::NoSuchDevice { device: device.to_owned() })
}

fn refuse_foreign(device: &str, facts: &LinkFacts) -> Result<(), AttachError> {
    let Some(id) = facts.xdp_program else { return Ok(()) };
    let name = program_name(id).unwrap_or_else(|| "without a name".to_owned());
    Err(AttachError::ForeignProgram { device: device.to_owned(), name, id })
}

/// An epoll instance that is readable when any of several sockets is.
fn watch(sockets: &[Socket]) -> Result<Option<OwnedFd>, Errno> {
    if sockets.len() < 2 {
        return Ok(None);
    }
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for socket in sockets {
        epoll::add(&epoll, socket.fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    }
    Ok(Some(epoll))
}

/// What is being made.
struct Work<'a> {
    options: &'a Options,
    area: &'a UmemArea,
    facts: LinkFacts,
    queues: u16,
    steering: Steering,
    notes: Vec<String>,
}

impl Work<'_> {
    /// Tries the modes from the best down.
    fn open_and_link(&mut self) -> Result<(Vec<Socket>, OwnedFd, PortMode), AttachError> {
        if self.options.mode == Mode::Best
            && let Some(sockets) = self.open_zero_copy()?
        {
            match self.link(XdpHook::Native)? {
                Ok(link) => return Ok((sockets, link, PortMode::ZeroCopy)),
                Err(error) => self.note("zero-copy", &error),
            }
        }
        let sockets = self.open_all(Copying::ByKernel).map_err(|failure| self.explain(failure))?;
        if self.options.mode != Mode::Generic {
            match self.link(XdpHook::Native)? {
                Ok(link) => return Ok((sockets, link, PortMode::Copy)),
                Err(error) => self.note("native XDP", &error),
            }
        }
        match self.link(XdpHook::Generic)? {
            Ok(link) => Ok((sockets, link, PortMode::Generic)),
            Err(error) => Err(self.kernel("attaching the steering program", error)),
        }
    }

    /// `None`, with a note, when the device can not do it.
    fn open_zero_copy(&mut self) -> Result<Option<Vec<Socket>>, AttachError> {
        match self.open_all(Copying::ByDevice) {
            Ok(sockets) => Ok(Some(sockets)),
            Err((queue, Step::Bind, errno)) if !matches!(errno, Errno::BUSY | Errno::PERM | Errno::NETDOWN) => {
                tracing::debug!(device = %self.options.device, queue, %errno, "no zero-copy");
                self.note("zero-copy", &errno.into());
                Ok(None)
            }
            Err(failure) => Err(self.explain(failure)),
        }
    }

    /// Opens the sockets and enters them in the program's table. On failure those made so far are closed.
    fn open_all(&mut self, copying: Copying) -> Result<Vec<Socket>, (u16, Step, Errno)> {
        let mut sockets = Vec::with_capacity(usize::from(self.queues));
        for queue in 0..self.queues {
            let direction = if queue == 0 { Direction::Both } else { Direction::Receive };
            let place = Place { ifindex: self.facts.ifindex, queue, ring: self.options.ring, direction };
            let socket = Socket::open(place, self.area, copying).map_err(|(step, errno)| (queue, step, errno))?;
            if let Err(error) = self.steering.set_socket(queue, socket.fd()) {
                tracing::error!(%error, queue, "a socket could not be entered in the steering table");
                return Err((queue, Step::Enter, Errno::INVAL));
            }
            sockets.push(socket);
        }
        Ok(sockets)
    }

    /// Puts the program on the device. The inner error is one after which another hook may still do.
    fn link(&mut self, hook: XdpHook) -> Result<io::Result<OwnedFd>, AttachError> {
        let device = &self.options.device;
        let program = self.steering.program().map_err(|error| program_refused(device, EbpfError::from(error)))?;
        let made = attach_xdp(program.as_fd(), self.facts.ifindex, hook);
        match made.as_ref().map_err(io::Error::raw_os_error) {
            Err(Some(libc::EBUSY | libc::EEXIST)) => {
                refuse_foreign(device, &facts_of(device)?)?;
                Ok(made)
            }
            Err(Some(libc::EPERM | libc::EACCES)) => Err(privilege(device, "attaching the steering program")),
            Err(Some(libc::ENODEV)) => Err(AttachError::NoSuchDevice { device: device.clone() }),
            _ => Ok(made),
        }
    }

    fn explain(&self, (queue, step, errno): (u16, Step, Errno)) -> AttachError {
        let device = self.options.device.clone();
        match (step, errno) {
            (Step::Create, Errno::PERM | Errno::ACCESS) => privilege(&device, "opening an AF_XDP socket"),
            (Step::Register, Errno::NOBUFS | Errno::PERM | Errno::NOMEM) => {
                let area = u64::try_from(self.area.bytes()).unwrap_or(u64::MAX);
                let limit = limits::locked_memory_bytes();
                AttachError::LockedMemory {
                    device,
                    needed: area.saturating_mul(u64::from(self.queues)),
                    queues: self.queues,
                    area,
                    limit: limit.map_or_else(|| "unlimited".to_owned(), |bytes| format!("{bytes} bytes")),
                }
            }
            (Step::Bind, Errno::BUSY) => AttachError::Busy { device, queue },
            (Step::Bind, Errno::NETDOWN) => AttachError::Down { device },
            (Step::Bind, Errno::NODEV) => AttachError::NoSuchDevice { device },
            (Step::Create, _) => self.kernel("opening an AF_XDP socket", errno.into()),
            (Step::Register, _) => self.kernel("registering the frame memory", errno.into()),
            (Step::Rings, _) => self.kernel("making the rings", errno.into()),
            (Step::Bind, _) => self.kernel("binding a receive queue", errno.into()),
            (Step::Enter, _) => self.kernel("entering a socket in the steering table", errno.into()),
        }
    }

    fn note(&mut self, what: &str, error: &io::Error) {
        let why = if error.raw_os_error() == Some(libc::ENOSPC) && self.facts.is_veth {
            "its peer has more transmit queues than it has receive queues".to_owned()
        } else {
            error.to_string()
        };
        self.notes.push(format!("{} has no {what}: {why}", self.options.device));
    }

    fn kernel(&self, what: &'static str, error: io::Error) -> AttachError {
        kernel(&self.options.device, what, error)
    }
}
