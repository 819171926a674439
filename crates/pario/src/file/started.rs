//! Requests that were started: they can be waited for, looked at, or awaited.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use pario_net::{BULK_ALIGNMENT, Bulk, BulkBuffer, PendingReply, RpcError};
use pario_proto::{Grant, ReplyMessage, Request};

use super::File;
use super::memory::Memory;
use super::ranges::batches;
use super::transfer::Reading;
use crate::connection::{Waiting, answered};
use crate::error::Error;
use crate::protocol::NodeProtocol;

/// The most that one started request moves.
const STARTED_LIMIT_BYTES: usize = 1 << 30;

/// A read that was started; made by [`File::start_read`].
#[must_use = "the bytes come by waiting"]
pub struct ReadRequest<'f> {
    file: &'f File,
    offset: u64,
    /// Answers may be read straight to `bytes`: these go first.
    started: Vec<Reading>,
    /// The same bytes, while anything is under way.
    memory: Memory<'static>,
    bytes: BulkBuffer,
    /// Whether it has to be read once more: some subfile was shorter than wanted, or rights have
    /// changed since it was started.
    is_again: bool,
}

/// A write that was started; made by [`File::start_write`].
#[must_use = "whether it worked is known by waiting"]
pub struct WriteRequest<'f> {
    file: &'f File,
    started: Vec<Waiting>,
    failed: Option<Error>,
    offset: u64,
    bytes: Bulk,
}

impl File {
    /// Starts to read; any number may be under way.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/data")?;
    /// file.write_at(b"0123456789", 0)?;
    /// let first = file.start_read(0, 4)?;
    /// let second = file.start_read(4, 4)?; // both are under way
    /// assert_eq!(&second.wait()?[..], b"4567");
    /// assert_eq!(&first.wait()?[..], b"0123");
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_read(&self, offset: u64, len: usize) -> Result<ReadRequest<'_>, Error> {
        let striped = self.striped("read")?;
        self.check_readable()?;
        self.check_started(offset, len)?;
        let grant = self.fresh_grant()?;
        let mut bytes = BulkBuffer::new(len);
        // SAFETY: the request has both, and uses the bytes themselves when nothing is under way. If
        // it is never dropped, the bytes are not either.
        let memory = unsafe { Memory::of_buffer(&mut bytes) };
        let started = Vec::new();
        let mut request =
            ReadRequest { file: self, offset, started, memory, bytes, is_again: false };
        batches(striped, &self.parts, [(offset, len)].into_iter(), |batch| {
            // SAFETY: batches do not overlap, and each is waited for or dropped before its places
            // or the bytes are used.
            let reading = unsafe { self.start_reading(batch, &grant, &mut request.memory) }?;
            request.started.push(reading);
            Ok::<(), Error>(())
        })
        .map_err(|error| error.of_file(self.path.as_str()))?;
        Ok(request)
    }

    /// Starts to write bytes, which are sent from where they are; any number may be under way.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/state")?;
    /// let pending = file.start_write(0, vec![7; 1 << 20])?; // the disks work ...
    /// let next: u64 = (0..1000).sum(); // ... while we compute
    /// pending.wait()?;
    /// # assert_eq!(next, 499_500);
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_write(
        &self,
        offset: u64,
        bytes: impl Into<Bytes>,
    ) -> Result<WriteRequest<'_>, Error> {
        let striped = self.striped("write")?;
        self.check_writable()?;
        let bytes = Bulk::from(bytes.into());
        self.check_started(offset, bytes.len())?;
        let grant = self.fresh_grant()?;
        self.note_write();
        let mut started = Vec::new();
        batches(striped, &self.parts, [(offset, bytes.len())].into_iter(), |batch| {
            let part =
                |place: &super::ranges::Place| bytes.slice(place.start..place.start + place.len);
            let data = gather(batch.places.iter().map(part), batch.bytes);
            let ranges = batch.ranges.clone();
            let request = Request::Write { grant: grant.clone(), part: batch.part, ranges };
            started.push(self.ask(&batch, request, data)?);
            Ok::<(), Error>(())
        })
        .map_err(|error| error.of_file(self.path.as_str()))?;
        Ok(WriteRequest { file: self, started, failed: None, offset, bytes })
    }

    fn check_started(&self, offset: u64, len: usize) -> Result<(), Error> {
        self.range(offset, len)?;
        if len <= STARTED_LIMIT_BYTES {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{}: one started request moves at most {STARTED_LIMIT_BYTES} bytes: start several",
            self.path
        )))
    }

    /// The grant, renewed if this process can see that rights have changed.
    fn fresh_grant(&self) -> Result<Grant, Error> {
        self.usable_short_cut(|| Some(0))?;
        Ok(self.grant())
    }
}

/// A token has a limited number of segments: where they are small, they are put together.
fn gather(parts: impl Iterator<Item = Bulk> + Clone, bytes: u64) -> Vec<Bulk> {
    if parts.clone().count() <= 256 {
        return parts.collect();
    }
    let mut all = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
    parts.for_each(|part| all.extend_from_slice(&part));
    vec![all.into()]
}

impl ReadRequest<'_> {
    /// Waits for the bytes; fewer than asked for only at the end of the file.
    pub fn wait(mut self) -> Result<Bytes, Error> {
        for reading in std::mem::take(&mut self.started) {
            let placed = reading.wait(&mut self.memory);
            self.note(placed)?;
        }
        self.finish()
    }

    /// Whether all bytes have come.
    pub fn is_done(&self) -> bool {
        self.started.iter().all(Reading::is_done)
    }

    fn note(&mut self, placed: Result<bool, Error>) -> Result<(), Error> {
        match placed {
            Ok(is_short) => self.is_again |= is_short,
            Err(error) if error.needs_renewal() => self.is_again = true,
            Err(error) => return Err(error.of_file(self.file.path.as_str())),
        }
        Ok(())
    }

    /// The bytes, when no batch is under way.
    fn finish(&mut self) -> Result<Bytes, Error> {
        let mut bytes = std::mem::replace(&mut self.bytes, BulkBuffer::new(0));
        if self.is_again {
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

impl WriteRequest<'_> {
    /// Waits until everything is written.
    pub fn wait(mut self) -> Result<(), Error> {
        for waiting in std::mem::take(&mut self.started) {
            let written = waiting.wait().map(|_| ());
            self.note(written);
        }
        self.finish()
    }

    /// Whether everything is written, or has failed.
    pub fn is_done(&self) -> bool {
        self.started.iter().all(|waiting| waiting.pending.is_done())
    }

    fn note(&mut self, written: Result<(), Error>) {
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    fn finish(&mut self) -> Result<(), Error> {
        match self.failed.take() {
            // The grant is not valid any more: once more, with a new one.
            Some(error) if error.needs_renewal() => self.file.write_at(&self.bytes, self.offset),
            Some(error) => Err(error.of_file(self.file.path.as_str())),
            None => Ok(()),
        }
    }
}

impl Future for ReadRequest<'_> {
    type Output = Result<Bytes, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(reading) = self.started.last_mut() {
            let answer = std::task::ready!(poll(reading.pending(), context));
            let Some(reading) = self.started.pop() else { continue };
            let this = &mut *self;
            let placed = reading.finish(answer, &mut this.memory);
            if let Err(error) = this.note(placed) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(self.finish())
    }
}

impl Future for WriteRequest<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(waiting) = self.started.last_mut() {
            let answer = std::task::ready!(poll(&mut waiting.pending, context));
            let written = answered(waiting.node(), answer).map(|_| ());
            self.started.pop();
            self.note(written);
        }
        Poll::Ready(self.finish())
    }
}

fn poll(
    pending: &mut PendingReply<NodeProtocol>,
    context: &mut Context<'_>,
) -> Poll<Result<ReplyMessage<Bulk>, RpcError>> {
    Pin::new(pending).poll(context)
}
