//! Removing the subfiles of deleted files, on all nodes, however often it takes.

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

/// Files that are removed together.
const BATCH_FILES: usize = 512;
/// So many times that: a disk that does not answer holds up what is on it, and nothing else.
const CONCURRENT_BATCHES: usize = 256;
/// What could not be removed is tried retries after so long.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// Takes files whose subfiles are to be removed.
#[derive(Debug)]
pub struct SubfileReaper {
    messages: Sender<ReaperMessage>,
    /// What could not be removed, and is tried retries.
    retries: Mutex<BTreeMap<FileId, FileRecord>>,
}

/// What the subfile_reaper's thread is told.
#[derive(Debug)]
pub enum ReaperMessage {
    /// A file is to be removed.
    Remove(FileRecord),
    /// What came of an attempt; nothing if the program has ended.
    Tried { batch: Vec<FileRecord>, is_again: bool, purged: Option<Purged> },
    /// There is nothing more to do.
    End,
}

impl SubfileReaper {
    /// A subfile_reaper, and what its thread receives.
    pub fn new() -> (Self, Receiver<ReaperMessage>) {
        let (messages, receiver) = mpsc::channel();
        (Self { messages, retries: Mutex::default() }, receiver)
    }

    /// Removes the subfiles of a file that is in the namespace no more.
    pub fn remove(&self, record: FileRecord) {
        // After the end there is nobody to do it; the next start will.
        let _ = self.messages.send(ReaperMessage::Remove(record));
    }

    /// Whether the subfiles of a file could not be removed so far.
    pub fn is_stuck(&self, file: FileId) -> bool {
        self.retries.lock().contains_key(&file)
    }

    /// No more: its thread ends.
    pub fn end(&self) {
        let _ = self.messages.send(ReaperMessage::End);
    }
}

/// The subfile_reaper's thread.
pub fn work(
    shared: &Arc<NodeState>,
    run: &RunningProgram,
    operations: &Operations,
    messages: &Receiver<ReaperMessage>,
) {
    let Some(names) = &shared.names else { return };
    let mut thread = ReaperThread {
        names,
        run,
        operations,
        waiting: Vec::new(),
        under_way: 0,
        is_trying_again: false,
        next_try: Instant::now(),
        last_tried: None,
    };
    loop {
        thread.begin();
        let next = match thread.rest() {
            Some(rest) => messages.recv_timeout(rest),
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut next = match next {
            Ok(job) => Some(job),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // All that has come since is taken together.
        while let Some(job) = next {
            match job {
                ReaperMessage::Remove(record) => thread.waiting.push(record),
                ReaperMessage::Tried { batch, is_again, purged } => match purged {
                    Some(purged) => thread.tried(batch, is_again, purged),
                    None => return,
                },
                ReaperMessage::End => return,
            }
            next = messages.try_recv().ok();
        }
    }
}

/// What the subfile_reaper is at.
struct ReaperThread<'a> {
    names: &'a InterfaceState,
    run: &'a RunningProgram,
    operations: &'a Operations,
    waiting: Vec<FileRecord>,
    /// Batches of files that are removed for the first time.
    under_way: usize,
    is_trying_again: bool,
    next_try: Instant,
    /// The last file that was tried retries: those behind it are next.
    last_tried: Option<FileId>,
}

impl ReaperThread<'_> {
    /// Begins what can be begun.
    fn begin(&mut self) {
        while self.under_way < CONCURRENT_BATCHES && !self.waiting.is_empty() {
            let batch = self.waiting.drain(..self.waiting.len().min(BATCH_FILES)).collect();
            self.under_way += 1;
            self.start(batch, false);
        }
        if self.is_trying_again || self.next_try > Instant::now() {
            return;
        }
        let batch: Vec<FileRecord> = {
            let retries = self.names.subfile_reaper.retries.lock();
            let behind = self.last_tried.map_or(Bound::Unbounded, Bound::Excluded);
            let behind = retries.range((behind, Bound::Unbounded));
            behind.take(BATCH_FILES).map(|(_, record)| record.clone()).collect()
        };
        self.last_tried = batch.last().map(|record| record.id);
        if !batch.is_empty() {
            self.is_trying_again = true;
            self.start(batch, true);
        }
    }

    fn start(&self, batch: Vec<FileRecord>, is_again: bool) {
        let (messages, files) = (self.names.subfile_reaper.messages.clone(), batch.clone());
        let begun = self.run.start_then(self.operations.purge, files, move |purged| {
            // Nobody is there to be told only after the end.
            let _ = messages.send(ReaperMessage::Tried { batch, is_again, purged: purged.ok() });
        });
        if begun.is_err() {
            self.names.subfile_reaper.end();
        }
    }

    fn tried(&mut self, batch: Vec<FileRecord>, is_again: bool, purged: Purged) {
        if is_again {
            self.is_trying_again = false;
        } else {
            self.under_way -= 1;
        }
        let mut retries = self.names.subfile_reaper.retries.lock();
        if !purged.failed.is_empty() {
            retries.extend(batch.into_iter().map(|record| (record.id, record)));
            self.next_try = Instant::now() + RETRY_PERIOD;
            return;
        }
        for file in &purged.files {
            retries.remove(file);
        }
        drop(retries);
        self.names.namespace.forget_doomed(purged.files, |forgotten| {
            if let Err(failure) = forgotten {
                tracing::warn!(%failure, "deleted files stay on the list");
            }
        });
    }

    /// How long there is nothing to begin; nothing if that is for ever, unless a job comes.
    fn rest(&self) -> Option<Duration> {
        if self.is_trying_again || self.names.subfile_reaper.retries.lock().is_empty() {
            return None;
        }
        Some(self.next_try.saturating_duration_since(Instant::now()))
    }
}
