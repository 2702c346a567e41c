//! The daemon under floods: starvation ends, and no chunk is ever lost.
#![cfg(test)]

use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

use etherparse::PacketBuilder;
use rustix::process::Signal;
use serde_json::Value;
use tests::{
    daemon::{Daemon, number},
    lab::{Lab, ip4, mac},
    netns_packet::{PacketSocket, frame},
    wait::{pause, timed, wait_until},
};

const SECOND: Duration = Duration::from_secs(1);

/// A frame whose payload begins with a number.
fn numbered(number: u32) -> Vec<u8> {
    let mut frame = frame(mac(2), mac(1), 60, 1);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// The number of a frame that has one.
fn number_of(frame: &[u8]) -> Option<u32> {
    (frame.get(12..14)? == [0x88, 0xb5]).then(|| u32::from_be_bytes(*frame[14..].first_chunk().unwrap()))
}

#[test]
fn forwarding_resumes_within_a_second_after_three_seconds_of_starvation_and_the_kernel_says_what_was_lost() {
    let lab = Lab::new(2);
    let daemon = Daemon::start(&lab.switch, &lab.config(""));
    assert!(lab.probe(1, 2, SECOND).is_some());
    assert!(lab.probe(2, 1, SECOND).is_some());
    let (sender, receiver) = (lab.socket(1), lab.socket(2));
    let (stop, sent) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                sender.send(&numbered(number)).unwrap();
            }
        });
        pause(SECOND / 4);
        daemon.signal(Signal::STOP);
        pause(SECOND * 3);
        while receiver.receive(SECOND / 100).is_some() {}
        let resumed_from = sent.load(Ordering::Relaxed);
        daemon.signal(Signal::CONT);
        let mut newest = None;
        let (resumed, took) = timed(|| {
            wait_until(SECOND, || {
                newest = receiver.receive(SECOND / 10).as_deref().and_then(number_of).or(newest);
                newest >= Some(resumed_from)
            })
        });
        stop.store(true, Ordering::Relaxed);
        assert!(resumed, "{took:?}, {newest:?} of {resumed_from}");
    });
    let port = daemon.port("p1");
    let lost = number(&port, "/kernel/rx_fill_ring_empty") + number(&port, "/kernel/rx_ring_full");
    assert!(lost > 0, "{port}");
    assert!(!daemon.log().contains("ERROR"), "{}", daemon.log());
    assert!(lab.probe(1, 2, SECOND).is_some(), "no restart was needed");
}

/// IPv4 UDP to a workload that is there, or not.
fn udp(from: u8, to: u8, port: u16, length: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(mac(from), mac(to)).ipv4(ip4(from).octets(), ip4(to).octets(), 64);
    builder.udp(4000, port).write(&mut frame, &vec![7; length]).unwrap();
    frame
}

/// Everything that can become of a frame, from one workload.
fn mixture(from: u8, to: u8) -> Vec<Vec<u8>> {
    let good = udp(from, to, 80, 18);
    let mut lying = good.clone();
    lying[16] = 9;
    let mut from_group = good.clone();
    from_group[6] |= 1;
    let mut control = good.clone();
    control[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0]);
    vec![
        good.clone(),
        udp(from, to, 81, 1400),
        udp(from, to, 23, 18),              // denied
        udp(from, 99, 80, 18),              // nobody knows 99: flooded, and never cached
        frame([0xff; 6], mac(from), 60, 1), // broadcast
        lying,                              // malformed
        udp(from, to, 82, 1000),
        from_group,              // bad source
        control,                 // link control
        udp(from, from, 80, 18), // same port
        good[..30].to_vec(),     // malformed
        udp(from, to, 83, 64),
    ]
}

/// Sends the mixture again and again.
fn pour(socket: &PacketSocket, frames: &[Vec<u8>], stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for frame in frames {
            // A full queue of the sender's device is not our affair.
            let _ = socket.send(frame);
        }
    }
}

#[test]
fn after_a_million_mixed_frames_every_chunk_is_where_it_must_be() {
    let wanted: u64 = if std::env::var_os("SLUICE_SOAK").is_some() { 10_000_000 } else { 1_000_000 };
    let lab = Lab::new(4);
    // A small ring, so that it is full at times.
    let config = lab
        .config("flows:\n  - { name: no-telnet, table: acl-from, match: { udp.dst: 23 }, action: deny }\n")
        .replace("ring: 1024", "ring: 64");
    let daemon = Daemon::start(&lab.switch, &config);
    for to in 2..=4 {
        assert!(lab.probe(to, 1, SECOND).is_some());
    }
    let quiet = || {
        let mut before = Value::Null;
        assert!(wait_until(SECOND * 20, || {
            let now = daemon.worker()["frames"].clone();
            let same = now == before;
            before = now;
            pause(SECOND / 4);
            same
        }));
        daemon.worker()
    };
    let lent = number(&quiet(), "/chunks_lent");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for (from, to) in [(1, 2), (2, 3)] {
            let (socket, frames, stop) = (lab.socket(from), mixture(from, to), &stop);
            scope.spawn(move || pour(&socket, &frames, stop));
        }
        pause(SECOND);
        // Nothing can be sent to workload 4 for a while: its ring fills.
        lab.switch.ip("link set p4 down");
        pause(SECOND);
        lab.switch.ip("link set p4 up");
        let done = wait_until(SECOND * 600, || {
            pause(SECOND / 2);
            number(&daemon.worker(), "/frames/rx") >= wanted
        });
        stop.store(true, Ordering::Relaxed);
        assert!(done, "{}", daemon.worker());
    });
    let worker = quiet();
    assert_eq!(number(&worker, "/chunks"), 8192);
    assert_eq!(number(&worker, "/chunks_free") + number(&worker, "/chunks_lent"), 8192, "{worker}");
    assert_eq!(number(&worker, "/chunks_lent"), lent, "what is lent when nothing moves is what was lent before");
    assert_eq!(worker["frames"]["balanced"], Value::Bool(true), "{worker}");
    assert_eq!(number(&worker, "/frames/held"), 0);
    let frames = |name: &str| number(&worker, &format!("/frames/{name}"));
    assert_eq!(
        frames("rx") + frames("generated") + frames("copies"),
        frames("tx") + frames("consumed") + frames("dropped"),
        "{worker}"
    );
    for reason in ["acl_from", "malformed", "bad_source", "link_local_control", "same_port", "tx_full"] {
        assert!(daemon.drops(reason) > 0, "the mixture has no {reason}: {}", daemon.get("drops"));
    }
    assert_eq!(number(&daemon.get("drops"), "/total"), frames("dropped"));
    assert!(frames("copies") > 0);
    for port in daemon.items("ports") {
        assert_eq!(number(&port, "/kernel/bad_descriptors"), 0, "{port}");
        assert_eq!(number(&port, "/kernel/rx_invalid") + number(&port, "/kernel/tx_invalid"), 0, "{port}");
    }
}
