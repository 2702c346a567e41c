//! Bytes and frames through the daemon, between workloads whose devices are as they come.
#![cfg(test)]

use std::time::Duration;

use bench::transfer;
use tests::{
    daemon::{Daemon, number},
    lab::{HEAD, Lab, addresses, mac},
    netns_packet::frame,
    wait::wait_until,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn tcp_is_byte_identical_over_ipv4_and_ipv6_with_the_offloads_of_workloads_untouched() {
    let lab = Lab::new(2);
    let daemon = Daemon::start(&lab.switch, &lab.config(""));
    let (one, two) = (lab.tenant(1).get(), lab.tenant(2).get());
    for (there, back) in addresses(2).into_iter().zip(addresses(1)) {
        transfer::tcp(one, two, (there, 0).into(), 5_000_000).unwrap_or_else(|e| panic!("{there}: {e}"));
        transfer::tcp(two, one, (back, 0).into(), 1_000_000).unwrap_or_else(|e| panic!("{back}: {e}"));
    }
    let worker = daemon.worker();
    assert!(number(&worker, "/checksums_completed") > 0, "the kernel completed them all: not the case of this test");
    assert_eq!(daemon.drops("malformed"), 0, "{}", daemon.get("drops"));
}

#[test]
fn udp_is_byte_identical_over_ipv4_and_ipv6_at_every_size_whole_and_in_fragments() {
    let lab = Lab::new(2);
    let _daemon = Daemon::start(&lab.switch, &lab.config(""));
    let sizes = [0, 1, 2, 17, 18, 19, 511, 1000, 1451, 1452, 1453, 1471, 1472, 1473, 4000, 9001, 60_000];
    for (from, to) in addresses(1).into_iter().zip(addresses(2)) {
        let sockets = ((from, 0).into(), (to, 0).into());
        transfer::udp(lab.tenant(1).get(), lab.tenant(2).get(), sockets, &sizes)
            .unwrap_or_else(|error| panic!("{from}: {error}"));
    }
}

#[test]
fn frames_that_fit_the_mtu_arrive_intact_and_larger_ones_are_dropped_and_counted() {
    let lab = Lab::new(3);
    // p2 keeps 1500; the others carry the largest there is.
    for number in [1, 3] {
        lab.switch.ip(&format!("link delete p{number}"));
        lab.plug(number, 3822);
    }
    let ports = "networks: [{ name: lan }]\nports:\n  - { name: p1, device: p1, network: lan }\n  \
                 - { name: p2, device: p2, network: lan, mac: \"02:00:00:00:00:02\", security: off }\n  \
                 - { name: p3, device: p3, network: lan, mac: \"02:00:00:00:00:03\", security: off }\n";
    let daemon = Daemon::start(&lab.switch, &format!("{HEAD}{ports}"));
    let (sender, two, three) = (lab.socket(1), lab.socket(2), lab.socket(3));
    let mut dropped = 0;
    for (seed, length) in (0..).zip([60, 1514, 1515, 2048, 2049, 3518, 3835, 3836]) {
        for (to, receiver, most) in [(2, &two, 1514), (3, &three, 3836)] {
            let sent = frame(mac(to), mac(1), length, seed);
            sender.send(&sent).unwrap();
            let arrived = || std::iter::from_fn(|| receiver.receive(SECOND / 5)).any(|received| received == sent);
            if length <= most {
                assert!(arrived(), "{length} bytes to {to}");
            } else {
                dropped += 1;
                assert!(!arrived(), "{length} bytes to {to}");
            }
            assert_eq!(daemon.drops("oversize"), dropped, "{length} bytes to {to}");
        }
    }
    // A tag does not count: 1518 bytes by p2, and 3840, a whole chunk, by p3.
    for (to, length, receiver) in [(2, 1518, &two), (3, 3840, &three)] {
        let mut sent = frame(mac(to), mac(1), length, 99);
        sent[12..18].copy_from_slice(&[0x81, 0, 0, 5, 0x88, 0xb5]);
        let bytes = |daemon: &Daemon<'_>| number(&daemon.port(&format!("p{to}")), "/tx/bytes");
        let before = bytes(&daemon);
        sender.send(&sent).unwrap();
        let arrived = std::iter::from_fn(|| receiver.receive(SECOND / 5)).any(|received| received == sent);
        assert!(arrived, "{length} bytes, tagged");
        assert!(bytes(&daemon) >= before + length as u64);
    }
    assert_eq!(daemon.drops("oversize"), dropped);
    // Longer than the device takes: the kernel drops and counts it, at the device.
    lab.tenant(1).ip("link set eth0 mtu 9000");
    let refused = || lab.link("p1").pointer("/0/stats64/rx/dropped").and_then(serde_json::Value::as_u64).unwrap();
    let before = refused();
    let received = number(&daemon.port("p1"), "/rx/packets");
    for _ in 0..10 {
        // The sender hears of it: ENOBUFS.
        assert!(sender.send(&frame(mac(3), mac(1), 4096, 1)).is_err());
    }
    assert!(wait_until(SECOND, || refused() == before + 10), "{}", lab.link("p1"));
    assert_eq!(number(&daemon.port("p1"), "/rx/packets"), received);
    assert!(lab.probe(1, 3, SECOND).is_some());
}
