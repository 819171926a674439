//! Started reads and writes of bytes.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use pario_net::{BULK_ALIGNMENT, Bulk, BulkBuffer, PendingReply, RpcError, StartedRequest};
use pario_proto::{ExtentPlacement, Grant, ReplyMessage, Request};
use parking_lot::Mutex;

use super::File;
use super::batches::{MemoryPiece, batches};
use super::read_target::ReadTarget;
use super::transfer::PendingBatch;
use crate::connection::{Waiting, answered};
use crate::error::Error;
use crate::pending::Pending;
use crate::protocol::NodeProtocol;

/// The largest number of bytes that one started request moves.
const STARTED_LIMIT_BYTES: usize = 1 << 30;

/// A started read.
struct StartedRead {
    file: File,
    offset: u64,
    /// Replies may be received straight into `bytes`, so these drop first.
    batches: Vec<PendingBatch>,
    /// The memory of `bytes`, in use while any batch is under way.
    target: ReadTarget<'static>,
    bytes: BulkBuffer,
    /// Whether the read must be repeated: a subfile was shorter than requested, or rights have
    /// changed since the start.
    must_repeat: bool,
    failed: Option<Error>,
}

/// A started write. Its [`Pending`] and the close of the file can both finish it.
pub(super) struct StartedWrite {
    file: File,
    progress: Mutex<WriteProgress>,
    /// The task that awaits the write, to be woken by a thread that finishes it.
    waker: Mutex<Option<Waker>>,
}

struct WriteProgress {
    requests: Vec<Waiting>,
    failed: Option<Error>,
    content: WriteContent,
    /// Present when the write is over.
    result: Option<Result<(), Error>>,
}

/// What a started write writes, in case that it must be repeated.
pub(super) enum WriteContent {
    /// Bytes at an offset.
    Bytes { bytes: Bulk, offset: u64 },
    /// An extent.
    Extent { header: Bytes, body: Bytes, place: ExtentPlacement },
}

/// The started writes of a file that may be under way.
#[derive(Default)]
pub(super) struct StartedWrites(Mutex<Vec<Weak<StartedWrite>>>);

impl File {
    /// Starts a read of `len` bytes at an offset. The result has fewer bytes only at the end of the
    /// file. Any number of reads may be under way. With atomic access the read is over when this
    /// returns.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/data")?;
    /// file.write_at(b"0123456789", 0)?;
    /// let first = file.start_read_at(4, 0)?;
    /// let second = file.start_read_at(4, 4)?; // both are under way
    /// assert_eq!(&second.wait()?[..], b"4567");
    /// assert_eq!(&first.wait()?[..], b"0123");
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_read_at(&self, len: usize, offset: u64) -> Result<Pending<Bytes>, Error> {
        let striped = self.striped("read")?;
        self.check_readable()?;
        self.check_started(len, offset)?;
        if self.is_atomic() {
            // Of two accesses that conflict, the first must be over before the second begins.
            let mut bytes = vec![0; len];
            let count = self.read_at(&mut bytes, offset)?;
            bytes.truncate(count);
            return Ok(Pending::ready(Ok(bytes.into())));
        }
        let grant = self.fresh_grant()?;
        let mut bytes = BulkBuffer::new(len);
        // SAFETY: the request owns both, and uses the bytes themselves only when no batch is under
        // way. If the request is never dropped, neither are the bytes.
        let target = unsafe { ReadTarget::of_buffer(&mut bytes) };
        let mut read = StartedRead {
            file: self.share(),
            offset,
            batches: Vec::new(),
            target,
            bytes,
            must_repeat: false,
            failed: None,
        };
        let pieces = [(offset, len)].into_iter();
        let started = batches(striped, &self.state.parts, pieces, |batch| {
            // SAFETY: batches do not overlap, and each is over or dropped before its pieces or the
            // bytes are used.
            read.batches.push(unsafe { self.start_reading(batch, &grant, &mut read.target) }?);
            Ok::<(), Error>(())
        });
        if let Err(error) = started {
            read.wait_for_batches();
            return Err(error.of_file(self.state.path.as_str()));
        }
        Ok(Pending::started(read))
    }

    /// Starts a write of bytes at an offset. The bytes are sent from where they are. Any number of
    /// writes may be under way. With atomic access the write is over when this returns.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/state")?;
    /// let pending = file.start_write_at(vec![7; 1 << 20], 0)?; // the disks work ...
    /// let next: u64 = (0..1000).sum(); // ... while we compute
    /// pending.wait()?;
    /// # assert_eq!(next, 499_500);
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_write_at(
        &self,
        bytes: impl Into<Bytes>,
        offset: u64,
    ) -> Result<Pending<()>, Error> {
        let striped = self.striped("write")?;
        self.check_writable()?;
        let bytes = Bulk::from(bytes.into());
        self.check_started(bytes.len(), offset)?;
        if self.is_atomic() {
            return self.write_at(&bytes, offset).map(|()| Pending::ready(Ok(())));
        }
        let grant = self.fresh_grant()?;
        self.note_write();
        let mut requests = Vec::new();
        let pieces = [(offset, bytes.len())].into_iter();
        let started = batches(striped, &self.state.parts, pieces, |batch| {
            let slice = |piece: &MemoryPiece| bytes.slice(piece.start..piece.start + piece.len);
            let data = gather(batch.memory.iter().map(slice), batch.bytes);
            let ranges = batch.ranges.clone();
            let request = Request::Write { grant: grant.clone(), part: batch.part, ranges };
            requests.push(self.ask(&batch, request, data)?);
            Ok::<(), Error>(())
        });
        if let Err(error) = started {
            // Nothing of a write that has failed is under way when the caller goes on.
            requests.into_iter().for_each(|request| drop(request.wait()));
            return Err(error.of_file(self.state.path.as_str()));
        }
        Ok(self.pending_write(requests, WriteContent::Bytes { bytes, offset }))
    }

    /// A started write whose requests are under way.
    pub(super) fn pending_write(
        &self,
        requests: Vec<Waiting>,
        content: WriteContent,
    ) -> Pending<()> {
        let progress = WriteProgress { requests, failed: None, content, result: None };
        let write = Arc::new(StartedWrite {
            file: self.share(),
            progress: Mutex::new(progress),
            waker: Mutex::new(None),
        });
        self.state.started_writes.add(&write);
        Pending::started(PendingWrite(write))
    }

    fn check_started(&self, len: usize, offset: u64) -> Result<(), Error> {
        self.range(offset, len)?;
        if len <= STARTED_LIMIT_BYTES {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{}: one started request moves at most {STARTED_LIMIT_BYTES} bytes: start several",
            self.state.path
        )))
    }

    /// The grant, renewed if this process can see that rights have changed.
    fn fresh_grant(&self) -> Result<Grant, Error> {
        self.usable_short_cut(|| Some(0))?;
        Ok(self.grant())
    }
}

/// The number of segments of a token is limited: many small ones are copied into one.
fn gather(parts: impl Iterator<Item = Bulk> + Clone, bytes: u64) -> Vec<Bulk> {
    if parts.clone().count() <= 256 {
        return parts.collect();
    }
    let mut all = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
    parts.for_each(|part| all.extend_from_slice(&part));
    vec![all.into()]
}

impl StartedRead {
    /// Waits until no batch is under way, also after a failure.
    fn wait_for_batches(&mut self) {
        for batch in std::mem::take(&mut self.batches) {
            let placed = batch.wait(&mut self.target);
            self.note(placed);
        }
    }

    fn note(&mut self, placed: Result<bool, Error>) {
        match placed {
            Ok(is_short) => self.must_repeat |= is_short,
            Err(error) if error.needs_renewal() => self.must_repeat = true,
            Err(error) => drop(self.failed.get_or_insert(error)),
        }
    }

    /// The bytes, when no batch is under way.
    fn finish(&mut self) -> Result<Bytes, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error.of_file(self.file.state.path.as_str()));
        }
        let mut bytes = std::mem::replace(&mut self.bytes, BulkBuffer::new(0));
        if self.must_repeat {
            let count = self.file.read_at(&mut bytes, self.offset)?;
            bytes.truncate(count);
        }
        // Few bytes should not keep a page.
        if bytes.len() < BULK_ALIGNMENT {
            return Ok(Bytes::copy_from_slice(&bytes));
        }
        Ok(bytes.freeze().into_bytes())
    }
}

impl StartedRequest<Bytes, Error> for StartedRead {
    fn is_done(&self) -> bool {
        self.batches.iter().all(PendingBatch::is_done)
    }

    fn wait(mut self: Box<Self>) -> Result<Bytes, Error> {
        self.wait_for_batches();
        self.finish()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Error>> {
        while let Some(batch) = self.batches.last_mut() {
            let reply = std::task::ready!(poll_reply(batch.pending(), context));
            let Some(batch) = self.batches.pop() else { continue };
            let placed = batch.finish(reply, &mut self.target);
            self.note(placed);
        }
        Poll::Ready(self.finish())
    }

    fn abandon(mut self: Box<Self>) {
        // Without the repetition: the result is discarded.
        self.wait_for_batches();
    }
}

/// The caller's side of a started write.
struct PendingWrite(Arc<StartedWrite>);

impl StartedRequest<(), Error> for PendingWrite {
    fn is_done(&self) -> bool {
        // A thread that holds the lock is waiting for the write.
        self.0.progress.try_lock().is_some_and(|progress| {
            progress.requests.iter().all(|request| request.pending.is_done())
        })
    }

    fn wait(self: Box<Self>) -> Result<(), Error> {
        self.0.finish()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        // Stored before the lock is tried: a thread that holds it wakes the task after it.
        *self.0.waker.lock() = Some(context.waker().clone());
        let Some(mut progress) = self.0.progress.try_lock() else { return Poll::Pending };
        while let Some(request) = progress.requests.last_mut() {
            let reply = std::task::ready!(poll_reply(&mut request.pending, context));
            let written = answered(request.node(), reply).map(|_| ());
            progress.requests.pop();
            progress.note(written);
        }
        Poll::Ready(progress.finish(&self.0.file))
    }
}

impl StartedWrite {
    /// Waits until the write is over.
    fn finish(&self) -> Result<(), Error> {
        let result = self.progress.lock().finish(&self.file);
        let waker = self.waker.lock().take();
        waker.into_iter().for_each(Waker::wake);
        result
    }
}

impl WriteProgress {
    fn note(&mut self, written: Result<(), Error>) {
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    /// Waits for the requests that are left. A write that a node has refused because of the grant
    /// is repeated with a new one.
    fn finish(&mut self, file: &File) -> Result<(), Error> {
        if let Some(result) = &self.result {
            return result.clone();
        }
        for request in std::mem::take(&mut self.requests) {
            let written = request.wait().map(|_| ());
            self.note(written);
        }
        let result = match self.failed.take() {
            Some(error) if error.needs_renewal() => match &self.content {
                WriteContent::Bytes { bytes, offset } => file.write_at(bytes, *offset),
                WriteContent::Extent { header, body, place } => {
                    file.write_extent(header, body, *place)
                }
            },
            Some(error) => Err(error.of_file(file.state.path.as_str())),
            None => Ok(()),
        };
        self.result = Some(result.clone());
        result
    }
}

impl StartedWrites {
    fn add(&self, write: &Arc<StartedWrite>) {
        let mut writes = self.0.lock();
        // Before the list grows: most writes in it may be over.
        if writes.len() == writes.capacity() {
            writes.retain(|write| write.strong_count() > 0);
        }
        writes.push(Arc::downgrade(write));
    }

    /// Waits until every write is over. Each caller gets its own result.
    pub fn finish(&self) {
        let writes = std::mem::take(&mut *self.0.lock());
        for write in writes.iter().filter_map(Weak::upgrade) {
            // The result stays in the write, for its caller.
            let _ = write.finish();
        }
    }
}

pub(super) fn poll_reply(
    pending: &mut PendingReply<NodeProtocol>,
    context: &mut Context<'_>,
) -> Poll<Result<ReplyMessage<Bulk>, RpcError>> {
    Pin::new(pending).poll(context)
}
