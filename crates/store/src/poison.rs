//! Poisoned flat subfiles: those whose sync has failed.
//!
//! After a failed sync the bytes written before are uncertain: the kernel drops pages that it could
//! not write, and reports the next sync as a success. So the store records the failure three times:
//! in the open subfile, in the open disk, and in the description on the disk.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::subfile::SubfileId;

/// The reason of a subfile whose description is marked as poisoned.
pub(crate) const POISONED_BEFORE_OPEN: &str = "a sync of it failed before it was opened";

/// Whether a subfile accepts changes. Every write asks this, at the cost of one load.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    is_set: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl Poison {
    /// The state of a subfile that is opened, with the reason if it is poisoned already.
    pub(crate) fn new(reason: Option<String>) -> Self {
        Self { is_set: AtomicBool::new(reason.is_some()), reason: Mutex::new(reason) }
    }

    /// Why the subfile accepts no changes; `None` if it does.
    pub(crate) fn reason(&self) -> Option<String> {
        if self.is_set.load(Ordering::Acquire) { self.reason.lock().clone() } else { None }
    }

    /// Poisons the subfile; the first reason stays.
    pub(crate) fn set(&self, why: &str) {
        self.reason.lock().get_or_insert_with(|| why.to_owned());
        self.is_set.store(true, Ordering::Release);
    }

    /// Accepts changes again, after a repair.
    pub(crate) fn clear(&self) {
        self.is_set.store(false, Ordering::Release);
        *self.reason.lock() = None;
    }
}

/// The subfiles of a disk whose sync has failed since the disk was opened.
#[derive(Debug, Default)]
pub(crate) struct PoisonedSubfiles {
    reasons: Mutex<HashMap<SubfileId, String>>,
}

impl PoisonedSubfiles {
    /// Why a subfile accepts no changes, if its sync has failed.
    pub(crate) fn reason(&self, id: SubfileId) -> Option<String> {
        self.reasons.lock().get(&id).cloned()
    }

    /// Records that the sync of a subfile has failed.
    pub(crate) fn add(&self, id: SubfileId, why: &str) {
        self.reasons.lock().entry(id).or_insert_with(|| why.to_owned());
    }

    /// Removes a subfile that was repaired or removed.
    pub(crate) fn remove(&self, id: SubfileId) {
        self.reasons.lock().remove(&id);
    }
}
