//! A part of an open file, sent without passing through the memory of this process.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::Bulk;

/// Consecutive bytes of an open file, sent with a reply; see
/// [`Responder::send_file`](crate::Responder::send_file).
///
/// The bytes are read when they leave. If the file is truncated before that, zeros are sent.
#[derive(Clone)]
pub struct FilePart {
    file: Arc<dyn AsFd + Send + Sync>,
    offset: u64,
    len: usize,
}

impl FilePart {
    /// Refers to `len` bytes of a file at `offset`.
    pub fn new(file: impl AsFd + Send + Sync + 'static, offset: u64, len: usize) -> Self {
        Self { file: Arc::new(file), offset, len }
    }

    /// How many bytes they are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sends as many bytes behind `skip` as the socket takes now; zero at the end of the file.
    pub(crate) fn send(&self, socket: impl AsFd, skip: usize) -> Result<usize, Errno> {
        let mut offset = self.offset + skip as u64;
        rustix::fs::sendfile(socket, &*self.file, Some(&mut offset), self.len - skip)
    }
}

impl fmt::Debug for FilePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilePart({} bytes at {})", self.len, self.offset)
    }
}

/// The bytes of a segment on its way out.
#[derive(Clone, Debug)]
pub(crate) enum OutgoingSegment {
    Memory(Bulk),
    File(FilePart),
}

impl OutgoingSegment {
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(bulk) => bulk.len(),
            Self::File(part) => part.len(),
        }
    }

    /// Returns the segment for a link that is no socket.
    pub fn into_bulk(self) -> Bulk {
        match self {
            Self::Memory(bulk) => bulk,
            Self::File(_) => unreachable!("parts of files are sent over sockets only"),
        }
    }
}
