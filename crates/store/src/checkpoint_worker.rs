//! The checkpoint worker: the thread of a disk that maintains its extent subfiles. It makes the
//! syncs that free space, the checkpoints, and the compactions of subfiles that waste space.
//!
//! It compacts one subfile at a time, a step at a time, and serves one request between two steps, so
//! that a long compaction does not delay the syncs and checkpoints of other subfiles.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use crate::extents::{CompactionCursor, OpenExtentFile};

/// A handle of the worker. Clones address the same thread.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointWorker {
    /// `None` if the callers maintain the subfiles themselves.
    messages: Option<Sender<WorkerMessage>>,
    is_stopped: Arc<AtomicBool>,
}

#[derive(Debug)]
enum WorkerMessage {
    Maintain(Weak<OpenExtentFile>),
    Stop,
}

/// Stops the thread of a worker, and joins it, when it is dropped. From then on the threads that
/// change a subfile sync it and write its checkpoints.
#[derive(Debug)]
pub(crate) struct CheckpointWorkerThread {
    worker: CheckpointWorker,
    thread: Option<JoinHandle<()>>,
}

impl CheckpointWorker {
    /// Starts the thread of a worker.
    pub(crate) fn start() -> io::Result<(Self, CheckpointWorkerThread)> {
        let (messages, received) = channel();
        let serve = move || MaintenanceLoop { received, compactions: VecDeque::new() }.run();
        let thread = Some(thread::Builder::new().name("pario-checkpt".into()).spawn(serve)?);
        let worker = Self { messages: Some(messages), is_stopped: Arc::default() };
        Ok((worker.clone(), CheckpointWorkerThread { worker, thread }))
    }

    /// A worker without a thread: callers maintain subfiles themselves, in a repeatable order.
    pub(crate) fn inline() -> Self {
        Self { messages: None, is_stopped: Arc::default() }
    }

    /// Whether the worker never had a thread.
    pub(crate) fn is_inline(&self) -> bool {
        self.messages.is_none()
    }

    /// Asks the thread to maintain a subfile; `false` if the caller has to do it.
    pub(crate) fn request(&self, subfile: &Arc<OpenExtentFile>) -> bool {
        let Some(messages) = &self.messages else { return false };
        if self.is_stopped.load(Ordering::Acquire) {
            return false;
        }
        subfile.maintenance_requested.swap(true, Ordering::AcqRel)
            || messages.send(WorkerMessage::Maintain(Arc::downgrade(subfile))).is_ok()
    }
}

impl Drop for CheckpointWorkerThread {
    fn drop(&mut self) {
        self.worker.is_stopped.store(true, Ordering::Release);
        if let Some(messages) = &self.worker.messages {
            // A failed send means that the thread has ended.
            let _ = messages.send(WorkerMessage::Stop);
        }
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is on standard error already.
            let _ = thread.join();
        }
    }
}

/// The state of the worker's thread.
struct MaintenanceLoop {
    received: Receiver<WorkerMessage>,
    /// The compactions to do; the first one is in progress.
    compactions: VecDeque<PendingCompaction>,
}

struct PendingCompaction {
    subfile: Weak<OpenExtentFile>,
    cursor: Option<CompactionCursor>,
}

impl MaintenanceLoop {
    fn run(mut self) {
        while let Ok(message) = self.next_message() {
            match message {
                Some(WorkerMessage::Maintain(subfile)) => self.maintain(&subfile),
                Some(WorkerMessage::Stop) => return,
                None => {}
            }
            self.compact_step();
        }
    }

    /// The next message. Waits for one only if no compaction is in progress.
    fn next_message(&self) -> Result<Option<WorkerMessage>, TryRecvError> {
        if self.compactions.is_empty() {
            return self.received.recv().map(Some).map_err(|_| TryRecvError::Disconnected);
        }
        match self.received.try_recv() {
            Err(TryRecvError::Empty) => Ok(None),
            received => received.map(Some),
        }
    }

    fn maintain(&mut self, subfile: &Weak<OpenExtentFile>) {
        // The journal of a subfile that is closed by now holds all its changes.
        let Some(open) = subfile.upgrade() else { return };
        open.maintenance_requested.store(false, Ordering::Release);
        let is_pending = |pending: &PendingCompaction| pending.subfile.ptr_eq(subfile);
        if open.maintain() && !self.compactions.iter().any(is_pending) {
            self.compactions
                .push_back(PendingCompaction { subfile: subfile.clone(), cursor: None });
        }
    }

    /// Runs one step of the compaction in progress.
    fn compact_step(&mut self) {
        let Some(pending) = self.compactions.front_mut() else { return };
        let step = pending.subfile.upgrade().map(|subfile| {
            let step = subfile.compact_step(pending.cursor);
            if step.is_err() {
                subfile.give_up_compaction();
            }
            step
        });
        match step {
            Some(Ok(step)) if step.next.is_some() => pending.cursor = step.next,
            // Finished, failed, or the subfile is closed.
            _ => drop(self.compactions.pop_front()),
        }
    }
}
