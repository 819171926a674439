//! One-sided reading and writing: cut into pieces, one for each part, which are moved at once.

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;

use super::error::RecordError;
use super::file::{RecordFile, Shared};
use super::owner::Owner;
use super::record::{Piece, RecordId};
use super::request::{Progress, Request};
use super::workers::submit;

/// Pieces that are shorter are moved by the caller itself: waking a thread would take as long.
const WORTH_A_THREAD: usize = 64 << 10;
/// Bytes that are moved at once where memory has gaps.
const GATHERED: usize = 64 << 10;

/// Memory of a caller: byte `i` of an access is at `stride * i`.
#[derive(Clone, Copy)]
struct Memory {
    start: *mut u8,
    stride: usize,
}

// SAFETY: who makes it hands the memory over until the access is over.
unsafe impl Send for Memory {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

impl RecordFile {
    /// Reads bytes of a record, from the first of the range to the last, which both belong to it.
    /// What nobody has written is zero.
    pub fn read(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        bytes: &mut [u8],
    ) -> Result<(), RecordError> {
        self.read_strided(record, range, bytes, 1)
    }

    /// Writes bytes of a record, from the first of the range to the last, which both belong to it.
    pub fn write(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        bytes: &[u8],
    ) -> Result<(), RecordError> {
        self.write_strided(record, range, bytes, 1)
    }

    /// Reads bytes to memory with gaps: byte `i` of the range goes to `bytes[stride * i]`, and what
    /// is between stays as it is.
    ///
    /// ```
    /// # use pario::records::RecordFile;
    /// # let dir = tempfile::tempdir()?;
    /// # let team = pario::team::Team::meet("strides", 1, 0)?;
    /// # let file = RecordFile::create(&team, dir.path().join("state"))?;
    /// let record = file.create_record(10)?;
    /// file.write(record, 4..=6, b"abc")?;
    /// let mut pixels = *b"rgbrgbrgb";
    /// file.read_strided(record, 4..=6, &mut pixels, 3)?;
    /// assert_eq!(&pixels, b"agbbgbcgb");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_strided(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        bytes: &mut [u8],
        stride: usize,
    ) -> Result<(), RecordError> {
        check_room(&range, bytes.len(), stride)?;
        let memory = Memory { start: bytes.as_mut_ptr(), stride };
        // SAFETY: there is room for all bytes of the range, and the memory is lent until it is over.
        unsafe { self.move_now(Direction::Read, record, range, memory) }
    }

    /// Writes bytes from memory with gaps: byte `i` of the range comes from `bytes[stride * i]`.
    pub fn write_strided(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        bytes: &[u8],
        stride: usize,
    ) -> Result<(), RecordError> {
        check_room(&range, bytes.len(), stride)?;
        let memory = Memory { start: bytes.as_ptr().cast_mut(), stride };
        // SAFETY: as in `read_strided`; it is only read.
        unsafe { self.move_now(Direction::Write, record, range, memory) }
    }

    /// Starts to read. The memory, as long as the range, comes back when it is waited for.
    ///
    /// ```
    /// # use pario::records::RecordFile;
    /// # let dir = tempfile::tempdir()?;
    /// # let team = pario::team::Team::meet("started", 1, 0)?;
    /// # let file = RecordFile::create(&team, dir.path().join("state"))?;
    /// let record = file.create_record(1 << 20)?;
    /// let writing = file.start_write(record, 0..=2, b"abc".to_vec())?;
    /// // ... compute ...
    /// let memory = writing.wait()?;
    /// let bytes = file.start_read(record, 0..=2, memory)?.wait()?;
    /// assert_eq!(bytes, b"abc");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_read(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        mut memory: Vec<u8>,
    ) -> Result<Request<Vec<u8>>, RecordError> {
        check_room(&range, memory.len(), 1)?;
        let place = Memory { start: memory.as_mut_ptr(), stride: 1 };
        // SAFETY: the request keeps the memory, which does not move, until it is over.
        unsafe { self.start(Direction::Read, record, range, place, memory) }
    }

    /// Starts to write. The memory, as long as the range, comes back when it is waited for.
    pub fn start_write(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        mut memory: Vec<u8>,
    ) -> Result<Request<Vec<u8>>, RecordError> {
        check_room(&range, memory.len(), 1)?;
        let place = Memory { start: memory.as_mut_ptr(), stride: 1 };
        // SAFETY: as in `start_read`.
        unsafe { self.start(Direction::Write, record, range, place, memory) }
    }

    /// Reads to memory of the caller, which may have gaps.
    ///
    /// # Safety
    /// Byte `stride * i` of the memory is there for every byte `i` of the range, and is used by
    /// nobody else meanwhile.
    pub unsafe fn read_to(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        memory: *mut u8,
        stride: usize,
    ) -> Result<(), RecordError> {
        check_stride(stride)?;
        // SAFETY: the caller says so.
        unsafe { self.move_now(Direction::Read, record, range, Memory { start: memory, stride }) }
    }

    /// Writes from memory of the caller, which may have gaps.
    ///
    /// # Safety
    /// Byte `stride * i` of the memory is there for every byte `i` of the range, and is changed by
    /// nobody meanwhile.
    pub unsafe fn write_from(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        memory: *const u8,
        stride: usize,
    ) -> Result<(), RecordError> {
        check_stride(stride)?;
        let memory = Memory { start: memory.cast_mut(), stride };
        // SAFETY: the caller says so, and it is only read.
        unsafe { self.move_now(Direction::Write, record, range, memory) }
    }

    /// Starts to read to memory of the caller, which may have gaps.
    ///
    /// # Safety
    /// Byte `stride * i` of the memory is there for every byte `i` of the range, and is used by
    /// nobody else until the request is over.
    pub unsafe fn start_read_to(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        memory: *mut u8,
        stride: usize,
    ) -> Result<Request<()>, RecordError> {
        check_stride(stride)?;
        let memory = Memory { start: memory, stride };
        // SAFETY: the caller says so.
        unsafe { self.start(Direction::Read, record, range, memory, ()) }
    }

    /// Starts to write from memory of the caller, which may have gaps.
    ///
    /// # Safety
    /// Byte `stride * i` of the memory is there for every byte `i` of the range, and is changed by
    /// nobody until the request is over.
    pub unsafe fn start_write_from(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        memory: *const u8,
        stride: usize,
    ) -> Result<Request<()>, RecordError> {
        check_stride(stride)?;
        let memory = Memory { start: memory.cast_mut(), stride };
        // SAFETY: the caller says so, and it is only read.
        unsafe { self.start(Direction::Write, record, range, memory, ()) }
    }

    /// Waits until everything is over that this process has started on the file. What came of it,
    /// each request says.
    pub fn wait_for_all(&self) {
        self.shared.wait_for_all();
    }

    /// Moves bytes, and returns when it is over.
    ///
    /// # Safety
    /// The memory has room for the range.
    unsafe fn move_now(
        &self,
        direction: Direction,
        record: RecordId,
        range: RangeInclusive<u64>,
        memory: Memory,
    ) -> Result<(), RecordError> {
        let (record, _passage) = self.shared.enter(record)?;
        let (lo, count) = record.check(&range)?;
        let pieces = record.pieces(lo, count);
        let owners = &self.shared.owners;
        let is_long = |piece: &&Piece| piece.len >= WORTH_A_THREAD;
        if pieces.iter().filter(is_long).count() < 2 {
            for piece in &pieces {
                // SAFETY: the caller says so.
                unsafe { transfer(&owners[piece.part], direction, memory, *piece)? };
            }
            return Ok(());
        }
        let progress = Progress::new();
        // However this ends, the memory is not given back before nobody uses it.
        let over = UntilOver(&progress);
        let (for_others, for_me): (Vec<Piece>, Vec<Piece>) =
            pieces.iter().skip(1).partition(|piece| is_long(piece));
        for piece in for_others {
            // SAFETY: the caller says so, and this waits.
            unsafe { self.shared.submit(&progress, direction, memory, piece, ()) };
        }
        let mut own = Ok(());
        for piece in pieces.iter().take(1).chain(&for_me) {
            // SAFETY: the caller says so.
            own = own
                .and_then(|()| unsafe { transfer(&owners[piece.part], direction, memory, *piece) });
        }
        drop(over);
        own.and_then(|()| progress.wait())
    }

    /// Starts to move bytes.
    ///
    /// # Safety
    /// The memory has room for the range until the request is over, or as long as what is kept.
    unsafe fn start<M: Send + 'static>(
        &self,
        direction: Direction,
        record: RecordId,
        range: RangeInclusive<u64>,
        memory: Memory,
        kept: M,
    ) -> Result<Request<M>, RecordError> {
        let (record, passage) = self.shared.enter(record)?;
        let (lo, count) = record.check(&range)?;
        let kept = Arc::new(Mutex::new(Some(kept)));
        let keeping = Arc::new((passage, kept.clone()));
        let progress = Progress::new();
        let starting = progress.task();
        for piece in record.pieces(lo, count) {
            // SAFETY: the caller says so, and what is kept is kept until the task is over.
            unsafe { self.shared.submit(&progress, direction, memory, piece, keeping.clone()) };
        }
        starting.over(Ok(()));
        Ok(Request::new(progress, kept))
    }
}

impl Shared {
    /// Lets a thread move a piece.
    ///
    /// # Safety
    /// The memory has room for the piece until the task is over, or as long as what is kept.
    unsafe fn submit<K: Send + 'static>(
        self: &Arc<Self>,
        progress: &Arc<Progress>,
        direction: Direction,
        memory: Memory,
        piece: Piece,
        kept: K,
    ) {
        let (shared, task, progress) = (self.clone(), progress.task(), progress.clone());
        submit(move || {
            // All of it, and not the pointer alone.
            let memory = memory;
            let moved = match progress.has_failed() {
                true => Ok(()),
                // SAFETY: the caller says so.
                false => unsafe { transfer(&shared.owners[piece.part], direction, memory, piece) },
            };
            // Who waits until nothing is under way finds every request over.
            task.over(moved);
            drop(kept);
        });
    }
}

/// Waits when it is dropped.
struct UntilOver<'a>(&'a Progress);

impl Drop for UntilOver<'_> {
    fn drop(&mut self) {
        // What went wrong is asked for by who waits again.
        let _ = self.0.wait();
    }
}

/// Moves a piece: straight, or through a buffer if the memory has gaps.
///
/// # Safety
/// The memory has room for the piece, and nobody else uses it.
unsafe fn transfer(
    owner: &Owner,
    direction: Direction,
    memory: Memory,
    piece: Piece,
) -> Result<(), RecordError> {
    let Memory { start, stride } = memory;
    if stride == 1 {
        // SAFETY: the caller says so.
        unsafe {
            let start = start.add(piece.here);
            return match direction {
                Direction::Read => {
                    owner.read_at(std::slice::from_raw_parts_mut(start, piece.len), piece.at)
                }
                Direction::Write => {
                    owner.write_at(std::slice::from_raw_parts(start, piece.len), piece.at)
                }
            };
        }
    }
    let mut gathered = vec![0; piece.len.min(GATHERED)];
    let mut done = 0;
    while done < piece.len {
        let now = &mut gathered[..(piece.len - done).min(GATHERED)];
        let at = piece.at + done as u64;
        let here = |byte: usize| (piece.here + done + byte) * stride;
        if direction == Direction::Read {
            owner.read_at(now, at)?;
            // SAFETY: the caller says that each of these bytes is there.
            now.iter().enumerate().for_each(|(i, byte)| unsafe { *start.add(here(i)) = *byte });
        } else {
            // SAFETY: as above.
            now.iter_mut().enumerate().for_each(|(i, byte)| unsafe { *byte = *start.add(here(i)) });
            owner.write_at(now, at)?;
        }
        done += now.len();
    }
    Ok(())
}

/// Whether memory has room for a range.
fn check_room(range: &RangeInclusive<u64>, room: usize, stride: usize) -> Result<(), RecordError> {
    check_stride(stride)?;
    if range.is_empty() {
        return Ok(());
    }
    let (lo, hi) = (*range.start(), *range.end());
    let needed = u128::from(hi - lo) * stride as u128 + 1;
    let is_right = if stride == 1 { needed == room as u128 } else { needed <= room as u128 };
    if is_right {
        return Ok(());
    }
    Err(RecordError::Invalid(format!(
        "bytes {lo} to {hi} of a record with a stride of {stride} are {needed} bytes of memory, and \
         {room} were given"
    )))
}

/// Strides begin at 1.
pub(super) fn check_stride(stride: usize) -> Result<(), RecordError> {
    if stride == 0 {
        let text = "a stride of 0: 1 means that the memory has no gaps".to_owned();
        return Err(RecordError::Invalid(text));
    }
    Ok(())
}
