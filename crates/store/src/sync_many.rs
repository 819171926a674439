//! Syncs of many flat subfiles: one sync of the whole file system instead of one per subfile.
//!
//! The guarantee is that of [`FlatFile::sync`] for each. A failed sync of the whole file system does
//! not tell which bytes are lost. It therefore poisons every subfile of the call.

use std::io;

use parking_lot::MutexGuard;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::flat::{FlatFile, OpenFlatFile};

/// Up to this number of subfiles, [`Disk::sync_flats`] syncs each separately: a sync of the whole file
/// system also waits for all other writes to it.
const SINGLE_SYNCS_MAX: usize = 8;

impl Disk {
    /// Syncs open flat subfiles of this disk: makes all changes durable that were acknowledged before
    /// the call. The results are in the order of the subfiles. Many subfiles take about as long as
    /// one. If the sync fails, none of them accepts changes, also after a restart, until
    /// [`Disk::repair_flat`] has read it.
    ///
    /// ```
    /// # fn main() -> Result<(), pario_store::StoreError> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use pario_store::{Disk, DiskOptions, NewSubfile, SubfileId};
    ///
    /// let disk = Disk::create(dir.path(), DiskOptions::default())?;
    /// let mut subfiles = Vec::new();
    /// for file in 0..100 {
    ///     let new = NewSubfile { is_durable: false, ..NewSubfile::new(SubfileId::data(file, 0)) };
    ///     let subfile = disk.create_flat(new)?;
    ///     subfile.write_at(b"small", 0)?;
    ///     subfiles.push(subfile);
    /// }
    /// assert!(disk.sync_flats(&subfiles).iter().all(Result::is_ok));
    /// # Ok(())
    /// # }
    /// ```
    pub fn sync_flats(&self, subfiles: &[FlatFile]) -> Vec<Result<(), StoreError>> {
        let address = |file: &FlatFile| std::ptr::from_ref::<OpenFlatFile>(&file.inner).addr();
        // Callers hold the locks of all their subfiles. The same order for all callers prevents a
        // deadlock; each subfile is locked once.
        let mut order: Vec<usize> = (0..subfiles.len()).collect();
        order.sort_by_key(|&at| address(&subfiles[at]));
        let mut results: Vec<Option<Result<(), StoreError>>> = Vec::new();
        results.resize_with(subfiles.len(), || None);
        let mut distinct = order.clone();
        distinct.dedup_by_key(|at| address(&subfiles[*at]));
        if distinct.len() <= SINGLE_SYNCS_MAX || !self.sync_whole(subfiles, &distinct, &mut results)
        {
            for &at in &distinct {
                results[at] = Some(subfiles[at].sync());
            }
        }
        // A subfile that the caller names twice is synced once; a poisoned one reports that twice.
        let repeated = |at: usize| subfiles[at].inner.check_writable("sync");
        let result = |(at, result): (usize, Option<_>)| {
            result.unwrap_or_else(|| if self.is_read_only() { Ok(()) } else { repeated(at) })
        };
        results.into_iter().enumerate().map(result).collect()
    }

    /// Syncs the whole medium for some subfiles; `false`, without any effect, if it cannot.
    fn sync_whole(
        &self,
        subfiles: &[FlatFile],
        distinct: &[usize],
        results: &mut [Option<Result<(), StoreError>>],
    ) -> bool {
        let mut held: Vec<(usize, MutexGuard<'_, bool>)> = Vec::with_capacity(distinct.len());
        for &at in distinct {
            let file = &subfiles[at].inner;
            if file.read_only {
                results[at] = Some(Ok(()));
                continue;
            }
            let syncing = file.syncing.lock();
            match file.check_writable("sync") {
                Ok(()) => held.push((at, syncing)),
                Err(error) => results[at] = Some(Err(error)),
            }
        }
        if held.is_empty() {
            return true;
        }
        match self.medium().sync_all() {
            Ok(()) => {
                for (at, mut is_durable) in held {
                    *is_durable = true;
                    results[at] = Some(Ok(()));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return false,
            Err(error) => {
                for (at, _syncing) in held {
                    results[at] = Some(Err(subfiles[at].inner.fail(copy_of(&error))));
                }
            }
        }
        true
    }
}

/// A copy of an error.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
