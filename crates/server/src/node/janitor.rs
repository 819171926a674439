//! Removing the subfiles of deleted files, on all nodes, however often it takes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use pario_flow::RunningProgram;
use pario_proto::{FileId, FileRecord};
use parking_lot::Mutex;

use crate::program::{Operations, Purged};
use crate::shared::{Names, Shared};

/// Files that are removed together.
const AT_ONCE: usize = 512;
/// So many times that: a disk that does not answer holds up what is on it, and nothing else.
const BATCHES: usize = 256;
/// What could not be removed is tried again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// Takes files whose subfiles are to be removed.
#[derive(Debug)]
pub struct Janitor {
    jobs: Sender<Job>,
    /// What could not be removed, and is tried again.
    again: Mutex<BTreeMap<FileId, FileRecord>>,
}

/// What the janitor's thread is told.
#[derive(Debug)]
pub enum Job {
    /// A file is to be removed.
    Remove(FileRecord),
    /// What came of an attempt; nothing if the program has ended.
    Tried { batch: Vec<FileRecord>, is_again: bool, purged: Option<Purged> },
    /// There is nothing more to do.
    End,
}

impl Janitor {
    /// A janitor, and what its thread receives.
    pub fn new() -> (Self, Receiver<Job>) {
        let (jobs, receiver) = mpsc::channel();
        (Self { jobs, again: Mutex::default() }, receiver)
    }

    /// Removes the subfiles of a file that is in the namespace no more.
    pub fn remove(&self, record: FileRecord) {
        // After the end there is nobody to do it; the next start will.
        let _ = self.jobs.send(Job::Remove(record));
    }

    /// Whether the subfiles of a file could not be removed so far.
    pub fn is_stuck(&self, file: FileId) -> bool {
        self.again.lock().contains_key(&file)
    }

    /// No more: its thread ends.
    pub fn end(&self) {
        let _ = self.jobs.send(Job::End);
    }
}

/// The janitor's thread.
pub fn work(
    shared: &Arc<Shared>,
    run: &RunningProgram,
    operations: &Operations,
    jobs: &Receiver<Job>,
) {
    let Some(names) = &shared.names else { return };
    let mut round = Round {
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
        round.begin();
        let next = match round.rest() {
            Some(rest) => jobs.recv_timeout(rest),
            None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut next = match next {
            Ok(job) => Some(job),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // All that has come since is taken together.
        while let Some(job) = next {
            match job {
                Job::Remove(record) => round.waiting.push(record),
                Job::Tried { batch, is_again, purged } => match purged {
                    Some(purged) => round.tried(batch, is_again, purged),
                    None => return,
                },
                Job::End => return,
            }
            next = jobs.try_recv().ok();
        }
    }
}

/// What the janitor is at.
struct Round<'a> {
    names: &'a Names,
    run: &'a RunningProgram,
    operations: &'a Operations,
    waiting: Vec<FileRecord>,
    /// Batches of files that are removed for the first time.
    under_way: usize,
    is_trying_again: bool,
    next_try: Instant,
    /// The last file that was tried again: those behind it are next.
    last_tried: Option<FileId>,
}

impl Round<'_> {
    /// Begins what can be begun.
    fn begin(&mut self) {
        while self.under_way < BATCHES && !self.waiting.is_empty() {
            let batch = self.waiting.drain(..self.waiting.len().min(AT_ONCE)).collect();
            self.under_way += 1;
            self.start(batch, false);
        }
        if self.is_trying_again || self.next_try > Instant::now() {
            return;
        }
        let batch: Vec<FileRecord> = {
            let again = self.names.janitor.again.lock();
            let behind = self.last_tried.map_or(Bound::Unbounded, Bound::Excluded);
            let behind = again.range((behind, Bound::Unbounded));
            behind.take(AT_ONCE).map(|(_, record)| record.clone()).collect()
        };
        self.last_tried = batch.last().map(|record| record.id);
        if !batch.is_empty() {
            self.is_trying_again = true;
            self.start(batch, true);
        }
    }

    fn start(&self, batch: Vec<FileRecord>, is_again: bool) {
        let (jobs, files) = (self.names.janitor.jobs.clone(), batch.clone());
        let begun = self.run.start_then(self.operations.purge, files, move |purged| {
            // Nobody is there to be told only after the end.
            let _ = jobs.send(Job::Tried { batch, is_again, purged: purged.ok() });
        });
        if begun.is_err() {
            self.names.janitor.end();
        }
    }

    fn tried(&mut self, batch: Vec<FileRecord>, is_again: bool, purged: Purged) {
        if is_again {
            self.is_trying_again = false;
        } else {
            self.under_way -= 1;
        }
        let mut again = self.names.janitor.again.lock();
        if !purged.failed.is_empty() {
            again.extend(batch.into_iter().map(|record| (record.id, record)));
            self.next_try = Instant::now() + AGAIN;
            return;
        }
        for file in &purged.files {
            again.remove(file);
        }
        drop(again);
        self.names.namespace.remove_tombstones(purged.files, |forgotten| {
            if let Err(failure) = forgotten {
                tracing::warn!(%failure, "deleted files stay on the list");
            }
        });
    }

    /// How long there is nothing to begin; nothing if that is for ever, unless a job comes.
    fn rest(&self) -> Option<Duration> {
        if self.is_trying_again || self.names.janitor.again.lock().is_empty() {
            return None;
        }
        Some(self.next_try.saturating_duration_since(Instant::now()))
    }
}
