//! Batches: an access, cut into one kind of request for each subfile.

use pario_proto::{ByteRange, Striped, SubfileLocation, SubfileRange};

/// Memory to read into, with its offset in the file.
pub type ReadPiece<'b> = (u64, &'b mut [u8]);
/// Memory to write from, with its offset in the file.
pub type WritePiece<'b> = (u64, &'b [u8]);

/// The ranges of one subfile that one request reads or writes.
pub struct Batch {
    pub part: SubfileLocation,
    pub ranges: Vec<SubfileRange>,
    /// The memory of the bytes, in the order of the ranges.
    pub memory: Vec<MemoryPiece>,
    pub bytes: u64,
}

/// Consecutive bytes in memory.
#[derive(Clone, Copy)]
pub struct MemoryPiece {
    /// The index of the part of the access.
    pub part: usize,
    pub start: usize,
    pub len: usize,
}

impl Batch {
    pub fn new(part: SubfileLocation) -> Self {
        Self { part, ranges: Vec::new(), memory: Vec::new(), bytes: 0 }
    }

    /// Adds a range. Merges it with the last one if it follows directly.
    fn add_range(&mut self, offset: u64, len: u64) {
        match self.ranges.last_mut() {
            Some(last) if last.offset + last.len == offset => last.len += len,
            _ => self.ranges.push(SubfileRange { offset, len }),
        }
    }

    /// Adds a piece of memory, in the same way.
    fn add_piece(&mut self, piece: MemoryPiece) {
        match self.memory.last_mut() {
            Some(last) if last.part == piece.part && last.start + last.len == piece.start => {
                last.len += piece.len;
            }
            _ => self.memory.push(piece),
        }
    }
}

/// Most bytes of one access that one disk gets at a time.
const RUN_BYTES: u64 = 256 << 10;
/// Size at which a batch is sent.
const BATCH_BYTES: u64 = 512 << 10;
/// Number of ranges at which a batch is sent.
const BATCH_RANGES: usize = 4096;
/// Most bytes of an access that are cut into runs at a time.
const CUT_BYTES: u64 = 4 << 20;

/// Cuts the parts of an access into batches, and passes each to `send` when it is full.
pub fn batches<E>(
    striped: &Striped,
    parts: &[SubfileLocation],
    pieces: impl Iterator<Item = (u64, usize)>,
    mut send: impl FnMut(Batch) -> Result<(), E>,
) -> Result<(), E> {
    let cut = (parts.len() as u64 * RUN_BYTES).clamp(1 << 20, CUT_BYTES);
    let mut open: Vec<Option<Batch>> = parts.iter().map(|_| None).collect();
    for (part, (offset, len)) in pieces.enumerate() {
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
                    batch.add_piece(MemoryPiece { part, start, len });
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

    /// Every byte of the access is in one batch, at the offset that the layout gives.
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
                let mut memory = batch.memory.iter();
                let total: u64 = batch.ranges.iter().map(|range| range.len).sum();
                assert_eq!(total, batch.bytes);
                assert!(batch.bytes <= pario_proto::TRANSFER_LIMIT_BYTES);
                for range in &batch.ranges {
                    let mut at = range.offset;
                    while at < range.offset + range.len {
                        let piece = memory.next().unwrap();
                        let byte = pieces[piece.part].0 + piece.start as u64;
                        let there = striped.locate(byte);
                        assert_eq!((there.subfile, there.offset_bytes), (batch.part.subfile, at));
                        for covered in
                            &mut covered[piece.part][piece.start..piece.start + piece.len]
                        {
                            assert!(!std::mem::replace(covered, true));
                        }
                        at += piece.len as u64;
                    }
                }
                assert!(memory.next().is_none());
                Ok(())
            });
            sent.unwrap();
            assert!(covered.iter().flatten().all(|covered| *covered));
        }
    }
}
