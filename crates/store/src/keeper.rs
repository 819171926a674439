//! The thread that does a disk's chores: syncs that free space, and checkpoints.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;

use crate::extents::Shared;

/// Takes calls for chores. Clones call the same thread, which ends with the last of them.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    /// Absent where the caller does the chores itself.
    calls: Option<Sender<Weak<Shared>>>,
}

impl Keeper {
    /// A keeper with a thread of its own.
    pub(crate) fn start() -> io::Result<Self> {
        let (calls, called) = channel::<Weak<Shared>>();
        thread::Builder::new().name("pario-keeper".into()).spawn(move || {
            for subfile in called {
                // A subfile that was closed meanwhile has its changes in its journal.
                if let Some(subfile) = subfile.upgrade() {
                    subfile.keeper_called.store(false, Ordering::Release);
                    subfile.do_chores();
                }
            }
        })?;
        Ok(Self { calls: Some(calls) })
    }

    /// No keeper: everything happens in the thread of the caller, repeatably.
    pub(crate) fn none() -> Self {
        Self { calls: None }
    }

    /// Has a subfile's chores done soon; `false` if the caller has to do them.
    pub(crate) fn call(&self, subfile: &Arc<Shared>) -> bool {
        let Some(calls) = &self.calls else {
            return false;
        };
        subfile.keeper_called.swap(true, Ordering::AcqRel)
            || calls.send(Arc::downgrade(subfile)).is_ok()
    }
}
