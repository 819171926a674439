//! A request on its way: what it has to do next, and what became of the step before.

use std::sync::Arc;

use super::engine::{Io, IoDone};
use super::{Answer, Request};
use crate::buffer::Buffer;
use crate::error::StoreError;
use crate::extents::{
    Caching, Entry, Extent, ExtentBuffer, Found, Need, Patience, Reservation, Room, Shared,
};
use crate::flat::{FlatFile, FlatShared};
use crate::index::{PAGE_BYTES, PageWanted};

/// What an operation wants now.
pub(crate) enum Step {
    /// Something of the engine.
    Io(Io),
    /// Nothing more.
    Done(Result<Answer, StoreError>),
}

/// A request with the step it has reached.
pub(crate) enum Operation {
    Extent(ExtentOperation),
    ReadFlat(Arc<FlatShared>),
    WriteFlat(Arc<FlatShared>),
    Sync,
    /// Finished before it needed the engine.
    Settled,
}

pub(crate) struct ExtentOperation {
    file: Arc<Shared>,
    index: u64,
    caching: Caching,
    aim: Aim,
    stage: Stage,
}

enum Aim {
    Read { failed: Option<(Entry, &'static str)> },
    Write { extent: Option<ExtentBuffer>, patience: Patience },
    Delete,
}

enum Stage {
    Finding,
    LoadingPage(PageWanted),
    Reading(Entry),
    /// A write waits for what there is no room without.
    MakingRoom,
    Writing(Reservation, Entry),
}

impl Operation {
    /// Begins a request; the answer is the operation and what it wants first.
    pub(crate) fn begin(request: Request) -> (Self, Step) {
        match request {
            Request::ReadExtent { file, index, caching } => {
                let aim = Aim::Read { failed: None };
                ExtentOperation::begin(file.shared, index, caching, aim)
            }
            Request::WriteExtent { file, index, extent, caching } => {
                let aim = Aim::Write { extent: Some(extent), patience: Patience::default() };
                ExtentOperation::begin(file.shared, index, caching, aim)
            }
            Request::DeleteExtent { file, index } => {
                ExtentOperation::begin(file.shared, index, Caching::Use, Aim::Delete)
            }
            Request::SyncExtents { file } => {
                (Self::Sync, Step::Io(Io::Task(Box::new(move || file.sync()))))
            }
            Request::SyncFlat { file } => {
                (Self::Sync, Step::Io(Io::Task(Box::new(move || file.sync()))))
            }
            Request::ReadFlat { file, offset, buffer, len } => {
                let len = len.min(buffer.len());
                let step = file.shared.position(offset, len as u64).map(|position| Io::Read {
                    file: file.shared.file.clone(),
                    position,
                    buffer,
                    len,
                });
                (Self::ReadFlat(file.shared), step.into())
            }
            Request::WriteFlat { file, offset, buffer, len } => {
                Self::write_flat(file, offset, buffer, len)
            }
        }
    }

    fn write_flat(file: FlatFile, offset: u64, buffer: Buffer, len: usize) -> (Self, Step) {
        let shared = file.shared;
        let len = len.min(buffer.len());
        let step = shared
            .check_writable("write to")
            .and_then(|()| shared.position(offset, len as u64))
            .map(|position| Io::Write { file: shared.file.clone(), position, buffer, len });
        (Self::WriteFlat(shared), step.into())
    }

    /// Takes what became of the last step.
    pub(crate) fn resume(&mut self, done: IoDone) -> Step {
        match (self, done) {
            (Self::Extent(operation), IoDone::Moved(moved, buffer)) => {
                operation.resume(moved, buffer)
            }
            (Self::ReadFlat(file), IoDone::Moved(moved, buffer)) => Step::Done(match moved {
                Ok(len) => Ok(Answer::Read { buffer, len }),
                Err(error) => Err(file.place.io(error, "reading")),
            }),
            (Self::WriteFlat(file), IoDone::Moved(moved, _)) => Step::Done(match moved {
                Ok(_) => Ok(Answer::Written),
                Err(error) => Err(file.place.io(error, "writing")),
            }),
            (Self::Extent(operation), IoDone::Ran(ran)) => operation.room_was_made(ran),
            (Self::Sync, IoDone::Ran(ran)) => Step::Done(ran.map(|()| Answer::Synced)),
            _ => unreachable!("an engine answers what it was asked"),
        }
    }
}

impl From<Result<Io, StoreError>> for Step {
    fn from(io: Result<Io, StoreError>) -> Self {
        io.map_or_else(|error| Self::Done(Err(error)), Self::Io)
    }
}

impl ExtentOperation {
    fn begin(file: Arc<Shared>, index: u64, caching: Caching, aim: Aim) -> (Operation, Step) {
        if let Err(error) = Shared::check_index(index) {
            return (Operation::Settled, Step::Done(Err(error)));
        }
        let mut operation = Self { file, index, caching, aim, stage: Stage::Finding };
        let step = operation.find();
        (Operation::Extent(operation), step)
    }

    fn resume(&mut self, moved: std::io::Result<usize>, buffer: Buffer) -> Step {
        match std::mem::replace(&mut self.stage, Stage::Finding) {
            Stage::LoadingPage(wanted) => match self.page_loaded(wanted, moved, &buffer) {
                Ok(()) => self.find(),
                Err(error) => Step::Done(Err(error)),
            },
            Stage::Reading(entry) => self.was_read(entry, moved, buffer),
            Stage::Writing(reservation, entry) => {
                Step::Done(self.was_written(&reservation, entry, moved, buffer))
            }
            Stage::Finding | Stage::MakingRoom => unreachable!("no bytes are moved for these"),
        }
    }

    /// Looks the extent up, and goes on with what that makes possible.
    fn find(&mut self) -> Step {
        let entry = match self.file.find(self.index) {
            Ok(Found::At(entry)) => Some(entry),
            Ok(Found::Absent) => None,
            Ok(Found::Wants(wanted)) => {
                self.stage = Stage::LoadingPage(wanted);
                let buffer = self.file.pool.get(PAGE_BYTES);
                let (file, position) = (self.file.index_file.clone(), wanted.position());
                return Step::Io(Io::Read { file, position, buffer, len: PAGE_BYTES });
            }
            Err(error) => return Step::Done(Err(error)),
        };
        match &mut self.aim {
            Aim::Read { failed } => {
                let failed = failed.take();
                self.read(entry, failed)
            }
            Aim::Write { .. } => self.write(),
            Aim::Delete => {
                let deleted = self.file.delete(self.index);
                self.file.after_change();
                Step::Done(deleted.map(Answer::Deleted))
            }
        }
    }

    fn page_loaded(
        &self,
        wanted: PageWanted,
        moved: std::io::Result<usize>,
        buffer: &Buffer,
    ) -> Result<(), StoreError> {
        moved.map_err(|error| self.file.place.io(error, "reading the index"))?;
        let mut bytes = Box::new([0; PAGE_BYTES]);
        bytes.copy_from_slice(&buffer[..PAGE_BYTES]);
        self.file.supply(wanted, bytes, Some(self.index))
    }

    fn read(&mut self, entry: Option<Entry>, failed: Option<(Entry, &'static str)>) -> Step {
        let Some(entry) = entry else {
            return Step::Done(Ok(Answer::Extent(None)));
        };
        match failed {
            // Nobody has replaced it meanwhile: what was read is what there is.
            Some((tried, why)) if tried == entry => {
                return Step::Done(Err(self.file.place.damaged(Some(self.index), why)));
            }
            _ => {}
        }
        if let Some(extent) = self.file.cached(entry, self.caching) {
            return Step::Done(Ok(Answer::Extent(Some(extent))));
        }
        self.stage = Stage::Reading(entry);
        let len = self.file.disk_bytes(entry.payload_bytes());
        let buffer = self.file.pool.get(len);
        let position = self.file.byte_position(entry.position);
        Step::Io(Io::Read { file: self.file.data.clone(), position, buffer, len })
    }

    fn was_read(&mut self, entry: Entry, moved: std::io::Result<usize>, buffer: Buffer) -> Step {
        let read = match moved {
            Ok(read) => read,
            Err(error) => return Step::Done(Err(self.failed(error, "read"))),
        };
        let subfile = self.file.place.subfile;
        match Extent::verify(buffer, read, subfile, self.index, entry) {
            Ok(extent) => {
                self.file.keep(extent.clone(), entry, self.caching);
                Step::Done(Ok(Answer::Extent(Some(extent))))
            }
            Err((_, why)) => {
                self.aim = Aim::Read { failed: Some((entry, why)) };
                self.find()
            }
        }
    }

    fn write(&mut self) -> Step {
        let Aim::Write { extent, patience } = &mut self.aim else {
            unreachable!("only writes write")
        };
        let payload_bytes = extent.as_ref().expect("written once").payload_bytes();
        let reservation = match self.file.try_reserve(self.index, payload_bytes, patience) {
            Ok(Room::At(reservation)) => reservation,
            Ok(Room::After(need)) => return self.make_room(need),
            Err(error) => return Step::Done(Err(error)),
        };
        let mut extent = extent.take().expect("written once");
        let entry = self.file.seal(&reservation, &mut extent);
        self.stage = Stage::Writing(reservation, entry);
        let len = self.file.disk_bytes(entry.payload_bytes());
        let position = self.file.byte_position(entry.position);
        let buffer = extent.into_buffer();
        Step::Io(Io::Write { file: self.file.data.clone(), position, buffer, len })
    }

    /// Has the engine wait for what a write needs: the queue goes on with others.
    fn make_room(&mut self, need: Need) -> Step {
        self.stage = Stage::MakingRoom;
        let file = self.file.clone();
        Step::Io(Io::Task(Box::new(move || file.fulfil(need))))
    }

    fn room_was_made(&mut self, made: Result<(), StoreError>) -> Step {
        self.stage = Stage::Finding;
        match made {
            Ok(()) => self.find(),
            Err(error) => Step::Done(Err(error)),
        }
    }

    fn was_written(
        &self,
        reservation: &Reservation,
        entry: Entry,
        moved: std::io::Result<usize>,
        buffer: Buffer,
    ) -> Result<Answer, StoreError> {
        if let Err(error) = moved {
            self.file.cancel(reservation);
            return Err(self.failed(error, "write"));
        }
        self.file.commit(reservation, entry, None)?;
        self.file.keep(Extent::trusted(buffer, entry), entry, self.caching);
        self.file.after_change();
        Ok(Answer::Written)
    }

    fn failed(&self, error: std::io::Error, action: &str) -> StoreError {
        let place = &self.file.place;
        place.disk.io(error, format!("{action} extent {} of {}", self.index, place.subfile))
    }
}
