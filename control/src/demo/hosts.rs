//! A host, and the traffic it makes with sockets of its own.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    os::fd::OwnedFd,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bench::{
    netns::Netns,
    packet_socket::PacketSocket,
    transfer::{self, inside},
};
use flow_table::{mac::MacAddr, packet::checksum};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, ipproto, recvfrom, sendto, socket_with, sockopt,
};
use sha2::{Digest, Sha256};

use super::{Broken, broken};

/// How long anything may take that has no limit of its own.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A host of the demo.
#[derive(Debug)]
pub(super) struct Host {
    /// Its port's and device's name.
    pub(super) name: &'static str,
    /// Last part of its MAC and addresses: 0x11 is read as 11 everywhere.
    pub(super) number: u8,
    /// MTU of both ends of its veth.
    pub(super) mtu: u32,
    /// Where it lives.
    pub(super) netns: Arc<Netns>,
}

/// An IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// Bytes of the IP and UDP headers.
    pub(super) const fn udp_headers(self) -> usize {
        match self {
            Self::V4 => 28,
            Self::V6 => 48,
        }
    }

    /// The gateway's address.
    pub(super) const fn gateway(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            Self::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0xb, 0, 0, 0, 0, 0, 1)),
        }
    }
}

impl Host {
    pub(super) fn mac(&self) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, self.number])
    }

    pub(super) const fn ip4(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, self.number / 16 * 10 + self.number % 16))
    }

    pub(super) const fn ip6(&self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0xb, 0, 0, 0, 0, 0, self.number as u16))
    }

    /// Its address of a family.
    pub(super) const fn ip(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.ip4(),
            Family::V6 => self.ip6(),
        }
    }

    /// A socket address of it.
    pub(super) const fn at(&self, family: Family, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip(family), port)
    }

    /// What its kernel knows as the MAC of a neighbour.
    pub(super) fn neighbour(&self, address: IpAddr) -> Result<String, Broken> {
        let said = self.netns.ask_ip(&format!("neighbour show {address} dev eth0"))?;
        match said.split_whitespace().skip_while(|word| *word != "lladdr").nth(1) {
            Some(mac) => Ok(mac.to_owned()),
            None => broken(format!("a MAC of {address}"), format!("\"{}\"", said.trim())),
        }
    }

    /// Makes its kernel forget all neighbours.
    pub(super) fn forget_neighbours(&self) -> Result<(), Broken> {
        Ok(self.netns.ip("neighbour flush dev eth0")?)
    }

    /// A UDP socket at one of its addresses.
    pub(super) fn udp(&self, at: SocketAddr) -> Result<UdpSocket, Broken> {
        let socket = inside(&self.netns, || UdpSocket::bind(at))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    }

    /// Sends datagrams of `size` bytes, which nobody need receive. Returns how many.
    pub(super) fn send_datagrams(
        &self,
        from: SocketAddr,
        to: SocketAddr,
        count: u64,
        size: usize,
    ) -> Result<u64, Broken> {
        let socket = self.udp(from)?;
        let bytes = vec![7; size];
        for _ in 0..count {
            socket.send_to(&bytes, to)?;
        }
        Ok(count)
    }

    /// Tries to connect; whether somebody took the call within `limit`.
    pub(super) fn can_connect(&self, to: SocketAddr, limit: Duration) -> bool {
        inside(&self.netns, || std::net::TcpStream::connect_timeout(&to, limit)).is_ok()
    }

    /// A socket for whole frames.
    pub(super) fn frames(&self) -> Result<PacketSocket, Broken> {
        Ok(inside(&self.netns, || PacketSocket::open("eth0"))?)
    }

    /// Frames its kernel has handed to its device.
    pub(super) fn frames_sent(&self) -> Result<u64, Broken> {
        let said: serde_json::Value = serde_json::from_str(&self.netns.ask_ip("-j -s link show eth0")?)?;
        match said.pointer("/0/stats64/tx/packets").and_then(serde_json::Value::as_u64) {
            Some(sent) => Ok(sent),
            None => broken("a count of frames sent", said.to_string()),
        }
    }

    /// TCP segments its kernel had to send again.
    pub(super) fn retransmitted(&self) -> Result<u64, Broken> {
        let text = inside(&self.netns, || std::fs::read_to_string("/proc/thread-self/net/snmp"))?;
        let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
        let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let found = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "RetransSegs");
        match found.and_then(|(_, value)| value.parse().ok()) {
            Some(count) => Ok(count),
            None => broken("RetransSegs in /proc/net/snmp", text),
        }
    }

    /// A raw ICMP socket of its kernel, and the pinging by it.
    pub(super) fn pings(&self, to: IpAddr) -> Result<Pings, Broken> {
        let (family, protocol, from) = match to {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, self.ip4()),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, self.ip6()),
        };
        let fd = inside(&self.netns, || {
            let fd = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol))?;
            bind(&fd, &SocketAddr::new(from, 0))?;
            Ok(fd)
        })?;
        Ok(Pings { fd, to, next: 0 })
    }
}

/// Echo requests to one address.
#[derive(Debug)]
pub(super) struct Pings {
    fd: OwnedFd,
    to: IpAddr,
    next: u16,
}

/// Bytes of an echo's payload.
const ECHO: usize = 56;

impl Pings {
    /// Sends one and waits for its answer, whose payload must be the same. The round trip; `None` when none came.
    pub(super) fn once(&mut self, patience: Duration) -> io::Result<Option<Duration>> {
        self.next += 1;
        let identifier = (std::process::id() & 0xffff).to_be_bytes();
        let [.., id0, id1] = identifier;
        let [seq0, seq1] = self.next.to_be_bytes();
        let (request, reply) = if self.to.is_ipv4() { (8, 0) } else { (128, 129) };
        let mut packet = vec![request, 0, 0, 0, id0, id1, seq0, seq1];
        let payload: Vec<u8> = (0..ECHO).filter_map(|at| u8::try_from(at).ok()).map(|byte| byte ^ seq1).collect();
        packet.extend_from_slice(&payload);
        if self.to.is_ipv4() {
            // Of ICMPv6 the kernel does it, which knows the pseudo header.
            let sum = !checksum::fold(checksum::sum(&packet));
            packet.splice(2..4, sum.to_be_bytes());
        }
        let started = Instant::now();
        sendto(&self.fd, &packet, SendFlags::empty(), &SocketAddr::new(self.to, 0))?;
        let mut buffer = [0; 2048];
        loop {
            let left = patience.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            sockopt::set_socket_timeout(&self.fd, sockopt::Timeout::Recv, Some(left))?;
            let length = match recvfrom(&self.fd, buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((_, length, _)) => length,
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let took = started.elapsed();
            // IPv4 shows its header to raw sockets.
            let header = if self.to.is_ipv4() { 20 } else { 0 };
            let Some((head, body)) = buffer.get(header..length).and_then(|icmp| icmp.split_first_chunk::<8>()) else {
                continue;
            };
            if head[0] == reply && head[4..] == [id0, id1, seq0, seq1] {
                return if body == payload { Ok(Some(took)) } else { Err(io::Error::other("an echo that differs")) };
            }
        }
    }
}

/// What a transfer by TCP was like.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) took: Duration,
    pub(super) sha256: String,
}

/// Sends `length` bytes over one connection, compares them one by one at the other end, and their checksums after it.
pub(super) fn tcp(from: &Host, to: &Host, at: SocketAddr, length: usize) -> Result<Transfer, Broken> {
    let listener = inside(&to.netns, || TcpListener::bind(at))?;
    let at = listener.local_addr()?;
    // First, so that nobody waits for a call that never comes.
    let stream = inside(&from.netns, || transfer::connect(at))?;
    let (taken, _) = listener.accept()?;
    taken.set_read_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let started = Instant::now();
    let outcome = thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let mut taken = Summed { stream: taken, sum: Sha256::new() };
            transfer::receive(&mut taken, length)?;
            taken.stream.write_all(b"done")?;
            io::Result::Ok(taken.sum)
        });
        let mut stream = Summed { stream, sum: Sha256::new() };
        let sent = transfer::send(&mut stream, length).and_then(|()| stream.stream.read_exact(&mut [0; 4]));
        let received = receiver.join().unwrap_or_else(|_panic| Err(io::Error::other("the receiver panicked")));
        sent.and(received).map(|received| (stream.sum, received))
    });
    let took = started.elapsed();
    let (sent, received) = outcome?;
    let (sent, received) = (hex(&sent.finalize()), hex(&received.finalize()));
    if sent == received {
        Ok(Transfer { took, sha256: sent })
    } else {
        broken(format!("SHA-256 {sent} received"), received)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A stream whose bytes are summed on their way.
struct Summed<S> {
    stream: S,
    sum: Sha256,
}

impl<S: Read> Read for Summed<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.stream.read(buffer)?;
        self.sum.update(buffer.get(..length).unwrap_or_default());
        Ok(length)
    }
}

impl<S: Write> Write for Summed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.stream.write(bytes)?;
        self.sum.update(bytes.get(..length).unwrap_or_default());
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// True once `condition` is, false when it is not within `limit`.
pub(super) fn eventually(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The one in the middle.
pub(super) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
