//! Grant epochs and revocations, as they survive a restart.

use pario_proto::{
    Failure, FileId, FileRecord, GRANT_LIFETIME_EPOCHS, ORPHAN_RIGHTS_VERSION, Revocation,
};

use super::change::Change;
use super::handle::Namespace;
use super::key;
use super::tree::{Stop, counter, inconsistent};
use crate::grant_window::is_past;

/// Revocations that one change removes at most.
const PRUNED_AT_ONCE: usize = 1 << 14;

impl Namespace {
    /// The grant epoch that was last made durable.
    pub fn grant_epoch(&self) -> Result<u64, Failure> {
        self.look(|state| counter(state, key::GRANT_EPOCH))
    }

    /// Begins a grant epoch, or the one after the last if that is later, and removes revocations
    /// that concern only expired grants. `done` gets the epoch.
    pub fn begin_grant_epoch(
        &self,
        epoch: u64,
        done: impl FnOnce(Result<u64, Failure>) + Send + 'static,
    ) {
        let body = move |change: &mut Change<'_>| {
            let last = counter(change.state(), key::GRANT_EPOCH)?;
            let epoch = epoch.max(last.saturating_add(1));
            change.put_counter(key::GRANT_EPOCH, epoch);
            let old = change.state().range(b"r", b"s", PRUNED_AT_ONCE)?;
            for (key, _) in old {
                match key::revocation_in(&key) {
                    Some((recorded, _)) if !is_past(recorded, epoch) => break,
                    _ => change.delete(&key),
                }
            }
            Ok(epoch)
        };
        self.change(body, done);
    }

    /// The revocations that concern grants which have not expired, in the order of epochs.
    pub fn revocations(&self) -> Result<Vec<Revocation>, Failure> {
        self.look(|state| {
            let epoch = counter(state, key::GRANT_EPOCH)?;
            let pairs = state.range(b"r", b"s", usize::MAX)?;
            let revocations = pairs.iter().map(|(key, value)| revocation(key, value));
            let counts = |known: &Revocation| !is_past(known.epoch, epoch);
            revocations.filter(|known| known.as_ref().map_or(true, counts)).collect()
        })
    }
}

/// The first grant epoch of this start: the one after the last.
///
/// A namespace that is new begins with the seconds since 1970: its epochs are later than those of a
/// namespace that was lost, which has begun one every few seconds at most.
pub fn begin_grant_epoch(change: &mut Change<'_>) -> Result<(), Stop> {
    let epoch = match counter(change.state(), key::GRANT_EPOCH)? {
        0 => (change.now_ns / 1_000_000_000).max(1),
        last => last.saturating_add(1),
    };
    change.put_counter(key::GRANT_EPOCH, epoch);
    Ok(())
}

/// The rights version of a file that is restored from what the disks say. Nodes may know of
/// revocations in a namespace that was lost: the version is higher than those, since it is at least
/// the grant epoch.
pub fn restored_version(change: &Change<'_>, record: &FileRecord) -> Result<u32, Stop> {
    let epoch = counter(change.state(), key::GRANT_EPOCH)?;
    let least = u32::try_from(epoch).unwrap_or(u32::MAX).min(ORPHAN_RIGHTS_VERSION - 1);
    Ok(record.rights_version.max(least))
}

/// Removes the revocations of a file that is restored: it may have been deleted before.
pub fn forget_revocations(change: &mut Change<'_>, file: FileId) -> Result<(), Stop> {
    let epoch = counter(change.state(), key::GRANT_EPOCH)?;
    for recorded in epoch.saturating_sub(GRANT_LIFETIME_EPOCHS)..=epoch {
        change.delete(&key::revocation(recorded, file));
    }
    Ok(())
}

fn revocation(key: &[u8], value: &[u8]) -> Result<Revocation, Stop> {
    let wrong = || inconsistent("a revocation cannot be read".to_owned());
    let (epoch, file): (u64, FileId) = key::revocation_in(key).ok_or_else(wrong)?;
    let first_valid = value.try_into().map(u32::from_be_bytes).map_err(|_| wrong())?;
    Ok(Revocation { file, first_valid, epoch })
}
