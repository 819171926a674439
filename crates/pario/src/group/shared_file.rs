//! A file that all processes of a job have open together.

use std::sync::Arc;

use pario_proto::{
    AccessOrder, AccessRange, Call, CallKind, Interleaved, Mode, Pointer, Position, Seek, Transfer,
    View,
};
use parking_lot::Mutex;

use super::coordination::{Coordination, PendingRound, PlacedAccess, offset_of};
use super::started_access::AccessWorker;
use super::{Group, strange_answer};
use crate::error::Error;
use crate::file::File;

/// A file that all processes of a job have open together; made by [`Group::open`] and
/// [`Group::create`].
///
/// Its [`Mode`] says where each access goes and who waits for whom. Any number of threads may use it;
/// what they do counts as this process', in the order in which they do it.
///
/// In [`Mode::Unix`] accesses of the group that overlap never mix. Whoever uses [`SharedFile::file`],
/// or has opened the file by itself, is not waited for.
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// # let group = pario::Group::new(&cluster, "job", 1, 0)?;
/// use pario::{Mode, Seek};
///
/// let result = group.create("/result", Mode::Sync)?; // in the order of ranks, any sizes
/// result.write(b"my part")?;
/// result.seek(Seek::Start(0))?;
/// let mut bytes = [0; 7];
/// assert_eq!(result.read(&mut bytes)?, 7);
/// result.close()?;
/// # Ok(())
/// # }
/// ```
pub struct SharedFile {
    pub(super) inner: Arc<Inner>,
    is_closed: bool,
}

pub(super) struct Inner {
    coordination: Coordination,
    is_append: bool,
    state: Mutex<State>,
    /// The thread that does what was started.
    pub(super) worker: Mutex<Option<AccessWorker>>,
}

struct State {
    mode: Mode,
    /// How many calls this process has made in which all meet.
    rounds: u64,
    /// Where this process is, in modes with pointers of their own.
    pointer: u64,
    records: Interleaved,
}

/// An access that has its place, or waits for it.
pub(super) enum AccessTarget {
    /// It goes there.
    At(AccessRange),
    /// It goes there, and must not mix with others.
    Exclusive(AccessRange),
    /// The others must come first.
    Pending(PendingRound),
}

impl SharedFile {
    pub(super) fn new(
        coordination: Coordination,
        mode: Mode,
        is_append: bool,
    ) -> Result<Self, Error> {
        let group = coordination.group();
        let records = Interleaved::new(0, 0, group.rank(), group.size());
        let state = State { mode, rounds: 0, pointer: 0, records };
        let state = Mutex::new(state);
        let inner = Inner { coordination, is_append, state, worker: Mutex::default() };
        let shared = Self { inner: Arc::new(inner), is_closed: false };
        shared.inner.agree_on_end(0)?;
        Ok(shared)
    }

    /// The file as this process alone sees it: explicit offsets, sizes, records.
    pub fn file(&self) -> &File {
        self.inner.file()
    }

    /// The group that has it open.
    pub fn group(&self) -> &Group {
        self.inner.coordination.group()
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.inner.state.lock().mode
    }

    /// Changes the mode; all must call this with the same one. The pointers of all processes are
    /// then where the shared pointer is.
    pub fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        self.inner.set_mode(mode)
    }

    /// Reads where the mode says; fewer bytes than asked for only at the end of the file.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        if let Some(read) = self.inner.read_private(buffer) {
            return read;
        }
        let wanted = Transfer::read(buffer.len() as u64);
        let place = self.inner.place_access(wanted)?;
        self.inner.read_placed(place, buffer)
    }

    /// Writes all of a buffer where the mode says.
    pub fn write(&self, buffer: &[u8]) -> Result<(), Error> {
        let wanted = self.inner.write_of(buffer.len());
        let place = self.inner.place_access(wanted)?;
        self.inner.write_placed(place, buffer)
    }

    /// Moves the pointer, and says where it is then. In modes M_SYNC, M_RECORD and M_GLOBAL all must
    /// call this, and lead to the same place.
    pub fn seek(&self, seek: Seek) -> Result<u64, Error> {
        self.inner.seek(seek)
    }

    /// Where the pointer is.
    pub fn position(&self) -> Result<u64, Error> {
        self.inner.position()
    }

    /// Whether the pointer is at the end of the file, or beyond it.
    pub fn is_at_end(&self) -> Result<bool, Error> {
        Ok(self.inner.position()? >= self.inner.file().len()?)
    }

    /// How many bytes the file has.
    pub fn len(&self) -> Result<u64, Error> {
        self.inner.file().len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Makes everything durable that was written before.
    pub fn sync(&self) -> Result<(), Error> {
        self.inner.file().sync()
    }

    /// Closes it, and makes durable what this process has written. In modes other than M_UNIX and
    /// M_ASYNC all must call this.
    pub fn close(mut self) -> Result<(), Error> {
        // What was started is done before.
        let worker = self.inner.worker.lock().take();
        drop(worker);
        let durable = self.inner.file().make_durable();
        let closed = self.inner.close();
        // If the others have called something else, they are told that this one has left.
        self.is_closed = closed.is_ok();
        closed.and(durable)
    }
}

impl Inner {
    pub(super) fn file(&self) -> &File {
        &self.coordination.file
    }

    /// A write of so many bytes.
    pub(super) fn write_of(&self, len: usize) -> Transfer {
        Transfer { is_write: true, len: len as u64, is_append: self.is_append }
    }

    /// Gives an access its place, or begins to wait for it. Calls are numbered and made under one
    /// lock, so that they arrive in their order.
    pub(super) fn place_access(&self, wanted: Transfer) -> Result<AccessTarget, Error> {
        let mut state = self.state.lock();
        let axes = state.mode.axes();
        if state.mode.is_collective(CallKind::Transfer) {
            return Ok(AccessTarget::Pending(
                self.collective_call(&mut state, Call::Transfer(wanted))?,
            ));
        }
        self.coordination.record_call(&Call::Transfer(wanted));
        let placed = |placement| {
            if axes.is_atomic {
                AccessTarget::Exclusive(placement)
            } else {
                AccessTarget::At(placement)
            }
        };
        if axes.order == AccessOrder::FirstCome || (wanted.is_append && axes.view == View::Whole) {
            let placement = match self.coordination.transfer(wanted)? {
                Ok(placement) => placement,
                Err(round) if axes.pointer == Pointer::Shared => {
                    return Ok(AccessTarget::Pending(round));
                }
                Err(round) => match self.coordination.wait_placed(round)? {
                    PlacedAccess::Placed(placement) => placement,
                    _ => return Err(strange_answer()),
                },
            };
            state.pointer = placement.offset + placement.len;
            return Ok(placed(placement));
        }
        let placement = match axes.view {
            // The end of the file is seen by reading.
            View::Interleaved => state.records.place(wanted, u64::MAX),
            View::Whole => {
                let end = if wanted.is_write { 0 } else { self.file().len()? };
                let mut position = Position { offset: state.pointer, end };
                let placed = position.place(wanted);
                state.pointer = position.offset;
                placed
            }
        };
        let path = self.file().path();
        let placement = placement.map_err(|error| Error::invalid(format!("{path}: {error}")))?;
        Ok(placed(placement))
    }

    /// Reads where this process is, in modes with pointers of their own and the whole file in view:
    /// what was read says where the file ends, and nobody is asked.
    fn read_private(&self, buffer: &mut [u8]) -> Option<Result<usize, Error>> {
        let mut state = self.state.lock();
        let axes = state.mode.axes();
        if axes.pointer != Pointer::Private || axes.view != View::Whole {
            return None;
        }
        self.coordination.record_call(&Call::Transfer(Transfer::read(buffer.len() as u64)));
        let placement = AccessRange { offset: state.pointer, len: buffer.len() as u64 };
        let place = if axes.is_atomic {
            AccessTarget::Exclusive(placement)
        } else {
            AccessTarget::At(placement)
        };
        let read = self.read_placed(place, buffer);
        if let Ok(count) = read {
            state.pointer += count as u64;
        }
        Some(read)
    }

    /// Reads at a place, when it is known; what another rank has read for all is copied.
    pub(super) fn read_placed(
        &self,
        place: AccessTarget,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        let round = match place {
            AccessTarget::At(placement) => return self.read_at(placement, buffer),
            AccessTarget::Exclusive(placement) => {
                return self
                    .coordination
                    .exclusively(placement, false, || self.read_at(placement, buffer));
            }
            AccessTarget::Pending(round) => round,
        };
        match self.coordination.wait_placed(round)? {
            PlacedAccess::Placed(placement) => self.read_at(placement, buffer),
            PlacedAccess::Perform(placement, task) => {
                self.coordination.read_for_all(placement, task, buffer)
            }
            PlacedAccess::Performed(placement, task) => {
                self.coordination.read_by_other(placement, task, buffer)
            }
        }
    }

    /// Writes at a place, when it is known; not if another rank does it for all.
    pub(super) fn write_placed(&self, place: AccessTarget, buffer: &[u8]) -> Result<(), Error> {
        let write = |placement: AccessRange| self.file().write_at(buffer, placement.offset);
        let round = match place {
            AccessTarget::At(placement) => return write(placement),
            AccessTarget::Exclusive(placement) => {
                return self.coordination.exclusively(placement, true, || write(placement));
            }
            AccessTarget::Pending(round) => round,
        };
        match self.coordination.wait_placed(round)? {
            PlacedAccess::Placed(placement) => write(placement),
            PlacedAccess::Perform(placement, task) => {
                self.coordination.write_for_all(placement, task, buffer)
            }
            PlacedAccess::Performed(_, task) => self.coordination.written_by_other(task),
        }
    }

    fn read_at(&self, placement: AccessRange, buffer: &mut [u8]) -> Result<usize, Error> {
        let len = usize::try_from(placement.len).unwrap_or(usize::MAX).min(buffer.len());
        self.file().read_at(&mut buffer[..len], placement.offset)
    }

    fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        let round = self.collective_call(&mut self.state.lock(), Call::SetMode(mode))?;
        let offset = offset_of(self.coordination.wait_outcome(round)?)?;
        {
            let mut state = self.state.lock();
            state.mode = mode;
            state.pointer = offset;
        }
        self.agree_on_end(offset)
    }

    /// Records are appended where the file ended for all: nobody writes before all have looked.
    fn agree_on_end(&self, offset: u64) -> Result<(), Error> {
        let mut state = self.state.lock();
        let is_needed = self.is_append && state.mode.axes().view == View::Interleaved;
        let end = if is_needed { self.file().len()? } else { 0 };
        let group = self.coordination.group();
        state.records = Interleaved::new(offset, end, group.rank(), group.size());
        if is_needed {
            let round = self.collective_call(&mut state, Call::Barrier)?;
            drop(state);
            self.coordination.wait_outcome(round)?;
        }
        Ok(())
    }

    fn seek(&self, seek: Seek) -> Result<u64, Error> {
        let mut state = self.state.lock();
        let axes = state.mode.axes();
        if state.mode.is_collective(CallKind::Seek) {
            // A pointer of its own is only known here.
            let seek = match (axes.pointer, seek) {
                (Pointer::Private, Seek::Current(_)) => {
                    let position = Position { offset: state.records.base, end: 0 };
                    Seek::Start(self.target(position, seek)?)
                }
                (_, seek) => seek,
            };
            let round = self.collective_call(&mut state, Call::Seek(seek))?;
            drop(state);
            let offset = offset_of(self.coordination.wait_outcome(round)?)?;
            self.state.lock().records.base = offset;
            return Ok(offset);
        }
        self.coordination.record_call(&Call::Seek(seek));
        if axes.pointer == Pointer::Shared {
            return self.coordination.seek(seek);
        }
        let end = if matches!(seek, Seek::End(_)) { self.file().len()? } else { 0 };
        state.pointer = self.target(Position { offset: state.pointer, end }, seek)?;
        Ok(state.pointer)
    }

    fn target(&self, position: Position, seek: Seek) -> Result<u64, Error> {
        let path = self.file().path();
        position.target(seek).map_err(|error| Error::invalid(format!("{path}: {error}")))
    }

    fn position(&self) -> Result<u64, Error> {
        let state = self.state.lock();
        let axes = state.mode.axes();
        match (axes.pointer, axes.view) {
            (Pointer::Private, View::Whole) => Ok(state.pointer),
            (Pointer::Private, View::Interleaved) => Ok(state.records.base),
            (Pointer::Shared, _) => self.coordination.tell(),
        }
    }

    fn close(&self) -> Result<(), Error> {
        let coordination = {
            let mut state = self.state.lock();
            let number = state.mode.is_collective(CallKind::Close).then_some(state.rounds);
            state.rounds += 1;
            number
        };
        self.coordination.close(coordination)
    }

    fn collective_call(&self, state: &mut State, call: Call) -> Result<PendingRound, Error> {
        let round = self.coordination.collective_call(state.rounds, call)?;
        state.rounds += 1;
        Ok(round)
    }
}

impl Drop for SharedFile {
    /// One that was not closed: whoever waits for this process is told.
    fn drop(&mut self) {
        if !self.is_closed {
            self.inner.coordination.leave();
        }
    }
}

impl std::fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedFile({:?}, {})", self.inner.file().path().as_str(), self.mode())
    }
}
