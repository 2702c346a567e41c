//! Bytes over TCP and UDP between namespaces, compared one by one.
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::Duration,
};

use crate::netns::Netns;

/// How long a transfer may stand still.
pub const STALL: Duration = Duration::from_secs(15);

/// A stream of bytes told by a seed, without end.
#[derive(Debug, Clone)]
pub struct Bytes(u64);

impl Bytes {
    /// The stream of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next `length` of them, a multiple of eight.
    #[must_use]
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.extend_from_slice(&self.0.to_le_bytes());
        }
        bytes
    }
}

/// Sends `length` bytes over one TCP connection to a listener at `at` (port 0 for any) and compares them at the other end; then the receiver says so, and the
/// sender hears it.
///
/// # Errors
/// What a socket said, and `InvalidData` at the first byte that differs.
pub fn tcp(from: &Netns, to: &Netns, at: SocketAddr, length: usize) -> io::Result<()> {
    let listener = inside(to, || TcpListener::bind(at))?;
    let at = listener.local_addr()?;
    thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(STALL))?;
            receive(&mut stream, length)?;
            stream.write_all(b"done")
        });
        let sent = inside(from, || connect(at)).and_then(|mut stream| {
            send(&mut stream, length)?;
            let mut word = [0; 4];
            stream.read_exact(&mut word)
        });
        if sent.is_err() {
            // Nobody may have come: the receiver is not to wait for ever.
            let _ = inside(to, || connect(at));
        }
        let received = receiver.join().unwrap_or_else(|_panic| Err(io::Error::other("the receiver panicked")));
        sent.and(received)
    })
}

/// A connection that gives up when it stands still.
///
/// # Errors
/// What the socket says.
pub fn connect(at: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&at, STALL)?;
    stream.set_read_timeout(Some(STALL))?;
    stream.set_write_timeout(Some(STALL))?;
    Ok(stream)
}

/// Sends `length` bytes of the stream of seed 1.
///
/// # Errors
/// What the socket says.
pub fn send(stream: &mut impl Write, length: usize) -> io::Result<()> {
    let mut bytes = Bytes::new(1);
    let mut left = length;
    while left > 0 {
        let part = bytes.take(left.min(64 * 1024));
        let part = part.get(..left.min(part.len())).unwrap_or_default();
        stream.write_all(part)?;
        left -= part.len();
    }
    Ok(())
}

/// Receives as many and compares each.
///
/// # Errors
/// What the socket says, and `InvalidData` at the first byte that differs.
pub fn receive(stream: &mut impl Read, length: usize) -> io::Result<()> {
    let mut bytes = Bytes::new(1);
    let mut left = length;
    while left > 0 {
        let mut must = bytes.take(left.min(64 * 1024));
        must.truncate(left);
        let mut is = vec![0; must.len()];
        stream.read_exact(&mut is)?;
        if let Some(at) = must.iter().zip(&is).position(|(must, is)| must != is) {
            let offset = length - left + at;
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("byte {offset} differs")));
        }
        left -= must.len();
    }
    Ok(())
}

/// Sends datagrams of these sizes from `source` to `at` and back again, one after the other, and compares each both ways.
///
/// # Errors
/// What a socket said, and `InvalidData` for a datagram that differs.
pub fn udp(from: &Netns, to: &Netns, (source, at): (SocketAddr, SocketAddr), sizes: &[usize]) -> io::Result<()> {
    let open = |netns: &Netns, at: SocketAddr| {
        let socket = inside(netns, || UdpSocket::bind(at))?;
        socket.set_read_timeout(Some(STALL))?;
        io::Result::Ok(socket)
    };
    let (here, there) = (open(from, source)?, open(to, at)?);
    let mut bytes = Bytes::new(2);
    let mut buffer = vec![0; 65_536];
    for size in sizes {
        let mut datagram = bytes.take(*size);
        datagram.truncate(*size);
        for (sender, receiver) in [(&here, &there), (&there, &here)] {
            sender.send_to(&datagram, receiver.local_addr()?)?;
            let (length, by) = receiver.recv_from(&mut buffer)?;
            if by != sender.local_addr()? || buffer.get(..length) != Some(&*datagram) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a datagram of {size} bytes differs")));
            }
        }
    }
    Ok(())
}

/// Runs what makes a socket inside a namespace.
///
/// # Errors
/// What the system says.
pub fn inside<T: Send>(netns: &Netns, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    netns.run(work).map_err(io::Error::other)?
}
