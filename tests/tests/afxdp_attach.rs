//! Attaching and leaving: what is refused and in which words, and that nothing stays behind.
#![cfg(test)]

use std::{
    io::{BufRead, BufReader},
    num::NonZeroU32,
    os::fd::{AsFd, AsRawFd},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::Duration,
};

use dataplane::{
    port::{
        Port,
        afxdp::{AttachError, MAX_MTU, Options, OwnedError, Steer, attach},
        umem::{Borrower, Umem},
    },
    sys::{
        bpf::{XdpHook, attach_xdp},
        link::{LinkFacts, facts},
    },
};
use flow_table::mac::MacAddr;
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::{CapabilitySet, capabilities, set_capabilities},
};
use tests::{
    netns::Netns,
    netns_packet::{PacketSocket, frame},
    netns_port::{TestPort, borrower, options},
    netns_xdp::load_passing,
    wait::{timed, wait_until},
};

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];

/// A namespace with `port0`, and another with its peer `eth0`.
fn pair(mtu: u32) -> (Netns, Netns) {
    let (switch, tenant) = (Netns::new(), Netns::new());
    switch.veth("port0", &tenant, "eth0", mtu);
    (switch, tenant)
}

fn facts_of(netns: &Netns) -> LinkFacts {
    netns.run(|| facts("port0")).unwrap().unwrap()
}

fn refused(netns: &Netns, options: &Options) -> (AttachError, String) {
    let error = TestPort::attach(netns, options, 256).unwrap_err();
    let text = error.to_string();
    (error, text)
}

#[test]
fn a_device_that_does_not_exist_is_named() {
    let netns = Netns::new();
    for name in ["nosuch0", "", "a-name-of-more-than-15-bytes", "up\0", "../up0", "üp0"] {
        let (error, text) = refused(&netns, &options(name));
        assert!(matches!(error, AttachError::NoSuchDevice { .. }), "{error:?}");
        assert_eq!(text, format!("there is no network device {name}"));
    }
}

#[test]
fn a_device_that_is_down_is_refused_with_the_command_that_helps() {
    let (switch, _tenant) = pair(1500);
    switch.ip("link set port0 down");
    assert_eq!(refused(&switch, &options("port0")).1, "port0 is down: set it up (ip link set port0 up)");
}

#[test]
fn somebody_elses_program_is_refused_by_name_and_left_in_place() {
    let (switch, _tenant) = pair(1500);
    for hook in [XdpHook::Native, XdpHook::Generic] {
        let program = load_passing("someone_else").unwrap();
        let index = facts_of(&switch).ifindex;
        let link = switch.run(|| attach_xdp(program.as_fd(), index, hook)).unwrap();
        let id = facts_of(&switch).xdp_program.unwrap();
        let (_, text) = refused(&switch, &options("port0"));
        assert_eq!(
            text,
            format!(
                "port0 already runs the XDP program someone_else (id {id}), which was not displaced: detach it or choose \
                 another device"
            )
        );
        assert_eq!(facts_of(&switch).xdp_program, Some(id));
        drop(link);
        assert_eq!(facts_of(&switch).xdp_program, None);
    }
}

#[test]
fn an_mtu_whose_frames_do_not_fit_is_refused_with_the_limit() {
    assert_eq!(MAX_MTU, 3822);
    let (switch, _tenant) = pair(9000);
    assert_eq!(
        refused(&switch, &options("port0")).1,
        "port0 has an MTU of 9000, and frames of more than 3822 do not fit: ip link set port0 mtu 3822"
    );
    switch.ip("link set port0 mtu 3823");
    assert!(matches!(refused(&switch, &options("port0")).0, AttachError::Mtu { mtu: 3823, .. }));
    switch.ip("link set port0 mtu 3822");
    assert_eq!(TestPort::attach(&switch, &options("port0"), 256).unwrap().close().free_chunks(), 256);
}

#[test]
fn a_ring_that_is_no_allowed_power_of_two_is_refused_with_those_allowed() {
    let (switch, _tenant) = pair(1500);
    for ring in [0, 2, 32, 63, 3000, 65536, u32::MAX] {
        let (_, text) = refused(&switch, &Options { ring, ..options("port0") });
        assert_eq!(text, format!("a ring has a power of two of slots from 64 to 32768, not {ring}"));
    }
    for ring in [64, 32768] {
        let port = TestPort::attach(&switch, &Options { ring, ..options("port0") }, 256).unwrap();
        assert_eq!(port.close().free_chunks(), 256);
    }
}

/// Runs with these capabilities taken from this thread, which is to end soon.
fn without(lost: CapabilitySet, options: &Options, chunks: u32) -> AttachError {
    let umem = Umem::new(chunks).unwrap();
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(lost);
    set_capabilities(None, sets).unwrap();
    attach(options, &umem.area(), borrower()).unwrap_err()
}

#[test]
fn missing_privilege_is_told_by_the_capabilities_that_are_missing() {
    let (switch, _tenant) = pair(1500);
    let bpf = CapabilitySet::BPF | CapabilitySet::SYS_ADMIN;
    let (raw, net) = (CapabilitySet::NET_RAW, CapabilitySet::NET_ADMIN);
    for (lost, told) in [
        (raw, "no privilege for opening an AF_XDP socket on port0: the process lacks CAP_NET_RAW"),
        (bpf, "no privilege for loading the steering program on port0: the process lacks CAP_BPF"),
        (
            bpf | net | raw,
            "no privilege for loading the steering program on port0: the process lacks CAP_NET_RAW, CAP_BPF, CAP_NET_ADMIN",
        ),
    ] {
        let error = switch.run(|| without(lost, &options("port0"), 256));
        assert_eq!(error.to_string(), told);
        assert_eq!(facts_of(&switch).xdp_program, None);
    }
}

#[test]
fn frame_memory_over_the_locked_memory_limit_is_told_with_both_numbers() {
    let (switch, _tenant) = pair(1500);
    // For other tests' threads, which keep CAP_IPC_LOCK, the limit has no meaning.
    let maximum = getrlimit(Resource::Memlock).maximum;
    setrlimit(Resource::Memlock, Rlimit { current: Some(8 << 20), maximum }).unwrap();
    let error = switch.run(|| without(CapabilitySet::IPC_LOCK, &options("port0"), 4096));
    assert!(matches!(error, AttachError::LockedMemory { queues: 1, .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.starts_with("the frame memory for port0 needs 16777216 bytes of locked memory (1 x 16777216"),
        "{text}"
    );
    assert!(text.contains("the limit is 8388608 bytes") && text.contains("LimitMEMLOCK=infinity"), "{text}");
    assert_eq!(facts_of(&switch).xdp_program, None);
    // What failed left no socket behind that would keep the queue.
    assert_eq!(TestPort::attach(&switch, &options("port0"), 4096).unwrap().close().free_chunks(), 4096);
}

#[test]
fn a_queue_that_stays_busy_is_named_after_a_bounded_wait() {
    let (switch, _tenant) = pair(1500);
    let mut holder = TestPort::attach(&switch, &options("port0"), 256).unwrap();
    holder.attachment = None;
    let ((_, text), time) = timed(|| refused(&switch, &options("port0")));
    assert_eq!(text, "queue 0 of port0 is busy: another AF_XDP socket has held it for three seconds");
    assert!(time >= Duration::from_secs(2) && time < Duration::from_secs(8), "{time:?}");
    assert_eq!(facts_of(&switch).xdp_program, None);
    assert_eq!(holder.close().free_chunks(), 256);
}

#[test]
fn twenty_quick_cycles_of_attaching_and_closing_all_succeed() {
    let (switch, tenant) = pair(1500);
    let outside = PacketSocket::open(&tenant, "eth0");
    let mut umem = Umem::new(512).unwrap();
    for cycle in 1..=20 {
        let area = umem.area();
        let us = Borrower(NonZeroU32::new(cycle).unwrap());
        let (port, attachment) = switch.run(|| attach(&options("port0"), &area, us)).unwrap();
        let mut port = Box::new(port);
        let mut received = Vec::with_capacity(64);
        port.rx(&mut umem, &mut received, 64);
        outside.send(&frame(A, A, 60, cycle)).unwrap();
        let came = wait_until(Duration::from_secs(1), || {
            port.rx(&mut umem, &mut received, 64);
            !received.is_empty()
        });
        assert!(came, "cycle {cycle} forwards");
        drop(attachment);
        assert_eq!(facts_of(&switch).xdp_program, None, "detached by dropping");
        let closed = (port as Box<dyn Port>).close();
        assert_eq!(closed, Some(us));
        assert_eq!(umem.reclaim_all(us), 256, "cycle {cycle}");
        received.drain(..).for_each(|frame| umem.discard(frame));
        assert_eq!((umem.free_chunks(), umem.lent_chunks()), (512, 0));
    }
}

#[test]
fn promiscuous_mode_lasts_as_long_as_the_attachment() {
    let (switch, _tenant) = pair(1500);
    let before = facts_of(&switch).promiscuity;
    let mut port = TestPort::attach(&switch, &Options { promiscuous: true, ..options("port0") }, 256).unwrap();
    assert_eq!(facts_of(&switch).promiscuity, before + 1);
    port.attachment = None;
    assert_eq!(facts_of(&switch).promiscuity, before);
}

#[test]
fn more_owned_addresses_than_fit_are_refused_and_nothing_changes() {
    let (switch, _tenant) = pair(1500);
    let mut port = TestPort::attach(&switch, &Options { steer: Steer::Owned, ..options("port0") }, 256).unwrap();
    let attachment = port.attachment.as_mut().unwrap();
    let many: Vec<_> = (0..1025).map(MacAddr::from_u64).collect();
    let error = attachment.set_owned(&many, &[]).unwrap_err();
    assert!(matches!(error, OwnedError::TooMany { max: 1024, asked: 1025, .. }));
    assert_eq!(error.to_string(), "a device can own 1024 MAC addresses, not 1025");
    attachment.set_owned(&many[..1024], &[]).unwrap();
    attachment.set_owned(&many[..3], &["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()]).unwrap();
    attachment.set_owned(&many[1..4], &[]).unwrap();
}

#[test]
fn a_device_says_what_it_is() {
    let (switch, _tenant) = pair(1400);
    switch.ip("link set port0 address 02:00:00:00:00:77");
    let facts = facts_of(&switch);
    assert_eq!((facts.mtu, facts.mac, facts.up), (1400, Some(MacAddr([2, 0, 0, 0, 0, 0x77])), true));
    assert_eq!((facts.rx_queues, facts.tx_queues, facts.xdp_program), (1, 1, None));
    let port = TestPort::attach(&switch, &options("port0"), 256).unwrap();
    let attachment = port.attachment.as_ref().unwrap();
    assert_eq!(attachment.facts(), &facts);
    let notes = attachment.notes().join("\n");
    assert!(notes.starts_with("port0 has no zero-copy: "), "{notes}");
    assert!(facts.is_veth && notes.contains("port0 is a veth: VLAN tags"), "{notes}");
}

#[test]
fn a_killed_process_leaves_no_program_no_promiscuous_mode_and_no_busy_queue() {
    let (switch, tenant) = pair(1500);
    let before = facts_of(&switch);
    let mut child = switch.run(|| {
        Command::new(env!("CARGO_BIN_EXE_hold_port"))
            .arg("port0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("attached ")), "the child attached");
    let during = facts_of(&switch);
    assert!(during.xdp_program.is_some());
    assert_eq!(during.promiscuity, before.promiscuity + 1);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert!(wait_until(Duration::from_secs(2), || facts_of(&switch) == before), "{:?}", facts_of(&switch));
    // The host's traffic on the device flows again, and so does a port attached anew.
    let (host, outside) = (PacketSocket::open(&switch, "port0"), PacketSocket::open(&tenant, "eth0"));
    outside.send(&frame(A, A, 60, 1)).unwrap();
    assert_eq!(host.receive(Duration::from_secs(1)), Some(frame(A, A, 60, 1)));
    let mut port = TestPort::attach(&switch, &options("port0"), 512).unwrap();
    assert!(port.port.readiness().unwrap().as_raw_fd() >= 0);
    outside.send(&frame(A, A, 60, 2)).unwrap();
    assert_eq!(port.receive_all(1), [frame(A, A, 60, 2)]);
}
