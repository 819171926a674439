//! Removing the subfiles of deleted files, on all nodes, however often it takes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use pario_flow::Run;
use pario_proto::{FileId, FileRecord};
use parking_lot::Mutex;

use crate::program::Operations;
use crate::shared::Shared;

/// Files that are removed together.
const AT_ONCE: usize = 512;
/// What could not be removed is tried again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// Takes files whose subfiles are to be removed.
#[derive(Debug)]
pub struct Janitor {
    files: Mutex<Option<Sender<FileRecord>>>,
    /// What could not be removed, and is tried again.
    again: Mutex<HashMap<FileId, FileRecord>>,
}

impl Janitor {
    /// A janitor, and what its thread receives.
    pub fn new() -> (Self, Receiver<FileRecord>) {
        let (sender, receiver) = mpsc::channel();
        (Self { files: Mutex::new(Some(sender)), again: Mutex::default() }, receiver)
    }

    /// Removes the subfiles of a file that is in the namespace no more.
    pub fn remove(&self, record: FileRecord) {
        if let Some(sender) = &*self.files.lock() {
            // After the end there is nobody to do it; the next start will.
            let _ = sender.send(record);
        }
    }

    /// Whether the subfiles of a file could not be removed so far.
    pub fn is_stuck(&self, file: FileId) -> bool {
        self.again.lock().contains_key(&file)
    }

    /// No more: its thread ends.
    pub fn end(&self) {
        self.files.lock().take();
    }
}

/// The janitor's thread.
pub fn work(
    shared: &Arc<Shared>,
    run: &Run,
    operations: &Operations,
    files: &Receiver<FileRecord>,
) {
    let Some(names) = &shared.names else { return };
    let again = &names.janitor.again;
    let mut next_try = Instant::now();
    loop {
        let is_nothing_left = again.lock().is_empty();
        let is_time = !is_nothing_left && next_try <= Instant::now();
        let first = if is_time {
            Err(RecvTimeoutError::Timeout)
        } else if is_nothing_left {
            files.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            files.recv_timeout(next_try.saturating_duration_since(Instant::now()))
        };
        let batch: Vec<FileRecord> = match first {
            Ok(record) => [record].into_iter().chain(files.try_iter().take(AT_ONCE - 1)).collect(),
            Err(RecvTimeoutError::Timeout) => {
                again.lock().values().take(AT_ONCE).cloned().collect()
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        match run.call(operations.purge, batch.clone()) {
            Ok(purged) if purged.failed.is_empty() => {
                again.lock().retain(|file, _| !purged.files.contains(file));
                names.namespace.forget_doomed(purged.files, |forgotten| {
                    if let Err(failure) = forgotten {
                        tracing::warn!(%failure, "deleted files stay on the list");
                    }
                });
            }
            Ok(_) => {
                again.lock().extend(batch.into_iter().map(|record| (record.id, record)));
                next_try = Instant::now() + AGAIN;
            }
            Err(_) => return,
        }
    }
}
