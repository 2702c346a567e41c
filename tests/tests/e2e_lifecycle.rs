//! The daemon's life: start, stop, death, and devices that come and go under it.
#![cfg(test)]

use std::time::Duration;

use bench::transfer;
use serde_json::Value;
use tests::{
    daemon::{Daemon, number},
    lab::Lab,
    wait::{pause, timed, wait_until},
};

const SECOND: Duration = Duration::from_secs(1);

fn assert_untouched(lab: &Lab, device: &str) {
    assert_eq!(lab.xdp_program(device), None, "{device}: a program is left");
    assert_eq!(lab.promiscuity(device), 0, "{device}: promiscuous is left");
}

#[test]
fn twenty_restarts_without_a_pause_all_come_up_and_forward() {
    let lab = Lab::new(2);
    let mut daemon = Daemon::start(&lab.switch, &lab.config(""));
    for round in 1..=20 {
        assert_eq!(daemon.stop(), Some(0), "round {round}:\n{}", daemon.log());
        daemon.spawn();
        daemon.wait_ready();
        for port in ["p1", "p2"] {
            assert_eq!(daemon.state(port), "attached", "round {round}:\n{}", daemon.log());
        }
        assert!(lab.probe(1, 2, SECOND).is_some(), "round {round}");
    }
}

#[test]
fn after_kill_nine_no_program_is_left_the_device_works_for_the_host_and_a_start_needs_no_manual_step() {
    let lab = Lab::new(2);
    lab.switch.ip("address add 10.0.0.201/24 dev p1");
    let mut daemon = Daemon::start(&lab.switch, &lab.config(""));
    assert!(lab.probe(1, 2, SECOND).is_some());
    let host: std::net::IpAddr = "10.0.0.201".parse().unwrap();
    for round in 1..=3 {
        assert_ne!(lab.xdp_program("p1"), None);
        daemon.kill();
        let gone = wait_until(SECOND, || lab.xdp_program("p1").is_none() && lab.xdp_program("p2").is_none());
        assert!(gone, "round {round}");
        transfer::tcp(lab.tenant(1).get(), lab.switch.get(), (host, 0).into(), 100_000)
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        daemon.spawn();
        daemon.wait_ready();
        assert!(lab.probe(1, 2, SECOND).is_some(), "round {round}:\n{}", daemon.log());
    }
    assert_eq!(daemon.stop(), Some(0));
    assert_untouched(&lab, "p1");
}

#[test]
fn ports_are_promiscuous_while_the_daemon_runs_and_neither_after_a_stop_nor_after_kill_nine() {
    let lab = Lab::new(2);
    let mut daemon = Daemon::start(&lab.switch, &lab.config(""));
    assert_eq!((lab.promiscuity("p1"), lab.promiscuity("p2")), (1, 1));
    assert_eq!(daemon.stop(), Some(0));
    assert_untouched(&lab, "p1");
    assert_untouched(&lab, "p2");
    daemon.spawn();
    daemon.wait_ready();
    assert_eq!(lab.promiscuity("p1"), 1);
    daemon.kill();
    assert!(wait_until(SECOND, || lab.promiscuity("p1") == 0 && lab.promiscuity("p2") == 0));
}

#[test]
fn a_device_made_anew_ten_times_forwards_within_two_seconds_and_counters_go_on_and_nothing_leaks() {
    let lab = Lab::new(2);
    let daemon = Daemon::start(&lab.switch, &lab.config(""));
    let pid = daemon.pid();
    let sent = |daemon: &Daemon<'_>| number(&daemon.port("p2"), "/tx/packets");
    // Connections of this test to its API come and go: the fewest at a time count.
    let fewest = |daemon: &Daemon<'_>| {
        (0..20)
            .map(|_| {
                pause(SECOND / 100);
                daemon.descriptors()
            })
            .min()
    };
    let descriptors = fewest(&daemon);
    let mut before = 0;
    for round in 1..=10 {
        assert!(lab.probe(1, 2, SECOND).is_some(), "round {round}");
        let now = sent(&daemon);
        assert!(now > before, "round {round}: {before} then {now}");
        before = now;
        lab.switch.ip("link delete p2");
        let missing = wait_until(2 * SECOND, || daemon.state("p2") == "missing");
        assert!(missing, "round {round}: {}", daemon.port("p2"));
        assert_eq!(daemon.port("p2")["why"], "device p2 is gone");
        assert!(sent(&daemon) >= before, "round {round}: counters are kept while it is missing");
        lab.plug(2, 1500);
        let took = lab.probe(1, 2, 2 * SECOND);
        assert!(took.is_some(), "round {round}: not within two seconds:\n{}", daemon.log());
        assert!(sent(&daemon) >= before, "round {round}: counters go on");
    }
    assert_eq!(daemon.pid(), pid);
    assert_eq!(fewest(&daemon), descriptors);
    assert!(number(&daemon.worker(), "/frames/tx") > 0);
    assert_eq!(daemon.worker()["frames"]["balanced"], Value::Bool(true));
}

#[test]
fn a_missing_device_is_no_reason_not_to_start_and_is_attached_when_it_appears() {
    let lab = Lab::new(2);
    lab.switch.ip("link delete p2");
    let daemon = Daemon::start(&lab.switch, &lab.config(""));
    assert_eq!((daemon.state("p1"), daemon.state("p2")), ("attached".to_owned(), "missing".to_owned()));
    assert_eq!(daemon.port("p2")["why"], "device p2 does not exist");
    lab.plug(2, 1500);
    let (healed, took) = timed(|| lab.probe(1, 2, 2 * SECOND));
    assert!(healed.is_some(), "{took:?}\n{}", daemon.log());
    assert_eq!(daemon.state("p2"), "attached");
    assert_eq!(daemon.log().matches("p2: missing").count(), 1, "told once:\n{}", daemon.log());
}

#[test]
fn a_stop_leaves_the_devices_as_they_were_and_no_socket() {
    let lab = Lab::new(1);
    let link = |lab: &Lab| {
        let link = lab.link("p1");
        ["mtu", "flags", "promiscuity", "allmulti", "xdp"].map(|name| link[0].get(name).cloned())
    };
    let before = link(&lab);
    let mut daemon = Daemon::start(&lab.switch, &lab.config(""));
    assert_ne!(link(&lab), before);
    assert_eq!(daemon.stop(), Some(0));
    assert_eq!(link(&lab), before);
    assert!(!daemon.socket().exists());
}

#[test]
fn a_device_that_is_renamed_or_moved_away_is_missing_and_forwards_again_when_its_name_returns() {
    let lab = Lab::new(2);
    let daemon = Daemon::start(&lab.switch, &lab.config(""));
    for (away, back) in [("name q2", "link set q2 name p2"), ("netns", "link set p2 netns")] {
        assert!(lab.probe(1, 2, 2 * SECOND).is_some(), "{away}");
        let elsewhere = tests::netns::Netns::new();
        if away == "netns" {
            lab.switch.ip(&format!("link set p2 netns {}", elsewhere.name()));
        } else {
            lab.switch.ip(&format!("link set p2 {away}"));
        }
        assert!(wait_until(2 * SECOND, || daemon.state("p2") == "missing"), "{away}: {}", daemon.port("p2"));
        pause(SECOND / 2);
        if away == "netns" {
            elsewhere.ip(&format!("{back} {}", lab.switch.name()));
            lab.switch.ip("link set p2 up");
        } else {
            lab.switch.ip(back);
        }
        assert!(lab.probe(1, 2, 2 * SECOND).is_some(), "{away}:\n{}", daemon.log());
    }
    let log = daemon.log();
    assert_eq!(log.matches("p2: missing").count(), 2, "told once each:\n{log}");
}
