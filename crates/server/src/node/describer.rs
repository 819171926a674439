//! Keeps the descriptions on the disks up to date: path, owner, mode and synced subfiles of all
//! files.
//!
//! The interface node owns what descriptions say. Who makes a change sends it to the nodes at once;
//! what some disk has not acknowledged is owed to it in the namespace, and the describer's thread
//! sends it again when its node is there. After an upgrade of the namespace the thread describes all
//! files once.
//!
//! A rename waits for no disk: it leaves the file to the thread, which sends the new paths of some
//! files together. A node that stops sends those that wait first.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use pario_flow::RunningProgram;
use pario_proto::{DiskId, Failure, FileId, FileRecord, KnownFile};
use parking_lot::Mutex;

use crate::program::{Described, Operations, SubfilesWork};
use crate::shared::{Names, Shared};

/// Files that are described together.
const AT_ONCE: usize = 256;
/// Renamed files that are described together: the threads of the disks do nothing else meanwhile.
const RENAMED_AT_ONCE: usize = 32;
/// Renamed files that wait to be described; the namespace knows the others, which are owed.
const RENAMED_LIMIT: usize = 1 << 14;
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
    /// A file was renamed.
    Renamed(FileId),
    /// Disks have not acknowledged a change, which is owed to them.
    Owed { file: FileId, disks: Vec<DiskId> },
    /// An attempt is over; nothing if the program has ended.
    Tried { batch: Vec<KnownFile>, why: Why, described: Option<Described> },
    /// A node has joined: what is owed to it can be sent.
    Joined,
    /// The node stops: it waits until renames are described and this is dropped.
    Drain(Sender<()>),
    /// There is nothing more to do.
    End,
}

/// Why files are described.
pub enum Why {
    /// They are owed.
    Owed,
    /// They were renamed.
    Renamed,
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

    /// Has written into all descriptions of files what is known of them. `done` is called once: with
    /// true when all disks have acknowledged; with false when some have not, or after `wait`.
    pub fn deliver(
        &self,
        shared: &Arc<Shared>,
        files: Vec<KnownFile>,
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
        let here = SubfilesWork::describe_here(shared, &files);
        let me = u32::try_from(shared.me).unwrap_or(u32::MAX);
        let (shared, of, told) = (shared.clone(), files.clone(), caller.clone());
        let tried = move |described: Option<Described>| {
            let names = shared.names.as_ref().filter(|_| described.is_some());
            let (Some(described), Some(names)) = (described, names) else {
                return answer(&told, false);
            };
            let (mut is_all, mut done) = (true, Vec::new());
            for file in of {
                let disks = missing(&shared, &file.record, &described);
                if disks.is_empty() {
                    done.push(file);
                } else {
                    is_all = false;
                    let owed = Job::Owed { file: file.record.id, disks };
                    let _ = names.describer.jobs.send(owed);
                }
            }
            answer(&told, is_all);
            names.namespace.mark_described(done, note);
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
            None => run.start_then(operations.describe, files, move |described| {
                tried(described.ok());
            }),
        };
        if begun.is_err() {
            answer(&caller, false);
        }
    }

    /// A file was renamed: its descriptions get the new path soon.
    pub fn renamed(&self, file: FileId) {
        // After the end there is no thread to do it; the path is owed, and sent after the next start.
        let _ = self.jobs.send(Job::Renamed(file));
    }

    /// A node has joined.
    pub fn joined(&self) {
        let _ = self.jobs.send(Job::Joined);
    }

    /// Ends the thread when it has described all renames, or after `wait`.
    pub fn end(&self, wait: Duration) {
        let (drained, receiver) = mpsc::channel();
        let _ = self.jobs.send(Job::Drain(drained));
        let _ = receiver.recv_timeout(wait);
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
        renamed: BTreeSet::new(),
        is_sending_renamed: false,
        drain: None,
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
            Ok(Job::Renamed(file)) => round.rename(file),
            Ok(Job::Drain(waiting)) => round.drain = Some(waiting),
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
    names.namespace.description_cursor().unwrap_or_else(|failure| {
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
    /// Files whose new paths the thread has yet to send.
    renamed: BTreeSet<FileId>,
    is_sending_renamed: bool,
    /// Dropped when there are no more of them.
    drain: Option<Sender<()>>,
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
        if !self.is_sending_renamed {
            self.send_renamed();
        }
        if self.has_owed && !self.is_trying && self.next_try <= Instant::now() {
            self.try_owed();
        }
    }

    /// Takes a file whose path has changed.
    fn rename(&mut self, file: FileId) {
        if self.renamed.len() < RENAMED_LIMIT {
            self.renamed.insert(file);
        } else if !self.has_owed {
            (self.has_owed, self.next_try) = (true, Instant::now() + AGAIN);
        }
    }

    /// Sends the paths of files that were renamed.
    fn send_renamed(&mut self) {
        let mut batch = Vec::new();
        while batch.len() < RENAMED_AT_ONCE
            && let Some(file) = self.renamed.pop_first()
        {
            match self.names.namespace.known_file(file) {
                Ok(known) => batch.extend(known),
                Err(failure) => tracing::warn!(%failure, "a description keeps the old path"),
            }
        }
        self.is_sending_renamed = !batch.is_empty();
        if self.is_sending_renamed {
            self.start(batch, Why::Renamed);
        } else {
            self.drain = None;
        }
    }

    /// Sends what is owed to disks that can be reached.
    fn try_owed(&mut self) {
        let page = match self.names.namespace.pending_descriptions(self.last_tried, AT_ONCE) {
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
        self.last_tried = page.last().map(|file| file.record.id);
        let batch: Vec<_> =
            page.into_iter().filter(|file| self.is_worth_a_try(&file.record)).collect();
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
        let batch = match self.names.namespace.all_files(Some(after), AT_ONCE) {
            Ok(batch) => batch,
            Err(failure) => {
                tracing::error!(%failure, "files of before the upgrade are not described");
                self.upgrade_after = None;
                return;
            }
        };
        let Some(last) = batch.last() else {
            self.upgrade_after = None;
            tracing::info!("all files of before the upgrade are described");
            return self.names.namespace.set_description_cursor(None, Vec::new(), note);
        };
        self.upgrade_after = Some(last.record.id);
        self.is_upgrading = true;
        self.start(batch, Why::Upgrade);
    }

    fn start(&self, batch: Vec<KnownFile>, why: Why) {
        let (jobs, files) = (self.names.describer.jobs.clone(), batch.clone());
        let begun = self.run.start_then(self.operations.describe, files, move |described| {
            // After the end there is no thread to receive it.
            let _ = jobs.send(Job::Tried { batch, why, described: described.ok() });
        });
        if begun.is_err() {
            let _ = self.names.describer.jobs.send(Job::End);
        }
    }

    fn tried(&mut self, batch: Vec<KnownFile>, why: &Why, described: &Described) {
        let (mut done, mut owed) = (Vec::new(), Vec::new());
        for file in batch {
            let id = file.record.id;
            let disks = missing(self.shared, &file.record, described);
            if disks.is_empty() {
                self.unacknowledged.remove(&id);
                done.push(file);
            } else {
                owed.push(id);
                self.owe(id, disks);
            }
        }
        match why {
            Why::Owed => {
                self.is_trying = false;
                self.names.namespace.mark_described(done, note);
            }
            Why::Renamed => {
                self.is_sending_renamed = false;
                self.names.namespace.mark_described(done, note);
            }
            Why::Upgrade => {
                self.is_upgrading = false;
                self.names.namespace.set_description_cursor(self.upgrade_after, owed, note);
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
