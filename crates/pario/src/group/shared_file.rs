//! A file that all processes of a job have open together.

use std::sync::Arc;

use pario_net::Bulk;
use pario_proto::{
    AssemblyId, Call, Interleaved, Mode, Order, Outcome, Placement, Pointer, Position, Reply,
    Request, Seek, SharedCall, SharedRequest, Step, Transfer, View,
};
use parking_lot::Mutex;

use super::started::Hand;
use super::{Group, strange_answer};
use crate::connection::Waiting;
use crate::error::Error;
use crate::file::File;

/// A file that all processes of a job have open together; made by [`Group::open`] and
/// [`Group::create`].
///
/// Its [`Mode`] says where each access goes and who waits for whom. Any number of threads may use it;
/// what they do counts as this process', in the order in which they do it.
///
/// [`Mode::Unix`] does not lock so far: accesses that overlap can mix, as in [`Mode::Async`].
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
    group: Group,
    pub(super) file: File,
    assembly: AssemblyId,
    is_append: bool,
    state: Mutex<State>,
    /// The thread that does what was started.
    pub(super) hand: Mutex<Option<Hand>>,
}

struct State {
    mode: Mode,
    /// How many calls this process has made in which all meet.
    meetings: u64,
    /// Where this process is, in modes with pointers of their own.
    pointer: u64,
    records: Interleaved,
}

/// An access that has its place, or waits for it.
pub(super) enum Place {
    /// It goes there.
    At(Placement),
    /// The others must come first.
    When(Waiting),
}

impl SharedFile {
    pub(super) fn new(
        group: &Group,
        file: File,
        assembly: AssemblyId,
        mode: Mode,
        is_append: bool,
    ) -> Result<Self, Error> {
        let records = Interleaved::new(0, 0, group.rank(), group.size());
        let state = State { mode, meetings: 0, pointer: 0, records };
        let inner = Inner {
            group: group.clone(),
            file,
            assembly,
            is_append,
            state: Mutex::new(state),
            hand: Mutex::default(),
        };
        let shared = Self { inner: Arc::new(inner), is_closed: false };
        shared.inner.agree_on_end(0)?;
        Ok(shared)
    }

    /// The file as this process alone sees it: explicit offsets, sizes, records.
    pub fn file(&self) -> &File {
        &self.inner.file
    }

    /// The group that has it open.
    pub fn group(&self) -> &Group {
        &self.inner.group
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
        if let Some(read) = self.inner.read_alone(buffer) {
            return read;
        }
        let wanted = Transfer::read(buffer.len() as u64);
        let (place, number) = self.inner.place(wanted)?;
        self.inner.read_placed(place, number, buffer)
    }

    /// Writes all of a buffer where the mode says.
    pub fn write(&self, buffer: &[u8]) -> Result<(), Error> {
        let wanted = self.inner.write_of(buffer.len());
        let (place, number) = self.inner.place(wanted)?;
        self.inner.write_placed(place, number, buffer)
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
        Ok(self.inner.position()? >= self.inner.file.len()?)
    }

    /// How many bytes the file has.
    pub fn len(&self) -> Result<u64, Error> {
        self.inner.file.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Makes everything durable that was written before.
    pub fn sync(&self) -> Result<(), Error> {
        self.inner.file.sync()
    }

    /// Closes it, and makes durable what this process has written. In modes other than M_UNIX and
    /// M_ASYNC all must call this.
    pub fn close(mut self) -> Result<(), Error> {
        // What was started is done before.
        let hand = self.inner.hand.lock().take();
        drop(hand);
        let durable = self.inner.file.make_durable();
        self.is_closed = true;
        self.inner.close().and(durable)
    }
}

impl Inner {
    /// A write of so many bytes.
    pub(super) fn write_of(&self, len: usize) -> Transfer {
        Transfer { is_write: true, len: len as u64, is_append: self.is_append }
    }

    /// Gives an access its place, or begins to wait for it. Calls are numbered and sent under one
    /// lock, so that they arrive in their order.
    pub(super) fn place(&self, wanted: Transfer) -> Result<(Place, u64), Error> {
        let mut state = self.state.lock();
        let axes = state.mode.axes();
        if state.mode.meets_in(Step::Transfer) {
            let number = state.meetings;
            let waiting = self.meet(&mut state, Call::Transfer(wanted))?;
            return Ok((Place::When(waiting), number));
        }
        if axes.order == Order::FirstCome || (wanted.is_append && axes.view == View::Whole) {
            let waiting = self.ask(SharedCall::Transfer(wanted), Vec::new())?;
            if axes.pointer == Pointer::Shared {
                return Ok((Place::When(waiting), 0));
            }
            let placement = placed(waiting.wait()?.0)?;
            state.pointer = placement.offset + placement.len;
            return Ok((Place::At(placement), 0));
        }
        let placement = match axes.view {
            // The end of the file is seen by reading.
            View::Interleaved => state.records.place(wanted, u64::MAX),
            View::Whole => {
                let end = if wanted.is_write { 0 } else { self.file.len()? };
                let mut position = Position { offset: state.pointer, end };
                let placed = position.place(wanted);
                state.pointer = position.offset;
                placed
            }
        };
        let path = self.file.path();
        let placement = placement.map_err(|error| Error::invalid(format!("{path}: {error}")))?;
        Ok((Place::At(placement), 0))
    }

    /// Reads where this process is, in modes with pointers of their own and the whole file in view:
    /// what was read says where the file ends, and nobody is asked.
    fn read_alone(&self, buffer: &mut [u8]) -> Option<Result<usize, Error>> {
        let mut state = self.state.lock();
        let axes = state.mode.axes();
        if axes.pointer != Pointer::Private || axes.view != View::Whole {
            return None;
        }
        let read = self.file.read_at(buffer, state.pointer);
        if let Ok(count) = read {
            state.pointer += count as u64;
        }
        Some(read)
    }

    /// Reads at a place, when it is known; what another rank has read for all is copied.
    pub(super) fn read_placed(
        &self,
        place: Place,
        number: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        let waiting = match place {
            Place::At(placement) => return self.read_at(placement, buffer),
            Place::When(waiting) => waiting,
        };
        match waiting.wait()? {
            (Reply::Shared(Outcome::Placed(placement)), _) => self.read_at(placement, buffer),
            (Reply::Shared(Outcome::Perform { placement, .. }), _) => {
                let read = self.read_at(placement, buffer);
                let data = match &read {
                    Ok(count) => vec![Bulk::from(buffer[..*count].to_vec())],
                    Err(_) => Vec::new(),
                };
                self.report(number, read.as_ref().map(|count| *count as u64), data)?;
                read
            }
            (Reply::Shared(Outcome::Performed { placement, .. }), data) => {
                let count = usize::try_from(placement.len).unwrap_or(usize::MAX);
                let data = data.first().map(|bulk| &bulk[..]).unwrap_or_default();
                if data.len() != count || count > buffer.len() {
                    return Err(strange_answer());
                }
                buffer[..count].copy_from_slice(data);
                Ok(count)
            }
            _ => Err(strange_answer()),
        }
    }

    /// Writes at a place, when it is known; not if another rank has done it for all.
    pub(super) fn write_placed(
        &self,
        place: Place,
        number: u64,
        buffer: &[u8],
    ) -> Result<(), Error> {
        let waiting = match place {
            Place::At(placement) => return self.file.write_at(buffer, placement.offset),
            Place::When(waiting) => waiting,
        };
        match waiting.wait()?.0 {
            Reply::Shared(Outcome::Placed(placement)) => {
                self.file.write_at(buffer, placement.offset)
            }
            Reply::Shared(Outcome::Perform { placement, .. }) => {
                let written = self.file.write_at(buffer, placement.offset);
                self.report(number, written.as_ref().map(|()| placement.len), Vec::new())?;
                written
            }
            Reply::Shared(Outcome::Performed { .. }) => Ok(()),
            _ => Err(strange_answer()),
        }
    }

    fn read_at(&self, placement: Placement, buffer: &mut [u8]) -> Result<usize, Error> {
        let len = usize::try_from(placement.len).unwrap_or(usize::MAX).min(buffer.len());
        self.file.read_at(&mut buffer[..len], placement.offset)
    }

    /// Tells what came of an access that this rank has done for all.
    fn report(&self, number: u64, done: Result<u64, &Error>, data: Vec<Bulk>) -> Result<(), Error> {
        let done = done.map_err(ToString::to_string);
        self.ask(SharedCall::Performed { number, done }, data)?.wait().map(|_| ())
    }

    fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        let waiting = self.meet(&mut self.state.lock(), Call::SetMode(mode))?;
        let offset = at(waiting.wait()?.0)?;
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
        let end = if is_needed { self.file.len()? } else { 0 };
        state.records = Interleaved::new(offset, end, self.group.rank(), self.group.size());
        if is_needed {
            let waiting = self.meet(&mut state, Call::Barrier)?;
            drop(state);
            waiting.wait()?;
        }
        Ok(())
    }

    fn seek(&self, seek: Seek) -> Result<u64, Error> {
        let mut state = self.state.lock();
        let axes = state.mode.axes();
        if state.mode.meets_in(Step::Seek) {
            // A pointer of its own is only known here.
            let seek = match (axes.pointer, seek) {
                (Pointer::Private, Seek::Current(_)) => {
                    let position = Position { offset: state.records.base, end: 0 };
                    Seek::Start(self.target(position, seek)?)
                }
                (_, seek) => seek,
            };
            let waiting = self.meet(&mut state, Call::Seek(seek))?;
            drop(state);
            let offset = at(waiting.wait()?.0)?;
            self.state.lock().records.base = offset;
            return Ok(offset);
        }
        if axes.pointer == Pointer::Shared {
            return at(self.ask(SharedCall::Seek(seek), Vec::new())?.wait()?.0);
        }
        let end = if matches!(seek, Seek::End(_)) { self.file.len()? } else { 0 };
        state.pointer = self.target(Position { offset: state.pointer, end }, seek)?;
        Ok(state.pointer)
    }

    fn target(&self, position: Position, seek: Seek) -> Result<u64, Error> {
        let path = self.file.path();
        position.target(seek).map_err(|error| Error::invalid(format!("{path}: {error}")))
    }

    fn position(&self) -> Result<u64, Error> {
        let state = self.state.lock();
        let axes = state.mode.axes();
        match (axes.pointer, axes.view) {
            (Pointer::Private, View::Whole) => Ok(state.pointer),
            (Pointer::Private, View::Interleaved) => Ok(state.records.base),
            (Pointer::Shared, _) => at(self.ask(SharedCall::Tell, Vec::new())?.wait()?.0),
        }
    }

    fn close(&self) -> Result<(), Error> {
        let waiting = {
            let mut state = self.state.lock();
            if state.mode.meets_in(Step::Close) {
                self.meet(&mut state, Call::Close)?
            } else {
                self.ask(SharedCall::Close, Vec::new())?
            }
        };
        waiting.wait().map(|_| ())
    }

    fn meet(&self, state: &mut State, call: Call) -> Result<Waiting, Error> {
        let number = state.meetings;
        let waiting = self.ask(SharedCall::Meet { number, call }, Vec::new())?;
        state.meetings += 1;
        Ok(waiting)
    }

    fn tell(&self, call: SharedCall) {
        let request = SharedRequest { assembly: self.assembly, call };
        self.group.cluster.shared.interface().tell(Request::Shared(request));
    }

    fn ask(&self, call: SharedCall, data: Vec<Bulk>) -> Result<Waiting, Error> {
        let request = SharedRequest { assembly: self.assembly, call };
        self.group.start(Request::Shared(request), data)
    }
}

fn placed(reply: Reply) -> Result<Placement, Error> {
    match reply {
        Reply::Shared(Outcome::Placed(placement)) => Ok(placement),
        _ => Err(strange_answer()),
    }
}

fn at(reply: Reply) -> Result<u64, Error> {
    match reply {
        Reply::Shared(Outcome::At(offset)) => Ok(offset),
        _ => Err(strange_answer()),
    }
}

impl Drop for SharedFile {
    /// One that was not closed: whoever waits for this process is told.
    fn drop(&mut self) {
        if !self.is_closed {
            self.inner.tell(SharedCall::Leave);
        }
    }
}

impl std::fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedFile({:?}, {})", self.inner.file.path().as_str(), self.mode())
    }
}
