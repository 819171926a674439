//! Group commit: one thread commits all queued transactions together.
//!
//! Invariants: transactions run one after the other in the order of submission, all queued ones in
//! one write transaction of redb. The thread calls their `done` after that commit, also for aborted
//! transactions, because they may have seen the changes of the others.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pario_net::panic_text;
use parking_lot::{Condvar, Mutex};
use redb::{Database, ReadableDatabase, WriteTransaction};

use super::error::MetadataError;
use super::overlay::Overlay;
use super::redb_store::{
    DurableTable, PAIRS, TableSnapshot, last_revision, put_revision, reading_error,
};
use super::store::{CommitCallback, Revision, TransactionBody, Verdict};

/// The most queued transactions; further callers block.
const QUEUE_LIMIT: usize = 4096;
/// The bounds of the batch wait, which otherwise lasts as long as the last commit took.
const BATCH_WAIT: RangeInclusive<Duration> = Duration::from_micros(60)..=Duration::from_millis(2);

/// Commits transactions in batches, on one thread.
pub struct GroupCommitter {
    database: Database,
    path: Arc<PathBuf>,
    queue: Mutex<CommitQueue>,
    /// Signals that a transaction is queued, or that the store is closed.
    filled: Condvar,
    /// Signals that the thread has emptied the queue.
    taken: Condvar,
    /// The first failure, after which the store refuses everything.
    poison: Mutex<Option<String>>,
    revision: AtomicU64,
    commits: AtomicU64,
}

#[derive(Default)]
struct CommitQueue {
    transactions: VecDeque<QueuedTransaction>,
    is_closed: bool,
    committer: Option<ThreadId>,
}

struct QueuedTransaction {
    body: TransactionBody,
    done: CommitCallback,
}

impl GroupCommitter {
    pub fn new(database: Database, path: Arc<PathBuf>, revision: u64) -> GroupCommitter {
        GroupCommitter {
            database,
            path,
            queue: Mutex::default(),
            filled: Condvar::new(),
            taken: Condvar::new(),
            poison: Mutex::default(),
            revision: AtomicU64::new(revision),
            commits: AtomicU64::new(0),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub fn submit(&self, body: TransactionBody, done: CommitCallback) {
        let mut queue = self.queue.lock();
        // A `done` may submit on the committer's thread, which must not wait for itself.
        while queue.transactions.len() >= QUEUE_LIMIT
            && queue.committer != Some(thread::current().id())
        {
            self.taken.wait(&mut queue);
        }
        queue.transactions.push_back(QueuedTransaction { body, done });
        self.filled.notify_one();
    }

    /// Lets the thread end after it has committed the queued transactions.
    pub fn close(&self) {
        self.queue.lock().is_closed = true;
        self.filled.notify_one();
    }

    /// Fails after an earlier commit has failed.
    pub fn check(&self) -> Result<(), MetadataError> {
        match &*self.poison.lock() {
            Some(why) => {
                Err(MetadataError::Poisoned { path: self.path.to_path_buf(), why: why.clone() })
            }
            None => Ok(()),
        }
    }

    /// Returns the last durable state.
    pub fn snapshot(&self) -> Result<TableSnapshot<DurableTable>, MetadataError> {
        let open = || -> Result<_, redb::Error> {
            let reading = self.database.begin_read()?;
            let pairs = reading.open_table(PAIRS)?;
            let revision = last_revision(&pairs)?;
            Ok((pairs, revision))
        };
        let (table, revision) = open().map_err(|error| reading_error(&self.path, &error))?;
        Ok(TableSnapshot { table, revision, path: Arc::clone(&self.path) })
    }

    /// Runs the committer's thread.
    pub fn run(&self) {
        self.queue.lock().committer = Some(thread::current().id());
        let (mut answered, mut wait) = (0, *BATCH_WAIT.start());
        let mut has_timed_out = false;
        while let Some(batch) = self.take(&mut has_timed_out, answered, wait) {
            answered = batch.len();
            let begun = Instant::now();
            let (mut bodies, callbacks): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|queued| (queued.body, queued.done)).unzip();
            // A panic of a body, or of redb over damaged bytes, leaves the file unchanged.
            let outcome = self.check().and_then(|()| {
                catch_unwind(AssertUnwindSafe(|| self.commit(&mut bodies)))
                    .unwrap_or_else(|panic| {
                        Err(format!("the thread panicked: {}", panic_text(&*panic)))
                    })
                    .map_err(|why| {
                        self.poison.lock().get_or_insert_with(|| why.clone());
                        MetadataError::Commit { path: self.path.to_path_buf(), why }
                    })
            });
            drop(bodies);
            wait = begun.elapsed().clamp(*BATCH_WAIT.start(), *BATCH_WAIT.end());
            match outcome {
                Ok(revisions) => {
                    for (done, revision) in callbacks.into_iter().zip(revisions) {
                        report(done, Ok(revision));
                    }
                }
                Err(error) => {
                    callbacks.into_iter().for_each(|done| report(done, Err(error.clone())));
                }
            }
        }
    }

    /// Takes all queued transactions. Returns `None` when the store is closed and the queue is empty.
    ///
    /// Callers that were just answered tend to submit again at once. The committer waits for them up
    /// to `wait`, so that the transactions which are queued already do not use up a sync of their own
    /// while the others wait for the next one. It does not wait if they did not return the last time.
    fn take(
        &self,
        has_timed_out: &mut bool,
        answered: usize,
        wait: Duration,
    ) -> Option<VecDeque<QueuedTransaction>> {
        let mut queue = self.queue.lock();
        let expected = if *has_timed_out { 0 } else { queue.transactions.len() + answered };
        while queue.transactions.is_empty() {
            if queue.is_closed {
                return None;
            }
            self.filled.wait(&mut queue);
        }
        let deadline = Instant::now() + wait;
        *has_timed_out = false;
        while queue.transactions.len() < expected.min(QUEUE_LIMIT) && !queue.is_closed {
            if self.filled.wait_until(&mut queue, deadline).timed_out() {
                *has_timed_out = true;
                break;
            }
        }
        self.taken.notify_all();
        Some(std::mem::take(&mut queue.transactions))
    }

    /// Runs transactions and makes them durable together. Returns the revision of each.
    fn commit(&self, bodies: &mut [TransactionBody]) -> Result<Vec<Revision>, String> {
        self.try_commit(bodies).map_err(|error| error.to_string())
    }

    fn try_commit(&self, bodies: &mut [TransactionBody]) -> Result<Vec<Revision>, redb::Error> {
        let before = self.revision.load(Ordering::Relaxed);
        let writing = self.database.begin_write()?;
        let revisions = self.run_all(&writing, bodies, before)?;
        let after = revisions.last().map_or(before, |revision| revision.0);
        if after == before {
            writing.abort()?;
            return Ok(revisions);
        }
        writing.commit()?;
        self.revision.store(after, Ordering::Relaxed);
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(revisions)
    }

    fn run_all(
        &self,
        writing: &WriteTransaction,
        bodies: &mut [TransactionBody],
        before: u64,
    ) -> Result<Vec<Revision>, redb::Error> {
        let path = Arc::clone(&self.path);
        let mut snapshot =
            TableSnapshot { table: writing.open_table(PAIRS)?, revision: before, path };
        let mut revisions = Vec::with_capacity(bodies.len());
        for body in bodies {
            let mut overlay = Overlay::new(&snapshot);
            let verdict = body(&mut overlay);
            let changes = overlay.into_effects().changes;
            if verdict == Verdict::Commit && !changes.is_empty() {
                for (key, value) in changes {
                    match value {
                        Some(value) => snapshot.table.insert(&*key, &*value)?,
                        None => snapshot.table.remove(&*key)?,
                    };
                }
                snapshot.revision += 1;
            }
            revisions.push(Revision(snapshot.revision));
        }
        if snapshot.revision > before {
            put_revision(&mut snapshot.table, snapshot.revision)?;
        }
        Ok(revisions)
    }
}

/// Calls `done`; a panic in it does not keep the committer from calling the others.
fn report(done: CommitCallback, outcome: Result<Revision, MetadataError>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| done(outcome))) {
        tracing::error!(
            "the callback of a committed metadata transaction has panicked: {}",
            panic_text(&*panic)
        );
    }
}
