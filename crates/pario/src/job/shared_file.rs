//! A file that all ranks of a job have open together.

use std::io::{self, SeekFrom};
use std::sync::Arc;

use pario_proto::{
    AccessOrder, AccessRange, Call, CallKind, Interleaved, Mode, Pointer, Position, Seek, Transfer,
    View,
};
use parking_lot::Mutex;

use super::coordination::{Coordination, PendingRound, PlacedAccess, offset_of};
use super::files::JobFiles;
use super::issued_accesses::{AccessIssuer, IssueTicket};
use super::job_opening::JobOpening;
use super::sequencer::{SequenceTicket, Sequencer};
use super::started_access::AccessWorkers;
use super::table_member::ShownRequest;
use crate::error::Error;
use crate::file::File;

/// A file that all ranks of a job have open together; made by [`JobFiles::open`] and
/// [`JobFiles::create`].
///
/// Its [`Mode`] decides where each access goes, and which calls are collective. Any number of
/// threads may use it; their calls count as calls of this rank, in the order in which they are
/// made.
///
/// In [`Mode::Unix`] accesses never mix with those of other processes that have the file open in
/// that mode: the ranks of the job, those of other jobs, and processes that have opened it alone
/// ([`OpenOptions::atomic`](crate::OpenOptions::atomic)). Between ranks of the job this does not
/// include accesses through [`SharedFile::file`].
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// # let files = pario::Job::new("job", 1, 0)?.files(&cluster);
/// use pario::Mode;
/// use std::io::SeekFrom;
///
/// let result = files.create("/result", Mode::Sync)?; // in the order of ranks, any sizes
/// result.write(b"my part")?;
/// result.seek(SeekFrom::Start(0))?;
/// let mut bytes = [0; 7];
/// assert_eq!(result.read(&mut bytes)?, 7);
/// result.close()?;
/// # Ok(())
/// # }
/// ```
pub struct SharedFile {
    pub(super) inner: Arc<Inner>,
    is_closed: bool,
    /// The open by one process of a job to which it belongs, if there is one.
    opening: Option<JobOpening>,
}

pub(super) struct Inner {
    coordination: Coordination,
    is_append: bool,
    state: Mutex<State>,
    /// The accesses of this process that are not over.
    issuer: AccessIssuer,
    /// Orders the accesses that rounds place by their rounds, until each is issued. A later call that
    /// is decided waits for them: they are decided too.
    placements: Sequencer,
    /// The threads that perform started accesses.
    pub(super) workers: Mutex<Option<AccessWorkers>>,
}

struct State {
    mode: Mode,
    /// The number of collective calls of this rank.
    rounds: u64,
    /// The pointer of this rank, in modes with private pointers.
    pointer: u64,
    records: Interleaved,
    /// A length that the file had when a read needed it: a read that ends before it needs no
    /// measurement, which would wait for accesses that the disks perform.
    known_end: u64,
}

/// The target of an access.
pub(super) enum AccessTarget {
    /// A range.
    At(AccessRange, IssueTicket),
    /// A range that no other rank may use at the same time.
    Exclusive(AccessRange, IssueTicket),
    /// A round that places the access.
    Pending(PendingRound, SequenceTicket),
}

impl SharedFile {
    pub(super) fn new(
        coordination: Coordination,
        mode: Mode,
        is_append: bool,
    ) -> Result<Self, Error> {
        let job = coordination.files().job();
        let records = Interleaved::new(0, 0, job.rank(), job.size());
        let state = State { mode, rounds: 0, pointer: 0, records, known_end: 0 };
        let state = Mutex::new(state);
        let issued = &coordination.files().cluster.shared.issued;
        let issuer = AccessIssuer::new(issued.of_file(coordination.file.record().id));
        let (placements, workers) = (Sequencer::default(), Mutex::default());
        let inner = Inner { coordination, is_append, state, issuer, placements, workers };
        let shared = Self { inner: Arc::new(inner), is_closed: false, opening: None };
        shared.inner.set_atomicity(mode)?;
        shared.inner.agree_on_end(0)?;
        Ok(shared)
    }

    /// The file as the result of an open by one process of a job.
    pub(super) fn with_opening(self, opening: JobOpening) -> Self {
        let mut file = self;
        file.opening = Some(opening);
        file
    }

    /// The file as this process alone sees it: explicit offsets, sizes, records.
    pub fn file(&self) -> &File {
        self.inner.file()
    }

    /// The files of the job to which it belongs.
    pub fn files(&self) -> &JobFiles {
        self.inner.coordination.files()
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.inner.state.lock().mode
    }

    /// Changes the mode; all ranks must call this with the same mode. The pointers of all ranks are
    /// then at the shared pointer.
    pub fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        self.inner.set_mode(mode)
    }

    /// Reads at the pointer of the mode. Returns fewer bytes than requested only at the end of the
    /// file.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        if let Some(read) = self.inner.read_private(buffer) {
            return read;
        }
        let transfer = Transfer::read(buffer.len() as u64);
        let target = self.inner.place_access(transfer)?;
        self.inner.read_placed(target, buffer)
    }

    /// Writes all of a buffer at the pointer of the mode.
    pub fn write(&self, buffer: &[u8]) -> Result<(), Error> {
        if let Some(appended) = self.inner.append_private(buffer) {
            return appended;
        }
        let transfer = self.inner.write_of(buffer.len());
        let target = self.inner.place_access(transfer)?;
        self.inner.write_placed(target, buffer)
    }

    /// Moves the pointer, and returns its new offset. In modes M_SYNC, M_RECORD and M_GLOBAL all
    /// ranks must call this, with the same target.
    pub fn seek(&self, seek: SeekFrom) -> Result<u64, Error> {
        self.inner.seek(seek.into())
    }

    /// The offset of the pointer.
    pub fn position(&self) -> Result<u64, Error> {
        self.inner.position()
    }

    /// Whether the pointer is at the end of the file, or beyond it.
    pub fn is_at_end(&self) -> Result<bool, Error> {
        Ok(self.inner.position()? >= self.len()?)
    }

    /// The length of the file in bytes. Writes of this process count from their start on.
    pub fn len(&self) -> Result<u64, Error> {
        self.inner.len()
    }

    /// The end of the writes of this process that are under way; 0 if there is none.
    pub fn issued_end(&self) -> u64 {
        self.inner.issuer.end()
    }

    /// Cuts or extends the file, after the accesses that this process has started. No pointer moves.
    pub fn set_len(&self, len: u64) -> Result<(), Error> {
        self.inner.issuer.wait_for_all();
        self.file().set_len(len)?;
        let mut state = self.inner.state.lock();
        state.known_end = 0;
        state.records.end = state.records.end.min(len);
        Ok(())
    }

    /// Reads at an offset, after the writes of this process that overlap. No pointer moves. Returns
    /// fewer bytes than requested only at the end of the file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        let target = self.inner.target_at(offset, buffer.len(), false);
        self.inner.read_placed(target, buffer)
    }

    /// Writes all of a buffer at an offset, after the accesses of this process that overlap. No
    /// pointer moves.
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> Result<(), Error> {
        let target = self.inner.target_at(offset, buffer.len(), true);
        self.inner.write_placed(target, buffer)
    }

    /// Takes part in a collective call of this kind that this rank cannot make, and says why: the
    /// call fails on all ranks, with this rank and the reason. Does nothing if the mode does not make
    /// such calls collective.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let files = pario::Job::new("job", 1, 0)?.files(&cluster);
    /// use pario::{CallKind, Mode};
    ///
    /// let file = files.create("/data", Mode::Sync)?;
    /// let input: Result<Vec<u8>, String> = Err("the sensor does not reply".to_owned());
    /// match input {
    ///     Ok(bytes) => file.write(&bytes)?,
    ///     Err(why) => file.fail_call(CallKind::Transfer, &why), // no rank waits for this one
    /// }
    /// file.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fail_call(&self, kind: CallKind, why: &str) {
        if let Some(round) = self.inner.fail_call(kind, why) {
            // The caller has its own error.
            let _ = self.inner.coordination.wait_outcome(round);
        }
    }

    /// Shows a request that this process has started in `pario status`, until the result is dropped.
    /// `id` is the program's own number of it. `None` if the ranks coordinate by messages: then only
    /// this process knows its requests.
    pub fn show_request(&self, id: u64, is_write: bool, len: u64) -> Option<ShownRequest> {
        self.inner.coordination.show_request(id, is_write, len)
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Makes all earlier writes durable.
    pub fn sync(&self) -> Result<(), Error> {
        self.inner.issuer.wait_for_all();
        self.inner.file().sync()
    }

    /// Closes the file, and makes the writes of this rank durable. In modes other than M_UNIX and
    /// M_ASYNC all ranks must call this.
    pub fn close(mut self) -> Result<(), Error> {
        // Waits for started accesses.
        let workers = self.inner.workers.lock().take();
        drop(workers);
        let durable = self.inner.file().make_durable();
        let closed = self.inner.close();
        // If the ranks disagree, the drop of this file makes this rank leave.
        self.is_closed = closed.is_ok();
        let ended = self.opening.take().map_or(Ok(()), JobOpening::close);
        closed.and(durable).and(ended)
    }
}

impl Inner {
    pub(super) fn file(&self) -> &File {
        &self.coordination.file
    }

    /// A write of `len` bytes.
    pub(super) fn write_of(&self, len: usize) -> Transfer {
        Transfer { is_write: true, len: len as u64, is_append: self.is_append }
    }

    /// Places an access, or starts the round that places it. Calls are numbered and made under one
    /// lock, so that they arrive in order.
    pub(super) fn place_access(&self, transfer: Transfer) -> Result<AccessTarget, Error> {
        let mut state = self.state.lock();
        let axes = state.mode.axes();
        if state.mode.is_collective(CallKind::Transfer) {
            let round = self.collective_call(&mut state, Call::Transfer(transfer))?;
            return Ok(AccessTarget::Pending(round, self.placements.next_ticket()));
        }
        self.coordination.record_call(&Call::Transfer(transfer));
        let placed = |range| self.issue(axes.is_atomic, range, transfer.is_write);
        if axes.order == AccessOrder::FirstCome {
            return Ok(match self.coordination.transfer(transfer)? {
                Ok(range) => placed(range),
                Err(round) => AccessTarget::Pending(round, self.placements.next_ticket()),
            });
        }
        let range = match axes.view {
            View::Interleaved => {
                let end = self.record_end(&mut state, transfer)?;
                state.records.place(transfer, end)
            }
            View::Whole => {
                let after = state.pointer.saturating_add(transfer.len);
                let end = self.known_end(&mut state, transfer, after)?;
                let mut position = Position { offset: state.pointer, end };
                let placed = position.place(transfer);
                state.pointer = position.offset;
                placed
            }
        };
        self.show_pointer(&state);
        let path = self.file().path();
        let range = range.map_err(|error| Error::invalid(format!("{path}: {error}")))?;
        Ok(placed(range))
    }

    /// Reads at the pointer of this rank, in modes with a private pointer and a view of the whole
    /// file. The read itself finds the end of the file, without a request to others.
    fn read_private(&self, buffer: &mut [u8]) -> Option<Result<usize, Error>> {
        let mut state = self.state.lock();
        let axes = state.mode.axes();
        if axes.pointer != Pointer::Private || axes.view != View::Whole {
            return None;
        }
        self.coordination.record_call(&Call::Transfer(Transfer::read(buffer.len() as u64)));
        let range = AccessRange { offset: state.pointer, len: buffer.len() as u64 };
        let target = self.issue(axes.is_atomic, range, false);
        let read = self.read_placed(target, buffer);
        if let Ok(count) = read {
            state.pointer += count as u64;
            if count < buffer.len() {
                // The file may have been cut.
                state.known_end = 0;
            }
            self.show_pointer(&state);
        }
        Some(read)
    }

    /// Appends at the end that the file has for all processes, in modes with a private pointer and
    /// a view of the whole file. The append is over when this returns.
    pub(super) fn append_private(&self, buffer: &[u8]) -> Option<Result<(), Error>> {
        if !self.appends_privately(self.state.lock().mode) {
            return None;
        }
        // The end that this process sees includes the writes that it has started.
        self.issuer.wait_for_all();
        let mut state = self.state.lock();
        let len = buffer.len() as u64;
        self.coordination.record_call(&Call::Transfer(Transfer::append(len)));
        let mut from = self.file().append_hint();
        loop {
            let range = AccessRange { offset: from, len: u64::MAX - from };
            let append = || self.file().append_beyond(buffer, from);
            match self.coordination.exclusively(range, true, append) {
                Ok(Ok(offset)) => {
                    state.pointer = offset + len;
                    self.show_pointer(&state);
                    return Some(Ok(()));
                }
                Ok(Err(end)) => from = end,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Whether each write goes to the end of the file, without a pointer that ranks share.
    fn appends_privately(&self, mode: Mode) -> bool {
        let axes = mode.axes();
        self.is_append && axes.pointer == Pointer::Private && axes.view == View::Whole
    }

    /// Makes accesses atomic for all processes that have the file open, if the mode demands it.
    fn set_atomicity(&self, mode: Mode) -> Result<(), Error> {
        if mode.axes().is_atomic || self.appends_privately(mode) {
            return self.file().begin_atomic(self.coordination.opener_group());
        }
        self.file().end_atomic();
        Ok(())
    }

    /// Issues an access to a range.
    fn issue(&self, is_atomic: bool, range: AccessRange, is_write: bool) -> AccessTarget {
        let ticket = self.issuer.issue(range, is_write);
        match is_atomic {
            true => AccessTarget::Exclusive(range, ticket),
            false => AccessTarget::At(range, ticket),
        }
    }

    /// Issues an access at an explicit offset.
    fn target_at(&self, offset: u64, len: usize, is_write: bool) -> AccessTarget {
        let is_atomic = self.state.lock().mode.axes().is_atomic;
        self.issue(is_atomic, AccessRange { offset, len: len as u64 }, is_write)
    }

    /// The end of the file for a read of records: the one that this process sees, or the end of the
    /// records that all ranks write together with those of this rank.
    fn record_end(&self, state: &mut State, transfer: Transfer) -> Result<u64, Error> {
        let after = state.records.end_of_all(transfer);
        let end = self.known_end(state, transfer, after)?;
        Ok(if transfer.is_write { 0 } else { end.max(state.records.end) })
    }

    /// An end of the file, for a read that is to end at `after`: measured if it is not known to be
    /// that large.
    fn known_end(&self, state: &mut State, transfer: Transfer, after: u64) -> Result<u64, Error> {
        if !transfer.is_write && after > state.known_end {
            state.known_end = self.len()?;
        }
        Ok(if transfer.is_write { 0 } else { state.known_end })
    }

    /// The length of the file, with the writes of this process that are under way.
    fn len(&self) -> Result<u64, Error> {
        // In this order: a write that ends in between counts at the disks.
        let issued = self.issuer.end();
        Ok(self.file().len()?.max(issued))
    }

    /// Reads at a target, once it is placed; copies the bytes if another rank reads for all.
    pub(super) fn read_placed(
        &self,
        target: AccessTarget,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        let (round, turn) = match target {
            AccessTarget::At(range, ticket) => {
                return self.read_in_order((range, &ticket), buffer, |buffer| {
                    self.read_range(range, buffer)
                });
            }
            AccessTarget::Exclusive(range, ticket) => {
                return self.read_in_order((range, &ticket), buffer, |buffer| {
                    let read = || self.read_range(range, buffer);
                    self.coordination.exclusively(range, false, read)
                });
            }
            AccessTarget::Pending(round, turn) => (round, turn),
        };
        match self.issue_placed(round, turn, false)? {
            (PlacedAccess::Placed(range), ticket) => {
                self.read_in_order((range, &ticket), buffer, |buffer| {
                    self.read_range(range, buffer)
                })
            }
            (PlacedAccess::Perform(range, task), ticket) => {
                ticket.wait();
                self.coordination.read_for_all(range, task, buffer)
            }
            (PlacedAccess::Performed(range, task), _ticket) => {
                self.coordination.read_by_other(range, task, buffer)
            }
        }
    }

    /// Writes at a target, once it is placed; does nothing if another rank writes for all.
    pub(super) fn write_placed(&self, target: AccessTarget, buffer: &[u8]) -> Result<(), Error> {
        let write = |range: AccessRange, ticket: &IssueTicket| {
            ticket.wait();
            self.file().write_at(buffer, range.offset)
        };
        let (round, turn) = match target {
            AccessTarget::At(range, ticket) => return write(range, &ticket),
            AccessTarget::Exclusive(range, ticket) => {
                ticket.wait();
                let write = || self.file().write_at(buffer, range.offset);
                return self.coordination.exclusively(range, true, write);
            }
            AccessTarget::Pending(round, turn) => (round, turn),
        };
        match self.issue_placed(round, turn, true)? {
            (PlacedAccess::Placed(range), ticket) => write(range, &ticket),
            (PlacedAccess::Perform(range, task), ticket) => {
                ticket.wait();
                self.coordination.write_for_all(range, task, buffer)
            }
            (PlacedAccess::Performed(_, task), _ticket) => self.coordination.written_by_other(task),
        }
    }

    /// Waits until a round has placed an access, and issues it: accesses are issued in the order of
    /// their rounds.
    fn issue_placed(
        &self,
        round: PendingRound,
        turn: SequenceTicket,
        is_write: bool,
    ) -> Result<(PlacedAccess, IssueTicket), Error> {
        let placed = self.coordination.wait_placed(round)?;
        turn.wait();
        let ticket = match &placed {
            PlacedAccess::Placed(range) => self.issuer.issue(*range, is_write),
            PlacedAccess::Perform(range, _) | PlacedAccess::Performed(range, _) => {
                self.issuer.issue_collective(*range, is_write)
            }
        };
        Ok((placed, ticket))
    }

    /// Reads after the earlier accesses of this process that conflict. Where the file ends, writes
    /// of this process that make it longer may be under way.
    fn read_in_order(
        &self,
        (range, ticket): (AccessRange, &IssueTicket),
        buffer: &mut [u8],
        mut read: impl FnMut(&mut [u8]) -> Result<usize, Error>,
    ) -> Result<usize, Error> {
        ticket.wait();
        let count = read(buffer)?;
        let is_short = (count as u64) < range.len.min(buffer.len() as u64);
        if is_short && ticket.wait_for_end_behind(range.offset + count as u64) {
            return read(buffer);
        }
        Ok(count)
    }

    fn read_range(&self, range: AccessRange, buffer: &mut [u8]) -> Result<usize, Error> {
        let len = usize::try_from(range.len).unwrap_or(usize::MAX).min(buffer.len());
        self.file().read_at(&mut buffer[..len], range.offset)
    }

    /// Makes a collective call of a kind that this rank cannot make, if it is collective in the mode.
    pub(super) fn fail_call(&self, kind: CallKind, why: &str) -> Option<PendingRound> {
        let mut state = self.state.lock();
        if !state.mode.is_collective(kind) {
            return None;
        }
        // If the other ranks cannot be reached, none of them waits for this one.
        self.collective_call(&mut state, Call::failed(why)).ok()
    }

    /// Waits for the outcome of a call that failed here.
    pub(super) fn wait_failed(&self, round: PendingRound) {
        let _ = self.coordination.wait_outcome(round);
    }

    fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        let (round, turn) = {
            let mut state = self.state.lock();
            let round = self.collective_call(&mut state, Call::SetMode(mode))?;
            (round, self.placements.next_ticket())
        };
        let offset = offset_of(self.coordination.wait_outcome(round)?)?;
        turn.wait();
        {
            let mut state = self.state.lock();
            state.mode = mode;
            state.pointer = offset;
        }
        self.set_atomicity(mode)?;
        self.agree_on_end(offset)
    }

    /// Records are appended at the same end on all ranks: no rank writes before all ranks have
    /// measured the file.
    fn agree_on_end(&self, offset: u64) -> Result<(), Error> {
        let mut state = self.state.lock();
        let is_needed = self.is_append && state.mode.axes().view == View::Interleaved;
        let measured = if is_needed { self.len() } else { Ok(0) };
        let end = match measured {
            Ok(end) => end,
            Err(error) => {
                let round = self.collective_call(&mut state, Call::failed(&error.to_string()))?;
                drop(state);
                self.wait_failed(round);
                return Err(error);
            }
        };
        state.known_end = 0;
        let job = self.coordination.files().job();
        state.records = Interleaved::new(offset, end, job.rank(), job.size());
        self.show_pointer(&state);
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
            // Only this process knows its private pointer.
            let seek = match (axes.pointer, seek) {
                (Pointer::Private, Seek::Current(_)) => {
                    let position = Position { offset: state.records.base, end: 0 };
                    match self.target(position, seek) {
                        Ok(offset) => Seek::Start(offset),
                        Err(error) => {
                            let why = error.to_string();
                            let round = self.collective_call(&mut state, Call::failed(&why))?;
                            drop(state);
                            self.wait_failed(round);
                            return Err(error);
                        }
                    }
                }
                // The disks know the end when the records of all ranks are there.
                (Pointer::Private, Seek::End(_)) => {
                    self.issuer.wait_for_all();
                    seek
                }
                (_, seek) => seek,
            };
            let round = self.collective_call(&mut state, Call::Seek(seek))?;
            let turn = self.placements.next_ticket();
            drop(state);
            let offset = offset_of(self.coordination.wait_outcome(round)?)?;
            turn.wait();
            let mut state = self.state.lock();
            state.records.base = offset;
            self.show_pointer(&state);
            return Ok(offset);
        }
        self.coordination.record_call(&Call::Seek(seek));
        if axes.pointer == Pointer::Shared {
            let turn = self.placements.next_ticket();
            let offset = self.coordination.seek(seek)?;
            turn.wait();
            return Ok(offset);
        }
        let end = if matches!(seek, Seek::End(_)) { self.len()? } else { 0 };
        state.pointer = self.target(Position { offset: state.pointer, end }, seek)?;
        self.show_pointer(&state);
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

    /// Shows the pointer of this rank in `pario status`, if only this process knows it.
    fn show_pointer(&self, state: &State) {
        let axes = state.mode.axes();
        self.coordination.show_pointer(match (axes.pointer, axes.view) {
            (Pointer::Private, View::Whole) => Some(state.pointer),
            (Pointer::Private, View::Interleaved) => Some(state.records.base),
            (Pointer::Shared, _) => None,
        });
    }

    fn close(&self) -> Result<(), Error> {
        let round = {
            let mut state = self.state.lock();
            let number = state.mode.is_collective(CallKind::Close).then_some(state.rounds);
            state.rounds += 1;
            number
        };
        self.coordination.close(round)
    }

    fn collective_call(&self, state: &mut State, call: Call) -> Result<PendingRound, Error> {
        let round = self.coordination.collective_call(state.rounds, call)?;
        state.rounds += 1;
        Ok(round)
    }
}

impl Drop for SharedFile {
    /// Drops a file that was not closed: collective calls of the other ranks fail.
    fn drop(&mut self) {
        if !self.is_closed {
            self.inner.coordination.leave();
        }
    }
}

/// Reads at the pointer of the mode; see [`SharedFile::read`].
impl io::Read for &SharedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(SharedFile::read(self, buffer)?)
    }
}

/// Writes at the pointer of the mode. Each call is one access, and so is each use of `write!` and
/// `writeln!`: lines of several ranks do not mix.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// # let job = pario::Job::new("job", 1, 0)?;
/// # let files = job.files(&cluster);
/// use std::io::Write;
///
/// let log = files.create("/log", pario::Mode::Log)?;
/// writeln!(&log, "rank {}: residual {:e}", job.rank(), 1e-9)?;
/// # Ok(())
/// # }
/// ```
impl io::Write for &SharedFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        SharedFile::write(self, buffer)?;
        Ok(buffer.len())
    }

    fn write_fmt(&mut self, arguments: std::fmt::Arguments<'_>) -> io::Result<()> {
        Ok(SharedFile::write(self, arguments.to_string().as_bytes())?)
    }

    /// Does nothing: no bytes are held back. [`sync`](SharedFile::sync) makes them durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for SharedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        io::Read::read(&mut &*self, buffer)
    }
}

impl io::Write for SharedFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut &*self, buffer)
    }

    fn write_fmt(&mut self, arguments: std::fmt::Arguments<'_>) -> io::Result<()> {
        io::Write::write_fmt(&mut &*self, arguments)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedFile({:?}, {})", self.inner.file().path().as_str(), self.mode())
    }
}
