//! How bytes are moved: an access is cut into pieces, one for each part, which are moved at once.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::error::RecordError;
use super::far::Lane;
use super::file::{RecordFile, Shared};
use super::later::Later;
use super::memory::Memory;
use super::order::Work;
use super::owner::Owner;
use super::record::{Piece, RecordId};
use super::request::{Pending, Progress, StartedAccess};
use super::workers::Crew;

/// Pieces that are shorter are moved by the caller itself: waking a thread would take as long.
const WORTH_A_THREAD: usize = 64 << 10;
/// Bytes that are moved at once where memory has gaps.
const GATHERED: usize = 64 << 10;

impl RecordFile {
    /// Moves bytes, and returns when it is over.
    ///
    /// # Safety
    /// The memory has room for the range.
    pub(super) unsafe fn move_now(
        &self,
        work: Work,
        record: RecordId,
        range: Range<u64>,
        memory: Memory,
    ) -> Result<(), RecordError> {
        let (record, _passage) = self.shared.enter(record)?;
        let (lo, count) = record.check(&range)?;
        let (near, far) = self.shared.by_distance(record.pieces(lo, count));
        // SAFETY: the caller says so, and lanes are dropped before this returns.
        let lane = |piece| unsafe { Lane::new(&self.shared, work, memory, piece) };
        let mut lanes: Vec<Lane> = far.into_iter().map(lane).collect();
        lanes.iter_mut().try_for_each(Lane::begin)?;
        // SAFETY: the caller says so.
        unsafe { self.move_near(work, memory, &near)? };
        Lane::finish_all(lanes)
    }

    /// Moves bytes of near parts, and returns when it is over.
    ///
    /// # Safety
    /// The memory has room for the pieces.
    unsafe fn move_near(
        &self,
        work: Work,
        memory: Memory,
        pieces: &[Piece],
    ) -> Result<(), RecordError> {
        let owners = &self.shared.owners;
        let is_long = |piece: &&Piece| piece.len >= WORTH_A_THREAD;
        if pieces.iter().filter(is_long).count() < 2 {
            for piece in pieces {
                // SAFETY: the caller says so.
                unsafe { transfer(&owners[piece.part], work, memory, *piece)? };
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
            unsafe { self.shared.submit(&progress, work, memory, piece, ()) };
        }
        let mut own = Ok(());
        for piece in pieces.iter().take(1).chain(&for_me) {
            // SAFETY: the caller says so.
            own = own.and_then(|()| unsafe { transfer(&owners[piece.part], work, memory, *piece) });
        }
        drop(over);
        own.and_then(|()| progress.wait())
    }

    /// Starts to move bytes.
    ///
    /// # Safety
    /// The memory has room for the range until the request is over, or as long as what is kept.
    pub(super) unsafe fn start<M: Send + 'static>(
        &self,
        work: Work,
        record: RecordId,
        range: Range<u64>,
        memory: Memory,
        kept: M,
    ) -> Result<Pending<M>, RecordError> {
        let (record, passage) = self.shared.enter(record)?;
        let (lo, count) = record.check(&range)?;
        let kept = Arc::new(Mutex::new(Some(kept)));
        let keeping = Arc::new((passage, kept.clone()));
        let progress = Progress::new();
        let starting = progress.task();
        let (near, far) = self.shared.by_distance(record.pieces(lo, count));
        for piece in far {
            // SAFETY: the caller says so, and what is kept is kept until the lane is dropped.
            let lane = unsafe { Lane::new(&self.shared, work, memory, piece) };
            self.shared.submit_lane(&progress, lane, keeping.clone());
        }
        for piece in near {
            // SAFETY: the caller says so, and what is kept is kept until the task is over.
            unsafe { self.shared.submit(&progress, work, memory, piece, keeping.clone()) };
        }
        starting.over(Ok(()));
        Ok(StartedAccess::pending(progress, kept))
    }
}

impl Shared {
    /// Pieces of parts that are opened here, and of those on other machines.
    fn by_distance(&self, pieces: Vec<Piece>) -> (Vec<Piece>, Vec<Piece>) {
        pieces.into_iter().partition(|piece| self.owners[piece.part].is_near())
    }

    /// Asks for a piece. Whoever waits for the access waits for the answers; if not all is asked yet,
    /// a thread does.
    pub fn submit_lane<K: Send + 'static>(
        &self,
        progress: &Arc<Progress>,
        mut lane: Lane,
        kept: K,
    ) {
        let task = progress.task();
        let begun = lane.begin_if_few();
        let has_asked_all = lane.has_asked_all();
        let finish = move || {
            let moved = begun.and_then(|()| lane.finish());
            // Who waits until nothing is under way finds every request over.
            task.over(moved);
            drop(kept);
        };
        match has_asked_all {
            true => progress.leave(Later::new(finish)),
            false => Crew::Asking.submit(finish),
        }
    }

    /// Lets a thread move a piece of a near part.
    ///
    /// # Safety
    /// The memory has room for the piece until the task is over, or as long as what is kept.
    unsafe fn submit<K: Send + 'static>(
        self: &Arc<Self>,
        progress: &Arc<Progress>,
        work: Work,
        memory: Memory,
        piece: Piece,
        kept: K,
    ) {
        self.submit_near(progress, kept, move |shared| {
            // All of it, and not the pointer alone.
            let memory = memory;
            // SAFETY: the caller says so.
            unsafe { transfer(&shared.owners[piece.part], work, memory, piece) }
        });
    }

    /// Lets a thread do something with near parts, unless something has failed before.
    pub fn submit_near<K: Send + 'static>(
        self: &Arc<Self>,
        progress: &Arc<Progress>,
        kept: K,
        work: impl FnOnce(&Arc<Self>) -> Result<(), RecordError> + Send + 'static,
    ) {
        let (shared, task, progress) = (self.clone(), progress.task(), progress.clone());
        Crew::Started.submit(move || {
            let done = if progress.has_failed() { Ok(()) } else { work(&shared) };
            // Who waits until nothing is under way finds every request over.
            task.over(done);
            drop(kept);
        });
    }

    /// Moves one piece, wherever it is.
    ///
    /// # Safety
    /// The memory has room for the piece, and nobody else uses it.
    pub unsafe fn move_piece(
        self: &Arc<Self>,
        work: Work,
        memory: Memory,
        piece: Piece,
    ) -> Result<(), RecordError> {
        let owner = &self.owners[piece.part];
        if owner.is_near() {
            // SAFETY: the caller says so.
            return unsafe { transfer(owner, work, memory, piece) };
        }
        // SAFETY: the caller says so.
        let lane = unsafe { Lane::new(self, work, memory, piece) };
        lane.finish()
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

/// Reads or writes a piece of a near part: straight, or through a buffer if the memory has gaps.
///
/// # Safety
/// The memory has room for the piece, and nobody else uses it.
unsafe fn transfer(
    owner: &Owner,
    work: Work,
    memory: Memory,
    piece: Piece,
) -> Result<(), RecordError> {
    let is_read = work == Work::Read;
    if memory.is_dense() {
        // SAFETY: the caller says so.
        unsafe {
            let start = memory.at(piece.here);
            return match is_read {
                true => owner.read_at(std::slice::from_raw_parts_mut(start, piece.len), piece.at),
                false => owner.write_at(std::slice::from_raw_parts(start, piece.len), piece.at),
            };
        }
    }
    let mut gathered = vec![0; piece.len.min(GATHERED)];
    let mut done = 0;
    while done < piece.len {
        let now = &mut gathered[..(piece.len - done).min(GATHERED)];
        let (at, here) = (piece.at + done as u64, piece.here + done);
        if is_read {
            owner.read_at(now, at)?;
            // SAFETY: the caller says that each of these bytes is there.
            unsafe { memory.scatter(here, now) };
        } else {
            // SAFETY: as above.
            unsafe { memory.gather(here, now) };
            owner.write_at(now, at)?;
        }
        done += now.len();
    }
    Ok(())
}
