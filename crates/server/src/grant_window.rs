//! The window of valid grants at a node: the epoch, and the revocations within the lifetime of a
//! grant. No I/O.
//!
//! Invariants:
//! - A node that has not received the epoch since its start accepts no grant.
//! - The epoch never falls.
//! - A revocation stays until every grant that it concerns has expired. Such a grant was issued in
//!   the epoch of the revocation or earlier.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

use pario_proto::{FileId, GRANT_LIFETIME_EPOCHS, Grant, REMOVED_RIGHTS_VERSION, Revocation};

/// The most revocations in one reply to a node that loads them.
const PAGE_LIMIT: usize = 1 << 14;

/// The window of valid grants at a node.
#[derive(Debug, Default)]
pub struct GrantWindow {
    epoch: Option<u64>,
    revocations: BTreeMap<FileId, Revocation>,
}

/// Why a genuine grant is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRefusal {
    /// The node has not received the epoch since its start.
    Uninformed,
    /// The grant has expired.
    Expired,
    /// The rights have changed since the grant was issued.
    Revoked,
    /// The file was deleted.
    Deleted,
}

impl GrantWindow {
    /// Returns the epoch, if known.
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// Checks a genuine grant. A grant of a later epoch than the node knows is valid: the interface
    /// node has issued it since.
    pub fn check(&self, grant: &Grant) -> Result<(), GrantRefusal> {
        let Some(epoch) = self.epoch else { return Err(GrantRefusal::Uninformed) };
        match self.revocations.get(&grant.file) {
            Some(revoked) if revoked.first_valid == REMOVED_RIGHTS_VERSION => {
                Err(GrantRefusal::Deleted)
            }
            Some(revoked) if grant.rights_version < revoked.first_valid => {
                Err(GrantRefusal::Revoked)
            }
            _ if is_past(grant.epoch, epoch) => Err(GrantRefusal::Expired),
            _ => Ok(()),
        }
    }

    /// Adds a revocation, unless a stronger one of the file is known. Returns whether it invalidates
    /// grants that were valid.
    pub fn revoke(&mut self, revocation: Revocation) -> bool {
        match self.revocations.entry(revocation.file) {
            Entry::Vacant(entry) => {
                entry.insert(revocation);
                true
            }
            Entry::Occupied(entry) => {
                let known = entry.into_mut();
                let is_news = known.first_valid < revocation.first_valid;
                known.first_valid = known.first_valid.max(revocation.first_valid);
                known.epoch = known.epoch.max(revocation.epoch);
                is_news
            }
        }
    }

    /// Enters an epoch that the interface node has begun, and removes the revocations that concern
    /// only expired grants.
    pub fn enter(&mut self, epoch: u64) {
        if self.epoch.is_none_or(|known| known < epoch) {
            self.epoch = Some(epoch);
            self.revocations.retain(|_, revocation| !is_past(revocation.epoch, epoch));
        }
    }

    /// Returns revocations in the order of files, after a given one; and whether there are more.
    pub fn page(&self, after: Option<FileId>) -> (Vec<Revocation>, bool) {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.revocations.range((after, Bound::Unbounded)).map(|(_, known)| *known);
        let page: Vec<Revocation> = rest.by_ref().take(PAGE_LIMIT).collect();
        (page, rest.next().is_some())
    }
}

/// Whether grants of an epoch have expired in the current one.
pub fn is_past(epoch: u64, current: u64) -> bool {
    epoch.saturating_add(GRANT_LIFETIME_EPOCHS) < current
}

#[cfg(test)]
mod tests;
