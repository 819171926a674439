//! Many flat subfiles made durable at once: the disk is synced, not each of them.
//!
//! The promise is that of [`FlatFile::sync`] for each. A sync of the whole disk that fails does not
//! tell whose bytes are lost, so every subfile of the call takes no more changes until it is checked.

use std::io;

use parking_lot::MutexGuard;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::flat::{FlatFile, FlatShared};

/// Up to this number of subfiles each is synced by itself: a sync of the whole disk also waits for
/// everything else that is being written to its file system.
const FEW: usize = 8;

impl Disk {
    /// Makes everything durable that was acknowledged before the call, in each of some open flat
    /// subfiles of this disk. The results are in their order. Many take about as long as one. If the
    /// sync fails, none of them takes more changes, also after a restart, until
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
    ///     subfile.write_at(0, b"small")?;
    ///     subfiles.push(subfile);
    /// }
    /// assert!(disk.sync_flats(&subfiles).iter().all(Result::is_ok));
    /// # Ok(())
    /// # }
    /// ```
    pub fn sync_flats(&self, subfiles: &[FlatFile]) -> Vec<Result<(), StoreError>> {
        let address = |file: &FlatFile| std::ptr::from_ref::<FlatShared>(&file.shared).addr();
        // In an order on which all callers agree, because each holds the locks of all its subfiles;
        // and no subfile twice.
        let mut order: Vec<usize> = (0..subfiles.len()).collect();
        order.sort_by_key(|&at| address(&subfiles[at]));
        let mut results: Vec<Option<Result<(), StoreError>>> = Vec::new();
        results.resize_with(subfiles.len(), || None);
        let mut distinct = order.clone();
        distinct.dedup_by_key(|at| address(&subfiles[*at]));
        if distinct.len() <= FEW || !self.sync_whole(subfiles, &distinct, &mut results) {
            for &at in &distinct {
                results[at] = Some(subfiles[at].sync());
            }
        }
        // What was named twice has one sync and one outcome; a poisoned one says so again.
        let repeated = |at: usize| subfiles[at].shared.check_writable("sync");
        let result = |(at, result): (usize, Option<_>)| {
            result.unwrap_or_else(|| if self.is_read_only() { Ok(()) } else { repeated(at) })
        };
        results.into_iter().enumerate().map(result).collect()
    }

    /// Syncs the disk for some subfiles; false if the medium cannot do that, and nothing was done.
    fn sync_whole(
        &self,
        subfiles: &[FlatFile],
        distinct: &[usize],
        results: &mut [Option<Result<(), StoreError>>],
    ) -> bool {
        let mut held: Vec<(usize, MutexGuard<'_, bool>)> = Vec::with_capacity(distinct.len());
        for &at in distinct {
            let shared = &subfiles[at].shared;
            if shared.read_only {
                results[at] = Some(Ok(()));
                continue;
            }
            let syncing = shared.syncing.lock();
            match shared.check_writable("sync") {
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
                    results[at] = Some(Err(subfiles[at].shared.fail(same(&error))));
                }
            }
        }
        true
    }
}

/// The same error once more.
fn same(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
