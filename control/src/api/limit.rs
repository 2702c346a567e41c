//! Bounds what clients can hold: so many connections at a time, each for so long.
//!
//! The daemon's descriptors are for devices; a client that hangs, or thousands of them, must not take them all.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream, unix::SocketAddr},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};

/// A listener with bounds. Clients beyond the number of connections wait in the kernel's queue.
#[derive(Debug)]
pub(super) struct Limited {
    listener: UnixListener,
    free: Arc<Semaphore>,
    patience: Duration,
}

impl Limited {
    /// At most `connections` at a time, each closed after `patience`.
    pub(super) fn new(listener: UnixListener, connections: usize, patience: Duration) -> Self {
        Self { listener, free: Arc::new(Semaphore::new(connections)), patience }
    }
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // An error would mean that the semaphore is closed, which nobody does: such a connection is not counted.
        let permit = Arc::clone(&self.free).acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        (Connection { stream, until: Box::pin(sleep(self.patience)), _permit: permit }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends at its time.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    until: Pin<Box<Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// The stream, while its time is not over; wakes the task when it is.
    fn in_time(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut UnixStream>> {
        match self.until.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(Pin::new(&mut self.stream)),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.in_time(cx)?.poll_read(cx, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.in_time(cx)?.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
