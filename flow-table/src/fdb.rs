//! The forwarding database: which port a station was last heard on (IEEE 802.1Q-2018, 8.8).

use core::time::Duration;

use hashbrown::{HashMap, HashSet, hash_map::Entry};

use crate::{
    hash::Seed,
    id::{NetworkId, PortId},
    mac::MacAddr,
    time::Instant,
};

/// An L2 broadcast domain: a VLAN of a network; VLAN 0 holds the untagged frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain {
    /// Network.
    pub network: NetworkId,
    /// VLAN id, 0 to 4095.
    pub vlan: u16,
}

/// Where a station is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// Port.
    pub port: PortId,
    /// When it last sent.
    pub seen: Instant,
}

/// What learning an address changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// Nothing new: it was known there.
    Known,
    /// A new station.
    New,
    /// The station was on this port before.
    Moved(PortId),
    /// The network is at its limit; nothing was learned.
    Full,
}

/// Learned stations.
#[derive(Debug)]
pub struct Fdb {
    stations: HashMap<(Domain, MacAddr), Station, Seed>,
    per_network: HashMap<NetworkId, u32, Seed>,
    /// Networks in which a station was not learned for want of room.
    full: HashSet<NetworkId, Seed>,
    /// Of those, where a station has been forgotten since.
    reopened: Vec<NetworkId>,
}

impl Fdb {
    /// Nothing learned.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self {
            stations: HashMap::with_hasher(seed),
            per_network: HashMap::with_hasher(seed),
            full: HashSet::with_hasher(seed),
            reopened: Vec::new(),
        }
    }

    /// Where `mac` is.
    #[must_use]
    pub fn lookup(&self, domain: Domain, mac: MacAddr) -> Option<PortId> {
        self.stations.get(&(domain, mac)).map(|station| station.port)
    }

    /// Notes that `mac` sent from `port`. `limit` is the most stations of the network.
    pub fn learn(&mut self, domain: Domain, mac: MacAddr, port: PortId, limit: u32, now: Instant) -> Learned {
        match self.stations.entry((domain, mac)) {
            Entry::Occupied(mut known) => {
                let old = known.insert(Station { port, seen: now });
                if old.port == port { Learned::Known } else { Learned::Moved(old.port) }
            }
            Entry::Vacant(new) => {
                let count = self.per_network.entry(domain.network).or_insert(0);
                if *count >= limit {
                    self.full.insert(domain.network);
                    return Learned::Full;
                }
                *count += 1;
                new.insert(Station { port, seen: now });
                Learned::New
            }
        }
    }

    /// Notes that `mac` was heard on `port` at `seen`, if that is where it is known to be.
    pub fn touch(&mut self, domain: Domain, mac: MacAddr, port: PortId, seen: Instant) {
        if let Some(station) = self.stations.get_mut(&(domain, mac))
            && station.port == port
        {
            station.seen = station.seen.max(seen);
        }
    }

    /// Forgets stations that `gone` names, given domain, address and place. O(stations).
    pub fn forget(&mut self, mut gone: impl FnMut(Domain, MacAddr, &Station) -> bool) {
        let Self { per_network, full, reopened, .. } = self;
        self.stations.retain(|(domain, mac), station| {
            let forget = gone(*domain, *mac, station);
            if forget && let Some(count) = per_network.get_mut(&domain.network) {
                *count = count.saturating_sub(1);
                if full.remove(&domain.network) {
                    reopened.push(domain.network);
                }
            }
            !forget
        });
    }

    /// Forgets stations silent for longer than their network's aging time, and tells the port of each. O(stations).
    pub fn age(&mut self, now: Instant, aging: impl Fn(NetworkId) -> Duration, mut aged: impl FnMut(PortId)) {
        self.forget(|domain, _, station| {
            let old = now.since(station.seen) > aging(domain.network);
            if old {
                aged(station.port);
            }
            old
        });
    }

    /// Networks that were full and have room again, each once: senders there that are known to flows may now be learned.
    pub fn take_reopened(&mut self) -> Vec<NetworkId> {
        core::mem::take(&mut self.reopened)
    }

    /// All stations, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Domain, MacAddr, &Station)> {
        self.stations.iter().map(|((domain, mac), station)| (*domain, *mac, station))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLUE: Domain = Domain { network: NetworkId(1), vlan: 0 };
    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_station_is_where_it_last_sent_from_and_a_move_names_the_old_port() {
        let mut fdb = Fdb::new(Seed::new(1));
        assert_eq!(fdb.learn(BLUE, MAC, PortId(1), 10, at(0)), Learned::New);
        assert_eq!(fdb.learn(BLUE, MAC, PortId(1), 10, at(1)), Learned::Known);
        assert_eq!(fdb.learn(BLUE, MAC, PortId(2), 10, at(2)), Learned::Moved(PortId(1)));
        assert_eq!(fdb.lookup(BLUE, MAC), Some(PortId(2)));
        assert_eq!(fdb.lookup(Domain { vlan: 7, ..BLUE }, MAC), None);
        assert_eq!(fdb.lookup(Domain { network: NetworkId(2), ..BLUE }, MAC), None);
    }

    #[test]
    fn a_silent_station_is_forgotten_and_a_touched_one_stays() {
        let mut fdb = Fdb::new(Seed::new(1));
        let other = MacAddr([2, 0, 0, 0, 0, 2]);
        fdb.learn(BLUE, MAC, PortId(1), 10, at(0));
        fdb.learn(BLUE, other, PortId(2), 10, at(0));
        fdb.touch(BLUE, MAC, PortId(1), at(200));
        fdb.touch(BLUE, other, PortId(9), at(200));
        let mut aged = Vec::new();
        fdb.age(at(301), |_| Duration::from_secs(300), |port| aged.push(port));
        assert_eq!((aged, fdb.lookup(BLUE, MAC), fdb.lookup(BLUE, other)), (vec![PortId(2)], Some(PortId(1)), None));
    }

    #[test]
    fn a_full_network_learns_nothing_more_until_a_station_is_forgotten() {
        let mut fdb = Fdb::new(Seed::new(1));
        let mac = |n| MacAddr([2, 0, 0, 0, 0, n]);
        for n in 0..4 {
            let learned = fdb.learn(BLUE, mac(n), PortId(1), 3, at(0));
            assert_eq!(learned, if n < 3 { Learned::New } else { Learned::Full });
        }
        fdb.forget(|_, mac, _| mac == self::MAC);
        assert_eq!(fdb.learn(BLUE, mac(9), PortId(1), 3, at(0)), Learned::New);
    }
}
