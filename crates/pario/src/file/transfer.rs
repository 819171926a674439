//! Bytes over the nodes: cut into requests, kept under way up to a window, answered in any order.

use std::collections::VecDeque;

use pario_net::{Bulk, BulkBuffer};
use pario_proto::{ByteRange, Grant, Reply, Request, Striped};

use super::File;
use super::ranges::{Batch, ReadPiece, WritePiece, batches};
use crate::connection::{Waiting, strange};
use crate::error::Error;

/// So much of one call may be under way: more does not make it faster, and takes memory.
const WINDOW_BYTES: u64 = 8 << 20;

impl File {
    /// Reads many ranges, with one request for all that one disk has of them (as far as they fit
    /// into one). The bytes follow each other in the buffer, range after range, and its length must
    /// be that of all ranges. What lies beyond the end of the file reads as zeros; the answer is how
    /// many bytes lie before it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use pario::ByteRange;
    ///
    /// let file = cluster.create("/matrix")?;
    /// file.write_at(&(0..100).collect::<Vec<u8>>(), 0)?; // ten rows of ten
    /// let column: Vec<ByteRange> =
    ///     (0..10).map(|row| ByteRange::new(10 * row + 3, 1)).collect::<Result<_, _>>()?;
    /// let mut bytes = [0; 10];
    /// file.read_list(&column, &mut bytes)?;
    /// assert_eq!(bytes, [3, 13, 23, 33, 43, 53, 63, 73, 83, 93]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_list(&self, ranges: &[ByteRange], buffer: &mut [u8]) -> Result<usize, Error> {
        let striped = self.striped("read")?;
        self.check_readable()?;
        self.check_list(ranges, buffer.len())?;
        let mut pieces: Vec<ReadPiece<'_>> = Vec::with_capacity(ranges.len());
        let mut rest = buffer;
        for range in ranges {
            let len = usize::try_from(range.len_bytes()).unwrap_or(0);
            let (piece, later) = rest.split_at_mut(len);
            pieces.push((range.start_bytes(), piece));
            rest = later;
        }
        self.read_pieces(striped, &mut pieces)
    }

    /// Writes many ranges, with one request for all that one disk gets of them. The bytes follow
    /// each other in the buffer, range after range.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use pario::ByteRange;
    ///
    /// let file = cluster.create("/matrix")?;
    /// let column: Vec<ByteRange> =
    ///     (0..10).map(|row| ByteRange::new(10 * row + 3, 1)).collect::<Result<_, _>>()?;
    /// file.write_list(&column, b"abcdefghij")?;
    /// assert_eq!(file.len()?, 94);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_list(&self, ranges: &[ByteRange], buffer: &[u8]) -> Result<(), Error> {
        let striped = self.striped("write")?;
        self.check_writable()?;
        self.check_list(ranges, buffer.len())?;
        self.note_write();
        let mut pieces: Vec<WritePiece<'_>> = Vec::with_capacity(ranges.len());
        let mut rest = buffer;
        for range in ranges {
            let len = usize::try_from(range.len_bytes()).unwrap_or(0);
            let (piece, later) = rest.split_at(len);
            pieces.push((range.start_bytes(), piece));
            rest = later;
        }
        self.write_pieces(striped, &pieces)
    }

    fn check_list(&self, ranges: &[ByteRange], given: usize) -> Result<(), Error> {
        let mut total = 0u64;
        for range in ranges {
            let len = usize::try_from(range.len_bytes()).unwrap_or(usize::MAX);
            self.range(range.start_bytes(), len)?;
            total = total.saturating_add(range.len_bytes());
        }
        if total == given as u64 {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{}: the ranges have {total} bytes, the buffer has {given}",
            self.path
        )))
    }

    /// Reads pieces; how many bytes of them lie before the end of the file.
    pub(super) fn read_pieces(
        &self,
        striped: &Striped,
        pieces: &mut [ReadPiece<'_>],
    ) -> Result<usize, Error> {
        if !self.read_once(striped, pieces)? {
            return Ok(pieces.iter().map(|(_, piece)| piece.len()).sum());
        }
        // Some subfile was shorter: a hole, or the end of the file.
        let end = self.len()?;
        let before = |(offset, piece): &ReadPiece<'_>| {
            let left = end.saturating_sub(*offset);
            usize::try_from(left).unwrap_or(usize::MAX).min(piece.len())
        };
        let count = pieces.iter().map(before).sum();
        if count > 0 {
            // The file may have grown between reading and measuring: what lies before the end that
            // was measured is read once more, or zeros would be taken for what was written there.
            self.read_once(striped, pieces)?;
            for piece in pieces {
                let count = before(piece);
                piece.1[count..].fill(0);
            }
        }
        Ok(count)
    }

    /// Reads pieces; whether some subfile was shorter than wanted.
    fn read_once(&self, striped: &Striped, pieces: &mut [ReadPiece<'_>]) -> Result<bool, Error> {
        match self.read_directly(striped, pieces)? {
            Some(is_short) => Ok(is_short),
            None => self.read_over_nodes(striped, pieces),
        }
    }

    /// Writes pieces.
    pub(super) fn write_pieces(
        &self,
        striped: &Striped,
        pieces: &[WritePiece<'_>],
    ) -> Result<(), Error> {
        if self.write_directly(striped, pieces)? {
            return Ok(());
        }
        self.write_over_nodes(striped, pieces)
    }

    /// Reads pieces from the nodes; whether some subfile was shorter than wanted.
    fn read_over_nodes(
        &self,
        striped: &Striped,
        pieces: &mut [ReadPiece<'_>],
    ) -> Result<bool, Error> {
        let shape: Vec<(u64, usize)> =
            pieces.iter().map(|(offset, piece)| (*offset, piece.len())).collect();
        let target = std::cell::RefCell::new(pieces);
        let grant = self.grant.read().clone();
        self.with_retry(grant, |grant| {
            let mut flight = Flight::new();
            let mut is_short = false;
            let mut take = |(batch, waiting): (Batch, Waiting)| {
                is_short |= place(batch, waiting, &mut target.borrow_mut())?;
                Ok(())
            };
            let departed = batches(striped, &self.parts, shape.iter().copied(), |batch| {
                let ranges = batch.ranges.clone();
                let request = Request::Read { grant: grant.clone(), part: batch.part, ranges };
                let waiting = self.ask(&batch, request, Vec::new())?;
                flight.depart(batch, waiting, &mut take)
            });
            let landed = flight.land(&mut take);
            departed.and(landed)?;
            Ok(is_short)
        })
    }

    fn write_over_nodes(&self, striped: &Striped, pieces: &[WritePiece<'_>]) -> Result<(), Error> {
        let shape = || pieces.iter().map(|(offset, piece)| (*offset, piece.len()));
        let grant = self.grant.read().clone();
        self.with_retry(grant, |grant: Grant| {
            let mut flight = Flight::new();
            let mut take = |(_, waiting): (Batch, Waiting)| waiting.wait().map(|_| ());
            let departed = batches(striped, &self.parts, shape(), |batch| {
                let mut buffer = BulkBuffer::new(usize::try_from(batch.bytes).unwrap_or(0));
                let mut filled = 0;
                for place in &batch.places {
                    let from = &pieces[place.piece].1[place.start..place.start + place.len];
                    buffer[filled..filled + place.len].copy_from_slice(from);
                    filled += place.len;
                }
                let ranges = batch.ranges.clone();
                let request = Request::Write { grant: grant.clone(), part: batch.part, ranges };
                let waiting = self.ask(&batch, request, vec![buffer.freeze()])?;
                flight.depart(batch, waiting, &mut take)
            });
            // Nothing of a write that has failed may be under way when the caller goes on.
            let landed = flight.land(&mut take);
            departed.and(landed)
        })
    }

    pub(super) fn ask(
        &self,
        batch: &Batch,
        request: Request,
        data: Vec<Bulk>,
    ) -> Result<Waiting, Error> {
        let shared = &self.cluster.shared;
        shared.node(shared.node_of(batch.part.disk)?).start(request, data)
    }
}

/// Requests under way, oldest first.
struct Flight {
    under_way: VecDeque<(Batch, Waiting)>,
    bytes: u64,
}

impl Flight {
    fn new() -> Self {
        Self { under_way: VecDeque::new(), bytes: 0 }
    }

    /// A request is under way. While there are too many, the oldest are waited for.
    fn depart(
        &mut self,
        batch: Batch,
        waiting: Waiting,
        take: &mut impl FnMut((Batch, Waiting)) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.bytes += batch.bytes;
        self.under_way.push_back((batch, waiting));
        while self.bytes > WINDOW_BYTES
            && let Some((batch, waiting)) = self.under_way.pop_front()
        {
            self.bytes -= batch.bytes;
            take((batch, waiting))?;
        }
        Ok(())
    }

    /// Waits for all that are under way, also after a failure.
    fn land(
        &mut self,
        take: &mut impl FnMut((Batch, Waiting)) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut landed = Ok(());
        for next in self.under_way.drain(..) {
            let taken = take(next);
            if landed.is_ok() {
                landed = taken;
            }
        }
        landed
    }
}

/// Waits for what was read and puts it to its places; whether it was less than wanted.
pub(super) fn place(
    batch: Batch,
    waiting: Waiting,
    pieces: &mut [ReadPiece<'_>],
) -> Result<bool, Error> {
    let node = waiting.node().to_owned();
    place_answer(batch, &node, waiting.wait()?, pieces)
}

/// Puts what was read to its places; whether it was less than wanted.
pub(super) fn place_answer(
    batch: Batch,
    node: &str,
    answer: (Reply, Vec<Bulk>),
    pieces: &mut [ReadPiece<'_>],
) -> Result<bool, Error> {
    let (Reply::Read { lens }, data) = answer else { return Err(strange(node)) };
    let data = data.first().map(|bulk| &bulk[..]).unwrap_or_default();
    let total: u64 = lens.iter().sum();
    if lens.len() != batch.ranges.len() || total != data.len() as u64 {
        return Err(strange(node));
    }
    let mut places = batch.places.iter();
    let mut rest = data;
    let mut is_short = false;
    for (range, &len) in batch.ranges.iter().zip(&lens) {
        let (mut here, later) = rest.split_at(usize::try_from(len).unwrap_or(0).min(rest.len()));
        rest = later;
        is_short |= len < range.len;
        let mut left = range.len;
        while left > 0
            && let Some(place) = places.next()
        {
            let target = &mut pieces[place.piece].1[place.start..place.start + place.len];
            let count = here.len().min(target.len());
            target[..count].copy_from_slice(&here[..count]);
            target[count..].fill(0);
            here = &here[count..];
            left -= place.len as u64;
        }
    }
    Ok(is_short)
}
