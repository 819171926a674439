//! The checkpoint worker: the thread of a disk that maintains its extent subfiles. It makes the
//! syncs that free space, and the checkpoints.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use crate::extents::OpenExtentFile;

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
/// change a subfile maintain it.
#[derive(Debug)]
pub(crate) struct CheckpointWorkerThread {
    worker: CheckpointWorker,
    thread: Option<JoinHandle<()>>,
}

impl CheckpointWorker {
    /// Starts the thread of a worker.
    pub(crate) fn start() -> io::Result<(Self, CheckpointWorkerThread)> {
        let (messages, received) = channel();
        let serve = move || {
            while let Ok(WorkerMessage::Maintain(subfile)) = received.recv() {
                // The journal of a subfile that is closed by now holds all its changes.
                if let Some(subfile) = subfile.upgrade() {
                    subfile.maintenance_requested.store(false, Ordering::Release);
                    subfile.maintain();
                }
            }
        };
        let thread = Some(thread::Builder::new().name("pario-checkpt".into()).spawn(serve)?);
        let worker = Self { messages: Some(messages), is_stopped: Arc::default() };
        Ok((worker.clone(), CheckpointWorkerThread { worker, thread }))
    }

    /// A worker without a thread: callers maintain subfiles themselves, in a repeatable order.
    pub(crate) fn inline() -> Self {
        Self { messages: None, is_stopped: Arc::default() }
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
