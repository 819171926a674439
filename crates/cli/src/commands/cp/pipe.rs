//! Moves bytes from a source to a consumer. A second thread reads ahead, so that reading and
//! writing overlap; at most [`PIECES_AHEAD`] pieces wait, and their buffers are reused.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::interrupt::Interrupt;

/// Piece size of large files; smaller files use smaller pieces, so that reading and writing
/// overlap.
const LARGE_PIECE_BYTES: usize = 4 << 20;
const SMALL_PIECE_BYTES: usize = 1 << 20;
const LEAST_PIECE_BYTES: u64 = 64 << 10;
const LARGE_FILE_BYTES: u64 = 64 << 20;

/// Pieces that are read but not yet consumed.
const PIECES_AHEAD: usize = 3;

/// Interval at which a waiting pipe checks for Ctrl-C.
const INTERRUPT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The origin of bytes.
pub enum Source {
    /// A file in the cluster.
    Cluster(Arc<pario::File>),
    /// Any other stream, from its current position.
    Stream(Box<dyn Read + Send>),
}

/// A range of a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct PipedRange {
    /// First byte; only cluster files can begin elsewhere than at 0.
    pub offset: u64,
    /// Most bytes; `None` reads to the end.
    pub length: Option<u64>,
    /// Expected number of bytes, if known.
    pub expected: Option<u64>,
}

impl PipedRange {
    /// Returns the range of a whole source.
    pub fn whole(expected: Option<u64>) -> Self {
        Self { offset: 0, length: None, expected }
    }

    /// Returns the piece size. Buffers for a small file are no larger than it needs.
    fn piece_bytes(self) -> usize {
        let expected = self.length.into_iter().chain(self.expected).min().unwrap_or(u64::MAX);
        match usize::try_from(expected.max(LEAST_PIECE_BYTES)) {
            _ if expected >= LARGE_FILE_BYTES => LARGE_PIECE_BYTES,
            Ok(bytes) => bytes.min(SMALL_PIECE_BYTES),
            Err(_) => LARGE_PIECE_BYTES,
        }
    }
}

/// Passes the bytes of a source to `take`, piece by piece, and returns their number. When the user
/// asks to stop, a read under way is abandoned.
pub fn run(
    source: Source,
    part: PipedRange,
    interrupt: &Interrupt,
    mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let (full, pieces) = sync_channel(PIECES_AHEAD);
    let (back, empty) = sync_channel(PIECES_AHEAD + 2);
    thread::Builder::new()
        .name("read-ahead".into())
        .spawn(move || read_ahead(source, part, &full, &empty))
        .context("cannot start a thread that reads ahead")?;
    let mut bytes = 0;
    loop {
        interrupt.check()?;
        match pieces.recv_timeout(INTERRUPT_CHECK_INTERVAL) {
            Ok(Ok(piece)) => {
                let piece: Vec<u8> = piece;
                take(&piece)?;
                bytes += piece.len() as u64;
                // The reader may have ended already.
                let _ = back.try_send(piece);
            }
            Ok(Err(ReadAheadError::Cluster(error))) => return Err(error.into()),
            Ok(Err(ReadAheadError::Stream(error))) => return Err(error.into()),
            Ok(Err(ReadAheadError::End)) => return Ok(bytes),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the read-ahead thread ended unexpectedly; this is a bug")
            }
        }
    }
}

/// Why reading ended early.
enum ReadAheadError {
    End,
    Cluster(pario::Error),
    Stream(io::Error),
}

fn read_ahead(
    mut source: Source,
    part: PipedRange,
    full: &SyncSender<Result<Vec<u8>, ReadAheadError>>,
    empty: &Receiver<Vec<u8>>,
) {
    let mut position = part.offset;
    let mut left = part.length.unwrap_or(u64::MAX);
    loop {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(part.piece_bytes());
        let mut piece = empty.try_recv().unwrap_or_default();
        piece.resize(wanted, 0);
        let read = match &mut source {
            _ if wanted == 0 => Ok(0),
            Source::Cluster(file) => {
                file.read_at(&mut piece, position).map_err(ReadAheadError::Cluster)
            }
            Source::Stream(stream) => read_some(stream, &mut piece).map_err(ReadAheadError::Stream),
        };
        let next = match read {
            Ok(0) => Err(ReadAheadError::End),
            Ok(read) => {
                piece.truncate(read);
                position = position.saturating_add(read as u64);
                left -= read as u64;
                Ok(piece)
            }
            Err(failed) => Err(failed),
        };
        let is_last = next.is_err();
        // The consumer has failed and takes no more pieces.
        if full.send(next).is_err() || is_last {
            return;
        }
    }
}

/// Reads available bytes; retries if a signal interrupts.
fn read_some(stream: &mut dyn Read, piece: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(bytes: &[u8]) -> Source {
        Source::Stream(Box::new(io::Cursor::new(bytes.to_vec())))
    }

    #[test]
    fn all_bytes_arrive_in_order() {
        let bytes: Vec<u8> = (0..9_000_000_u32).map(|i| (i % 251) as u8).collect();
        for length in [None, Some(0), Some(1), Some(8_999_999), Some(1 << 40)] {
            let mut taken = Vec::new();
            let part = PipedRange { length, ..PipedRange::default() };
            let count = run(stream(&bytes), part, &Interrupt::default(), |piece| {
                taken.extend_from_slice(piece);
                Ok(())
            });
            let expected = length
                .map_or(bytes.len(), |length| bytes.len().min(usize::try_from(length).unwrap()));
            assert_eq!(count.unwrap(), expected as u64);
            assert!(taken == bytes[..expected], "{length:?}");
        }
    }

    #[test]
    fn pieces_fit_the_file() {
        let bytes = |length| PipedRange::whole(length).piece_bytes();
        assert_eq!(bytes(None), 4 << 20);
        assert_eq!(bytes(Some(3)), 64 << 10);
        assert_eq!(bytes(Some(100_000)), 100_000);
        assert_eq!(bytes(Some(10 << 20)), 1 << 20);
        assert_eq!(bytes(Some(1 << 30)), 4 << 20);
    }

    #[test]
    fn an_error_on_either_side_ends_it() {
        let refused = run(stream(&[1; 10]), PipedRange::default(), &Interrupt::default(), |_| {
            bail!("the disk is full")
        });
        assert_eq!(refused.unwrap_err().to_string(), "the disk is full");

        struct PipeFailure;
        impl Read for PipeFailure {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let source = Source::Stream(Box::new(PipeFailure));
        let refused = run(source, PipedRange::default(), &Interrupt::default(), |_| Ok(()));
        assert_eq!(refused.unwrap_err().to_string(), "the disk is gone");
    }
}
