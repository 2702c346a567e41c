//! Frames through an AF_XDP port on a veth, against a raw socket on its peer.
#![cfg(test)]

use std::time::Duration;

use dataplane::port::{
    BURST, Port, PortMode, Quota,
    afxdp::{MAX_MTU, Mode, Options, Steer},
    umem::{MAX_FRAME_BYTES, Umem},
};
use flow_table::mac::MacAddr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tests::{
    netns::Netns,
    netns_packet::{PacketSocket, frame},
    netns_port::{TestPort, options},
    wait::{repeat_for, timed, wait_until},
};

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
const SECOND: Duration = Duration::from_secs(1);
/// The longest untagged frame.
const LONGEST: usize = MAX_MTU as usize + 14;

/// A switch's namespace with `port0`, and a tenant's with its peer `eth0`.
struct World {
    switch: Netns,
    tenant: Netns,
    outside: PacketSocket,
}

impl World {
    fn new(mtu: u32) -> Self {
        Self::with_queues(mtu, 1)
    }

    fn with_queues(mtu: u32, queues: u16) -> Self {
        let (switch, tenant) = (Netns::new(), Netns::new());
        switch.veth_with_queues("port0", &tenant, "eth0", mtu, queues);
        let outside = PacketSocket::open(&tenant, "eth0");
        Self { switch, tenant, outside }
    }

    fn attach(&self, options: &Options, chunks: u32) -> TestPort {
        TestPort::attach(&self.switch, options, chunks).unwrap()
    }
}

fn every_size_passes_both_ways(mode: Mode, expected: PortMode) {
    let world = World::new(MAX_MTU);
    let mut port = world.attach(&Options { mode, ..options("port0") }, 1024);
    assert_eq!((port.status().mode, port.status().queues), (expected, 1));
    let sizes: Vec<usize> = (14..=LONGEST).collect();
    for sizes in sizes.chunks(BURST) {
        let frames: Vec<_> = sizes.iter().map(|size| frame(A, B, *size, u32::try_from(*size).unwrap())).collect();
        for frame in &frames {
            world.outside.send(frame).unwrap();
        }
        assert_eq!(port.receive_all(frames.len()), frames, "received, of {sizes:?}");
        assert!(port.send_all(&frames));
        for frame in &frames {
            assert_eq!(world.outside.receive(SECOND).as_ref(), Some(frame), "sent, of {} bytes", frame.len());
        }
    }
    let status = port.status();
    assert_eq!(status.below, Default::default(), "nothing was lost below");
    let umem = port.close();
    assert_eq!((umem.free_chunks(), umem.lent_chunks()), (1024, 0));
}

#[test]
fn frames_of_every_size_up_to_the_mtu_limit_pass_unchanged_both_ways() {
    every_size_passes_both_ways(Mode::Best, PortMode::Copy);
}

#[test]
fn frames_of_every_size_pass_unchanged_in_generic_mode_too() {
    every_size_passes_both_ways(Mode::Generic, PortMode::Generic);
}

#[test]
fn a_tagged_frame_of_the_full_chunk_passes_both_ways() {
    let world = World::new(MAX_MTU);
    let mut port = world.attach(&options("port0"), 512);
    let untagged = frame(A, B, MAX_FRAME_BYTES - 4, 1);
    let tagged = [&untagged[..12], &[0x81, 0, 0, 5], &untagged[12..]].concat();
    assert_eq!(tagged.len(), MAX_FRAME_BYTES);
    world.outside.send(&tagged).unwrap();
    assert_eq!(port.receive_all(1).first(), Some(&tagged));
    assert!(port.send_all(std::slice::from_ref(&tagged)));
    assert_eq!(world.outside.receive(SECOND), Some(tagged));
}

#[test]
fn a_frame_longer_than_a_chunk_is_dropped_and_counted() {
    for mode in [Mode::Copy, Mode::Generic] {
        let world = World::new(MAX_MTU);
        let mut port = world.attach(&Options { mode, ..options("port0") }, 512);
        // The neighbour's side alone has the larger MTU; ours was checked when it was attached.
        world.tenant.ip("link set eth0 mtu 9000");
        world.switch.ip("link set port0 mtu 9000");
        let fits = frame(A, B, MAX_FRAME_BYTES, 3);
        world.outside.send(&frame(A, B, MAX_FRAME_BYTES + 1, 1)).unwrap();
        world.outside.send(&frame(A, B, 9014, 2)).unwrap();
        world.outside.send(&fits).unwrap();
        assert_eq!(port.receive_all(1), [fits], "{mode:?}");
        let below = port.status().below;
        assert_eq!((below.rx_dropped, below.bad_descriptors), (2, 0), "{mode:?}");
        let umem = port.close();
        assert_eq!(umem.free_chunks(), 512);
    }
}

#[test]
fn receiving_resumes_after_a_second_without_polling_under_a_flood() {
    let world = World::new(1500);
    let mut port = world.attach(&options("port0"), 1024);
    let flood = frame(A, B, 60, 9);
    let sent = repeat_for(SECOND, || world.outside.send(&flood).unwrap());
    assert!(sent > 1024, "the flood was one: {sent} frames");
    let below = port.status().below;
    assert!(below.rx_fill_ring_empty + below.rx_ring_full > 0, "the starvation is told: {below:?}");
    assert_eq!(below.rx_dropped, 0, "and not mistaken for frames that do not fit");
    let backlog = port.receive_all(256).len();
    assert_eq!(backlog, 256, "the ring's worth was kept");
    let (resumed, time) = timed(|| {
        wait_until(SECOND, || {
            world.outside.send(&frame(A, B, 77, 10)).unwrap();
            port.receive().iter().any(|frame| frame.len() == 77)
        })
    });
    assert!(resumed, "receiving resumed within a second");
    assert!(port.send_all(&vec![flood; 100]), "and so did sending, after {time:?}");
}

#[test]
fn every_receive_queue_is_served_and_a_wrong_number_is_refused() {
    let world = World::with_queues(1500, 4);
    for asked in [1, 3, 5, 999] {
        let refused = TestPort::attach(&world.switch, &Options { queues: Some(asked), ..options("port0") }, 256);
        let text = refused.unwrap_err().to_string();
        assert!(text.starts_with(&format!("port0 has 4 receive queues and {asked} were asked for")), "{text}");
    }
    let mut port = world.attach(&Options { queues: Some(4), ..options("port0") }, 2048);
    assert_eq!(port.status().queues, 4);
    assert!(!is_ready(&port));
    for flow in 0..128_u8 {
        world.outside.send(&udp(flow)).unwrap();
    }
    assert!(wait_until(SECOND, || is_ready(&port)), "readable when any of its queues is");
    let mut ports: Vec<u8> = port.receive_all(128).iter().map(|frame| frame[35]).collect();
    ports.sort_unstable();
    assert_eq!(ports, (0..128).collect::<Vec<_>>(), "no flow was on a queue nobody serves");
    let taken = port.attachment.as_ref().unwrap().counters().unwrap();
    assert_eq!((taken.taken, taken.passed, taken.dropped), (128, 0, 0));
    assert_eq!(port.close().free_chunks(), 2048);
}

/// Whether a worker sleeping on the port would be woken within a hundredth of a second.
fn is_ready(port: &TestPort) -> bool {
    let readiness = port.port.readiness().unwrap();
    let mut fds = [PollFd::new(&readiness, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 })).unwrap() > 0
}

/// A UDP datagram over IPv4 from this port.
fn udp(source_port: u8) -> Vec<u8> {
    let mut bytes = frame(A, B, 60, 1);
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..34].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes[34..42].copy_from_slice(&[9, source_port, 9, 9, 0, 26, 0, 0]);
    bytes
}

#[test]
fn with_owned_steering_the_host_keeps_every_frame_that_is_not_ours() {
    let world = World::new(1500);
    let mut port = world.attach(&Options { steer: Steer::Owned, ..options("port0") }, 512);
    let host = PacketSocket::open(&world.switch, "port0");
    let (ours, hosts) = (frame(A, B, 60, 1), frame(B, B, 60, 2));
    let own = |port: &mut TestPort, macs: &[[u8; 6]]| {
        let macs: Vec<_> = macs.iter().map(|mac| MacAddr(*mac)).collect();
        port.attachment.as_mut().unwrap().set_owned(&macs, &[]).unwrap();
    };
    own(&mut port, &[A]);
    world.outside.send(&hosts).unwrap();
    world.outside.send(&ours).unwrap();
    assert_eq!(port.receive_all(1).first(), Some(&ours));
    assert_eq!(host.receive(SECOND), Some(hosts.clone()));
    own(&mut port, &[]);
    world.outside.send(&ours).unwrap();
    assert_eq!(host.receive(SECOND), Some(ours), "given up, it is the host's again");
    let counters = port.attachment.as_ref().unwrap().counters().unwrap();
    assert_eq!((counters.taken, counters.passed, counters.dropped), (1, 2, 0));
}

#[test]
fn a_port_that_takes_all_leaks_nothing_to_the_host_when_its_sockets_are_gone() {
    let world = World::new(1500);
    let host = PacketSocket::open(&world.switch, "port0");
    let TestPort { port, attachment, .. } = world.attach(&options("port0"), 512);
    port.close();
    world.outside.send(&frame(A, B, 60, 1)).unwrap();
    assert_eq!(host.receive(Duration::from_millis(200)), None);
    assert_eq!(attachment.unwrap().counters().unwrap().dropped, 1);
}

#[test]
fn every_chunk_is_accounted_for_after_mixed_traffic_and_after_closing() {
    let world = World::new(1500);
    let mut port = world.attach(&options("port0"), 512);
    for round in 0..200 {
        let frames: Vec<_> = (0..100).map(|n| frame(A, B, 14 + (round * 7 + n * 13) % 1500, 1)).collect();
        for frame in &frames {
            world.outside.send(frame).unwrap();
        }
        // Sends more than the ring holds, half of it before anything is received.
        assert!(port.send_all(&frames));
        port.receive();
        let (free, lent) = (port.umem.free_chunks(), usize::try_from(port.umem.lent_chunks()).unwrap());
        assert_eq!(free + lent, 512, "round {round}");
    }
    port.port.set_quota(Quota::most(16));
    while !port.receive().is_empty() {}
    assert!(wait_until(SECOND, || {
        port.port.tx(&mut port.umem, &mut Vec::new());
        port.umem.lent_chunks() <= 256
    }));
    assert_eq!(port.status().below.bad_descriptors, 0);
    let umem = port.close();
    assert_eq!((umem.free_chunks(), umem.lent_chunks()), (512, 0));
}

#[test]
fn an_empty_frame_is_counted_and_never_given_to_the_kernel() {
    let world = World::new(1500);
    let mut port = world.attach(&options("port0"), 512);
    assert!(port.send_all(&[Vec::new(), frame(A, B, 60, 1)]));
    assert_eq!(world.outside.receive(SECOND), Some(frame(A, B, 60, 1)));
    let below = port.status().below;
    assert_eq!((below.bad_descriptors, below.tx_invalid), (1, 0));
}

#[test]
fn a_device_that_is_down_does_not_keep_the_port_busy() {
    let world = World::new(1500);
    let mut port = world.attach(&options("port0"), 512);
    world.switch.ip("link set port0 down");
    let mut queue = vec![port.umem.copy_in(&frame(A, B, 60, 1)).unwrap()];
    port.port.tx(&mut port.umem, &mut queue);
    assert!(!port.port.is_busy());
    world.switch.ip("link set port0 up");
    let outside = &world.outside;
    assert!(wait_until(SECOND, || {
        port.port.tx(&mut port.umem, &mut queue);
        outside.receive(Duration::from_millis(10)).is_some()
    }));
    assert_eq!(port.close().free_chunks(), 512);
}

#[test]
fn a_device_that_is_deleted_ends_the_port_quietly_and_one_of_the_same_name_is_attached_anew() {
    let (switch, tenant) = (Netns::new(), Netns::new());
    let mut last_index = 0;
    for round in 0..10 {
        switch.veth("port0", &tenant, "eth0", 1500);
        let outside = PacketSocket::open(&tenant, "eth0");
        let mut port = TestPort::attach(&switch, &options("port0"), 512).unwrap();
        let attachment = port.attachment.take().unwrap();
        assert!(switch.run(|| attachment.is_in_place()).unwrap());
        outside.send(&frame(A, B, 60, round)).unwrap();
        assert_eq!(port.receive_all(1), [frame(A, B, 60, round)]);
        assert_ne!(std::mem::replace(&mut last_index, attachment.facts().ifindex), attachment.facts().ifindex);

        switch.ip("link del port0");
        assert!(!switch.run(|| attachment.is_in_place()).unwrap());
        let mut queue = vec![port.umem.copy_in(&frame(A, B, 60, 1)).unwrap()];
        port.port.tx(&mut port.umem, &mut queue);
        assert!(port.receive().is_empty() && !port.port.is_busy());
        let readiness = port.port.readiness().unwrap();
        let mut fds = [PollFd::new(&readiness, PollFlags::IN)];
        assert_eq!(
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 })),
            Ok(0),
            "a worker may sleep on it"
        );
        drop(attachment);
        assert_eq!(port.close().free_chunks(), 512);
    }
}

#[test]
fn a_device_moved_to_another_namespace_or_renamed_is_no_longer_in_place() {
    let world = World::new(1500);
    let port = world.attach(&options("port0"), 512);
    let attachment = port.attachment.as_ref().unwrap();
    world.switch.ip("link set port0 down");
    world.switch.ip("link set port0 name other0");
    assert!(!world.switch.run(|| attachment.is_in_place()).unwrap());
    world.switch.ip("link set other0 name port0");
    world.switch.ip("link set port0 up");
    assert!(world.switch.run(|| attachment.is_in_place()).unwrap(), "the name has come back");
    let elsewhere = Netns::new();
    world.switch.ip(&format!("link set port0 netns {}", elsewhere.name()));
    assert!(!world.switch.run(|| attachment.is_in_place()).unwrap());
    assert_eq!(port.close().free_chunks(), 512);
}

#[test]
fn where_the_driver_refuses_native_xdp_generic_serves_and_the_reason_is_told() {
    let (switch, tenant) = (Netns::new(), Netns::new());
    // A veth takes native XDP only with a receive queue for each transmit queue of its peer.
    switch.ip(&format!(
        "link add port0 numrxqueues 1 numtxqueues 1 type veth peer name eth0 numtxqueues 4 numrxqueues 1 netns {}",
        tenant.name()
    ));
    switch.ip("link set port0 up");
    tenant.ip("link set eth0 up");
    let outside = PacketSocket::open(&tenant, "eth0");
    let mut port = TestPort::attach(&switch, &options("port0"), 512).unwrap();
    assert_eq!(port.status().mode, PortMode::Generic);
    let notes = port.attachment.as_ref().unwrap().notes().join("\n");
    let reason = "port0 has no native XDP: its peer has more transmit queues than it has receive queues";
    assert!(notes.contains(reason), "{notes}");
    outside.send(&frame(A, B, 60, 1)).unwrap();
    assert_eq!(port.receive_all(1), [frame(A, B, 60, 1)]);
}

#[test]
fn a_port_moves_no_frames_of_a_memory_it_was_not_attached_with() {
    let world = World::new(1500);
    let mut port = world.attach(&options("port0"), 512);
    let mut other = Umem::new(64).unwrap();
    let mut frames = vec![other.copy_in(&frame(A, B, 60, 1)).unwrap()];
    port.port.tx(&mut other, &mut frames);
    assert_eq!(frames.len(), 1);
    port.port.rx(&mut other, &mut frames, BURST);
    assert_eq!((frames.len(), other.free_chunks(), other.lent_chunks()), (1, 63, 0));
}
