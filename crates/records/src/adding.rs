//! How numbers are added: in stretches, each under a mutex of the rank that has the part where they
//! begin, by a process of the machine of that rank.

use std::ops::Range;
use std::sync::Arc;

use pario_team::{TeamMutexGuard, add_numbers};
use parking_lot::Mutex;

use super::error::RecordError;
use super::far::Lane;
use super::file::{LOCKS, RecordFile, Shared};
use super::memory::Memory;
use super::order::{Addend, Target, Work};
use super::record::{Piece, Record, RecordId};
use super::request::{Pending, Progress, StartedAccess};
use super::search::different_versions;

/// Numbers of a record that begin in such a stretch of a part share a mutex.
pub const CLASS_BYTES: u64 = 64 << 10;
/// What one thread adds: a whole number of stretches.
const TASK_BYTES: u64 = 16 * CLASS_BYTES;

/// Numbers that begin in one part.
#[derive(Clone, Copy)]
struct Run {
    part: usize,
    /// Where the first one begins in the record.
    at: u64,
    /// Where it begins in the block of the part.
    in_block: u64,
    /// Where it is among the bytes of the access.
    here: usize,
    /// Bytes of all.
    len: usize,
    /// Whether all of them end in the part as well.
    is_whole: bool,
}

/// What is to be added to a record.
#[derive(Clone)]
struct Sum {
    record: Arc<Record>,
    addend: Addend,
    memory: Memory,
}

impl RecordFile {
    /// Adds numbers, and returns when it is over.
    ///
    /// # Safety
    /// The numbers are there.
    pub(super) unsafe fn add_now(
        &self,
        record: RecordId,
        range: Range<u64>,
        addend: Addend,
        memory: Memory,
    ) -> Result<(), RecordError> {
        let (record, _passage) = self.shared.enter(record)?;
        let (lo, bytes) = record.check(&range)?;
        let sum = Sum { record, addend, memory };
        let (near, far) = self.shared.runs(&sum, lo, bytes);
        // SAFETY: the caller says so, and lanes are dropped before this returns.
        let lane = |run| unsafe { self.shared.lane(&sum, run) };
        let mut lanes: Vec<Lane> = far.into_iter().map(lane).collect();
        lanes.iter_mut().try_for_each(Lane::begin)?;
        let added = if let [run] = near[..] {
            // SAFETY: the caller says so.
            unsafe { self.shared.add(&sum, run) }
        } else {
            let progress = Progress::new();
            for run in near {
                // SAFETY: the caller says so, and this waits.
                unsafe { self.shared.submit_adding(&progress, sum.clone(), run, ()) };
            }
            progress.wait()
        };
        added.and(Lane::finish_all(lanes))
    }

    /// Starts to add numbers.
    ///
    /// # Safety
    /// The numbers are there until the request is over, or as long as what is kept.
    pub(super) unsafe fn start_adding<M: Send + 'static>(
        &self,
        record: RecordId,
        range: Range<u64>,
        addend: Addend,
        memory: Memory,
        kept: M,
    ) -> Result<Pending<M>, RecordError> {
        let (record, passage) = self.shared.enter(record)?;
        let (lo, bytes) = record.check(&range)?;
        let sum = Sum { record, addend, memory };
        let (near, far) = self.shared.runs(&sum, lo, bytes);
        let kept = Arc::new(Mutex::new(Some(kept)));
        let keeping = Arc::new((passage, kept.clone()));
        let progress = Progress::new();
        let starting = progress.task();
        for run in far {
            // SAFETY: the caller says so, and what is kept is kept until the lane is dropped.
            let lane = unsafe { self.shared.lane(&sum, run) };
            self.shared.submit_lane(&progress, lane, keeping.clone());
        }
        for run in near {
            let keeping = keeping.clone();
            // SAFETY: the caller says so, and what is kept is kept until the task is over.
            unsafe { self.shared.submit_adding(&progress, sum.clone(), run, keeping) };
        }
        starting.over(Ok(()));
        Ok(StartedAccess::pending(progress, kept))
    }
}

/// How many numbers begin before the next border, if one begins here.
pub fn beginning_before(at: u64, distance: u64, each: usize) -> usize {
    let left = distance - at % distance;
    // No more than the distance.
    usize::try_from(left).unwrap_or(usize::MAX).div_ceil(each)
}

impl Shared {
    /// Cuts an access into what is added here, and into what is added at other machines. A number
    /// that ends in another part than it begins in is added here, wherever these are.
    fn runs(&self, sum: &Sum, lo: u64, bytes: usize) -> (Vec<Run>, Vec<Run>) {
        let each = sum.addend.each;
        let (mut near, mut far) = (Vec::new(), Vec::new());
        let mut here = 0;
        while here < bytes {
            let at = lo + here as u64;
            let part = sum.record.part_of(at);
            let (start, len, _) = sum.record.block(part);
            let in_block = at - start;
            // As many as end in the part; one, if that is none.
            let left = usize::try_from(len - in_block).unwrap_or(usize::MAX).min(bytes - here);
            let whole = left / each;
            let is_near = self.owners[part].is_near();
            let count = match is_near {
                true => beginning_before(in_block, TASK_BYTES, each).min(whole),
                false => whole,
            };
            let len = count.max(1) * each;
            let run = Run { part, at, in_block, here, len, is_whole: whole > 0 };
            if is_near || !run.is_whole {
                near.push(run)
            } else {
                far.push(run)
            }
            here += len;
        }
        (near, far)
    }

    /// The way of numbers to a part on another machine.
    ///
    /// # Safety
    /// The numbers are there until it is dropped.
    unsafe fn lane(self: &Arc<Self>, sum: &Sum, run: Run) -> Lane {
        let Run { part, in_block, here, len, .. } = run;
        let (_, _, offset) = sum.record.block(part);
        let target = Target { record: sum.record.info.id.number(), in_block };
        let piece = Piece { part, at: offset + in_block, here, len };
        // SAFETY: the caller says so.
        unsafe { Lane::new(self, Work::Add(sum.addend, target), sum.memory, piece) }
    }

    /// Lets a thread add numbers.
    ///
    /// # Safety
    /// The numbers are there until the task is over, or as long as what is kept.
    unsafe fn submit_adding<K: Send + 'static>(
        self: &Arc<Self>,
        progress: &Arc<Progress>,
        sum: Sum,
        run: Run,
        kept: K,
    ) {
        self.submit_near(progress, kept, move |shared| {
            // All of it, and not the pointer alone.
            let sum = sum;
            // SAFETY: the caller says so.
            unsafe { shared.add(&sum, run) }
        });
    }

    /// Adds numbers, stretch by stretch.
    ///
    /// # Safety
    /// The numbers are there.
    unsafe fn add(self: &Arc<Self>, sum: &Sum, run: Run) -> Result<(), RecordError> {
        let Sum { record, addend, memory } = sum;
        let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < run.len {
            let begin = run.in_block + done as u64;
            let now = beginning_before(begin, CLASS_BYTES, addend.each) * addend.each;
            let now = now.min(run.len - done);
            bytes.resize(now, 0);
            numbers.resize(now, 0);
            // SAFETY: the caller says so.
            unsafe { memory.gather(run.here + done, &mut numbers) };
            let own = Memory::bytes(bytes.as_mut_ptr(), 1);
            let unlock = self.lock(record.info.id.number(), run.part, begin)?;
            let pieces = record.pieces(run.at + done as u64, now);
            for piece in &pieces {
                // SAFETY: there is room for all of them, which is used only here.
                unsafe { self.move_piece(Work::Read, own, *piece)? };
            }
            if !add_numbers(addend.kind, &addend.factor, &numbers, &mut bytes) {
                return Err(different_versions());
            }
            let own = Memory::bytes(bytes.as_mut_ptr(), 1);
            for piece in &pieces {
                // SAFETY: as above.
                unsafe { self.move_piece(Work::Write, own, *piece)? };
            }
            drop(unlock);
            done += now;
        }
        Ok(())
    }

    /// Takes the mutex of numbers that begin at a place of a block. Also those that end in the next
    /// stretch, or in another part, have one.
    pub fn lock(
        &self,
        record: u64,
        part: usize,
        in_block: u64,
    ) -> Result<TeamMutexGuard<'_>, RecordError> {
        let place = (part as u64).rotate_left(48) ^ (in_block / CLASS_BYTES).rotate_left(32);
        let mixed = (record ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let number = u32::try_from(mixed >> 32).unwrap_or(0) % LOCKS;
        Ok(self.mutexes.lock(self.owners[part].rank, number)?)
    }
}
