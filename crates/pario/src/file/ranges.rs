//! Pieces of memory and the bytes of the file that they stand for.

use pario_proto::{ByteRange, Striped, SubfileLocation, SubfileRange};

/// ReadTarget to read into, and from which byte of the file on.
pub type ReadPiece<'b> = (u64, &'b mut [u8]);
/// ReadTarget to write from, and to which byte of the file on.
pub type WritePiece<'b> = (u64, &'b [u8]);

/// What goes to or comes from one subfile with one request.
pub struct Batch {
    pub part: SubfileLocation,
    pub ranges: Vec<SubfileRange>,
    /// Where the bytes are in memory, in the order of the ranges.
    pub places: Vec<MemoryPiece>,
    pub bytes: u64,
}

/// Consecutive bytes in memory.
#[derive(Clone, Copy)]
pub struct MemoryPiece {
    pub piece: usize,
    pub start: usize,
    pub len: usize,
}

impl Batch {
    pub fn new(part: SubfileLocation) -> Self {
        Self { part, ranges: Vec::new(), places: Vec::new(), bytes: 0 }
    }

    /// Adds a range; one that follows the last is a part of it.
    fn add_range(&mut self, offset: u64, len: u64) {
        match self.ranges.last_mut() {
            Some(last) if last.offset + last.len == offset => last.len += len,
            _ => self.ranges.push(SubfileRange { offset, len }),
        }
    }

    /// Adds a place, in the same way.
    fn add_place(&mut self, place: MemoryPiece) {
        match self.places.last_mut() {
            Some(last) if last.piece == place.piece && last.start + last.len == place.start => {
                last.len += place.len;
            }
            _ => self.places.push(place),
        }
    }
}

/// Pieces are cut so that no disk gets more than this with one request.
const RUN_BYTES: u64 = 256 << 10;
/// A batch that has so many bytes leaves.
const BATCH_BYTES: u64 = 512 << 10;
/// A batch that has so many ranges leaves.
const BATCH_RANGES: usize = 4096;
/// The most that is cut off at a time.
const CUT_BYTES: u64 = 4 << 20;

/// Cuts pieces into batches, one kind for each subfile, and hands them to `send` as they fill.
pub fn batches<E>(
    striped: &Striped,
    parts: &[SubfileLocation],
    pieces: impl Iterator<Item = (u64, usize)>,
    mut send: impl FnMut(Batch) -> Result<(), E>,
) -> Result<(), E> {
    let cut = (parts.len() as u64 * RUN_BYTES).clamp(1 << 20, CUT_BYTES);
    let mut open: Vec<Option<Batch>> = parts.iter().map(|_| None).collect();
    for (piece, (offset, len)) in pieces.enumerate() {
        let mut done = 0u64;
        while done < len as u64 {
            let now = cut.min(len as u64 - done);
            let Ok(range) = ByteRange::new(offset + done, now) else { break };
            for run in striped.runs(range) {
                let number = run.subfile().0 as usize;
                let batch = open[number].get_or_insert_with(|| Batch::new(parts[number]));
                batch.add_range(run.offset_bytes(), run.len_bytes());
                for segment in run.segments() {
                    let start = usize::try_from(done + segment.buffer_offset_bytes).unwrap_or(0);
                    let len = usize::try_from(segment.len_bytes).unwrap_or(0);
                    batch.add_place(MemoryPiece { piece, start, len });
                }
                batch.bytes += run.len_bytes();
                if (batch.bytes >= BATCH_BYTES || batch.ranges.len() >= BATCH_RANGES)
                    && let Some(full) = open[number].take()
                {
                    send(full)?;
                }
            }
            done += now;
        }
    }
    open.into_iter().flatten().try_for_each(send)
}

#[cfg(test)]
mod tests {
    use pario_proto::{DiskId, Disks, SubfileIndex};

    use super::*;

    /// Every byte of every piece is in one batch, at the place where the layout says it is.
    #[test]
    fn batches_cover_the_pieces_once() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let (unit, disks) = (random.u64(1..200_000), random.u32(1..6));
            let striped = Striped::new(unit, Disks::new((0..disks).map(DiskId)).unwrap()).unwrap();
            let parts: Vec<SubfileLocation> = (0..disks)
                .map(|n| SubfileLocation { disk: DiskId(n), subfile: SubfileIndex(n) })
                .collect();
            let pieces: Vec<(u64, usize)> = (0..random.usize(1..20))
                .map(|_| (random.u64(0..10_000_000), random.usize(0..3_000_000)))
                .collect();
            let mut covered: Vec<Vec<bool>> =
                pieces.iter().map(|(_, len)| vec![false; *len]).collect();
            let sent: Result<(), ()> = batches(&striped, &parts, pieces.iter().copied(), |batch| {
                let mut places = batch.places.iter();
                let total: u64 = batch.ranges.iter().map(|range| range.len).sum();
                assert_eq!(total, batch.bytes);
                assert!(batch.bytes <= pario_proto::TRANSFER_LIMIT_BYTES);
                for range in &batch.ranges {
                    let mut at = range.offset;
                    while at < range.offset + range.len {
                        let place = places.next().unwrap();
                        let byte = pieces[place.piece].0 + place.start as u64;
                        let there = striped.locate(byte);
                        assert_eq!((there.subfile, there.offset_bytes), (batch.part.subfile, at));
                        for covered in
                            &mut covered[place.piece][place.start..place.start + place.len]
                        {
                            assert!(!std::mem::replace(covered, true));
                        }
                        at += place.len as u64;
                    }
                }
                assert!(places.next().is_none());
                Ok(())
            });
            sent.unwrap();
            assert!(covered.iter().flatten().all(|covered| *covered));
        }
    }
}
