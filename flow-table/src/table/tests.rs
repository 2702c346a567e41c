//! The table against a map, and its promises one by one.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn key(n: u64) -> FlowKey {
    FlowKey([1 << 48 | 0x0800 << 32, n, 0, n * 7, 0, 0, 0, 0])
}

fn wide_key(n: u64) -> FlowKey {
    // All short words alike: only the addresses differ.
    FlowKey([1 << 48 | 0x86dd << 32, 0, 0, 0, 1, 2, 3, n])
}

fn to_port(port: u16) -> Transposition {
    Transposition { kind: kind::PORT, out_port: port, ..Transposition::default() }
}

fn insert(table: &mut FlowTable, key: &FlowKey, port: u16, epoch: u32, now: Instant) -> Slot {
    let hash = table.hash(key);
    table.insert(key, hash, &to_port(port), &Ip6Addresses::default(), Epoch(epoch), now)
}

fn lookup(table: &FlowTable, key: &FlowKey, valid: &ValidFrom) -> Option<u16> {
    let mut lookups = [Lookup { hash: table.hash(key), slot: Slot::NONE }];
    table.get_burst([key].into_iter(), &mut lookups, valid);
    let [lookup] = lookups;
    table.record(lookup.slot).filter(|_| lookup.slot.is_some()).map(|record| record.out_port)
}

#[test]
fn ipv6_flows_that_differ_in_an_address_alone_are_different_flows() {
    let mut table = FlowTable::new(64, Seed::new(1));
    let valid = ValidFrom::default();
    for n in 0..20 {
        insert(&mut table, &wide_key(u64::from(n)), n, 0, at(0));
    }
    for n in 0..20 {
        assert_eq!(lookup(&table, &wide_key(u64::from(n)), &valid), Some(n));
    }
    assert_eq!(lookup(&table, &wide_key(99), &valid), None);
}

#[test]
fn an_entry_is_found_only_while_both_its_ports_allow_its_epoch() {
    let mut table = FlowTable::new(64, Seed::new(1));
    let mut valid = ValidFrom::default();
    insert(&mut table, &key(1), 2, 5, at(0));
    valid.raise(PortId(9), Epoch(9));
    assert_eq!(lookup(&table, &key(1), &valid), Some(2), "another port's");
    valid.raise(PortId(2), Epoch(6));
    assert_eq!(lookup(&table, &key(1), &valid), None, "its output port's");
    insert(&mut table, &key(1), 2, 6, at(0));
    assert_eq!((lookup(&table, &key(1), &valid), table.len()), (Some(2), 1), "restamped in place");
    valid.raise(PortId(1), Epoch(7));
    assert_eq!(lookup(&table, &key(1), &valid), None, "its input port's");
}

#[test]
fn a_restamped_entry_keeps_its_counts_and_a_new_one_starts_at_zero() {
    let mut table = FlowTable::new(64, Seed::new(1));
    let slot = insert(&mut table, &key(1), 2, 0, at(0));
    table.count(slot, 100, at(0));
    let slot = insert(&mut table, &key(1), 3, 1, at(0));
    table.count(slot, 60, at(0));
    let view = table.busiest(1, at(0))[0];
    assert_eq!((view.packets, view.bytes, view.record.out_port), (2, 160, 3));
    table.clear();
    insert(&mut table, &key(1), 2, 0, at(0));
    assert_eq!(table.busiest(1, at(0))[0].packets, 0);
}

#[test]
fn idle_entries_go_and_busy_ones_stay_and_are_told() {
    let mut table = FlowTable::new(1024, Seed::new(1));
    table.expire(at(0), 1000, Duration::from_secs(30), |_, _| {});
    for n in 0..100 {
        insert(&mut table, &key(n), 1, 0, at(0));
    }
    let mut told = Vec::new();
    for second in 1..=60_u64 {
        let busy = table.find(&key(7), table.hash(&key(7)));
        table.count(busy, 60, at(second * 1000));
        table.expire(at(second * 1000), 1000, Duration::from_secs(30), |key, seen| told.push((*key, seen)));
    }
    assert_eq!((table.len(), table.expired()), (1, 99));
    assert!(told.iter().rev().take(3).all(|(told, seen)| *told == key(7) && *seen >= at(40_000)));
}

#[test]
fn a_full_table_takes_a_new_flow_by_evicting_an_idle_one() {
    let mut table = FlowTable::new(64, Seed::new(1));
    for n in 0..1000 {
        insert(&mut table, &key(n), 1, 0, at(n));
        assert!(lookup(&table, &key(n), &ValidFrom::default()).is_some(), "the newest is always there");
        assert!(table.len() <= 64);
    }
    assert_eq!(table.evicted(), 1000 - u64::from(table.len()));
    assert!(table.len() >= 32, "{} of 64 in use", table.len());
}

#[test]
fn a_burst_finds_each_of_its_packets() {
    let mut table = FlowTable::new(4096, Seed::new(9));
    for n in (0..4000).step_by(2) {
        insert(&mut table, &key(n), u16::try_from(n).unwrap(), 0, at(0));
    }
    let keys: Vec<FlowKey> = (0..4000).map(key).collect();
    let mut lookups: Vec<Lookup> = keys.iter().map(|key| Lookup { hash: table.hash(key), slot: Slot::NONE }).collect();
    table.get_burst(keys.iter(), &mut lookups, &ValidFrom::default());
    for (n, lookup) in (0_u16..).zip(&lookups) {
        let found = table.record(lookup.slot).filter(|_| lookup.slot.is_some()).map(|record| record.out_port);
        assert_eq!(found, n.is_multiple_of(2).then_some(n), "packet {n}");
    }
}

proptest! {
    /// Any sequence of inserts, expiry and clearing leaves what a map would hold, as long as nothing was evicted.
    #[test]
    fn the_table_agrees_with_a_map(steps in prop::collection::vec((0_u64..60, 0_u8..12), 1..400)) {
        let mut table = FlowTable::new(128, Seed::new(5));
        let mut model: BTreeMap<u64, (u16, u64)> = BTreeMap::new();
        let mut now = 0_u64;
        for (n, step) in steps {
            let key = if n % 2 == 0 { key(n) } else { wide_key(n) };
            now += 100;
            match step {
                0 => { table.clear(); model.clear(); }
                1 => {
                    now += 9_000;
                    // Twice the sweep: every entry was visited.
                    for _ in 0..4 {
                        now += 8_000;
                        table.expire(at(now), u32::MAX, Duration::from_secs(20), |_, _| {});
                    }
                    model.clear();
                }
                _ => {
                    let port = u16::from(step);
                    insert(&mut table, &key, port, 0, at(now));
                    model.insert(n, (port, now));
                }
            }
            prop_assert_eq!(u64::from(table.len()), u64::try_from(model.len()).unwrap());
        }
        prop_assert_eq!(table.evicted(), 0);
        for n in 0..60 {
            let key = if n % 2 == 0 { key(n) } else { wide_key(n) };
            prop_assert_eq!(lookup(&table, &key, &ValidFrom::default()), model.get(&n).map(|(port, _)| *port));
        }
    }
}
