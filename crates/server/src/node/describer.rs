//! Keeps the descriptions on the disks up to date: owner, mode and synced subfiles of all files.
//!
//! The interface node owns what descriptions say. Who makes a change sends it to the nodes at once;
//! what some disk has not acknowledged is owed to it in the namespace, and the describer's thread
//! sends it again when its node is there. After an upgrade of the namespace the thread describes all
//! files once.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use pario_flow::RunningProgram;
use pario_proto::{DiskId, Failure, FileId, FileRecord};
use parking_lot::Mutex;

use crate::program::{Described, Operations, SubfilesWork};
use crate::shared::{Names, Shared};

/// Files that are described together.
const AT_ONCE: usize = 256;
/// What is owed is looked at again after this time.
const AGAIN: Duration = Duration::from_secs(1);
/// The same if all that is owed is for disks that cannot be reached. A node that joins ends it.
const IDLE: Duration = Duration::from_secs(15);

type Done = Box<dyn FnOnce(bool) + Send>;
/// The caller of a delivery, until it is answered.
type Caller = Arc<Mutex<Option<Done>>>;

/// Takes files whose descriptions are to be written.
pub struct Describer {
    jobs: Sender<Job>,
    /// The program of the node, once it runs.
    program: OnceLock<(Weak<RunningProgram>, Operations)>,
}

/// What the thread of the describer receives.
pub enum Job {
    /// A caller does not wait for ever.
    Expect { deadline: Instant, caller: Caller },
    /// Disks have not acknowledged a change, which is owed to them.
    Owed { file: FileId, disks: Vec<DiskId> },
    /// An attempt is over; nothing if the program has ended.
    Tried { batch: Vec<FileRecord>, why: Why, described: Option<Described> },
    /// A node has joined: what is owed to it can be sent.
    Joined,
    /// There is nothing more to do.
    End,
}

/// Why files are described.
pub enum Why {
    /// They are owed.
    Owed,
    /// The namespace is of an older format.
    Upgrade,
}

impl Describer {
    /// A describer, and what its thread receives.
    pub fn new() -> (Self, Receiver<Job>) {
        let (jobs, receiver) = mpsc::channel();
        (Self { jobs, program: OnceLock::new() }, receiver)
    }

    /// The program of the node runs.
    pub fn connect(&self, run: &Arc<RunningProgram>, operations: Operations) {
        // It is called once, before the node takes requests.
        let _ = self.program.set((Arc::downgrade(run), operations));
    }

    /// Has records written into all descriptions of their files. `done` is called once: with true when
    /// all disks have acknowledged; with false when some have not, or after `wait`.
    pub fn deliver(
        &self,
        shared: &Arc<Shared>,
        records: Vec<FileRecord>,
        wait: Option<Duration>,
        done: impl FnOnce(bool) + Send + 'static,
    ) {
        let caller: Caller = Arc::new(Mutex::new(Some(Box::new(done))));
        let running = self.program.get().and_then(|(run, known)| Some((run.upgrade()?, known)));
        let Some((run, operations)) = running else { return answer(&caller, false) };
        if let Some(wait) = wait {
            let (deadline, caller) = (Instant::now() + wait, caller.clone());
            let _ = self.jobs.send(Job::Expect { deadline, caller });
        }
        let here = SubfilesWork::describe_here(shared, &records);
        let me = u32::try_from(shared.me).unwrap_or(u32::MAX);
        let (shared, of, told) = (shared.clone(), records.clone(), caller.clone());
        let tried = move |described: Option<Described>| {
            let names = shared.names.as_ref().filter(|_| described.is_some());
            let (Some(described), Some(names)) = (described, names) else {
                return answer(&told, false);
            };
            let (mut is_all, mut done) = (true, Vec::new());
            for record in of {
                let disks = missing(&shared, &record, &described);
                if disks.is_empty() {
                    done.push(record);
                } else {
                    is_all = false;
                    let _ = names.describer.jobs.send(Job::Owed { file: record.id, disks });
                }
            }
            answer(&told, is_all);
            names.namespace.forget_owed(done, note);
        };
        let begun = match here {
            // All is on this node: nothing has to be gathered from others.
            Some(work) => run.start_then(operations.here, work, move |answer| {
                let failed = match answer {
                    Ok(answer) if answer.result.is_ok() => Vec::new(),
                    Ok(_) => vec![me],
                    Err(_) => return tried(None),
                };
                tried(Some(Described { failed }));
            }),
            None => run.start_then(operations.describe, records, move |described| {
                tried(described.ok());
            }),
        };
        if begun.is_err() {
            answer(&caller, false);
        }
    }

    /// A node has joined.
    pub fn joined(&self) {
        let _ = self.jobs.send(Job::Joined);
    }

    /// No more: its thread ends.
    pub fn end(&self) {
        let _ = self.jobs.send(Job::End);
    }
}

/// The thread of the describer.
pub fn work(
    shared: &Arc<Shared>,
    run: &RunningProgram,
    operations: &Operations,
    jobs: &Receiver<Job>,
) {
    let Some(names) = &shared.names else { return };
    let mut round = Round {
        shared,
        names,
        run,
        operations,
        callers: Vec::new(),
        unacknowledged: HashMap::new(),
        has_owed: true,
        is_trying: false,
        is_progress: false,
        next_try: Instant::now(),
        last_tried: None,
        upgrade_after: upgrade_after(names),
        is_upgrading: false,
    };
    loop {
        round.begin();
        let next = match round.rest() {
            Some(rest) => jobs.recv_timeout(rest),
            None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(Job::Expect { deadline, caller }) => round.callers.push((deadline, caller)),
            Ok(Job::Owed { file, disks }) => round.owe(file, disks),
            Ok(Job::Tried { batch, why, described: Some(described) }) => {
                round.tried(batch, &why, &described);
            }
            Ok(Job::Joined) => {
                (round.has_owed, round.next_try) = (true, Instant::now());
            }
            Ok(Job::Tried { described: None, .. } | Job::End)
            | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        round.expire();
    }
    // What is under way when the node stops is owed, and sent after the next start.
    for (_, caller) in round.callers {
        answer(&caller, false);
    }
}

fn upgrade_after(names: &Names) -> Option<FileId> {
    names.namespace.describe_after().unwrap_or_else(|failure| {
        tracing::error!(%failure, "files of before the upgrade are not described");
        None
    })
}

fn answer(caller: &Caller, is_done: bool) {
    let done = caller.lock().take();
    if let Some(done) = done {
        done(is_done);
    }
}

struct Round<'a> {
    shared: &'a Arc<Shared>,
    names: &'a Names,
    run: &'a RunningProgram,
    operations: &'a Operations,
    /// Callers that do not wait for ever.
    callers: Vec<(Instant, Caller)>,
    /// The disks that have not acknowledged the last attempt, of files that are owed.
    unacknowledged: HashMap<FileId, Vec<DiskId>>,
    has_owed: bool,
    is_trying: bool,
    /// Whether anything was sent since the first file was looked at.
    is_progress: bool,
    next_try: Instant,
    /// The last file that was tried: those behind it are next.
    last_tried: Option<FileId>,
    upgrade_after: Option<FileId>,
    is_upgrading: bool,
}

impl Round<'_> {
    /// Begins what can be begun.
    fn begin(&mut self) {
        if let Some(after) = self.upgrade_after
            && !self.is_upgrading
        {
            self.upgrade(after);
        }
        if self.has_owed && !self.is_trying && self.next_try <= Instant::now() {
            self.try_owed();
        }
    }

    /// Sends what is owed to disks that can be reached.
    fn try_owed(&mut self) {
        let page = match self.names.namespace.owed(self.last_tried, AT_ONCE) {
            Ok(page) => page,
            Err(failure) => {
                tracing::warn!(%failure, "descriptions stay as they are");
                self.next_try = Instant::now() + AGAIN;
                return;
            }
        };
        if page.is_empty() {
            self.has_owed = self.last_tried.is_some();
            self.last_tried = None;
            let wait = if self.is_progress { AGAIN } else { IDLE };
            (self.next_try, self.is_progress) = (Instant::now() + wait, false);
            return;
        }
        self.last_tried = page.last().map(|record| record.id);
        let batch: Vec<_> = page.into_iter().filter(|record| self.is_worth_a_try(record)).collect();
        if !batch.is_empty() {
            (self.is_trying, self.is_progress) = (true, true);
            self.start(batch, Why::Owed);
        }
    }

    /// Whether a disk that has not acknowledged can be reached.
    fn is_worth_a_try(&self, record: &FileRecord) -> bool {
        let Some(disks) = self.unacknowledged.get(&record.id) else { return true };
        let map = self.shared.map.read();
        disks.iter().any(|&disk| match map.disk(disk) {
            Some((node, disk)) => {
                let node = node as usize;
                let is_there = node == self.shared.me || self.shared.peers.is_there(node);
                is_there && !disk.is_read_only
            }
            None => false,
        })
    }

    /// Describes the next files of a namespace of an older format.
    fn upgrade(&mut self, after: FileId) {
        let files = match self.names.namespace.all_files(Some(after), AT_ONCE) {
            Ok(files) => files,
            Err(failure) => {
                tracing::error!(%failure, "files of before the upgrade are not described");
                self.upgrade_after = None;
                return;
            }
        };
        let batch: Vec<FileRecord> = files.into_iter().map(|(_, record)| record).collect();
        let Some(last) = batch.last() else {
            self.upgrade_after = None;
            tracing::info!("all files of before the upgrade are described");
            return self.names.namespace.set_describe_after(None, Vec::new(), note);
        };
        self.upgrade_after = Some(last.id);
        self.is_upgrading = true;
        self.start(batch, Why::Upgrade);
    }

    fn start(&self, batch: Vec<FileRecord>, why: Why) {
        let (jobs, files) = (self.names.describer.jobs.clone(), batch.clone());
        let begun = self.run.start_then(self.operations.describe, files, move |described| {
            // After the end there is no thread to receive it.
            let _ = jobs.send(Job::Tried { batch, why, described: described.ok() });
        });
        if begun.is_err() {
            self.names.describer.end();
        }
    }

    fn tried(&mut self, batch: Vec<FileRecord>, why: &Why, described: &Described) {
        let (mut done, mut owed) = (Vec::new(), Vec::new());
        for record in batch {
            let disks = missing(self.shared, &record, described);
            if disks.is_empty() {
                self.unacknowledged.remove(&record.id);
                done.push(record);
            } else {
                owed.push(record.id);
                self.owe(record.id, disks);
            }
        }
        match why {
            Why::Owed => {
                self.is_trying = false;
                self.names.namespace.forget_owed(done, note);
            }
            Why::Upgrade => {
                self.is_upgrading = false;
                self.names.namespace.set_describe_after(self.upgrade_after, owed, note);
            }
        }
    }

    /// Disks have not acknowledged a change: it is sent to them later.
    fn owe(&mut self, file: FileId, disks: Vec<DiskId>) {
        self.unacknowledged.insert(file, disks);
        self.has_owed = true;
        self.next_try = Instant::now() + AGAIN;
    }

    /// Lets go callers that have waited long enough.
    fn expire(&mut self) {
        let now = Instant::now();
        self.callers.retain(|(deadline, caller)| {
            if *deadline <= now {
                answer(caller, false);
            }
            caller.lock().is_some()
        });
    }

    /// How long there is nothing to do; nothing if that is for ever, unless a job comes.
    fn rest(&self) -> Option<Duration> {
        let next = (self.has_owed && !self.is_trying).then_some(self.next_try);
        let first = self.callers.iter().map(|(deadline, _)| *deadline).min();
        let until = next.into_iter().chain(first).min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }
}

fn note(noted: Result<(), Failure>) {
    if let Err(failure) = noted {
        tracing::warn!(%failure, "descriptions will be written once more");
    }
}

/// The disks of a file that have not acknowledged: those of nodes that failed, and those that no
/// node has.
fn missing(shared: &Shared, record: &FileRecord, described: &Described) -> Vec<DiskId> {
    let Some(layout) = &record.layout else { return Vec::new() };
    let map = shared.map.read();
    let is_missing = |disk: &DiskId| match map.disk(*disk) {
        Some((node, _)) => described.failed.contains(&node),
        None => true,
    };
    layout.disks().as_slice().iter().copied().filter(is_missing).collect()
}
