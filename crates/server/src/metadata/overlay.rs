//! The changes of one transaction on top of a snapshot.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::error::MetadataError;
use super::store::{KeyValue, Revision, Snapshot, Transaction};

/// A running transaction. The snapshot below changes only when the store applies the effects.
pub struct Overlay<'a> {
    below: &'a dyn Snapshot,
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Keys that the transaction has read from the snapshot below.
    read: RefCell<BTreeSet<Vec<u8>>>,
}

/// The keys that a transaction has read and changed.
pub struct Effects {
    /// New values; `None` deletes the key.
    pub changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Keys that it has read from the snapshot below.
    pub read: BTreeSet<Vec<u8>>,
}

impl<'a> Overlay<'a> {
    pub fn new(below: &'a dyn Snapshot) -> Overlay<'a> {
        Overlay { below, changes: BTreeMap::new(), read: RefCell::default() }
    }

    pub fn into_effects(self) -> Effects {
        Effects { changes: self.changes, read: self.read.into_inner() }
    }
}

impl Snapshot for Overlay<'_> {
    fn revision(&self) -> Revision {
        self.below.revision()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MetadataError> {
        if let Some(change) = self.changes.get(key) {
            return Ok(change.clone());
        }
        self.read.borrow_mut().insert(key.to_vec());
        self.below.get(key)
    }

    fn range(
        &self,
        from: &[u8],
        until: &[u8],
        limit: usize,
    ) -> Result<Vec<KeyValue>, MetadataError> {
        if from >= until {
            return Ok(Vec::new());
        }
        let changes = || {
            let bounds = (Bound::Included(from), Bound::Excluded(until));
            self.changes.range::<[u8], _>(bounds)
        };
        // Each change hides at most one pair below.
        let pairs = self.below.range(from, until, limit.saturating_add(changes().count()))?;
        let mut merged: BTreeMap<_, _> =
            pairs.into_iter().map(|(key, value)| (key, Some(value))).collect();
        merged.extend(changes().map(|(key, value)| (key.clone(), value.clone())));
        let present = merged.into_iter().filter_map(|(key, value)| Some((key, value?)));
        Ok(present.take(limit).collect())
    }
}

impl Transaction for Overlay<'_> {
    fn put(&mut self, key: &[u8], value: Vec<u8>) {
        assert!(!key.is_empty(), "the empty key belongs to the store");
        self.changes.insert(key.to_vec(), Some(value));
    }

    fn delete(&mut self, key: &[u8]) {
        assert!(!key.is_empty(), "the empty key belongs to the store");
        self.changes.insert(key.to_vec(), None);
    }
}
