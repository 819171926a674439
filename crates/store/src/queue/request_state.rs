//! The state machine of a request: its next operation, and how it continues with the result.

use std::sync::Arc;

use super::engine::{Io, IoDone};
use super::{Reply, Request};
use crate::buffer::Buffer;
use crate::error::StoreError;
use crate::extents::{
    Caching, Extent, ExtentBuffer, ExtentEntry, IndexLookup, OpenExtentFile, Prerequisite,
    Reservation, ReserveAttempts, ReserveOutcome,
};
use crate::flat::{FlatFile, OpenFlatFile};
use crate::index::{MissingPage, PAGE_BYTES};

/// The next step of a request.
pub(crate) enum Step {
    /// An operation for the engine.
    Io(Io),
    /// The request is finished.
    Done(Result<Reply, StoreError>),
}

/// A request in progress.
pub(crate) enum RequestState {
    Extent(ExtentRequestState),
    ReadFlat(Arc<OpenFlatFile>),
    WriteFlat(Arc<OpenFlatFile>),
    Sync,
    /// Finished without the engine.
    Finished,
}

pub(crate) struct ExtentRequestState {
    file: Arc<OpenExtentFile>,
    index: u64,
    caching: Caching,
    action: ExtentAction,
    stage: ExtentStage,
}

enum ExtentAction {
    Read { failed: Option<(ExtentEntry, &'static str)> },
    Write { extent: Option<ExtentBuffer>, attempts: ReserveAttempts },
    Delete,
}

enum ExtentStage {
    Finding,
    LoadingPage(MissingPage),
    Reading(ExtentEntry),
    /// A write waits for the prerequisite of its reservation.
    Blocked,
    Writing(Reservation, ExtentEntry),
}

impl RequestState {
    /// Begins a request; returns its state and its first step.
    pub(crate) fn begin(request: Request) -> (Self, Step) {
        match request {
            Request::ReadExtent { file, index, caching } => {
                let action = ExtentAction::Read { failed: None };
                ExtentRequestState::begin(file.inner, index, caching, action)
            }
            Request::WriteExtent { file, index, extent, caching } => {
                let action = ExtentAction::Write {
                    extent: Some(extent),
                    attempts: ReserveAttempts::default(),
                };
                ExtentRequestState::begin(file.inner, index, caching, action)
            }
            Request::DeleteExtent { file, index } => {
                ExtentRequestState::begin(file.inner, index, Caching::Use, ExtentAction::Delete)
            }
            Request::SyncExtents { file } => {
                (Self::Sync, Step::Io(Io::Task(Box::new(move || file.sync()))))
            }
            Request::SyncFlat { file } => {
                (Self::Sync, Step::Io(Io::Task(Box::new(move || file.sync()))))
            }
            Request::ReadFlat { file, offset, buffer, len } => {
                let len = len.min(buffer.len());
                let step = file.inner.position(offset, len as u64).map(|position| Io::Read {
                    file: file.inner.file.clone(),
                    position,
                    buffer,
                    len,
                });
                (Self::ReadFlat(file.inner), step.into())
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
            (Self::Extent(state), IoDone::Moved(moved, buffer)) => state.resume(moved, buffer),
            (Self::ReadFlat(file), IoDone::Moved(moved, buffer)) => Step::Done(match moved {
                Ok(len) => Ok(Reply::Read { buffer, len }),
                Err(error) => Err(file.context.io(error, "read")),
            }),
            (Self::WriteFlat(file), IoDone::Moved(moved, _)) => Step::Done(match moved {
                Ok(_) => Ok(Reply::Written),
                Err(error) => Err(file.context.io(error, "write to")),
            }),
            (Self::Extent(state), IoDone::Ran(ran)) => state.unblocked(ran),
            (Self::Sync, IoDone::Ran(ran)) => Step::Done(ran.map(|()| Reply::Synced)),
            _ => unreachable!("an engine returns the result of the operation that it was given"),
        }
    }
}

impl From<Result<Io, StoreError>> for Step {
    fn from(io: Result<Io, StoreError>) -> Self {
        io.map_or_else(|error| Self::Done(Err(error)), Self::Io)
    }
}

impl ExtentRequestState {
    fn begin(
        file: Arc<OpenExtentFile>,
        index: u64,
        caching: Caching,
        action: ExtentAction,
    ) -> (RequestState, Step) {
        if let Err(error) = OpenExtentFile::check_index(index) {
            return (RequestState::Finished, Step::Done(Err(error)));
        }
        let mut state = Self { file, index, caching, action, stage: ExtentStage::Finding };
        let step = state.find();
        (RequestState::Extent(state), step)
    }

    fn resume(&mut self, moved: std::io::Result<usize>, buffer: Buffer) -> Step {
        match std::mem::replace(&mut self.stage, ExtentStage::Finding) {
            ExtentStage::LoadingPage(wanted) => match self.page_loaded(wanted, moved, &buffer) {
                Ok(()) => self.find(),
                Err(error) => Step::Done(Err(error)),
            },
            ExtentStage::Reading(entry) => self.was_read(entry, moved, buffer),
            ExtentStage::Writing(reservation, entry) => {
                Step::Done(self.was_written(&reservation, entry, moved, buffer))
            }
            ExtentStage::Finding | ExtentStage::Blocked => {
                unreachable!("these stages move no bytes")
            }
        }
    }

    /// Looks the extent up and continues with the result.
    fn find(&mut self) -> Step {
        let entry = match self.file.find(self.index) {
            Ok(IndexLookup::At(entry)) => Some(entry),
            Ok(IndexLookup::Absent) => None,
            Ok(IndexLookup::NeedsPage(wanted)) => {
                self.stage = ExtentStage::LoadingPage(wanted);
                let buffer = self.file.pool.get(PAGE_BYTES);
                let (file, position) = (self.file.index_file.clone(), wanted.position());
                return Step::Io(Io::Read { file, position, buffer, len: PAGE_BYTES });
            }
            Err(error) => return Step::Done(Err(error)),
        };
        match &mut self.action {
            ExtentAction::Read { failed } => {
                let failed = failed.take();
                self.read(entry, failed)
            }
            ExtentAction::Write { .. } => self.write(),
            ExtentAction::Delete => {
                let deleted = self.file.delete(self.index);
                self.file.request_maintenance();
                Step::Done(deleted.map(Reply::Deleted))
            }
        }
    }

    fn page_loaded(
        &self,
        wanted: MissingPage,
        moved: std::io::Result<usize>,
        buffer: &Buffer,
    ) -> Result<(), StoreError> {
        moved.map_err(|error| self.file.context.io(error, "read the index of"))?;
        let mut bytes = Box::new([0; PAGE_BYTES]);
        bytes.copy_from_slice(&buffer[..PAGE_BYTES]);
        self.file.supply(wanted, bytes, Some(self.index))
    }

    fn read(
        &mut self,
        entry: Option<ExtentEntry>,
        failed: Option<(ExtentEntry, &'static str)>,
    ) -> Step {
        let Some(entry) = entry else {
            return Step::Done(Ok(Reply::Extent(None)));
        };
        match failed {
            // No other thread has replaced it since: the block itself is damaged.
            Some((tried, why)) if tried == entry => {
                return Step::Done(Err(self.file.context.damaged(Some(self.index), why)));
            }
            _ => {}
        }
        if let Some(extent) = self.file.cached(entry, self.caching) {
            return Step::Done(Ok(Reply::Extent(Some(extent))));
        }
        self.stage = ExtentStage::Reading(entry);
        let len = self.file.disk_bytes(entry.payload_bytes());
        let buffer = self.file.pool.get(len);
        let position = self.file.byte_position(entry.position);
        Step::Io(Io::Read { file: self.file.data.clone(), position, buffer, len })
    }

    fn was_read(
        &mut self,
        entry: ExtentEntry,
        moved: std::io::Result<usize>,
        buffer: Buffer,
    ) -> Step {
        let read = match moved {
            Ok(read) => read,
            Err(error) => return Step::Done(Err(self.failed(error, "read"))),
        };
        let subfile = self.file.context.subfile;
        match Extent::verify(buffer, read, subfile, self.index, entry) {
            Ok(extent) => {
                self.file.cache_extent(extent.clone(), entry, self.caching);
                Step::Done(Ok(Reply::Extent(Some(extent))))
            }
            Err((_, why)) => {
                self.action = ExtentAction::Read { failed: Some((entry, why)) };
                self.find()
            }
        }
    }

    fn write(&mut self) -> Step {
        let ExtentAction::Write { extent, attempts } = &mut self.action else {
            unreachable!("only writes write")
        };
        let payload_bytes = extent.as_ref().expect("written once").payload_bytes();
        let reservation = match self.file.try_reserve(self.index, payload_bytes, attempts) {
            Ok(ReserveOutcome::Reserved(reservation)) => reservation,
            Ok(ReserveOutcome::Blocked(prerequisite)) => return self.wait_for(prerequisite),
            Err(error) => return Step::Done(Err(error)),
        };
        let mut extent = extent.take().expect("written once");
        let entry = self.file.seal(&reservation, &mut extent);
        self.stage = ExtentStage::Writing(reservation, entry);
        let len = self.file.disk_bytes(entry.payload_bytes());
        let position = self.file.byte_position(entry.position);
        let buffer = extent.into_buffer();
        Step::Io(Io::Write { file: self.file.data.clone(), position, buffer, len })
    }

    /// Lets the engine wait for the prerequisite of a write, while the queue continues with others.
    fn wait_for(&mut self, prerequisite: Prerequisite) -> Step {
        self.stage = ExtentStage::Blocked;
        let file = self.file.clone();
        Step::Io(Io::Task(Box::new(move || file.satisfy(prerequisite))))
    }

    fn unblocked(&mut self, made: Result<(), StoreError>) -> Step {
        self.stage = ExtentStage::Finding;
        match made {
            Ok(()) => self.find(),
            Err(error) => Step::Done(Err(error)),
        }
    }

    fn was_written(
        &self,
        reservation: &Reservation,
        entry: ExtentEntry,
        moved: std::io::Result<usize>,
        buffer: Buffer,
    ) -> Result<Reply, StoreError> {
        if let Err(error) = moved {
            self.file.cancel(reservation);
            return Err(self.failed(error, "write"));
        }
        self.file.commit(reservation, entry, None)?;
        self.file.cache_extent(Extent::trusted(buffer, entry), entry, self.caching);
        self.file.request_maintenance();
        Ok(Reply::Written)
    }

    fn failed(&self, error: std::io::Error, action: &str) -> StoreError {
        let context = &self.file.context;
        context.disk.io(error, format!("{action} extent {} of {}", self.index, context.subfile))
    }
}
