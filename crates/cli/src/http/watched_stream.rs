//! A socket whose client must read at a minimum pace.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::connection_table::ConnectionActivity;

/// Time in which a client must read [`PACE_BYTES`], or all that is left.
const STALL_LIMIT: Duration = Duration::from_secs(10);

/// Minimum bytes that a client must read within [`STALL_LIMIT`].
const PACE_BYTES: usize = 64 << 10;

/// A socket whose writes fail if the client does not read.
#[derive(Debug)]
pub struct WatchedStream {
    stream: TcpStream,
    activity: Arc<ConnectionActivity>,
    /// Timer that runs while the client does not read, with the bytes read since it started.
    stall: Option<(Pin<Box<Sleep>>, usize)>,
}

impl WatchedStream {
    /// Watches a socket, and records the client's activity in `activity`.
    pub fn new(stream: TcpStream, activity: Arc<ConnectionActivity>) -> Self {
        Self { stream, activity, stall: None }
    }

    /// Passes on the result of a write; fails if the client is too slow.
    fn watch(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(count)) => {
                if let Some((_, taken)) = &mut self.stall {
                    *taken += count;
                    if *taken >= PACE_BYTES {
                        self.stall = None;
                        self.activity.resume();
                    }
                }
                Poll::Ready(Ok(count))
            }
            Poll::Pending => {
                let activity = &self.activity;
                let (limit, _) = self.stall.get_or_insert_with(|| {
                    activity.stall(Instant::now());
                    (Box::pin(sleep(STALL_LIMIT)), 0)
                });
                match limit.as_mut().poll(context) {
                    Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                    Poll::Pending => Poll::Pending,
                }
            }
            failed => failed,
        }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The server calls this when it has nothing more to write.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stall = None;
        self.activity.flush(Instant::now());
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
