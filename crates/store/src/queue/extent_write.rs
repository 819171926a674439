//! The write of an extent: reserves a run, writes the block there, commits it.
//!
//! The commit appends to the journal and may wait for the disk, so it is a task. The reservation is
//! a task only if memory does not suffice for it: the data file has to grow, a sync has to free
//! space, or the pages of the free runs are not in memory.

use std::io;
use std::sync::Arc;

use super::Reply;
use super::engine::{Io, IoDone, TaskOutcome};
use super::request_state::Step;
use crate::buffer::Buffer;
use crate::error::StoreError;
use crate::extents::{Caching, Extent, ExtentBuffer, ExtentEntry, OpenExtentFile, Reservation};

/// A write in progress.
pub(crate) struct ExtentWrite {
    file: Arc<OpenExtentFile>,
    index: u64,
    caching: Caching,
    stage: WriteStage,
}

enum WriteStage {
    /// A task reserves a run.
    Reserving(ExtentBuffer),
    Writing(Reservation, ExtentEntry),
    /// A task commits, or cancels the reservation.
    Ending,
}

impl ExtentWrite {
    pub(crate) fn new(
        file: Arc<OpenExtentFile>,
        index: u64,
        extent: ExtentBuffer,
        caching: Caching,
    ) -> Self {
        Self { file, index, caching, stage: WriteStage::Reserving(extent) }
    }

    /// The first step.
    pub(crate) fn begin(&mut self) -> Step {
        let (index, payload_bytes) = match &self.stage {
            WriteStage::Reserving(extent) => (self.index, extent.payload_bytes()),
            _ => unreachable!("a write begins with its reservation"),
        };
        let reserved = OpenExtentFile::check_index(index)
            .and_then(|()| self.file.reserve_in_memory(index, payload_bytes));
        match reserved {
            Ok(Some(reservation)) => self.write(reservation),
            Ok(None) => {
                let file = self.file.clone();
                Step::task(move || file.reserve(index, payload_bytes).map(TaskOutcome::Reserved))
            }
            Err(error) => Step::Done(Err(error)),
        }
    }

    /// Continues with the result of the last step.
    pub(crate) fn resume(&mut self, done: IoDone) -> Step {
        match done {
            IoDone::Ran(Ok(TaskOutcome::Reserved(reservation))) => self.write(reservation),
            IoDone::Ran(Ok(TaskOutcome::Replied(reply))) => Step::Done(Ok(reply)),
            IoDone::Ran(Err(error)) => Step::Done(Err(error)),
            IoDone::Moved(moved, buffer) => self.was_written(moved, buffer),
            IoDone::Ran(Ok(TaskOutcome::Ready)) | IoDone::Panicked => {
                unreachable!("an engine returns the result of the operation that it was given")
            }
        }
    }

    fn write(&mut self, reservation: Reservation) -> Step {
        let WriteStage::Reserving(mut extent) =
            std::mem::replace(&mut self.stage, WriteStage::Ending)
        else {
            unreachable!("a write reserves once")
        };
        let entry = self.file.seal(&reservation, &mut extent);
        self.stage = WriteStage::Writing(reservation, entry);
        let len = self.file.disk_bytes(entry.payload_bytes());
        let position = self.file.byte_position(entry.position);
        let buffer = extent.into_buffer();
        Step::Io(Io::Write { file: self.file.data.clone(), position, buffer, len })
    }

    fn was_written(&mut self, moved: io::Result<usize>, buffer: Buffer) -> Step {
        let WriteStage::Writing(reservation, entry) =
            std::mem::replace(&mut self.stage, WriteStage::Ending)
        else {
            unreachable!("a write moves its bytes once")
        };
        let (file, index, caching) = (self.file.clone(), self.index, self.caching);
        Step::task(move || {
            let written = moved.map_err(|error| failure(&file, index, error));
            // Reads the index pages without the lock of the state, so that other threads go on.
            let found = written.and_then(|_| file.find_waiting(index));
            if let Err(error) = found {
                file.cancel(&reservation);
                return Err(error);
            }
            file.commit(&reservation, entry, None)?;
            file.cache_extent(Extent::trusted(buffer, entry), entry, caching);
            file.request_maintenance();
            Ok(TaskOutcome::Replied(Reply::Written))
        })
    }
}

fn failure(file: &OpenExtentFile, index: u64, error: io::Error) -> StoreError {
    let context = &file.context;
    context.disk.io(error, format!("write extent {index} of {}", context.subfile))
}
