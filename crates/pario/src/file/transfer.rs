//! Reads and writes over the nodes: cut into requests, of which a window is under way.

use std::collections::VecDeque;
use std::ops::Range;

use pario_net::{Bulk, BulkBuffer, PendingReply, RpcError};
use pario_proto::{BytesUse, Grant, Reply, ReplyMessage, Request, Striped, SubfileLocation};

use super::File;
use super::batches::{Batch, MemoryPiece, ReadPiece, WritePiece, batches};
use super::read_target::{BorrowedPieces, ReadTarget};
use crate::connection::{Waiting, answered, strange};
use crate::error::Error;
use crate::protocol::NodeProtocol;

/// Bytes of one call that may be under way. More does not make it faster, and takes memory.
const WINDOW_BYTES: u64 = 8 << 20;
/// Size from which a write is sent from the caller's memory; a copy of fewer bytes is faster.
const LENT_BYTES: u64 = 64 << 10;
/// Most segments of a write that is sent from the caller's memory.
const SEGMENTS: usize = 256;

impl File {
    /// Reads many ranges, with one request for all that one disk has of them, as far as they fit
    /// into one. The bytes follow each other in the buffer, range after range, and the buffer is as
    /// long as all ranges together. Bytes beyond the end of the file read as zeros. Returns how
    /// many bytes lie before the end.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/matrix")?;
    /// file.write_at(&(0..100).collect::<Vec<u8>>(), 0)?; // ten rows of ten
    /// let column: Vec<_> = (0..10).map(|row| 10 * row + 3..10 * row + 4).collect();
    /// let mut bytes = [0; 10];
    /// file.read_list(&mut bytes, &column)?;
    /// assert_eq!(bytes, [3, 13, 23, 33, 43, 53, 63, 73, 83, 93]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_list(&self, buffer: &mut [u8], ranges: &[Range<u64>]) -> Result<usize, Error> {
        let striped = self.striped("read")?;
        self.check_readable()?;
        let lens = self.check_list(buffer.len(), ranges)?;
        let mut pieces: Vec<ReadPiece<'_>> = Vec::with_capacity(ranges.len());
        let mut rest = buffer;
        for (range, len) in ranges.iter().zip(lens) {
            let (piece, later) = rest.split_at_mut(len);
            pieces.push((range.start, piece));
            rest = later;
        }
        self.read_pieces(striped, &mut pieces)
    }

    /// Writes many ranges, with one request for all that one disk gets of them. The bytes follow
    /// each other in the buffer, range after range.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/matrix")?;
    /// let column: Vec<_> = (0..10).map(|row| 10 * row + 3..10 * row + 4).collect();
    /// file.write_list(b"abcdefghij", &column)?;
    /// assert_eq!(file.len()?, 94);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_list(&self, buffer: &[u8], ranges: &[Range<u64>]) -> Result<(), Error> {
        let striped = self.striped("write")?;
        self.check_writable()?;
        let lens = self.check_list(buffer.len(), ranges)?;
        self.note_write();
        let mut pieces: Vec<WritePiece<'_>> = Vec::with_capacity(ranges.len());
        let mut rest = buffer;
        for (range, len) in ranges.iter().zip(lens) {
            let (piece, later) = rest.split_at(len);
            pieces.push((range.start, piece));
            rest = later;
        }
        self.write_pieces(striped, &pieces)
    }

    /// Checks that the ranges are as long together as the buffer. Returns their lengths.
    fn check_list(&self, given: usize, ranges: &[Range<u64>]) -> Result<Vec<usize>, Error> {
        let mut total = 0u64;
        let mut lens = Vec::with_capacity(ranges.len());
        for Range { start, end } in ranges {
            let Some(len) = end.checked_sub(*start) else {
                return Err(Error::invalid(format!(
                    "{}: the range {start}..{end} ends before it begins",
                    self.state.path
                )));
            };
            let len_here = usize::try_from(len).unwrap_or(usize::MAX);
            self.range(*start, len_here)?;
            lens.push(len_here);
            total = total.saturating_add(len);
        }
        if total == given as u64 {
            return Ok(lens);
        }
        Err(Error::invalid(format!(
            "{}: the ranges have {total} bytes, the buffer has {given}",
            self.state.path
        )))
    }

    /// Reads the parts of an access. Returns how many of their bytes lie before the end of the
    /// file.
    pub(super) fn read_pieces(
        &self,
        striped: &Striped,
        pieces: &mut [ReadPiece<'_>],
    ) -> Result<usize, Error> {
        if !self.is_atomic() {
            return self.read_claimed(striped, pieces);
        }
        let bytes = covered(pieces.iter().map(|(offset, piece)| (*offset, piece.len())), false);
        self.atomically(|| bytes, || self.read_claimed(striped, pieces))
    }

    /// Reads the parts of an access that may begin.
    fn read_claimed(
        &self,
        striped: &Striped,
        pieces: &mut [ReadPiece<'_>],
    ) -> Result<usize, Error> {
        if !self.read_once(striped, pieces)? {
            return Ok(pieces.iter().map(|(_, piece)| piece.len()).sum());
        }
        // A subfile was shorter: there is a hole, or the end of the file.
        let end = self.measured_len()?;
        let before = |(offset, piece): &ReadPiece<'_>| {
            let left = end.saturating_sub(*offset);
            usize::try_from(left).unwrap_or(usize::MAX).min(piece.len())
        };
        let count = pieces.iter().map(before).sum();
        if count > 0 {
            // The file may have grown between the read and the measurement. Bytes before the
            // measured end are read again; otherwise zeros would stand for written bytes.
            self.read_once(striped, pieces)?;
            for piece in pieces {
                let count = before(piece);
                piece.1[count..].fill(0);
            }
        }
        Ok(count)
    }

    /// Reads the parts of an access once. Returns whether a subfile was shorter than requested.
    fn read_once(&self, striped: &Striped, pieces: &mut [ReadPiece<'_>]) -> Result<bool, Error> {
        match self.read_directly(striped, pieces)? {
            Some(is_short) => Ok(is_short),
            None => self.read_over_nodes(striped, pieces),
        }
    }

    /// Writes the parts of an access.
    pub(super) fn write_pieces(
        &self,
        striped: &Striped,
        pieces: &[WritePiece<'_>],
    ) -> Result<(), Error> {
        let shape = pieces.iter().map(|(offset, piece)| (*offset, piece.len()));
        self.atomically(|| covered(shape, true), || self.write_claimed(striped, pieces))
    }

    /// Writes the parts of an access that may begin.
    pub(super) fn write_claimed(
        &self,
        striped: &Striped,
        pieces: &[WritePiece<'_>],
    ) -> Result<(), Error> {
        if self.write_directly(striped, pieces)? {
            return Ok(());
        }
        self.write_over_nodes(striped, pieces)
    }

    /// Reads over the nodes. Returns whether a subfile was shorter than requested.
    fn read_over_nodes(
        &self,
        striped: &Striped,
        pieces: &mut [ReadPiece<'_>],
    ) -> Result<bool, Error> {
        let mut memory = ReadTarget::new(pieces);
        let shape: Vec<(u64, usize)> = memory.shape().collect();
        let memory = std::cell::RefCell::new(&mut memory);
        let grant = self.grant();
        self.with_retry(grant, |grant| {
            let mut window = RequestWindow::new();
            let mut is_short = false;
            let mut take = |reading: PendingBatch| {
                is_short |= reading.wait(&mut memory.borrow_mut())?;
                Ok(())
            };
            let started = batches(striped, &self.state.parts, shape.iter().copied(), |batch| {
                let bytes = batch.bytes;
                // SAFETY: batches do not overlap, and each is over or dropped before this returns.
                let reading =
                    unsafe { self.start_reading(batch, &grant, &mut memory.borrow_mut()) }?;
                window.add(reading, bytes, &mut take)
            });
            let finished = window.finish(&mut take);
            started.and(finished)?;
            Ok(is_short)
        })
    }

    /// Requests the bytes of a batch, to be received into its pieces of the target.
    ///
    /// # Safety
    /// The result must be waited for or dropped before any other code uses the pieces of the batch,
    /// or the memory of the target.
    pub(super) unsafe fn start_reading(
        &self,
        batch: Batch,
        grant: &Grant,
        memory: &mut ReadTarget<'_>,
    ) -> Result<PendingBatch, Error> {
        // SAFETY: as the caller guarantees.
        let lent = unsafe { memory.lend(&batch) };
        let ranges = batch.ranges.clone();
        let request = Request::Read { grant: grant.clone(), part: batch.part, ranges };
        let shared = &self.state.cluster.shared;
        let node = shared.node(shared.node_of(batch.part.disk)?);
        let waiting = node.start_into(request, lent.as_ref().map(BorrowedPieces::recv_buffer))?;
        Ok(PendingBatch { batch, waiting, lent })
    }

    fn write_over_nodes(&self, striped: &Striped, pieces: &[WritePiece<'_>]) -> Result<(), Error> {
        let shape = || pieces.iter().map(|(offset, piece)| (*offset, piece.len()));
        let grant = self.grant();
        self.with_retry(grant, |grant: Grant| {
            let mut window = RequestWindow::new();
            let mut take = |waiting: Waiting| waiting.wait().map(|_| ());
            let started = batches(striped, &self.state.parts, shape(), |batch| {
                let part = |piece: &MemoryPiece| {
                    &pieces[piece.part].1[piece.start..piece.start + piece.len]
                };
                let ranges = batch.ranges.clone();
                let request = Request::Write { grant: grant.clone(), part: batch.part, ranges };
                let shared = &self.state.cluster.shared;
                let node = shared.node(shared.node_of(batch.part.disk)?);
                let waiting = if batch.memory.len() <= SEGMENTS && batch.bytes >= LENT_BYTES {
                    let bytes: Vec<&[u8]> = batch.memory.iter().map(part).collect();
                    // SAFETY: the caller lends the bytes until this call returns, and every request
                    // is over or dropped before.
                    unsafe { node.start_lent(request, &bytes) }?
                } else {
                    let mut buffer = BulkBuffer::new(usize::try_from(batch.bytes).unwrap_or(0));
                    let mut filled = 0;
                    for part in batch.memory.iter().map(part) {
                        buffer[filled..filled + part.len()].copy_from_slice(part);
                        filled += part.len();
                    }
                    node.start(request, vec![buffer.freeze()])?
                };
                window.add(waiting, batch.bytes, &mut take)
            });
            // Nothing of a failed write may be under way when the caller goes on.
            let finished = window.finish(&mut take);
            started.and(finished)
        })
    }

    /// Starts to write all of a small file over the nodes. Returns the subfiles concerned.
    pub(super) fn start_writing(
        &self,
        bytes: &[u8],
    ) -> Result<(Vec<Waiting>, Vec<SubfileLocation>), Error> {
        let striped = self.striped("write")?;
        self.check_writable()?;
        self.range(0, bytes.len())?;
        let (mut writes, mut parts, grant) = (Vec::new(), Vec::new(), self.grant());
        batches(striped, &self.state.parts, [(0, bytes.len())].into_iter(), |batch| {
            let request = Request::Write {
                grant: grant.clone(),
                part: batch.part,
                ranges: batch.ranges.clone(),
            };
            let mut copy = BulkBuffer::new(usize::try_from(batch.bytes).unwrap_or(0));
            let mut filled = 0;
            for piece in &batch.memory {
                let bytes = &bytes[piece.start..piece.start + piece.len];
                copy[filled..filled + bytes.len()].copy_from_slice(bytes);
                filled += bytes.len();
            }
            writes.push(self.ask(&batch, request, vec![copy.freeze()])?);
            if !parts.contains(&batch.part) {
                parts.push(batch.part);
            }
            Ok::<(), Error>(())
        })?;
        Ok((writes, parts))
    }

    /// Waits until all of a small file is written; repeats a write that a node has refused. Returns
    /// the subfiles concerned.
    pub(super) fn finish_writing(
        &self,
        started: Result<(Vec<Waiting>, Vec<SubfileLocation>), Error>,
        bytes: &[u8],
    ) -> Result<Vec<SubfileLocation>, Error> {
        let (writes, parts) = match started {
            Ok(started) => started,
            Err(error) if error.needs_renewal() => (Vec::new(), self.state.parts.clone()),
            Err(error) => return Err(error),
        };
        let is_begun = !writes.is_empty() || bytes.is_empty();
        let mut written = Ok(());
        for write in writes {
            written = written.and(write.wait().map(|_| ()));
        }
        match written {
            Ok(()) if is_begun => Ok(parts),
            Err(error) if !error.needs_renewal() => Err(error.of_file(self.state.path.as_str())),
            _ => {
                self.write_over_nodes(self.striped("write")?, &[(0, bytes)])?;
                Ok(parts)
            }
        }
    }

    /// Starts to read a file of a known length over the nodes.
    pub(super) fn start_reading_whole(&self, len: usize) -> Result<Vec<PendingBatch>, Error> {
        let striped = self.striped("read")?;
        self.check_readable()?;
        self.range(0, len)?;
        let (mut readings, grant) = (Vec::new(), self.grant());
        batches(striped, &self.state.parts, [(0, len)].into_iter(), |batch| {
            let ranges = batch.ranges.clone();
            let request = Request::Read { grant: grant.clone(), part: batch.part, ranges };
            let waiting = self.ask(&batch, request, Vec::new())?;
            readings.push(PendingBatch { batch, waiting, lent: None });
            Ok::<(), Error>(())
        })?;
        Ok(readings)
    }

    /// Waits for the batches. Returns whether they had all bytes.
    pub(super) fn finish_reading_whole(
        &self,
        readings: Vec<PendingBatch>,
        buffer: &mut [u8],
    ) -> Result<bool, Error> {
        let pieces: &mut [ReadPiece<'_>] = &mut [(0, buffer)];
        let mut memory = ReadTarget::new(pieces);
        let mut is_whole = Ok(true);
        for reading in readings {
            let is_short = reading.wait(&mut memory);
            is_whole = is_whole.and_then(|is_whole| Ok(is_whole && !is_short?));
        }
        is_whole
    }

    pub(super) fn ask(
        &self,
        batch: &Batch,
        request: Request,
        data: Vec<Bulk>,
    ) -> Result<Waiting, Error> {
        let shared = &self.state.cluster.shared;
        shared.node(shared.node_of(batch.part.disk)?).start(request, data)
    }
}

/// The bytes from the first to the last one of an access.
fn covered(pieces: impl Iterator<Item = (u64, usize)>, is_write: bool) -> BytesUse {
    let nothing = BytesUse { from: u64::MAX, to: 0, is_write };
    pieces.filter(|(_, len)| *len > 0).fold(nothing, |all, (offset, len)| {
        let to = all.to.max(offset.saturating_add(len as u64));
        BytesUse { from: all.from.min(offset), to, is_write }
    })
}

/// Requests under way, oldest first.
struct RequestWindow<W> {
    under_way: VecDeque<(W, u64)>,
    bytes: u64,
}

impl<W> RequestWindow<W> {
    fn new() -> Self {
        Self { under_way: VecDeque::new(), bytes: 0 }
    }

    /// Adds a request of `bytes` bytes. Waits for the oldest ones while the window is exceeded.
    fn add(
        &mut self,
        waiting: W,
        bytes: u64,
        take: &mut impl FnMut(W) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.bytes += bytes;
        self.under_way.push_back((waiting, bytes));
        while self.bytes > WINDOW_BYTES
            && let Some((waiting, bytes)) = self.under_way.pop_front()
        {
            self.bytes -= bytes;
            take(waiting)?;
        }
        Ok(())
    }

    /// Waits for all requests, also after a failure.
    fn finish(&mut self, take: &mut impl FnMut(W) -> Result<(), Error>) -> Result<(), Error> {
        let mut finished = Ok(());
        for (next, _) in self.under_way.drain(..) {
            let taken = take(next);
            if finished.is_ok() {
                finished = taken;
            }
        }
        finished
    }
}

/// A batch that is being read.
pub(super) struct PendingBatch {
    batch: Batch,
    waiting: Waiting,
    /// The pieces of the batch, while the reply may be received straight into them.
    lent: Option<BorrowedPieces>,
}

impl PendingBatch {
    /// Whether the reply is there.
    pub fn is_done(&self) -> bool {
        self.waiting.pending.is_done()
    }

    /// The reply, to be awaited; then call [`finish`](Self::finish).
    pub fn pending(&mut self) -> &mut PendingReply<NodeProtocol> {
        &mut self.waiting.pending
    }

    /// Waits for the reply, and puts its bytes into place. Returns whether they were fewer than
    /// requested.
    pub fn wait(self, memory: &mut ReadTarget<'_>) -> Result<bool, Error> {
        let Self { batch, waiting, lent } = self;
        let node = waiting.node().to_owned();
        put_in_place(&batch, &node, waiting.wait()?, lent, memory)
    }

    /// Puts the bytes of a reply into place, like `wait`.
    pub fn finish(
        self,
        answer: Result<ReplyMessage<Bulk>, RpcError>,
        memory: &mut ReadTarget<'_>,
    ) -> Result<bool, Error> {
        let Self { batch, waiting, lent } = self;
        let answer = answered(waiting.node(), answer)?;
        put_in_place(&batch, waiting.node(), answer, lent, memory)
    }
}

/// Puts the bytes of a reply into place, unless they were received there. Returns whether they were
/// fewer than requested.
fn put_in_place(
    batch: &Batch,
    node: &str,
    answer: (Reply, Vec<Bulk>),
    lent: Option<BorrowedPieces>,
    memory: &mut ReadTarget<'_>,
) -> Result<bool, Error> {
    let is_received = lent.is_some_and(BorrowedPieces::take_back);
    let (Reply::Read { lens }, data) = answer else { return Err(strange(node)) };
    let data = data.first().map(|bulk| &bulk[..]).unwrap_or_default();
    let total: u64 = lens.iter().sum();
    let given = if is_received { batch.bytes } else { data.len() as u64 };
    let is_longer = batch.ranges.iter().zip(&lens).any(|(range, len)| *len > range.len);
    if lens.len() != batch.ranges.len() || total != given || is_longer {
        return Err(strange(node));
    }
    if is_received {
        return Ok(false);
    }
    let mut pieces = batch.memory.iter();
    let mut rest = data;
    let mut is_short = false;
    for (range, &len) in batch.ranges.iter().zip(&lens) {
        let (mut here, later) = rest.split_at(usize::try_from(len).unwrap_or(0).min(rest.len()));
        rest = later;
        is_short |= len < range.len;
        let mut left = range.len;
        while left > 0
            && let Some(piece) = pieces.next()
        {
            // SAFETY: the pieces of the batch were taken back above.
            let target = unsafe { memory.at(*piece) };
            let count = here.len().min(target.len());
            target[..count].copy_from_slice(&here[..count]);
            target[count..].fill(0);
            here = &here[count..];
            left -= piece.len as u64;
        }
    }
    Ok(is_short)
}
