//! The state machine of a request: its next operation, and how it continues with the result.
//!
//! The thread of the queue may serve several disks, so a step of this machine never waits for one:
//! it changes memory, and leaves everything else to the engine.

use std::sync::Arc;

use super::engine::{Io, IoDone, TaskOutcome};
use super::extent_read::ExtentRead;
use super::extent_write::ExtentWrite;
use super::flat_read::FlatRead;
use super::{Reply, Request};
use crate::buffer::Buffer;
use crate::error::StoreError;
use crate::flat::{FlatFile, OpenFlatFile};

/// The next step of a request.
pub(crate) enum Step {
    /// An operation for the engine.
    Io(Io),
    /// The request is finished.
    Done(Result<Reply, StoreError>),
}

impl Step {
    /// A task of the engine.
    pub(crate) fn task(
        task: impl FnOnce() -> Result<TaskOutcome, StoreError> + Send + 'static,
    ) -> Self {
        Self::Io(Io::Task(Box::new(task)))
    }
}

/// A request in progress.
pub(crate) enum RequestState {
    ReadExtent(ExtentRead),
    WriteExtent(ExtentWrite),
    ReadFlat(FlatRead),
    WriteFlat(Arc<OpenFlatFile>),
    /// A task does all of it.
    Task,
}

impl RequestState {
    /// Begins a request; returns its state and its first step.
    pub(crate) fn begin(request: Request) -> (Self, Step) {
        match request {
            Request::ReadExtent { file, index, caching, prefetch_index } => {
                let mut read = ExtentRead::new(file.inner, index, caching, prefetch_index);
                let step = read.begin();
                (Self::ReadExtent(read), step)
            }
            Request::WriteExtent { file, index, extent, caching } => {
                let mut write = ExtentWrite::new(file.inner, index, extent, caching);
                let step = write.begin();
                (Self::WriteExtent(write), step)
            }
            Request::DeleteExtent { file, index } => {
                let delete = move || Ok(TaskOutcome::Replied(Reply::Deleted(file.delete(index)?)));
                (Self::Task, Step::task(delete))
            }
            Request::SyncExtents { file } => (Self::Task, sync_task(move || file.sync())),
            Request::SyncFlat { file } => (Self::Task, sync_task(move || file.sync())),
            Request::ReadFlat { file, ranges, buffer } => {
                let mut read = FlatRead::new(file.inner, ranges, buffer);
                let step = read.next();
                (Self::ReadFlat(read), step)
            }
            Request::WriteFlat { file, offset, buffer, len } => {
                Self::write_flat(file, offset, buffer, len)
            }
        }
    }

    fn write_flat(file: FlatFile, offset: u64, buffer: Buffer, len: usize) -> (Self, Step) {
        let flat = file.inner;
        let len = len.min(buffer.len());
        let step = flat
            .check_writable("write to")
            .and_then(|()| flat.position(offset, len as u64))
            .map(|position| Io::Write { file: flat.file.clone(), position, buffer, len });
        (Self::WriteFlat(flat), step.into())
    }

    /// Continues with the result of the last step.
    pub(crate) fn resume(&mut self, done: IoDone) -> Step {
        match (self, done) {
            (Self::ReadExtent(read), done) => read.resume(done),
            (Self::WriteExtent(write), done) => write.resume(done),
            (Self::ReadFlat(read), IoDone::Moved(moved, buffer)) => read.resume(moved, buffer),
            (Self::WriteFlat(file), IoDone::Moved(moved, _)) => Step::Done(match moved {
                Ok(_) => Ok(Reply::Written),
                Err(error) => Err(file.context.io(error, "write to")),
            }),
            (Self::Task, IoDone::Ran(Ok(TaskOutcome::Replied(reply)))) => Step::Done(Ok(reply)),
            (Self::Task, IoDone::Ran(Err(error))) => Step::Done(Err(error)),
            _ => unreachable!("an engine returns the result of the operation that it was given"),
        }
    }
}

fn sync_task(sync: impl FnOnce() -> Result<(), StoreError> + Send + 'static) -> Step {
    Step::task(move || sync().map(|()| TaskOutcome::Replied(Reply::Synced)))
}

impl From<Result<Io, StoreError>> for Step {
    fn from(io: Result<Io, StoreError>) -> Self {
        io.map_or_else(|error| Self::Done(Err(error)), Self::Io)
    }
}
