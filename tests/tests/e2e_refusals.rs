//! What the daemon refuses at its start: each in one clear sentence, with its exit code, and nothing half done.
#![cfg(test)]

use std::{os::fd::AsFd, time::Duration};

use dataplane::sys::{
    bpf::{XdpHook, attach_xdp},
    link,
};
use tests::{
    daemon::Daemon,
    lab::{HEAD, Lab},
    netns_xdp::load_passing,
    program::Ended,
};

/// Requires that `ended` was refused with this code and one line, and that nothing was done; that line.
fn one_sentence(lab: &Lab, daemon: &Daemon<'_>, ended: &Ended, code: i32) -> String {
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    let said: Vec<&str> = ended.stderr.lines().filter(|line| !line.contains(" INFO ")).collect();
    assert_eq!(said.len(), 1, "{}", ended.stderr);
    for tenant in &lab.tenants {
        let device = format!("p{}", tenant.number);
        assert_eq!(lab.promiscuity(&device), 0, "{device}");
    }
    assert!(!daemon.socket().exists(), "the socket is left");
    said[0].to_owned()
}

#[test]
fn a_process_without_privilege_is_told_which_capabilities_it_lacks() {
    let lab = Lab::new(1);
    for (drop, lacks) in [
        (vec!["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"], "CAP_NET_RAW"),
        (vec!["--bounding-set=-net_raw", "--inh-caps=-net_raw"], "CAP_NET_RAW"),
        (vec!["--bounding-set=-bpf,-sys_admin", "--inh-caps=-bpf,-sys_admin"], "CAP_BPF"),
    ] {
        let wrap = [vec!["setpriv"], drop.clone()].concat();
        let mut daemon = Daemon::prepare(&lab.switch, &lab.config("")).by(&wrap);
        let ended = daemon.run_to_end();
        let said = one_sentence(&lab, &daemon, &ended, 5);
        assert!(said.starts_with("sluice: port p1: no privilege for "), "{drop:?}: {said}");
        assert!(said.contains(lacks), "{drop:?}: {said}");
        assert_eq!(lab.xdp_program("p1"), None);
    }
}

#[test]
fn too_little_locked_memory_is_told_with_the_need_the_limit_and_the_ways_out() {
    let lab = Lab::new(1);
    let wrap = ["prlimit", "--memlock=1048576:1048576", "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"];
    let mut daemon = Daemon::prepare(&lab.switch, &lab.config("")).by(&wrap);
    let ended = daemon.run_to_end();
    let said = one_sentence(&lab, &daemon, &ended, 5);
    let needed = 8192 * 4096;
    for part in [&format!("needs {needed} bytes of locked memory"), "1048576 bytes", "LimitMEMLOCK", "CAP_IPC_LOCK"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(lab.xdp_program("p1"), None);
}

#[test]
fn a_foreign_program_is_named_and_left_in_place_and_no_other_port_stays_attached() {
    let lab = Lab::new(2);
    let program = load_passing("someone_else").unwrap();
    let facts = lab.switch.run(|| link::facts("p2")).unwrap().unwrap();
    let link = lab.switch.run(|| attach_xdp(program.as_fd(), facts.ifindex, XdpHook::Native)).unwrap();
    let id = lab.xdp_program("p2");
    let mut daemon = Daemon::prepare(&lab.switch, &lab.config(""));
    let ended = daemon.run_to_end();
    let said = one_sentence(&lab, &daemon, &ended, 5);
    assert!(said.starts_with("sluice: port p2: p2 already runs the XDP program someone_else (id "), "{said}");
    assert_eq!((lab.xdp_program("p1"), lab.xdp_program("p2")), (None, id));
    drop(link);
    daemon.spawn();
    daemon.wait_ready();
    assert!(lab.probe(1, 2, Duration::from_secs(1)).is_some());
}

#[test]
fn an_mtu_that_can_not_be_is_refused_with_the_real_limit() {
    let lab = Lab::new(2);
    lab.switch.ip("link set p2 mtu 9000");
    let mut daemon = Daemon::prepare(&lab.switch, &lab.config(""));
    let ended = daemon.run_to_end();
    let said = one_sentence(&lab, &daemon, &ended, 5);
    assert_eq!(
        said,
        "sluice: port p2: p2 has an MTU of 9000, and frames of more than 3822 do not fit: ip link set p2 mtu 3822"
    );
    lab.switch.ip("link set p2 mtu 1500");
    daemon.write(&lab.config("").replace("device: p2,", "device: p2, mtu: 2000,"));
    let ended = daemon.run_to_end();
    let said = one_sentence(&lab, &daemon, &ended, 5);
    assert_eq!(said, "sluice: port p2: an MTU of 2000 is asked for, and p2 has 1500: ip link set p2 mtu 2000");
    assert_eq!(lab.xdp_program("p1"), None);
}

#[test]
fn queues_the_device_does_not_have_are_refused() {
    let lab = Lab::new(1);
    let mut daemon = Daemon::prepare(&lab.switch, &lab.config("").replace("device: p1,", "device: p1, queues: 4,"));
    let ended = daemon.run_to_end();
    let said = one_sentence(&lab, &daemon, &ended, 5);
    assert!(said.contains("p1 has 1 receive queues and 4 were asked for"), "{said}");
}

#[test]
fn an_invalid_file_ends_the_start_with_three_and_its_places_before_anything_is_touched() {
    let lab = Lab::new(1);
    let mut daemon = Daemon::prepare(&lab.switch, &format!("{HEAD}flows: [{{ nmae: x }}]\n"));
    let ended = daemon.run_to_end();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let path = daemon.config().display().to_string();
    assert!(ended.stderr.contains(&format!("{path}:3:11: unknown key \"nmae\" in a flow")), "{}", ended.stderr);
    assert!(ended.stderr.contains("did you mean \"name\"?"), "{}", ended.stderr);
    assert_eq!(lab.xdp_program("p1"), None);
    assert!(!daemon.socket().exists());
}

#[test]
fn a_second_daemon_on_the_socket_is_refused_and_the_first_goes_on_forwarding() {
    let lab = Lab::new(2);
    let first = Daemon::start(&lab.switch, &lab.config(""));
    let programs = (lab.xdp_program("p1"), lab.xdp_program("p2"));
    let mut command = tests::program::sluice();
    command.args(["run", "-c"]).arg(first.config()).arg("--socket").arg(first.socket());
    let ended = lab.switch.run(|| tests::program::ended(&mut command));
    assert_eq!(ended.code, Some(5));
    assert_eq!(
        ended.stderr,
        format!(
            "sluice: another sluice daemon runs on {}; stop it, or choose another path with --socket\n",
            first.socket().display()
        )
    );
    assert_eq!((lab.xdp_program("p1"), lab.xdp_program("p2")), programs);
    assert!(lab.probe(1, 2, Duration::from_secs(1)).is_some());
}

#[test]
fn a_second_daemon_on_the_same_devices_is_refused_and_the_first_goes_on_forwarding() {
    let lab = Lab::new(2);
    let _first = Daemon::start(&lab.switch, &lab.config(""));
    let programs = (lab.xdp_program("p1"), lab.xdp_program("p2"));
    let mut second = Daemon::prepare(&lab.switch, &lab.config(""));
    let ended = second.run_to_end();
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(ended.stderr.contains("p1 already runs the XDP program sluice_steer"), "{}", ended.stderr);
    assert_eq!((lab.xdp_program("p1"), lab.xdp_program("p2")), programs);
    assert!(lab.probe(1, 2, Duration::from_secs(1)).is_some());
}
