//! The subfile reaper: removes the subfiles of tombstones on all nodes, and retries until it
//! succeeds.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use pario_flow::RunningProgram;
use pario_proto::{FileId, FileRecord};
use parking_lot::Mutex;

use crate::node_state::{InterfaceState, NodeState};
use crate::program::{Operations, Purged};

/// The number of files in a batch.
const BATCH_FILES: usize = 512;
/// Concurrent batches. There are many, so that a disk that does not answer delays only its own
/// subfiles.
const CONCURRENT_BATCHES: usize = 256;
/// The pause before the reaper retries a batch that failed.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// Takes files whose subfiles the reaper removes.
#[derive(Debug)]
pub struct SubfileReaper {
    messages: Sender<ReaperMessage>,
    /// Files whose removal has failed, to be retried.
    retries: Mutex<BTreeMap<FileId, FileRecord>>,
}

/// A message to the thread of the reaper.
#[derive(Debug)]
pub enum ReaperMessage {
    /// Remove the subfiles of a file.
    Remove(FileRecord),
    /// The result of an attempt; `None` if the program has ended.
    Tried { batch: Vec<FileRecord>, is_retry: bool, purged: Option<Purged> },
    /// Stop.
    End,
}

impl SubfileReaper {
    /// Creates a reaper, and the receiver for its thread.
    pub fn new() -> (Self, Receiver<ReaperMessage>) {
        let (messages, receiver) = mpsc::channel();
        (Self { messages, retries: Mutex::default() }, receiver)
    }

    /// Removes the subfiles of a file that the namespace has deleted.
    pub fn remove(&self, record: FileRecord) {
        // After the end no thread receives the message; the tombstone is handled at the next start.
        let _ = self.messages.send(ReaperMessage::Remove(record));
    }

    /// Returns whether an attempt to remove the subfiles of a file has failed.
    pub fn has_failed(&self, file: FileId) -> bool {
        self.retries.lock().contains_key(&file)
    }

    /// Stops the thread.
    pub fn stop(&self) {
        let _ = self.messages.send(ReaperMessage::End);
    }
}

/// The thread of the reaper.
pub fn run_thread(
    shared: &Arc<NodeState>,
    run: &RunningProgram,
    operations: &Operations,
    messages: &Receiver<ReaperMessage>,
) {
    let Some(interface) = &shared.interface else { return };
    let mut thread = ReaperThread {
        interface,
        run,
        operations,
        waiting: Vec::new(),
        under_way: 0,
        is_retrying: false,
        next_retry: Instant::now(),
        last_retried: None,
    };
    loop {
        thread.start_batches();
        let next = match thread.next_timeout() {
            Some(timeout) => messages.recv_timeout(timeout),
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut next = match next {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // Takes all messages that have arrived.
        while let Some(message) = next {
            match message {
                ReaperMessage::Remove(record) => thread.waiting.push(record),
                ReaperMessage::Tried { batch, is_retry, purged } => match purged {
                    Some(purged) => thread.finish_batch(batch, is_retry, purged),
                    None => return,
                },
                ReaperMessage::End => return,
            }
            next = messages.try_recv().ok();
        }
    }
}

/// The state of the thread.
struct ReaperThread<'a> {
    interface: &'a InterfaceState,
    run: &'a RunningProgram,
    operations: &'a Operations,
    waiting: Vec<FileRecord>,
    /// The number of batches in their first attempt.
    under_way: usize,
    is_retrying: bool,
    next_retry: Instant,
    /// The last file that was retried; the next retry begins after it.
    last_retried: Option<FileId>,
}

impl ReaperThread<'_> {
    /// Starts all batches that may start.
    fn start_batches(&mut self) {
        while self.under_way < CONCURRENT_BATCHES && !self.waiting.is_empty() {
            let batch = self.waiting.drain(..self.waiting.len().min(BATCH_FILES)).collect();
            self.under_way += 1;
            self.start(batch, false);
        }
        if self.is_retrying || self.next_retry > Instant::now() {
            return;
        }
        let batch: Vec<FileRecord> = {
            let retries = self.interface.subfile_reaper.retries.lock();
            let after = self.last_retried.map_or(Bound::Unbounded, Bound::Excluded);
            let after = retries.range((after, Bound::Unbounded));
            after.take(BATCH_FILES).map(|(_, record)| record.clone()).collect()
        };
        self.last_retried = batch.last().map(|record| record.id);
        if !batch.is_empty() {
            self.is_retrying = true;
            self.start(batch, true);
        }
    }

    fn start(&self, batch: Vec<FileRecord>, is_retry: bool) {
        let (messages, files) = (self.interface.subfile_reaper.messages.clone(), batch.clone());
        let started = self.run.start_then(self.operations.purge, files, move |purged| {
            // The thread receives no message after the end.
            let _ = messages.send(ReaperMessage::Tried { batch, is_retry, purged: purged.ok() });
        });
        if started.is_err() {
            self.interface.subfile_reaper.stop();
        }
    }

    fn finish_batch(&mut self, batch: Vec<FileRecord>, is_retry: bool, purged: Purged) {
        if is_retry {
            self.is_retrying = false;
        } else {
            self.under_way -= 1;
        }
        let mut retries = self.interface.subfile_reaper.retries.lock();
        if !purged.failed.is_empty() {
            retries.extend(batch.into_iter().map(|record| (record.id, record)));
            self.next_retry = Instant::now() + RETRY_PERIOD;
            return;
        }
        for file in &purged.files {
            retries.remove(file);
        }
        drop(retries);
        self.interface.namespace.remove_tombstones(purged.files, |forgotten| {
            if let Err(failure) = forgotten {
                tracing::warn!(%failure, "the namespace cannot remove tombstones; they stay until the next start");
            }
        });
    }

    /// Returns the time until the next retry; `None` if there is nothing to retry.
    fn next_timeout(&self) -> Option<Duration> {
        if self.is_retrying || self.interface.subfile_reaper.retries.lock().is_empty() {
            return None;
        }
        Some(self.next_retry.saturating_duration_since(Instant::now()))
    }
}
