//! The thread that changes the file: what queues up becomes durable together.
//!
//! Invariants: transactions run one after the other in the order of their submission, all that
//! are queued in one write transaction of redb. Their `done`s are run after the one commit, also
//! those of transactions that were aborted, because they may have seen what the others did.

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
use super::file::{DurableTable, PAIRS, Shown, last_revision, put_revision, reading_error};
use super::overlay::Overlay;
use super::store::{Done, Revision, Verdict, Work};

/// Who submits waits while so many transactions are queued.
const QUEUE_LIMIT: usize = 4096;
/// The engine waits for those whom it has just answered to come again, as long as the last commit
/// took, but at least and at most so long.
const GATHERING: RangeInclusive<Duration> = Duration::from_micros(60)..=Duration::from_millis(2);

pub struct Engine {
    database: Database,
    path: Arc<PathBuf>,
    queue: Mutex<Queue>,
    /// Something is queued, or the store is closed.
    filled: Condvar,
    /// The queue has been taken.
    taken: Condvar,
    /// The first failure, after which nothing is promised any more.
    poison: Mutex<Option<String>>,
    revision: AtomicU64,
    commits: AtomicU64,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_closed: bool,
    engine: Option<ThreadId>,
}

struct Job {
    work: Work,
    done: Done,
}

impl Engine {
    pub fn new(database: Database, path: Arc<PathBuf>, revision: u64) -> Engine {
        Engine {
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

    pub fn submit(&self, work: Work, done: Done) {
        let mut queue = self.queue.lock();
        // The engine itself submits from within a `done`; it must not wait for itself.
        while queue.jobs.len() >= QUEUE_LIMIT && queue.engine != Some(thread::current().id()) {
            self.taken.wait(&mut queue);
        }
        queue.jobs.push_back(Job { work, done });
        self.filled.notify_one();
    }

    /// What is queued is finished, then the thread ends.
    pub fn close(&self) {
        self.queue.lock().is_closed = true;
        self.filled.notify_one();
    }

    /// Whether anything can still be promised.
    pub fn check(&self) -> Result<(), MetadataError> {
        match &*self.poison.lock() {
            Some(why) => {
                Err(MetadataError::Poisoned { path: self.path.to_path_buf(), why: why.clone() })
            }
            None => Ok(()),
        }
    }

    /// The last durable state.
    pub fn snapshot(&self) -> Result<Shown<DurableTable>, MetadataError> {
        let open = || -> Result<_, redb::Error> {
            let reading = self.database.begin_read()?;
            let pairs = reading.open_table(PAIRS)?;
            let revision = last_revision(&pairs)?;
            Ok((pairs, revision))
        };
        let (table, revision) = open().map_err(|error| reading_error(&self.path, &error))?;
        Ok(Shown { table, revision, path: Arc::clone(&self.path) })
    }

    /// The engine's thread.
    pub fn run(&self) {
        self.queue.lock().engine = Some(thread::current().id());
        let (mut answered, mut gathering) = (0, *GATHERING.start());
        let mut was_in_vain = false;
        while let Some(jobs) = self.take(&mut was_in_vain, answered, gathering) {
            answered = jobs.len();
            let begun = Instant::now();
            let (mut works, dones): (Vec<_>, Vec<_>) =
                jobs.into_iter().map(|job| (job.work, job.done)).unzip();
            // A panic, of a work or over damaged bytes, leaves the file as it was before.
            let outcome = self.check().and_then(|()| {
                catch_unwind(AssertUnwindSafe(|| self.commit(&mut works)))
                    .unwrap_or_else(|panic| {
                        Err(format!("the thread panicked: {}", panic_text(&*panic)))
                    })
                    .map_err(|why| {
                        self.poison.lock().get_or_insert_with(|| why.clone());
                        MetadataError::Commit { path: self.path.to_path_buf(), why }
                    })
            });
            drop(works);
            gathering = begun.elapsed().clamp(*GATHERING.start(), *GATHERING.end());
            match outcome {
                Ok(revisions) => {
                    for (done, revision) in dones.into_iter().zip(revisions) {
                        report(done, Ok(revision));
                    }
                }
                Err(error) => dones.into_iter().for_each(|done| report(done, Err(error.clone()))),
            }
        }
    }

    /// Everything that is queued; nothing when the store is closed and all is done.
    ///
    /// Those who were just answered tend to come again at once. The engine gives them a moment, so
    /// that those who have come meanwhile do not have a sync to themselves while the others wait
    /// for the next. If they did not come the last time, it does not wait this time.
    fn take(
        &self,
        was_in_vain: &mut bool,
        answered: usize,
        gathering: Duration,
    ) -> Option<VecDeque<Job>> {
        let mut queue = self.queue.lock();
        let expected = if *was_in_vain { 0 } else { queue.jobs.len() + answered };
        while queue.jobs.is_empty() {
            if queue.is_closed {
                return None;
            }
            self.filled.wait(&mut queue);
        }
        let deadline = Instant::now() + gathering;
        *was_in_vain = false;
        while queue.jobs.len() < expected.min(QUEUE_LIMIT) && !queue.is_closed {
            if self.filled.wait_until(&mut queue, deadline).timed_out() {
                *was_in_vain = true;
                break;
            }
        }
        self.taken.notify_all();
        Some(std::mem::take(&mut queue.jobs))
    }

    /// Runs transactions and makes them durable together; tells the revision of each.
    fn commit(&self, works: &mut [Work]) -> Result<Vec<Revision>, String> {
        self.attempt(works).map_err(|error| error.to_string())
    }

    fn attempt(&self, works: &mut [Work]) -> Result<Vec<Revision>, redb::Error> {
        let before = self.revision.load(Ordering::Relaxed);
        let writing = self.database.begin_write()?;
        let revisions = self.run_all(&writing, works, before)?;
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
        works: &mut [Work],
        before: u64,
    ) -> Result<Vec<Revision>, redb::Error> {
        let path = Arc::clone(&self.path);
        let mut state = Shown { table: writing.open_table(PAIRS)?, revision: before, path };
        let mut revisions = Vec::with_capacity(works.len());
        for work in works {
            let mut overlay = Overlay::new(&state);
            let verdict = work(&mut overlay);
            let changes = overlay.into_effects().changes;
            if verdict == Verdict::Commit && !changes.is_empty() {
                for (key, value) in changes {
                    match value {
                        Some(value) => state.table.insert(&*key, &*value)?,
                        None => state.table.remove(&*key)?,
                    };
                }
                state.revision += 1;
            }
            revisions.push(Revision(state.revision));
        }
        if state.revision > before {
            put_revision(&mut state.table, state.revision)?;
        }
        Ok(revisions)
    }
}

/// A `done` that panics must not keep the others from being run.
fn report(done: Done, outcome: Result<Revision, MetadataError>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| done(outcome))) {
        let text = panic_text(&*panic);
        tracing::error!("a transaction is committed, but its callback panicked: {text}");
    }
}
