//! Durable grant epochs and revocations.

use pario_proto::{
    Failure, FileId, FileRecord, GRANT_LIFETIME_EPOCHS, ORPHAN_RIGHTS_VERSION, Revocation,
};

use super::handle::Namespace;
use super::key;
use super::transaction::TreeTransaction;
use super::tree::{NamespaceError, counter, inconsistent};
use crate::grant_window::is_past;

/// The most revocations that one transaction removes.
const PRUNED_AT_ONCE: usize = 1 << 14;

impl Namespace {
    /// Returns the last durable grant epoch.
    pub fn grant_epoch(&self) -> Result<u64, Failure> {
        self.read(|snapshot| counter(snapshot, key::GRANT_EPOCH))
    }

    /// Begins a grant epoch, or the one after the last if that is later, and removes the revocations
    /// that concern only expired grants. Passes the epoch to `done`.
    pub fn begin_grant_epoch(
        &self,
        epoch: u64,
        done: impl FnOnce(Result<u64, Failure>) + Send + 'static,
    ) {
        let body = move |transaction: &mut TreeTransaction<'_>| {
            let last = counter(transaction.snapshot(), key::GRANT_EPOCH)?;
            let epoch = epoch.max(last.saturating_add(1));
            transaction.put_counter(key::GRANT_EPOCH, epoch);
            let old = transaction.snapshot().range(b"r", b"s", PRUNED_AT_ONCE)?;
            for (key, _) in old {
                match key::revocation_in(&key) {
                    Some((recorded, _)) if !is_past(recorded, epoch) => break,
                    _ => transaction.delete(&key),
                }
            }
            Ok(epoch)
        };
        self.transact(body, done);
    }

    /// Returns the revocations that concern grants which have not expired, in the order of epochs.
    pub fn revocations(&self) -> Result<Vec<Revocation>, Failure> {
        self.read(|snapshot| {
            let epoch = counter(snapshot, key::GRANT_EPOCH)?;
            let pairs = snapshot.range(b"r", b"s", usize::MAX)?;
            let revocations = pairs.iter().map(|(key, value)| revocation(key, value));
            let counts = |known: &Revocation| !is_past(known.epoch, epoch);
            revocations.filter(|known| known.as_ref().map_or(true, counts)).collect()
        })
    }
}

/// Begins the first grant epoch of this start: the one after the last.
///
/// A new namespace begins with the seconds since 1970. Its epochs are later than those of a lost
/// namespace, which has begun at most one every few seconds.
pub fn begin_grant_epoch(transaction: &mut TreeTransaction<'_>) -> Result<(), NamespaceError> {
    let epoch = match counter(transaction.snapshot(), key::GRANT_EPOCH)? {
        0 => (transaction.now_ns / 1_000_000_000).max(1),
        last => last.saturating_add(1),
    };
    transaction.put_counter(key::GRANT_EPOCH, epoch);
    Ok(())
}

/// Returns the rights version of a file that is restored from the disks. Nodes may know revocations
/// of a lost namespace; the version is at least the grant epoch, and so higher than those.
pub fn restored_version(
    transaction: &TreeTransaction<'_>,
    record: &FileRecord,
) -> Result<u32, NamespaceError> {
    let epoch = counter(transaction.snapshot(), key::GRANT_EPOCH)?;
    let least = u32::try_from(epoch).unwrap_or(u32::MAX).min(ORPHAN_RIGHTS_VERSION - 1);
    Ok(record.rights_version.max(least))
}

/// Removes the revocations of a restored file, which may have been deleted before.
pub fn forget_revocations(
    transaction: &mut TreeTransaction<'_>,
    file: FileId,
) -> Result<(), NamespaceError> {
    let epoch = counter(transaction.snapshot(), key::GRANT_EPOCH)?;
    for recorded in epoch.saturating_sub(GRANT_LIFETIME_EPOCHS)..=epoch {
        transaction.delete(&key::revocation(recorded, file));
    }
    Ok(())
}

fn revocation(key: &[u8], value: &[u8]) -> Result<Revocation, NamespaceError> {
    let wrong = || inconsistent("a revocation cannot be read".to_owned());
    let (epoch, file): (u64, FileId) = key::revocation_in(key).ok_or_else(wrong)?;
    let first_valid = value.try_into().map(u32::from_be_bytes).map_err(|_| wrong())?;
    Ok(Revocation { file, first_valid, epoch })
}
