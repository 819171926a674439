//! Additions to numbers of a record, in stretches. Each stretch is added under a mutex of the rank
//! that has the part where its numbers begin, by a process of that rank's machine.

use std::ops::Range;
use std::sync::Arc;

use pario_team::{TeamMutexGuard, add_numbers};
use parking_lot::Mutex;

use super::caller_memory::CallerMemory;
use super::collective::different_versions;
use super::error::RecordError;
use super::file::{MUTEXES_PER_RANK, OpenRecordFile, RecordFile};
use super::part_request::{AddTarget, Addend, PartAction};
use super::record::{PartPiece, Record, RecordId};
use super::remote_transfer::RemoteTransfer;
use super::request::{Pending, Progress, StartedAccess};

/// The length of a stretch. Numbers that begin in the same stretch of a block share a mutex.
pub const STRETCH_BYTES: u64 = 64 << 10;
/// What one pool thread adds at a time: a whole number of stretches.
const TASK_BYTES: u64 = 16 * STRETCH_BYTES;

/// Consecutive numbers of an access that begin in one part.
#[derive(Clone, Copy)]
struct NumberRun {
    part: usize,
    /// The offset of the first number in the record.
    at: u64,
    /// Its offset in the block of the part.
    in_block: u64,
    /// Its offset in the access.
    here: usize,
    /// The bytes of all numbers.
    len: usize,
    /// Whether all of them also end in the part.
    is_whole: bool,
}

/// The record, the kind of numbers and the memory of one accumulation.
#[derive(Clone)]
struct Addition {
    record: Arc<Record>,
    addend: Addend,
    memory: CallerMemory,
}

impl RecordFile {
    /// Adds numbers, and returns when all of them are added.
    ///
    /// # Safety
    /// The memory covers the numbers of the range.
    pub(super) unsafe fn add(
        &self,
        record: RecordId,
        range: Range<u64>,
        addend: Addend,
        memory: CallerMemory,
    ) -> Result<(), RecordError> {
        let (record, _guard) = self.file.begin_access(record)?;
        let (lo, bytes) = record.check(&range)?;
        let addition = Addition { record, addend, memory };
        let (local, remote) = self.file.number_runs(&addition, lo, bytes);
        // SAFETY: the caller guarantees it, and the transfers are dropped before this returns.
        let transfer = |run| unsafe { self.file.remote_addition(&addition, run) };
        let mut transfers: Vec<RemoteTransfer> = remote.into_iter().map(transfer).collect();
        let begun = transfers.iter_mut().try_for_each(RemoteTransfer::begin);
        let added = if begun.is_err() {
            begun
        } else if let [run] = local[..] {
            // SAFETY: the caller guarantees it.
            unsafe { self.file.add_run(&addition, run) }
        } else {
            let progress = Progress::new();
            for run in local {
                // SAFETY: the caller guarantees it, and this function waits.
                unsafe { self.file.submit_run(&progress, addition.clone(), run, ()) };
            }
            progress.wait()
        };
        let added = added.and_then(|()| RemoteTransfer::finish_all(transfers));
        // Numbers may have changed also if this has failed.
        added.and(self.file.invalidate(&addition.record))
    }

    /// Starts to add numbers. The request keeps `kept` until the access is complete.
    ///
    /// # Safety
    /// The memory covers the numbers until the request is complete, or as long as `kept` lives.
    pub(super) unsafe fn start_add<M: Send + 'static>(
        &self,
        record: RecordId,
        range: Range<u64>,
        addend: Addend,
        memory: CallerMemory,
        kept: M,
    ) -> Result<Pending<M>, RecordError> {
        let (record, guard) = self.file.begin_access(record)?;
        let (lo, bytes) = record.check(&range)?;
        let addition = Addition { record, addend, memory };
        let (local, remote) = self.file.number_runs(&addition, lo, bytes);
        let kept = Arc::new(Mutex::new(Some(kept)));
        let keeping = Arc::new((guard, kept.clone()));
        let progress = Progress::new();
        let starting = progress.task();
        for run in remote {
            // SAFETY: the caller guarantees it, and `keeping` lives until the transfer is dropped.
            let transfer = unsafe { self.file.remote_addition(&addition, run) };
            let changed = Some(&addition.record);
            self.file.submit_remote(&progress, transfer, changed, keeping.clone());
        }
        for run in local {
            let keeping = keeping.clone();
            // SAFETY: the caller guarantees it, and `keeping` lives until the task is complete.
            unsafe { self.file.submit_run(&progress, addition.clone(), run, keeping) };
        }
        starting.over(Ok(()));
        Ok(StartedAccess::pending(progress, kept))
    }
}

/// Counts the numbers that begin between `at`, where one begins, and the next multiple of `distance`.
pub fn numbers_before(at: u64, distance: u64, each: usize) -> usize {
    let left = distance - at % distance;
    // At most the distance, which fits.
    usize::try_from(left).unwrap_or(usize::MAX).div_ceil(each)
}

impl OpenRecordFile {
    /// Cuts an access into the runs that this process adds and those that other machines add. This
    /// process adds a number that ends in another part than it begins in, on whichever machines the
    /// two parts are.
    fn number_runs(
        &self,
        addition: &Addition,
        lo: u64,
        bytes: usize,
    ) -> (Vec<NumberRun>, Vec<NumberRun>) {
        let each = addition.addend.each;
        let (mut local, mut remote) = (Vec::new(), Vec::new());
        let mut here = 0;
        while here < bytes {
            let at = lo + here as u64;
            let part = addition.record.part_of(at);
            let (start, len, _) = addition.record.block(part);
            let in_block = at - start;
            // As many numbers as end in the part; if none does, the one that crosses its end.
            let left = usize::try_from(len - in_block).unwrap_or(usize::MAX).min(bytes - here);
            let whole = left / each;
            let is_local = self.owners[part].is_local();
            let count = match is_local {
                true => numbers_before(in_block, TASK_BYTES, each).min(whole),
                false => whole,
            };
            let len = count.max(1) * each;
            let run = NumberRun { part, at, in_block, here, len, is_whole: whole > 0 };
            if is_local || !run.is_whole {
                local.push(run)
            } else {
                remote.push(run)
            }
            here += len;
        }
        (local, remote)
    }

    /// The transfer of numbers to a part on another machine, which adds them.
    ///
    /// # Safety
    /// The memory covers the numbers until the transfer is dropped.
    unsafe fn remote_addition(
        self: &Arc<Self>,
        addition: &Addition,
        run: NumberRun,
    ) -> RemoteTransfer {
        let NumberRun { part, in_block, here, len, .. } = run;
        let (_, _, offset) = addition.record.block(part);
        let target = AddTarget { record: addition.record.info.id.number(), in_block };
        let piece = PartPiece { part, at: offset + in_block, here, len };
        let action = PartAction::Add(addition.addend, target);
        // SAFETY: the caller guarantees it.
        unsafe { RemoteTransfer::new(self, action, addition.memory, piece) }
    }

    /// Lets a pool thread add a run.
    ///
    /// # Safety
    /// The memory covers the numbers until the task is complete, or as long as `kept` lives.
    unsafe fn submit_run<K: Send + 'static>(
        self: &Arc<Self>,
        progress: &Arc<Progress>,
        addition: Addition,
        run: NumberRun,
        kept: K,
    ) {
        self.submit_local(progress, kept, move |file| {
            // The closure captures the whole `Addition`, which is `Send`, and not its pointer.
            let addition = addition;
            // SAFETY: the caller guarantees it.
            let added = unsafe { file.add_run(&addition, run) };
            added.and(file.invalidate(&addition.record))
        });
    }

    /// Adds a run, stretch by stretch.
    ///
    /// # Safety
    /// The memory covers the numbers.
    unsafe fn add_run(
        self: &Arc<Self>,
        addition: &Addition,
        run: NumberRun,
    ) -> Result<(), RecordError> {
        let Addition { record, addend, memory } = addition;
        let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < run.len {
            let begin = run.in_block + done as u64;
            let now = numbers_before(begin, STRETCH_BYTES, addend.each) * addend.each;
            let now = now.min(run.len - done);
            bytes.resize(now, 0);
            numbers.resize(now, 0);
            // SAFETY: the caller guarantees it.
            unsafe { memory.gather(run.here + done, &mut numbers) };
            let own = CallerMemory::bytes(bytes.as_mut_ptr(), 1);
            let guard = self.lock(record.info.id.number(), run.part, begin)?;
            let pieces = record.pieces(run.at + done as u64, now);
            for piece in &pieces {
                // SAFETY: `bytes` has room for all pieces, and only this thread uses it.
                unsafe { self.transfer_one(PartAction::Read, own, *piece)? };
            }
            if !add_numbers(addend.kind, &addend.factor, &numbers, &mut bytes) {
                return Err(different_versions());
            }
            let own = CallerMemory::bytes(bytes.as_mut_ptr(), 1);
            for piece in &pieces {
                // SAFETY: as above.
                unsafe { self.transfer_one(PartAction::Write, own, *piece)? };
            }
            drop(guard);
            done += now;
        }
        Ok(())
    }

    /// Locks the mutex of the numbers that begin in a stretch of a block. It also covers a number
    /// that ends in the next stretch or in another part.
    pub fn lock(
        &self,
        record: u64,
        part: usize,
        in_block: u64,
    ) -> Result<TeamMutexGuard<'_>, RecordError> {
        let stretch = (part as u64).rotate_left(48) ^ (in_block / STRETCH_BYTES).rotate_left(32);
        let mixed = (record ^ stretch).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let number = u32::try_from(mixed >> 32).unwrap_or(0) % MUTEXES_PER_RANK;
        Ok(self.mutexes.lock(self.owners[part].rank, number)?)
    }
}
