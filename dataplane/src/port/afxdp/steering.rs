//! The steering program of one device, loaded: its sockets, its owned addresses and its counters.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fmt,
    net::IpAddr,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use aya::{
    Ebpf, EbpfError, EbpfLoader, Pod, include_bytes_aligned,
    maps::{HashMap, Map, MapData, MapError, PerCpuArray, XskMap},
    programs::{ProgramError, Xdp},
};
use ebpf_layout::steer::{self, AddressKey, MacKey, Owned};
use flow_table::mac::MacAddr;

/// The committed object, see `ebpf/build`.
static OBJECT: &[u8] = include_bytes_aligned!("../../../../ebpf/sluice.bpf.o");

thread_local! {
    /// Made once a thread: making a loader reads the type information of the whole kernel, some 60 ms, which this program has
    /// no use for.
    static LOADER: RefCell<EbpfLoader<'static>> = RefCell::new({
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        loader
    });
}

/// What the steering program counted since the device was attached, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SteeringCounters {
    /// Given to a socket's queue.
    pub taken: u64,
    /// Left to the host's stack.
    pub passed: u64,
    /// Dropped: no socket for their queue, and not the host's.
    pub dropped: u64,
}

/// Why the owned addresses could not all be set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnedError {
    /// More than the program's tables hold.
    #[error("a device can own {max} {what}, not {asked}")]
    TooMany {
        /// Which table.
        what: &'static str,
        /// How many it holds.
        max: u32,
        /// How many were asked for.
        asked: usize,
    },
    /// The kernel refused a change; those before it are in force.
    #[error("the owned addresses could not be changed")]
    Map(#[from] MapError),
}

/// The program and its maps. Dropping it frees both, unless a link still holds the program.
#[derive(Debug)]
pub(super) struct Steering {
    ebpf: Ebpf,
    macs: OwnedSet<MacKey>,
    addresses: OwnedSet<AddressKey>,
}

impl Steering {
    /// Loads the program for `mode`, one of `ebpf_layout::steer`'s.
    pub(super) fn load(mode: &'static u32) -> Result<Self, EbpfError> {
        let mut ebpf = LOADER.with_borrow_mut(|loader| loader.override_global(steer::MODE, mode, true).load(OBJECT))?;
        program_of(&mut ebpf)?.load()?;
        let macs = OwnedSet::new(take(&mut ebpf, steer::OWNED_MACS)?, "MAC addresses", steer::MAX_OWNED_MACS)?;
        let addresses =
            OwnedSet::new(take(&mut ebpf, steer::OWNED_ADDRESSES)?, "IP addresses", steer::MAX_OWNED_ADDRESSES)?;
        Ok(Self { ebpf, macs, addresses })
    }

    /// Gives the frames of a receive queue to a socket. The kernel forgets it when the socket is closed.
    pub(super) fn set_socket(&mut self, queue: u16, socket: impl AsRawFd) -> Result<(), MapError> {
        let map = self.ebpf.map_mut(steer::SOCKETS).ok_or_else(|| no_map(steer::SOCKETS))?;
        XskMap::try_from(map)?.set(u32::from(queue), socket, 0)
    }

    /// A descriptor of the program.
    pub(super) fn program(&mut self) -> Result<OwnedFd, ProgramError> {
        Ok(program_of(&mut self.ebpf)?.fd()?.as_fd().try_clone_to_owned()?)
    }

    /// The number the kernel knows the program by.
    pub(super) fn program_id(&self) -> Result<u32, ProgramError> {
        let missing = || ProgramError::InvalidName { name: steer::PROGRAM.to_owned() };
        let program: &Xdp = self.ebpf.program(steer::PROGRAM).ok_or_else(missing)?.try_into()?;
        Ok(program.info()?.id())
    }

    /// Makes exactly these addresses owned. New ones are added before old ones go.
    pub(super) fn set_owned(&mut self, macs: &[MacAddr], addresses: &[IpAddr]) -> Result<(), OwnedError> {
        let macs: BTreeSet<MacKey> = macs.iter().map(|mac| mac.0).collect();
        let addresses: BTreeSet<AddressKey> = addresses.iter().map(|address| key_of(*address)).collect();
        self.macs.check(&macs)?;
        self.addresses.check(&addresses)?;
        self.macs.replace(macs)?;
        self.addresses.replace(addresses)
    }

    /// The program's counters, summed over the CPUs.
    pub(super) fn counters(&self) -> Result<SteeringCounters, MapError> {
        let map = self.ebpf.map(steer::COUNTERS).ok_or_else(|| no_map(steer::COUNTERS))?;
        let counters = PerCpuArray::<_, u64>::try_from(map)?;
        let sum = |index| Ok::<u64, MapError>(counters.get(&index, 0)?.iter().sum());
        Ok(SteeringCounters { taken: sum(steer::TAKEN)?, passed: sum(steer::PASSED)?, dropped: sum(steer::DROPPED)? })
    }
}

fn key_of(address: IpAddr) -> AddressKey {
    match address {
        IpAddr::V4(v4) => steer::mapped(v4.octets()),
        IpAddr::V6(v6) => v6.octets(),
    }
}

fn no_map(name: &str) -> MapError {
    MapError::InvalidName { name: name.to_owned() }
}

fn take(ebpf: &mut Ebpf, name: &str) -> Result<Map, MapError> {
    ebpf.take_map(name).ok_or_else(|| no_map(name))
}

fn program_of(ebpf: &mut Ebpf) -> Result<&mut Xdp, ProgramError> {
    let program = ebpf
        .program_mut(steer::PROGRAM)
        .ok_or_else(|| ProgramError::InvalidName { name: steer::PROGRAM.to_owned() })?;
    program.try_into()
}

/// A set in the kernel, and what we have put there.
struct OwnedSet<K: Pod> {
    map: HashMap<MapData, K, Owned>,
    held: BTreeSet<K>,
    what: &'static str,
    max: u32,
}

impl<K: Pod + Ord> OwnedSet<K> {
    fn new(map: Map, what: &'static str, max: u32) -> Result<Self, MapError> {
        Ok(Self { map: HashMap::try_from(map)?, held: BTreeSet::new(), what, max })
    }

    fn check(&self, wanted: &BTreeSet<K>) -> Result<(), OwnedError> {
        let asked = wanted.len();
        // Old ones leave after new ones have come, so both must fit for a moment.
        let most = asked + self.held.difference(wanted).count();
        if u32::try_from(most).is_ok_and(|most| most <= self.max) {
            Ok(())
        } else {
            Err(OwnedError::TooMany { what: self.what, max: self.max, asked: most })
        }
    }

    fn replace(&mut self, wanted: BTreeSet<K>) -> Result<(), OwnedError> {
        for key in wanted.difference(&self.held.clone()) {
            self.map.insert(key, 0, 0)?;
            self.held.insert(*key);
        }
        for key in self.held.clone().difference(&wanted) {
            self.map.remove(key)?;
            self.held.remove(key);
        }
        Ok(())
    }
}

impl<K: Pod> fmt::Debug for OwnedSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedSet").field("what", &self.what).field("held", &self.held.len()).finish_non_exhaustive()
    }
}
