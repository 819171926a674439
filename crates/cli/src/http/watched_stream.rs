//! A socket of a client that must take what is written to it at a certain pace.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::connection_table::Progress;

/// Within this time a client must take [`PACE_BYTES`], or all that is left.
const STALL_LIMIT: Duration = Duration::from_secs(10);

/// The least that a client must take within [`STALL_LIMIT`].
const PACE_BYTES: usize = 64 << 10;

/// A socket whose writes fail if the client does not read.
#[derive(Debug)]
pub struct WatchedStream {
    stream: TcpStream,
    progress: Arc<Progress>,
    /// Runs while the client does not take what is written, with what it has taken since.
    stall: Option<(Pin<Box<Sleep>>, usize)>,
}

impl WatchedStream {
    /// Watches a socket, and tells `progress` what the client does.
    pub fn new(stream: TcpStream, progress: Arc<Progress>) -> Self {
        Self { stream, progress, stall: None }
    }

    /// Passes on the outcome of a write; fails if the client is too slow.
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
                        self.progress.go_on();
                    }
                }
                Poll::Ready(Ok(count))
            }
            Poll::Pending => {
                let progress = &self.progress;
                let (limit, _) = self.stall.get_or_insert_with(|| {
                    progress.stall(Instant::now());
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
        self.progress.flush(Instant::now());
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
