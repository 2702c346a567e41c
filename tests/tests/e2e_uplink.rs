//! An uplink shared with the host: the host never notices that the switch is there, and workloads reach the underlay by it.
#![cfg(test)]

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use bench::transfer::{self, Bytes, STALL};
use rustix::process::Signal;
use tests::{
    daemon::{Daemon, number},
    lab::{HEAD, Lab},
    netns::Netns,
    netns_packet::{PacketSocket, frame},
    wait::{pause, timed},
};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 200);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);

/// A host with one workload, and an uplink to a peer on the underlay.
fn underlay() -> (Lab, Netns) {
    let (lab, peer) = (Lab::new(1), Netns::new());
    lab.switch.veth("up0", &peer, "eth0", 1500);
    lab.switch.ip(&format!("address add {HOST}/24 dev up0"));
    peer.ip(&format!("address add {PEER}/24 dev eth0"));
    (lab, peer)
}

const PORTS: &str = r#"networks: [{ name: lan }]
ports:
  - { name: p1, device: p1, network: lan, mac: "02:00:00:00:00:01", addresses: [10.0.0.1, "fd00::1"] }
  - { name: up, device: up0, kind: uplink, network: lan }
"#;

#[test]
fn a_workload_and_the_host_reach_the_underlay_by_one_uplink() {
    let (lab, peer) = underlay();
    let daemon = Daemon::start(&lab.switch, &format!("{HEAD}{PORTS}"));
    let workload = lab.tenant(1);
    for (what, from, to, address) in [
        ("workload to peer", workload, &peer, PEER),
        ("peer to workload", &peer, workload, Ipv4Addr::new(10, 0, 0, 1)),
        ("host to peer", &lab.switch, &peer, PEER),
        ("peer to host", &peer, &lab.switch, HOST),
    ] {
        transfer::tcp(from.get(), to.get(), (address, 0).into(), 1_000_000)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let up = daemon.port("up");
    assert!(number(&up, "/tx/bytes") > 1_000_000, "{up}");
    // Of the peer's two megabytes, the host's one is not ours.
    assert!((1_000_000..2_000_000).contains(&number(&up, "/rx/bytes")), "{up}");
}

/// Sends bytes without end until told to stop; how many.
fn send_until(mut stream: &TcpStream, stop: &AtomicBool) -> io::Result<u64> {
    let (mut bytes, mut sent) = (Bytes::new(1), 0);
    while !stop.load(Ordering::Relaxed) {
        let part = bytes.take(4096);
        stream.write_all(&part)?;
        sent += part.len() as u64;
        pause(Duration::from_micros(200));
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(sent)
}

/// Receives to the end and compares every byte; how many.
fn receive_to_end(mut stream: &TcpStream) -> io::Result<u64> {
    let (mut bytes, mut received) = (Bytes::new(1), 0);
    let mut buffer = vec![0; 4096];
    loop {
        let mut filled = 0;
        while filled < buffer.len() {
            match stream.read(&mut buffer[filled..])? {
                0 => break,
                more => filled += more,
            }
        }
        assert_eq!(buffer[..filled], bytes.take(4096)[..filled], "after {received} bytes");
        received += filled as u64;
        if filled < buffer.len() {
            return Ok(received);
        }
    }
}

/// A connection between two namespaces, with time limits at both ends.
fn connection(from: &Netns, to: &Netns, address: Ipv4Addr) -> io::Result<(TcpStream, TcpStream)> {
    let listener = to.run(|| TcpListener::bind((address, 0)))?;
    let at: SocketAddr = listener.local_addr()?;
    let here = from.run(|| transfer::connect(at))?;
    let (there, _) = listener.accept()?;
    there.set_read_timeout(Some(STALL))?;
    there.set_write_timeout(Some(STALL))?;
    Ok((here, there))
}

#[test]
fn a_connection_of_the_host_survives_start_reload_two_hundred_kills_at_any_moment_and_stop() {
    const KILLS: u32 = 200;
    let (lab, peer) = underlay();
    let (here, there) = connection(&lab.switch, &peer, PEER).unwrap();
    let stop = AtomicBool::new(false);
    let mut daemon = Daemon::prepare(&lab.switch, &format!("{HEAD}{PORTS}"));
    let mut random = Bytes::new(200);
    let mut draw = |below: u64| u64::from_le_bytes(*random.take(8).first_chunk().unwrap()) % below;
    // Half of the moments are before it is ready, half after.
    let ready = || {
        daemon.spawn();
        daemon.wait_ready();
    };
    let ((), start) = timed(ready);
    daemon.kill();
    let span = u64::try_from(start.as_micros()).unwrap().clamp(50_000, 200_000) * 2;
    let mut attached = 0;
    thread::scope(|scope| {
        let sending = [&here, &there].map(|stream| scope.spawn(|| send_until(stream, &stop)));
        let receiving = [&there, &here].map(|stream| scope.spawn(|| receive_to_end(stream)));
        for kill in 0..KILLS {
            daemon.spawn();
            if kill % 10 == 0 {
                daemon.wait_ready();
                daemon.signal(Signal::HUP);
                pause(Duration::from_micros(draw(20_000)));
            } else {
                pause(Duration::from_micros(draw(span)));
            }
            attached += u32::from(lab.xdp_program("up0").is_some());
            daemon.kill();
        }
        daemon.spawn();
        daemon.wait_ready();
        transfer::tcp(lab.tenant(1).get(), peer.get(), (PEER, 0).into(), 1_000_000).expect("a workload after it all");
        assert_eq!(daemon.stop(), Some(0));
        stop.store(true, Ordering::Relaxed);
        let sent = sending.map(|thread| thread.join().unwrap().expect("the connection of the host"));
        let received = receiving.map(|thread| thread.join().unwrap().expect("the connection of the host"));
        assert_eq!(sent, received);
        assert!(sent.iter().all(|bytes| *bytes > 1_000_000), "{sent:?}");
    });
    assert!(attached > KILLS / 10 && attached < KILLS, "killed {attached} times while attached, of {KILLS}");
    assert_eq!((lab.xdp_program("up0"), lab.promiscuity("up0")), (None, 0));
}

#[test]
fn frames_of_the_host_are_never_taken_whatever_they_are() {
    let (lab, peer) = underlay();
    let daemon = Daemon::start(&lab.switch, &format!("{HEAD}{PORTS}"));
    let host = lab.link("up0")[0]["address"].as_str().unwrap().to_owned();
    let host: Vec<u8> = host.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let host: [u8; 6] = host.try_into().unwrap();
    let (sender, receiver) = (PacketSocket::open(&peer, "eth0"), PacketSocket::open(&lab.switch, "up0"));
    let mut frames = Vec::new();
    for length in [14, 60, 1514] {
        for to in [host, [0xff; 6], [1, 0x80, 0xc2, 0, 0, 0x0e], [0x33, 0x33, 0, 0, 0, 1]] {
            frames.push(frame(to, [2, 0, 0, 0, 9, 9], length, u32::from(to[5])));
        }
    }
    for frame in &frames {
        sender.send(frame).unwrap();
    }
    let mut missing = frames.clone();
    while let Some(received) = receiver.receive(Duration::from_millis(200)) {
        missing.retain(|frame| *frame != received);
    }
    assert_eq!(missing, Vec::<Vec<u8>>::new());
    assert_eq!(number(&daemon.port("up"), "/rx/packets"), 0, "{}", daemon.port("up"));
}
