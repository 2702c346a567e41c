//! Reload: what is in force is one file or the other, for every packet, and a bad file changes nothing.
#![cfg(test)]

use std::{
    collections::BTreeSet,
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use rustix::process::Signal;
use serde_json::Value;
use tests::{
    daemon::{Daemon, number},
    lab::{Lab, ip4, mac},
    netns_packet::PacketSocket,
    wait::{pause, wait_until},
};

const SECOND: Duration = Duration::from_secs(1);

/// UDP from workload 1 to workload 2 with a number in it.
fn packet(number: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(mac(1), mac(2)).ipv4(ip4(1).octets(), ip4(2).octets(), 64);
    builder.udp(4000, 80).write(&mut frame, &number.to_be_bytes()).unwrap();
    frame
}

/// The number and DSCP of one of those.
fn read(frame: &[u8]) -> Option<(u32, u8)> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Udp(udp))) = (&packet.net, &packet.transport) else {
        return None;
    };
    if udp.destination_port() != 80 {
        return None;
    }
    Some((u32::from_be_bytes(*udp.payload().first_chunk()?), ip.header().dcp().value()))
}

/// All that has arrived: number and DSCP.
fn drain(socket: &PacketSocket) -> Vec<(u32, u8)> {
    std::iter::from_fn(|| socket.receive(SECOND / 100)).filter_map(|frame| read(&frame)).collect()
}

#[test]
fn a_reload_changes_what_becomes_of_a_flow_that_is_remembered_and_another_changes_it_back() {
    let lab = Lab::new(2);
    let open = lab.config("");
    let closed = lab.config("flows:\n  - { name: no-80, table: acl-from, match: { udp.dst: 80 }, action: deny }\n");
    let daemon = Daemon::start(&lab.switch, &open);
    let (sender, receiver) = (lab.socket(1), lab.socket(2));
    assert!(lab.probe(2, 1, SECOND).is_some());
    let send = |number: u32| {
        for n in 0..10 {
            sender.send(&packet(number + n)).unwrap();
        }
        drain(&receiver).len()
    };
    assert_eq!(send(0), 10);
    assert!(number(&daemon.worker(), "/hits") > 0, "the flow is remembered");
    daemon.turn_to(&closed);
    assert_eq!(send(10), 0);
    assert_eq!(daemon.drops("acl_from"), 10);
    let rule = daemon.items("tables").remove(0);
    assert_eq!((rule["name"].as_str(), number(&rule, "/packets")), (Some("no-80"), 10));
    daemon.turn_to(&open);
    assert_eq!(send(20), 10);
    assert_eq!(daemon.items("tables"), Vec::<Value>::new(), "the rule is gone");
}

#[test]
fn an_invalid_file_changes_nothing_and_its_places_are_in_the_log_and_in_the_status() {
    let lab = Lab::new(2);
    let good = lab.config("flows:\n  - { name: no-80, table: acl-from, match: { udp.dst: 80 }, action: deny }\n");
    let daemon = Daemon::start(&lab.switch, &good);
    let before = daemon.status();
    for (bad, says) in [
        (good.replace("udp.dst: 80", "udp.dport: 81"), "unknown key \"udp.dport\" in a match"),
        (good.replace("udp.dst: 80", "udp.dst: 81, udp.dst: 82"), "the key \"udp.dst\" is given twice"),
        (good.replace("udp.dst: 80", "ip.dst: 10.0.0.010"), "has a leading zero"),
        (good.replace("device: p2,", "device: p2, security: yes,"), "expected on or off, found \"yes\""),
        (good.replace("udp.dst: 80", "dst_port: 80"), "unknown key \"dst_port\""),
        (good.replace("device: p2,", "device: p2, queues: 60,"), "p2 has 1 receive queues and 60 were asked for"),
        (good.replace("ring: 1024", "ring: 3000"), "power of two"),
    ] {
        daemon.write(&bad);
        for _ in 0..2 {
            let reload = daemon.reload();
            assert_eq!(reload["ok"], false, "{bad}");
            let error = reload["error"].as_str().unwrap();
            assert!(error.contains(says), "{error}");
            assert!(daemon.log().contains(says), "{}", daemon.log());
            if !says.contains("queues") {
                assert!(error.starts_with(&format!("{}:", daemon.config().display())), "{error}");
            }
        }
        let after = daemon.status();
        for same in ["generation", "hash", "pid", "ports_attached"] {
            assert_eq!(after[same], before[same], "{same}: {bad}");
        }
        assert_eq!(daemon.items("tables")[0]["match"], "{udp.dst: 80}");
        assert!(lab.probe(1, 2, SECOND).is_some(), "the running policy forwards: {bad}");
    }
    let (sender, receiver) = (lab.socket(1), lab.socket(2));
    sender.send(&packet(1)).unwrap();
    assert_eq!(drain(&receiver), [], "and denies");
    fs::remove_file(daemon.config()).unwrap();
    assert_eq!(daemon.reload()["ok"], false);
    daemon.turn_to(&good);
    assert_eq!(daemon.status()["hash"], before["hash"]);
}

#[test]
fn in_two_hundred_reloads_under_traffic_every_packet_is_treated_by_one_policy_and_none_is_lost() {
    let lab = Lab::new(3);
    // A and B differ in where a packet goes and in how it is marked, in two tables.
    let policy = |to: u8, dscp: u8| {
        lab.config(&format!(
            "flows:\n  - {{ name: to-{to}, table: forward, match: {{ udp.dst: 80 }}, action: {{ port: p{to} }} }}\n  \
             - {{ name: mark-{dscp}, table: output, match: {{ udp.dst: 80 }}, action: {{ set: {{ ip.dscp: {dscp} }} }} }}\n"
        ))
    };
    let (a, b) = (policy(2, 10), policy(3, 20));
    let broken = format!("{b}  - {{ name: last, table: output, match: {{}}, action: nothing }}\n");
    let daemon = Daemon::start(&lab.switch, &a);
    let (sender, at_two, at_three) = (lab.socket(1), lab.socket(2), lab.socket(3));
    let stop = AtomicBool::new(false);
    let (mut sent, mut two, mut three) = (0, Vec::new(), Vec::new());
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                sender.send(&packet(number)).unwrap();
                number += 1;
                pause(Duration::from_micros(50));
            }
            number
        });
        let receive = |socket| {
            let stop = &stop;
            scope.spawn(move || {
                let mut all = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    all.extend(drain(socket));
                }
                all.extend(drain(socket));
                all
            })
        };
        let (into_two, into_three) = (receive(&at_two), receive(&at_three));
        let mut generation = number(&daemon.status(), "/generation");
        for round in 1..=200 {
            let bad = round % 10 == 0;
            if round == 150 {
                fs::remove_file(daemon.config()).unwrap();
            } else {
                daemon.write(if bad {
                    &broken
                } else if round % 2 == 0 {
                    &a
                } else {
                    &b
                });
            }
            let reload = daemon.reload();
            assert_eq!(reload["ok"], !bad, "round {round}: {reload}");
            let now = number(&daemon.status(), "/generation");
            assert_eq!(now, generation + u64::from(!bad), "round {round}");
            generation = now;
        }
        pause(SECOND / 4);
        stop.store(true, Ordering::Relaxed);
        (sent, two, three) = (sending.join().unwrap(), into_two.join().unwrap(), into_three.join().unwrap());
    });
    assert!(sent > 1000, "{sent}");
    assert!(!two.is_empty() && !three.is_empty());
    assert_eq!(two.iter().find(|(_, dscp)| *dscp != 10), None, "to 2, but marked by the other policy");
    assert_eq!(three.iter().find(|(_, dscp)| *dscp != 20), None, "to 3, but marked by the other policy");
    let arrived: Vec<u32> = two.iter().chain(&three).map(|(number, _)| *number).collect();
    let distinct: BTreeSet<u32> = arrived.iter().copied().collect();
    assert_eq!(distinct.len(), arrived.len(), "a packet was treated by both");
    let port = daemon.port("p1");
    let below = number(&port, "/kernel/rx_ring_full") + number(&port, "/kernel/rx_dropped");
    assert_eq!(arrived.len() as u64 + below, u64::from(sent), "a packet was treated by neither: {port}");
    assert_eq!(number(&port, "/drops"), 0, "{}", daemon.get("drops"));
    assert_eq!(daemon.status()["last_reload"]["attempt"], 200);
    let names: Vec<Value> = daemon.items("tables").iter().map(|rule| rule["name"].clone()).collect();
    assert_eq!(names.len(), 2, "what was removed is gone: {names:?}");
}

#[test]
fn a_port_that_is_added_forwards_and_one_that_is_removed_gives_its_device_back() {
    let lab = Lab::new(3);
    let all = lab.config("");
    let two = all.replace("  - { name: p3, device: p3, network: lan }\n", "");
    assert_ne!(all, two);
    let daemon = Daemon::start(&lab.switch, &two);
    assert_eq!(lab.xdp_program("p3"), None);
    daemon.turn_to(&all);
    assert_ne!(lab.xdp_program("p3"), None);
    assert!(lab.probe(1, 3, SECOND).is_some());
    daemon.turn_to(&two);
    assert!(wait_until(SECOND, || lab.xdp_program("p3").is_none() && lab.promiscuity("p3") == 0));
    assert!(lab.probe(1, 2, SECOND).is_some());
    assert_eq!(daemon.items("ports").len(), 2);
}

#[test]
fn hangups_in_a_burst_end_in_the_last_file_and_never_in_death() {
    let lab = Lab::new(2);
    let daemon = Daemon::start(&lab.switch, &lab.config(""));
    for _ in 0..50 {
        daemon.signal(Signal::HUP);
    }
    daemon.write(&lab.config("flows:\n  - { name: last, table: classify, match: {}, action: { mark: 1 } }\n"));
    assert!(daemon.reload()["ok"].as_bool().unwrap());
    assert!(wait_until(SECOND * 5, || daemon.items("tables").first().is_some_and(|rule| rule["name"] == "last")));
    assert!(lab.probe(1, 2, SECOND).is_some());
}
