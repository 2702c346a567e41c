//! The steering program by itself, run on literal frames by `BPF_PROG_TEST_RUN`.
#![cfg(test)]

use std::os::fd::{AsFd, OwnedFd};

use aya::{
    Ebpf, EbpfLoader, TestRun, TestRunOptions, include_bytes_aligned,
    maps::{HashMap, PerCpuArray, XskMap},
    programs::Xdp,
};
use ebpf_layout::steer::{self, AddressKey, MacKey, Owned};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

static OBJECT: &[u8] = include_bytes_aligned!("../../ebpf/sluice.bpf.o");

const DROP: u32 = 1;
const PASS: u32 = 2;
const REDIRECT: u32 = 4;

const OURS: MacKey = [2, 0, 0, 0, 0, 1];
const OTHER: MacKey = [2, 0, 0, 0, 0, 2];
const BROADCAST: MacKey = [0xff; 6];
const OUR_V4: [u8; 4] = [192, 0, 2, 1];
const OTHER_V4: [u8; 4] = [192, 0, 2, 9];
const OUR_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const OTHER_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
/// The group the address ending in 1 is solicited at, and its MAC address.
const SOLICITED: MacKey = [0x33, 0x33, 0xff, 0, 0, 1];

/// A loaded program that owns [`OURS`], [`OUR_V4`] and [`OUR_V6`].
struct Program {
    ebpf: Ebpf,
    _socket: Option<OwnedFd>,
}

impl Program {
    fn load(mode: u32) -> Self {
        let mut ebpf = EbpfLoader::new().override_global(steer::MODE, &mode, true).load(OBJECT).unwrap();
        let program: &mut Xdp = ebpf.program_mut(steer::PROGRAM).unwrap().try_into().unwrap();
        program.load().unwrap();
        let mut macs = HashMap::<_, MacKey, Owned>::try_from(ebpf.map_mut(steer::OWNED_MACS).unwrap()).unwrap();
        macs.insert(OURS, 0, 0).unwrap();
        let map = ebpf.map_mut(steer::OWNED_ADDRESSES).unwrap();
        let mut addresses = HashMap::<_, AddressKey, Owned>::try_from(map).unwrap();
        addresses.insert(steer::mapped(OUR_V4), 0, 0).unwrap();
        addresses.insert(OUR_V6, 0, 0).unwrap();
        Self { ebpf, _socket: None }
    }

    /// As `load`, with a socket for queue 0, which is the one test runs come from.
    fn with_socket(mode: u32) -> Self {
        let mut program = Self::load(mode);
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None).unwrap();
        XskMap::try_from(program.ebpf.map_mut(steer::SOCKETS).unwrap()).unwrap().set(0, socket.as_fd(), 0).unwrap();
        program._socket = Some(socket);
        program
    }

    fn run(&mut self, frame: &[u8]) -> u32 {
        let program: &mut Xdp = self.ebpf.program_mut(steer::PROGRAM).unwrap().try_into().unwrap();
        program.test_run(TestRunOptions { data_in: Some(frame), ..TestRunOptions::new() }).unwrap().return_value
    }

    /// Taken, passed, dropped.
    fn counters(&self) -> [u64; 3] {
        let map = PerCpuArray::<_, u64>::try_from(self.ebpf.map(steer::COUNTERS).unwrap()).unwrap();
        [steer::TAKEN, steer::PASSED, steer::DROPPED].map(|index| map.get(&index, 0).unwrap().iter().sum())
    }
}

fn ethernet(to: MacKey, ethertype: [u8; 2], payload: &[u8]) -> Vec<u8> {
    [to.as_slice(), &[2, 0, 0, 0, 0, 0xee], &ethertype, payload].concat()
}

fn tagged(frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat()
}

fn arp(to: MacKey, operation: u8, target: [u8; 4]) -> Vec<u8> {
    let fixed = [0, 1, 8, 0, 6, 4, 0, operation, 2, 0, 0, 0, 0, 0xee, 192, 0, 2, 5, 0, 0, 0, 0, 0, 0];
    ethernet(to, [8, 6], &[fixed.as_slice(), &target].concat())
}

fn icmpv6(to: MacKey, kind: u8, target: [u8; 16]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 24, 58, 255];
    packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
    packet.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1]);
    packet.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend(target);
    ethernet(to, [0x86, 0xdd], &packet)
}

fn ipv4(to: MacKey) -> Vec<u8> {
    let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 5, 192, 0, 2, 1];
    ethernet(to, [8, 0], &packet)
}

#[test]
fn with_owned_steering_exactly_the_switchs_frames_are_taken() {
    let with = |position: usize, change: u8, mut frame: Vec<u8>| {
        frame[position] = change;
        frame
    };
    let table = [
        ("IPv4 to our MAC", ipv4(OURS), true),
        ("IPv4 to our MAC, tagged", tagged(&ipv4(OURS)), true),
        ("an unknown protocol to our MAC", ethernet(OURS, [0x88, 0xb5], &[]), true),
        ("IPv4 to another MAC, our address inside", ipv4(OTHER), false),
        ("broadcast IPv4", ipv4(BROADCAST), false),
        ("ARP request for our address", arp(BROADCAST, 1, OUR_V4), true),
        ("ARP request for our address, tagged", tagged(&arp(BROADCAST, 1, OUR_V4)), true),
        ("ARP request for our address, tagged twice", tagged(&tagged(&arp(BROADCAST, 1, OUR_V4))), false),
        ("ARP request for another address", arp(BROADCAST, 1, OTHER_V4), false),
        ("ARP reply to our MAC", arp(OURS, 2, OUR_V4), true),
        ("ARP with hardware type 2", with(15, 2, arp(BROADCAST, 1, OUR_V4)), false),
        ("ARP with a hardware address of 8", with(18, 8, arp(BROADCAST, 1, OUR_V4)), false),
        ("ARP with a protocol address of 16", with(19, 16, arp(BROADCAST, 1, OUR_V4)), false),
        ("solicitation of our address", icmpv6(SOLICITED, 135, OUR_V6), true),
        ("solicitation of our address, tagged", tagged(&icmpv6(SOLICITED, 135, OUR_V6)), true),
        ("solicitation of another address", icmpv6(SOLICITED, 135, OTHER_V6), false),
        ("advertisement of our address", icmpv6(SOLICITED, 136, OUR_V6), false),
        ("solicitation behind an extension header", with(20, 0, icmpv6(SOLICITED, 135, OUR_V6)), false),
        ("a runt of 14 bytes", ethernet(OTHER, [8, 6], &[]), false),
        ("a tag and nothing else", ethernet(OTHER, [0x81, 0], &[0, 7]), false),
    ];
    let (mut program, mut without) = (Program::with_socket(steer::TAKE_OWNED), Program::load(steer::TAKE_OWNED));
    for (count, (name, frame, ours)) in (1_u64..).zip(&table) {
        assert_eq!(program.run(frame), if *ours { REDIRECT } else { PASS }, "{name}");
        assert_eq!(without.run(frame), PASS, "{name}, without a socket");
        assert_eq!(without.counters(), [0, count, 0]);
    }
    let taken = u64::try_from(table.iter().filter(|(_, _, ours)| *ours).count()).unwrap();
    assert_eq!(program.counters(), [taken, u64::try_from(table.len()).unwrap() - taken, 0]);
}

#[test]
fn truncated_questions_are_the_hosts_at_every_length() {
    let mut program = Program::with_socket(steer::TAKE_OWNED);
    for whole in [
        arp(BROADCAST, 1, OUR_V4),
        tagged(&arp(BROADCAST, 1, OUR_V4)),
        icmpv6(SOLICITED, 135, OUR_V6),
        tagged(&icmpv6(SOLICITED, 135, OUR_V6)),
    ] {
        for length in 14..whole.len() {
            assert_eq!(program.run(&whole[..length]), PASS, "{length} bytes of {whole:02x?}");
        }
        assert_eq!(program.run(&whole), REDIRECT);
    }
}

#[test]
fn when_all_is_taken_nothing_ever_passes_to_the_host() {
    let (mut program, mut without) = (Program::with_socket(steer::TAKE_ALL), Program::load(steer::TAKE_ALL));
    let frames = [ipv4(OURS), ipv4(OTHER), ipv4(BROADCAST), arp(BROADCAST, 1, OTHER_V4), ethernet(OTHER, [0, 0], &[])];
    for frame in &frames {
        assert_eq!(program.run(frame), REDIRECT);
        assert_eq!(without.run(frame), DROP);
    }
    assert_eq!((program.counters(), without.counters()), ([5, 0, 0], [0, 0, 5]));
}

#[test]
fn any_other_mode_leaves_the_host_its_frames() {
    let mut program = Program::with_socket(0);
    assert_eq!((program.run(&ipv4(OTHER)), program.run(&ipv4(OURS))), (PASS, REDIRECT));
}
