//! The description writer: writes changed descriptions to the disks, and retries until all disks
//! have them. A description holds path, owner, mode and first-synced subfiles of a file.
//!
//! The interface node decides what descriptions say. A change is sent to the nodes at once. What a
//! disk has not acknowledged is *owed* to it in the namespace, and the thread of the writer sends
//! it again when the disk's node answers. After an upgrade of the namespace the thread describes
//! all files once.
//!
//! A rename waits for no disk: the thread sends the new paths of several files together. A node
//! that stops sends the waiting ones first.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use pario_flow::RunningProgram;
use pario_proto::{DiskId, Failure, FileId, FileRecord, KnownFile};
use parking_lot::Mutex;

use crate::node_state::{InterfaceState, NodeState};
use crate::program::{AssignedTask, Described, Operations};

/// The number of files in a batch.
const BATCH_FILES: usize = 256;
/// The number of renamed files in a batch. It is small, because a batch occupies the subfile
/// workers of its disks.
const RENAMED_BATCH: usize = 32;
/// The limit of renamed files that wait. Beyond it, the namespace keeps the files as owed.
const RENAMED_LIMIT: usize = 1 << 14;
/// The pause before the writer sends owed descriptions again.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// The same pause if no disk that is owed a description can be reached. A node that joins ends it.
const IDLE_PERIOD: Duration = Duration::from_secs(15);

type DoneCallback = Box<dyn FnOnce(bool) + Send>;
/// The callback of a caller, until the writer calls it.
type WaitingCaller = Arc<Mutex<Option<DoneCallback>>>;

/// Takes files whose descriptions the writer writes.
pub struct DescriptionWriter {
    messages: Sender<WriterMessage>,
    /// The program of the node, once it runs.
    program: OnceLock<(Weak<RunningProgram>, Operations)>,
}

/// A message to the thread of the writer.
pub enum WriterMessage {
    /// A caller waits until a deadline.
    Expect { deadline: Instant, caller: WaitingCaller },
    /// A file was renamed.
    Renamed(FileId),
    /// Disks have not acknowledged a change.
    Owed { file: FileId, disks: Vec<DiskId> },
    /// The result of an attempt; `None` if the program has ended.
    Tried { batch: Vec<KnownFile>, why: DescribeReason, described: Option<Described> },
    /// A node has joined, and can receive what its disks are owed.
    Joined,
    /// The node stops. The thread drops the sender when it has described all renames.
    Drain(Sender<()>),
    /// Stop.
    End,
}

/// Why a batch of files is described.
pub enum DescribeReason {
    /// Disks are owed a description.
    Owed,
    /// The files were renamed.
    Renamed,
    /// The namespace was upgraded.
    Upgrade,
}

impl DescriptionWriter {
    /// Creates a writer, and the receiver for its thread.
    pub fn new() -> (Self, Receiver<WriterMessage>) {
        let (messages, receiver) = mpsc::channel();
        (Self { messages, program: OnceLock::new() }, receiver)
    }

    /// Sets the running program of the node.
    pub fn connect(&self, run: &Arc<RunningProgram>, operations: Operations) {
        // The node calls this once, before it accepts requests.
        let _ = self.program.set((Arc::downgrade(run), operations));
    }

    /// Writes what the namespace says of files into all their descriptions. Calls `done` once: with
    /// `true` when all disks have acknowledged, with `false` when some have not, or after `wait`.
    pub fn write(
        &self,
        shared: &Arc<NodeState>,
        files: Vec<KnownFile>,
        wait: Option<Duration>,
        done: impl FnOnce(bool) + Send + 'static,
    ) {
        let caller: WaitingCaller = Arc::new(Mutex::new(Some(Box::new(done))));
        let running = self.program.get().and_then(|(run, known)| Some((run.upgrade()?, known)));
        let Some((run, operations)) = running else { return finish_caller(&caller, false) };
        if let Some(wait) = wait {
            let (deadline, caller) = (Instant::now() + wait, caller.clone());
            let _ = self.messages.send(WriterMessage::Expect { deadline, caller });
        }
        let here = AssignedTask::describe_here(shared, &files);
        let me = u32::try_from(shared.me).unwrap_or(u32::MAX);
        let (shared, of, waiting) = (shared.clone(), files.clone(), caller.clone());
        let tried = move |described: Option<Described>| {
            let interface = shared.interface.as_ref().filter(|_| described.is_some());
            let (Some(described), Some(interface)) = (described, interface) else {
                return finish_caller(&waiting, false);
            };
            let (mut is_all, mut done) = (true, Vec::new());
            for file in of {
                let disks = unacknowledged_disks(&shared, &file.record, &described);
                if disks.is_empty() {
                    done.push(file);
                } else {
                    is_all = false;
                    let owed = WriterMessage::Owed { file: file.record.id, disks };
                    let _ = interface.description_writer.messages.send(owed);
                }
            }
            finish_caller(&waiting, is_all);
            interface.namespace.mark_described(done, log_failure);
        };
        let started = match here {
            // All disks are on this node, so no other node is asked.
            Some(task) => run.start_then(operations.perform_task, task, move |answer| {
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
        if started.is_err() {
            finish_caller(&caller, false);
        }
    }

    /// Writes the new path of a renamed file into its descriptions soon.
    pub fn note_rename(&self, file: FileId) {
        // After the end no thread receives the message; the path is owed, and sent after the next
        // start.
        let _ = self.messages.send(WriterMessage::Renamed(file));
    }

    /// Sends the disks of a node that has joined what they are owed.
    pub fn note_join(&self) {
        let _ = self.messages.send(WriterMessage::Joined);
    }

    /// Stops the thread when it has described all renames, or after `wait`.
    pub fn stop(&self, wait: Duration) {
        let (drained, receiver) = mpsc::channel();
        let _ = self.messages.send(WriterMessage::Drain(drained));
        let _ = receiver.recv_timeout(wait);
        let _ = self.messages.send(WriterMessage::End);
    }
}

/// The thread of the writer.
pub fn run_thread(
    shared: &Arc<NodeState>,
    run: &RunningProgram,
    operations: &Operations,
    messages: &Receiver<WriterMessage>,
) {
    let Some(interface) = &shared.interface else { return };
    let mut thread = WriterThread {
        shared,
        interface,
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
        upgrade_after: upgrade_after(interface),
        is_upgrading: false,
    };
    loop {
        thread.start_batches();
        let next = match thread.next_timeout() {
            Some(timeout) => messages.recv_timeout(timeout),
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(WriterMessage::Expect { deadline, caller }) => {
                thread.callers.push((deadline, caller))
            }
            Ok(WriterMessage::Renamed(file)) => thread.add_renamed(file),
            Ok(WriterMessage::Drain(waiting)) => thread.drain = Some(waiting),
            Ok(WriterMessage::Owed { file, disks }) => thread.note_owed(file, disks),
            Ok(WriterMessage::Tried { batch, why, described: Some(described) }) => {
                thread.finish_batch(batch, &why, &described);
            }
            Ok(WriterMessage::Joined) => {
                (thread.has_owed, thread.next_try) = (true, Instant::now());
            }
            Ok(WriterMessage::Tried { described: None, .. } | WriterMessage::End)
            | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        thread.expire();
    }
    // What is under way when the node stops is owed, and sent after the next start.
    for (_, caller) in thread.callers {
        finish_caller(&caller, false);
    }
}

fn upgrade_after(interface: &InterfaceState) -> Option<FileId> {
    interface.namespace.description_cursor().unwrap_or_else(|failure| {
        tracing::error!(%failure, "the files of the older namespace are not described on their disks");
        None
    })
}

fn finish_caller(caller: &WaitingCaller, is_done: bool) {
    let done = caller.lock().take();
    if let Some(done) = done {
        done(is_done);
    }
}

struct WriterThread<'a> {
    shared: &'a Arc<NodeState>,
    interface: &'a InterfaceState,
    run: &'a RunningProgram,
    operations: &'a Operations,
    /// Callers with a deadline.
    callers: Vec<(Instant, WaitingCaller)>,
    /// For each file that is owed: the disks that have not acknowledged the last attempt.
    unacknowledged: HashMap<FileId, Vec<DiskId>>,
    /// Renamed files that wait.
    renamed: BTreeSet<FileId>,
    is_sending_renamed: bool,
    /// Dropped when no renamed file waits.
    drain: Option<Sender<()>>,
    has_owed: bool,
    is_trying: bool,
    /// Whether anything was sent since the search for owed files began.
    is_progress: bool,
    next_try: Instant,
    /// The last file that was tried; the search continues after it.
    last_tried: Option<FileId>,
    upgrade_after: Option<FileId>,
    is_upgrading: bool,
}

impl WriterThread<'_> {
    /// Starts all batches that may start.
    fn start_batches(&mut self) {
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

    /// Adds a renamed file.
    fn add_renamed(&mut self, file: FileId) {
        if self.renamed.len() < RENAMED_LIMIT {
            self.renamed.insert(file);
        } else if !self.has_owed {
            (self.has_owed, self.next_try) = (true, Instant::now() + RETRY_PERIOD);
        }
    }

    /// Sends the paths of renamed files.
    fn send_renamed(&mut self) {
        let mut batch = Vec::new();
        while batch.len() < RENAMED_BATCH
            && let Some(file) = self.renamed.pop_first()
        {
            match self.interface.namespace.known_file(file) {
                Ok(known) => batch.extend(known),
                Err(failure) => {
                    tracing::warn!(%failure, "the description of a renamed file keeps the old path")
                }
            }
        }
        self.is_sending_renamed = !batch.is_empty();
        if self.is_sending_renamed {
            self.start(batch, DescribeReason::Renamed);
        } else {
            self.drain = None;
        }
    }

    /// Sends the next owed descriptions whose disks can be reached.
    fn try_owed(&mut self) {
        let page = match self.interface.namespace.pending_descriptions(self.last_tried, BATCH_FILES)
        {
            Ok(page) => page,
            Err(failure) => {
                tracing::warn!(%failure, "the namespace cannot list owed descriptions");
                self.next_try = Instant::now() + RETRY_PERIOD;
                return;
            }
        };
        if page.is_empty() {
            self.has_owed = self.last_tried.is_some();
            self.last_tried = None;
            let wait = if self.is_progress { RETRY_PERIOD } else { IDLE_PERIOD };
            (self.next_try, self.is_progress) = (Instant::now() + wait, false);
            return;
        }
        self.last_tried = page.last().map(|file| file.record.id);
        let batch: Vec<_> =
            page.into_iter().filter(|file| self.is_reachable(&file.record)).collect();
        if !batch.is_empty() {
            (self.is_trying, self.is_progress) = (true, true);
            self.start(batch, DescribeReason::Owed);
        }
    }

    /// Returns whether a disk that has not acknowledged can be reached.
    fn is_reachable(&self, record: &FileRecord) -> bool {
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

    /// Describes the next files after an upgrade.
    fn upgrade(&mut self, after: FileId) {
        let batch = match self.interface.namespace.all_files(Some(after), BATCH_FILES) {
            Ok(batch) => batch,
            Err(failure) => {
                tracing::error!(%failure, "the files of the older namespace are not described on their disks");
                self.upgrade_after = None;
                return;
            }
        };
        let Some(last) = batch.last() else {
            self.upgrade_after = None;
            tracing::info!("all files of the older namespace are described on their disks");
            return self.interface.namespace.set_description_cursor(None, Vec::new(), log_failure);
        };
        self.upgrade_after = Some(last.record.id);
        self.is_upgrading = true;
        self.start(batch, DescribeReason::Upgrade);
    }

    fn start(&self, batch: Vec<KnownFile>, why: DescribeReason) {
        let (messages, files) = (self.interface.description_writer.messages.clone(), batch.clone());
        let started = self.run.start_then(self.operations.describe, files, move |described| {
            // The thread receives no message after the end.
            let _ = messages.send(WriterMessage::Tried { batch, why, described: described.ok() });
        });
        if started.is_err() {
            let _ = self.interface.description_writer.messages.send(WriterMessage::End);
        }
    }

    fn finish_batch(&mut self, batch: Vec<KnownFile>, why: &DescribeReason, described: &Described) {
        let (mut done, mut owed) = (Vec::new(), Vec::new());
        for file in batch {
            let id = file.record.id;
            let disks = unacknowledged_disks(self.shared, &file.record, described);
            if disks.is_empty() {
                self.unacknowledged.remove(&id);
                done.push(file);
            } else {
                owed.push(id);
                self.note_owed(id, disks);
            }
        }
        match why {
            DescribeReason::Owed => {
                self.is_trying = false;
                self.interface.namespace.mark_described(done, log_failure);
            }
            DescribeReason::Renamed => {
                self.is_sending_renamed = false;
                self.interface.namespace.mark_described(done, log_failure);
            }
            DescribeReason::Upgrade => {
                self.is_upgrading = false;
                self.interface.namespace.set_description_cursor(
                    self.upgrade_after,
                    owed,
                    log_failure,
                );
            }
        }
    }

    /// Notes that disks have not acknowledged a change, which is sent again later.
    fn note_owed(&mut self, file: FileId, disks: Vec<DiskId>) {
        self.unacknowledged.insert(file, disks);
        self.has_owed = true;
        self.next_try = Instant::now() + RETRY_PERIOD;
    }

    /// Releases callers whose deadline has passed.
    fn expire(&mut self) {
        let now = Instant::now();
        self.callers.retain(|(deadline, caller)| {
            if *deadline <= now {
                finish_caller(caller, false);
            }
            caller.lock().is_some()
        });
    }

    /// Returns the time until the next deadline or attempt; `None` if there is neither.
    fn next_timeout(&self) -> Option<Duration> {
        let next = (self.has_owed && !self.is_trying).then_some(self.next_try);
        let first = self.callers.iter().map(|(deadline, _)| *deadline).min();
        let until = next.into_iter().chain(first).min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }
}

fn log_failure(noted: Result<(), Failure>) {
    if let Err(failure) = noted {
        tracing::warn!(%failure, "the namespace cannot record which descriptions are written; they will be written again");
    }
}

/// Returns the disks of a file that have not acknowledged: those of nodes that failed, and those
/// that no node has.
fn unacknowledged_disks(
    shared: &NodeState,
    record: &FileRecord,
    described: &Described,
) -> Vec<DiskId> {
    let Some(layout) = &record.layout else { return Vec::new() };
    let map = shared.map.read();
    let is_missing = |disk: &DiskId| match map.disk(*disk) {
        Some((node, _)) => described.failed.contains(&node),
        None => true,
    };
    layout.disks().as_slice().iter().copied().filter(is_missing).collect()
}
