//! What a node knows of the grants that are valid: the epoch, and the revocations of the lifetime
//! of grants. No I/O.
//!
//! Invariants:
//! - A node that has not heard the epoch since it started accepts no grant.
//! - The epoch never falls.
//! - A revocation stays until every grant that it concerns has expired: such a grant was issued in
//!   the epoch of the revocation or before.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

use pario_proto::{FileId, GRANT_LIFETIME_EPOCHS, Grant, REMOVED_RIGHTS_VERSION, Revocation};

/// Revocations in one answer to a node that loads them.
pub const PAGE: usize = 1 << 14;

/// What a node knows of the grants that are valid.
#[derive(Debug, Default)]
pub struct GrantWindow {
    epoch: Option<u64>,
    revocations: BTreeMap<FileId, Revocation>,
}

/// Why a genuine grant is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRefusal {
    /// The node has not heard the epoch since it started.
    Uninformed,
    /// It is older than grants may be.
    Expired,
    /// Rights have changed since it was issued.
    Revoked,
    /// The subfiles of the file are removed.
    Deleted,
}

impl GrantWindow {
    /// The epoch, as far as it is known.
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// Whether a genuine grant is accepted. A grant of a later epoch than the node has heard of is:
    /// the interface node has issued it since.
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

    /// Notes a revocation; what is known of the file already stays if it says more. Whether grants
    /// that were valid are not any more.
    pub fn revoke(&mut self, revocation: Revocation) -> bool {
        match self.revocations.entry(revocation.file) {
            Entry::Vacant(place) => {
                place.insert(revocation);
                true
            }
            Entry::Occupied(place) => {
                let known = place.into_mut();
                let is_news = known.first_valid < revocation.first_valid;
                known.first_valid = known.first_valid.max(revocation.first_valid);
                known.epoch = known.epoch.max(revocation.epoch);
                is_news
            }
        }
    }

    /// The interface node has begun an epoch. Revocations that concern only expired grants go.
    pub fn enter(&mut self, epoch: u64) {
        if self.epoch.is_none_or(|known| known < epoch) {
            self.epoch = Some(epoch);
            self.revocations.retain(|_, revocation| !is_past(revocation.epoch, epoch));
        }
    }

    /// Revocations in the order of files, after a given one; and whether there are more.
    pub fn page(&self, after: Option<FileId>) -> (Vec<Revocation>, bool) {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.revocations.range((after, Bound::Unbounded)).map(|(_, known)| *known);
        let page: Vec<Revocation> = rest.by_ref().take(PAGE).collect();
        (page, rest.next().is_some())
    }
}

/// Whether grants of an epoch have expired in another one.
pub fn is_past(epoch: u64, current: u64) -> bool {
    epoch.saturating_add(GRANT_LIFETIME_EPOCHS) < current
}

#[cfg(test)]
mod tests;
