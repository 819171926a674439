//! Bytes from a source to whoever takes them, read ahead on a second thread so that both sides are
//! busy. At most [`PIECES_AHEAD`] pieces wait; their memory is used again.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::interrupt::Interrupt;

/// Pieces of large files; those of small ones are smaller, so that reading and writing overlap.
const LARGE_PIECE_BYTES: usize = 4 << 20;
const SMALL_PIECE_BYTES: usize = 1 << 20;
const LEAST_PIECE_BYTES: u64 = 64 << 10;
const LARGE_FILE_BYTES: u64 = 64 << 20;

/// Pieces that have been read and wait to be taken.
const PIECES_AHEAD: usize = 3;

/// How long the user waits for an answer to Ctrl-C while nothing comes.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// Where bytes come from.
pub enum Source {
    /// A file in the cluster.
    Cluster(Arc<pario::File>),
    /// Anything else, from where it is.
    Stream(Box<dyn Read + Send>),
}

/// Which bytes of a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// The first one; only files in the cluster can begin elsewhere than at 0.
    pub offset: u64,
    /// How many at most; up to the end if not given.
    pub length: Option<u64>,
    /// About how many there will be, as far as it is known.
    pub expected: Option<u64>,
}

impl Part {
    /// All of a source.
    pub fn whole(expected: Option<u64>) -> Self {
        Self { offset: 0, length: None, expected }
    }

    /// Bytes of a piece. Memory for a small file is not larger than it needs to be.
    fn piece_bytes(self) -> usize {
        let expected = self.length.into_iter().chain(self.expected).min().unwrap_or(u64::MAX);
        match usize::try_from(expected.max(LEAST_PIECE_BYTES)) {
            _ if expected >= LARGE_FILE_BYTES => LARGE_PIECE_BYTES,
            Ok(bytes) => bytes.min(SMALL_PIECE_BYTES),
            Err(_) => LARGE_PIECE_BYTES,
        }
    }
}

/// Gives the bytes of a source to `take`, piece after piece, and says how many there were. If
/// somebody asks for the end, a read that is under way is left to itself.
pub fn run(
    source: Source,
    part: Part,
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
        match pieces.recv_timeout(LOOK_AFTER) {
            Ok(Ok(piece)) => {
                let piece: Vec<u8> = piece;
                take(&piece)?;
                bytes += piece.len() as u64;
                // The reader may have come to the end already.
                let _ = back.try_send(piece);
            }
            Ok(Err(Failed::Cluster(error))) => return Err(error.into()),
            Ok(Err(Failed::Stream(error))) => return Err(error.into()),
            Ok(Err(Failed::End)) => return Ok(bytes),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the thread that reads ahead has died"),
        }
    }
}

/// Why no more pieces come.
enum Failed {
    End,
    Cluster(pario::Error),
    Stream(io::Error),
}

fn read_ahead(
    mut source: Source,
    part: Part,
    full: &SyncSender<Result<Vec<u8>, Failed>>,
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
            Source::Cluster(file) => file.read_at(&mut piece, position).map_err(Failed::Cluster),
            Source::Stream(stream) => read_some(stream, &mut piece).map_err(Failed::Stream),
        };
        let next = match read {
            Ok(0) => Err(Failed::End),
            Ok(read) => {
                piece.truncate(read);
                position = position.saturating_add(read as u64);
                left -= read as u64;
                Ok(piece)
            }
            Err(failed) => Err(failed),
        };
        let is_last = next.is_err();
        // Nobody takes pieces any more if the other side has failed.
        if full.send(next).is_err() || is_last {
            return;
        }
    }
}

/// Reads what there is; a signal is no reason to stop.
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
            let part = Part { length, ..Part::default() };
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
        let bytes = |length| Part::whole(length).piece_bytes();
        assert_eq!(bytes(None), 4 << 20);
        assert_eq!(bytes(Some(3)), 64 << 10);
        assert_eq!(bytes(Some(100_000)), 100_000);
        assert_eq!(bytes(Some(10 << 20)), 1 << 20);
        assert_eq!(bytes(Some(1 << 30)), 4 << 20);
    }

    #[test]
    fn an_error_on_either_side_ends_it() {
        let refused = run(stream(&[1; 10]), Part::default(), &Interrupt::default(), |_| {
            bail!("the disk is full")
        });
        assert_eq!(refused.unwrap_err().to_string(), "the disk is full");

        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let source = Source::Stream(Box::new(Broken));
        let refused = run(source, Part::default(), &Interrupt::default(), |_| Ok(()));
        assert_eq!(refused.unwrap_err().to_string(), "the disk is gone");
    }
}
