//! Flat subfiles whose sync has failed.
//!
//! After a failed sync nothing is known of the bytes written before: the kernel drops what it could
//! not write, and reports the next sync as a success. So the failure is remembered three times: in
//! the open subfile, in the disk for as long as it is open, and in the description on the disk.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::subfile::SubfileId;

/// The reason of a mark that was found on the disk.
pub(crate) const MARKED: &str = "a sync of it failed, before it was opened";

/// Whether a subfile takes changes. Asked by every write: one load while all is well.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    is_set: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl Poison {
    /// A subfile that was marked before it was opened, or was not.
    pub(crate) fn new(reason: Option<String>) -> Self {
        Self { is_set: AtomicBool::new(reason.is_some()), reason: Mutex::new(reason) }
    }

    /// Why it takes no changes, if it does not.
    pub(crate) fn reason(&self) -> Option<String> {
        if self.is_set.load(Ordering::Acquire) { self.reason.lock().clone() } else { None }
    }

    /// Marks it; the first reason stays.
    pub(crate) fn set(&self, why: &str) {
        self.reason.lock().get_or_insert_with(|| why.to_owned());
        self.is_set.store(true, Ordering::Release);
    }

    /// The subfile was checked.
    pub(crate) fn clear(&self) {
        self.is_set.store(false, Ordering::Release);
        *self.reason.lock() = None;
    }
}

/// The subfiles of a disk whose sync has failed since the disk was opened.
#[derive(Debug, Default)]
pub(crate) struct Poisoned {
    reasons: Mutex<HashMap<SubfileId, String>>,
}

impl Poisoned {
    /// Why a subfile takes no changes, if its sync has failed.
    pub(crate) fn reason(&self, id: SubfileId) -> Option<String> {
        self.reasons.lock().get(&id).cloned()
    }

    /// The sync of a subfile has failed.
    pub(crate) fn note(&self, id: SubfileId, why: &str) {
        self.reasons.lock().entry(id).or_insert_with(|| why.to_owned());
    }

    /// A subfile was checked or removed.
    pub(crate) fn forget(&self, id: SubfileId) {
        self.reasons.lock().remove(&id);
    }
}
