//! Reads and writes of a byte range: an access is cut into one piece per part, and all pieces are
//! transferred at the same time.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::caller_memory::CallerMemory;
use super::deferred::DeferredTask;
use super::error::RecordError;
use super::file::{OpenRecordFile, RecordFile};
use super::part_owner::PartOwner;
use super::part_request::PartAction;
use super::read_cache::CachedRead;
use super::record::{PartPiece, Record, RecordId};
use super::remote_transfer::RemoteTransfer;
use super::request::{Pending, Progress, StartedAccess};
use super::worker_pool::WorkerPool;

/// The calling thread transfers shorter pieces itself: waking a pool thread would take as long.
const POOL_THRESHOLD_BYTES: usize = 64 << 10;
/// Bytes of the buffer for memory with gaps.
const GATHER_BYTES: usize = 64 << 10;

impl RecordFile {
    /// Transfers bytes, and returns when all of them are transferred.
    ///
    /// # Safety
    /// The memory covers the range.
    pub(super) unsafe fn transfer(
        &self,
        action: PartAction,
        record: RecordId,
        range: Range<u64>,
        memory: CallerMemory,
    ) -> Result<(), RecordError> {
        let (record, _guard) = self.file.begin_access(record)?;
        let (lo, count) = record.check(&range)?;
        let (local, remote) = self.file.split_local(record.pieces(lo, count));
        // SAFETY: the caller guarantees it.
        let mut cached = unsafe { self.file.begin_cached(action, &record, &remote, memory)? };
        let mut transfers: Vec<RemoteTransfer> = match &mut cached {
            Some(cached) => cached.transfers(&self.file),
            None => {
                // SAFETY: as above, and the transfers are dropped before this returns.
                let new = |piece| unsafe { RemoteTransfer::new(&self.file, action, memory, piece) };
                remote.into_iter().map(new).collect()
            }
        };
        let mut moved = transfers.iter_mut().try_for_each(RemoteTransfer::begin);
        // SAFETY: as above.
        moved = moved.and_then(|()| unsafe { self.transfer_local(action, memory, &local) });
        moved = moved.and_then(|()| RemoteTransfer::finish_all(transfers));
        if action == PartAction::Write {
            // A write that has failed may have changed some bytes.
            return moved.and(self.file.invalidate(&record));
        }
        moved?;
        if let (Some(cache), Some(cached)) = (&self.file.read_cache, cached) {
            // SAFETY: as above.
            unsafe { cache.end_read(cached, memory) };
        }
        Ok(())
    }

    /// Transfers bytes of local parts, and returns when all of them are transferred.
    ///
    /// # Safety
    /// The memory covers the pieces.
    unsafe fn transfer_local(
        &self,
        action: PartAction,
        memory: CallerMemory,
        pieces: &[PartPiece],
    ) -> Result<(), RecordError> {
        let owners = &self.file.owners;
        let is_long = |piece: &&PartPiece| piece.len >= POOL_THRESHOLD_BYTES;
        if pieces.iter().filter(is_long).count() < 2 {
            for piece in pieces {
                // SAFETY: the caller guarantees it.
                unsafe { transfer_piece(&owners[piece.part], action, memory, *piece)? };
            }
            return Ok(());
        }
        let progress = Progress::new();
        // On every path, the pool threads are done with the memory before this returns.
        let waits = WaitOnDrop(&progress);
        let (for_pool, for_caller): (Vec<PartPiece>, Vec<PartPiece>) =
            pieces.iter().skip(1).partition(|piece| is_long(piece));
        for piece in for_pool {
            // SAFETY: the caller guarantees it, and this function waits.
            unsafe { self.file.submit_piece(&progress, action, memory, piece, None, ()) };
        }
        let mut own = Ok(());
        for piece in pieces.iter().take(1).chain(&for_caller) {
            let owner = &owners[piece.part];
            // SAFETY: the caller guarantees it.
            own = own.and_then(|()| unsafe { transfer_piece(owner, action, memory, *piece) });
        }
        drop(waits);
        own.and_then(|()| progress.wait())
    }

    /// Starts to transfer bytes. The request keeps `kept` until the access is complete.
    ///
    /// # Safety
    /// The memory covers the range until the request is complete, or as long as `kept` lives.
    pub(super) unsafe fn start_transfer<M: Send + 'static>(
        &self,
        action: PartAction,
        record: RecordId,
        range: Range<u64>,
        memory: CallerMemory,
        kept: M,
    ) -> Result<Pending<M>, RecordError> {
        let (record, guard) = self.file.begin_access(record)?;
        let (lo, count) = record.check(&range)?;
        let kept = Arc::new(Mutex::new(Some(kept)));
        let keeping = Arc::new((guard, kept.clone()));
        let progress = Progress::new();
        let starting = progress.task();
        let (local, mut remote) = self.file.split_local(record.pieces(lo, count));
        let changed = (action == PartAction::Write).then_some(&record);
        // SAFETY: the caller guarantees it.
        let cached = unsafe { self.file.begin_cached(action, &record, &remote, memory)? };
        if let Some(cached) = cached {
            // SAFETY: the caller guarantees it, and `keeping` lives until the task is complete.
            unsafe { self.file.submit_cached(&progress, cached, memory, keeping.clone()) };
            remote.clear();
        }
        for piece in remote {
            // SAFETY: the caller guarantees it, and `keeping` lives until the transfer is dropped.
            let transfer = unsafe { RemoteTransfer::new(&self.file, action, memory, piece) };
            self.file.submit_remote(&progress, transfer, changed, keeping.clone());
        }
        for piece in local {
            let keeping = keeping.clone();
            // SAFETY: the caller guarantees it, and `keeping` lives until the task is complete.
            unsafe {
                self.file.submit_piece(&progress, action, memory, piece, changed, keeping);
            }
        }
        starting.over(Ok(()));
        Ok(StartedAccess::pending(progress, kept))
    }
}

impl OpenRecordFile {
    /// Splits pieces into those of local parts and those of parts on other machines.
    fn split_local(&self, pieces: Vec<PartPiece>) -> (Vec<PartPiece>, Vec<PartPiece>) {
        pieces.into_iter().partition(|piece| self.owners[piece.part].is_local())
    }

    /// Begins a read through the cache, if the file has one that takes it.
    ///
    /// # Safety
    /// The memory covers the pieces, and no other thread uses it during the call.
    unsafe fn begin_cached(
        &self,
        action: PartAction,
        record: &Record,
        remote: &[PartPiece],
        memory: CallerMemory,
    ) -> Result<Option<CachedRead>, RecordError> {
        let bytes = remote.iter().map(|piece| piece.len).sum();
        match &self.read_cache {
            Some(cache) if action == PartAction::Read && bytes > 0 && cache.is_for(bytes) => {
                // SAFETY: the caller guarantees it.
                Ok(Some(unsafe { cache.begin_read(record, remote, memory)? }))
            }
            _ => Ok(None),
        }
    }

    /// Lets a pool thread fetch the missing blocks of a read through the cache.
    ///
    /// # Safety
    /// The memory covers the pieces of the read until the task is complete, or as long as `kept`
    /// lives.
    unsafe fn submit_cached<K: Send + 'static>(
        self: &Arc<Self>,
        progress: &Arc<Progress>,
        mut cached: CachedRead,
        memory: CallerMemory,
        kept: K,
    ) {
        if cached.is_complete() {
            return;
        }
        let (file, task) = (self.clone(), progress.task());
        WorkerPool::RemoteAccess.submit(move || {
            // The closure captures the whole `CallerMemory`, which is `Send`, and not its pointer.
            let memory = memory;
            let moved = RemoteTransfer::finish_all(cached.transfers(&file));
            if let (Ok(()), Some(cache)) = (&moved, &file.read_cache) {
                // SAFETY: the caller guarantees it.
                unsafe { cache.end_read(cached, memory) };
            }
            // As in `submit_remote`: first the task, then `kept`.
            task.over(moved);
            drop(kept);
        });
    }

    /// Makes cached bytes of a record invalid on all machines, if the file has caches: an access has
    /// changed the record.
    pub fn invalidate(&self, record: &Record) -> Result<(), RecordError> {
        match &self.read_cache {
            Some(cache) => cache.invalidate(record.info.id.number()),
            None => Ok(()),
        }
    }

    /// Sends the requests of a remote transfer; `changed` is the record that it changes. The thread that waits for the access receives the
    /// replies; if not all requests could be sent yet, a pool thread does the rest.
    pub fn submit_remote<K: Send + 'static>(
        self: &Arc<Self>,
        progress: &Arc<Progress>,
        mut transfer: RemoteTransfer,
        changed: Option<&Arc<Record>>,
        kept: K,
    ) {
        let (file, task, changed) = (self.clone(), progress.task(), changed.cloned());
        let begun = transfer.begin_if_few();
        let has_requested_all = transfer.has_requested_all();
        let finish = move || {
            let mut result = begun.and_then(|()| transfer.finish());
            if let Some(record) = changed {
                result = result.and(file.invalidate(&record));
            }
            // `kept` ends after the task, so that `wait_for_all` returns only when every request is
            // complete.
            task.over(result);
            drop(kept);
        };
        match has_requested_all {
            true => progress.leave(DeferredTask::new(finish)),
            false => WorkerPool::RemoteAccess.submit(finish),
        }
    }

    /// Lets a pool thread transfer a piece of a local part.
    ///
    /// # Safety
    /// The memory covers the piece until the task is complete, or as long as `kept` lives.
    unsafe fn submit_piece<K: Send + 'static>(
        self: &Arc<Self>,
        progress: &Arc<Progress>,
        action: PartAction,
        memory: CallerMemory,
        piece: PartPiece,
        changed: Option<&Arc<Record>>,
        kept: K,
    ) {
        let changed = changed.cloned();
        self.submit_local(progress, kept, move |file| {
            // The closure captures the whole `CallerMemory`, which is `Send`, and not its pointer.
            let memory = memory;
            // SAFETY: the caller guarantees it.
            let moved = unsafe { transfer_piece(&file.owners[piece.part], action, memory, piece) };
            match changed {
                Some(record) => moved.and(file.invalidate(&record)),
                None => moved,
            }
        });
    }

    /// Lets a pool thread run a function on local parts, unless a task of the access has failed.
    pub fn submit_local<K: Send + 'static>(
        self: &Arc<Self>,
        progress: &Arc<Progress>,
        kept: K,
        function: impl FnOnce(&Arc<Self>) -> Result<(), RecordError> + Send + 'static,
    ) {
        let (file, task, progress) = (self.clone(), progress.task(), progress.clone());
        WorkerPool::LocalAccess.submit(move || {
            let result = if progress.has_failed() { Ok(()) } else { function(&file) };
            // As in `submit_remote`: first the task, then `kept`.
            task.over(result);
            drop(kept);
        });
    }

    /// Transfers one piece of a local or remote part, and returns when it is transferred.
    ///
    /// # Safety
    /// The memory covers the piece, and no other thread uses it.
    pub unsafe fn transfer_one(
        self: &Arc<Self>,
        action: PartAction,
        memory: CallerMemory,
        piece: PartPiece,
    ) -> Result<(), RecordError> {
        let owner = &self.owners[piece.part];
        if owner.is_local() {
            // SAFETY: the caller guarantees it.
            return unsafe { transfer_piece(owner, action, memory, piece) };
        }
        // SAFETY: the caller guarantees it.
        let transfer = unsafe { RemoteTransfer::new(self, action, memory, piece) };
        transfer.finish()
    }
}

/// Waits for all tasks of an access when it is dropped.
struct WaitOnDrop<'a>(&'a Progress);

impl Drop for WaitOnDrop<'_> {
    fn drop(&mut self) {
        // The caller waits again and gets the error then.
        let _ = self.0.wait();
    }
}

/// Reads or writes a piece of a local part: directly, or through a buffer if the memory has gaps.
///
/// # Safety
/// The memory covers the piece, and no other thread uses it.
unsafe fn transfer_piece(
    owner: &PartOwner,
    action: PartAction,
    memory: CallerMemory,
    piece: PartPiece,
) -> Result<(), RecordError> {
    let is_read = action == PartAction::Read;
    if memory.is_dense() {
        // SAFETY: the caller guarantees it.
        unsafe {
            let start = memory.at(piece.here);
            return match is_read {
                true => owner.read_at(std::slice::from_raw_parts_mut(start, piece.len), piece.at),
                false => owner.write_at(std::slice::from_raw_parts(start, piece.len), piece.at),
            };
        }
    }
    let mut gathered = vec![0; piece.len.min(GATHER_BYTES)];
    let mut done = 0;
    while done < piece.len {
        let now = &mut gathered[..(piece.len - done).min(GATHER_BYTES)];
        let (at, here) = (piece.at + done as u64, piece.here + done);
        if is_read {
            owner.read_at(now, at)?;
            // SAFETY: the caller guarantees that the memory covers each of these bytes.
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
