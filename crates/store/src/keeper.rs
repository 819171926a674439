//! The thread that does a disk's chores: syncs that free space, and checkpoints.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use crate::extents::Shared;

/// Takes calls for chores. Clones call the same thread.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    /// Absent where the caller does the chores itself.
    calls: Option<Sender<Call>>,
    is_stopped: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Call {
    Serve(Weak<Shared>),
    Stop,
}

/// Ends a keeper's thread, and waits for that, when it is dropped. Chores that come up later are
/// done by whoever makes them necessary.
#[derive(Debug)]
pub(crate) struct KeeperThread {
    keeper: Keeper,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// A keeper with a thread of its own.
    pub(crate) fn start() -> io::Result<(Self, KeeperThread)> {
        let (calls, called) = channel();
        let serve = move || {
            while let Ok(Call::Serve(subfile)) = called.recv() {
                // A subfile that was closed meanwhile has its changes in its journal.
                if let Some(subfile) = subfile.upgrade() {
                    subfile.keeper_called.store(false, Ordering::Release);
                    subfile.do_chores();
                }
            }
        };
        let thread = Some(thread::Builder::new().name("pario-keeper".into()).spawn(serve)?);
        let keeper = Self { calls: Some(calls), is_stopped: Arc::default() };
        Ok((keeper.clone(), KeeperThread { keeper, thread }))
    }

    /// No keeper: everything happens in the thread of the caller, repeatably.
    pub(crate) fn none() -> Self {
        Self { calls: None, is_stopped: Arc::default() }
    }

    /// Has a subfile's chores done soon; `false` if the caller has to do them.
    pub(crate) fn call(&self, subfile: &Arc<Shared>) -> bool {
        let Some(calls) = &self.calls else { return false };
        if self.is_stopped.load(Ordering::Acquire) {
            return false;
        }
        subfile.keeper_called.swap(true, Ordering::AcqRel)
            || calls.send(Call::Serve(Arc::downgrade(subfile))).is_ok()
    }
}

impl Drop for KeeperThread {
    fn drop(&mut self) {
        self.keeper.is_stopped.store(true, Ordering::Release);
        if let Some(calls) = &self.keeper.calls {
            // If it cannot be sent, the thread has ended.
            let _ = calls.send(Call::Stop);
        }
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so; there is nothing to add.
            let _ = thread.join();
        }
    }
}
