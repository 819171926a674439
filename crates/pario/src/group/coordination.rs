//! How the processes of a shared file meet: in memory that they have in common, if all of them are
//! on the machine of the node; otherwise by asking the node. Both give the same.

use std::sync::OnceLock;

use pario_net::Bulk;
use pario_proto::{
    AccessRange, BytesUse, Call, CallOutcome, CollectiveError, Reply, Request, Seek, SharedCall,
    SharedFileId, SharedRequest, TableLocation, Transfer,
};
use parking_lot::Mutex;

use super::sequencer::{SequenceTicket, Sequencer};
use super::table_member::TableMember;
use super::{Group, strange_answer};
use crate::connection::Waiting;
use crate::error::Error;
use crate::file::File;

/// Where the processes of a shared file meet, as one of them sees it.
pub(super) struct Coordination {
    group: Group,
    pub file: File,
    shared_file: SharedFileId,
    /// If all have memory in common: where in it, and it is had when it is first needed.
    table: Option<(TableLocation, OnceLock<TableMember>)>,
    /// What one does for all is received in the order of rounds.
    sequencer: Sequencer,
    /// Held while this process has bytes for itself; how often it has wanted some.
    ranges: Mutex<u64>,
}

/// A call whose outcome can be waited for.
pub(super) enum PendingRound {
    /// The node will answer.
    AtNode(Waiting),
    /// It is decided at the table.
    TableMember { number: u64, ticket: SequenceTicket },
}

/// Where an access goes that was waited for.
pub(super) enum PlacedAccess {
    /// There.
    Placed(AccessRange),
    /// There, and this rank does it for all.
    Perform(AccessRange, PerformTask),
    /// Another rank does it for all, or has done it.
    Performed(AccessRange, PerformTask),
}

/// What one rank does for all.
pub(super) enum PerformTask {
    /// The node is told, or has told: bytes that were read.
    AtNode { number: u64, data: Vec<Bulk> },
    /// By way of the table.
    TableMember { number: u64, ticket: SequenceTicket },
}

impl Coordination {
    pub fn new(
        group: &Group,
        file: File,
        shared_file: SharedFileId,
        table: Option<TableLocation>,
    ) -> Self {
        Self {
            group: group.clone(),
            file,
            shared_file,
            table: table.map(|place| (place, OnceLock::new())),
            sequencer: Sequencer::default(),
            ranges: Mutex::new(0),
        }
    }

    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Makes a call in which all meet.
    pub fn collective_call(&self, number: u64, call: Call) -> Result<PendingRound, Error> {
        let Some(table) = self.table()? else {
            return Ok(PendingRound::AtNode(
                self.request(SharedCall::Collective { number, call })?,
            ));
        };
        table.call(number, &call, || self.measure()).map_err(|error| self.error(error))?;
        Ok(PendingRound::TableMember { number, ticket: self.sequencer.next_ticket() })
    }

    /// Notes for people a call of this rank that the others do not take part in.
    pub fn record_call(&self, call: &Call) {
        if let Ok(Some(table)) = self.table() {
            table.record_call(call, "");
        }
    }

    /// Notes for people, in the table of the job, that this rank closes the file: that of the file
    /// will be gone.
    fn record_close(&self) {
        let Some((place, _)) = &self.table else { return };
        let job_memory = self.group.job_memory(place.memory);
        if let Ok(job) =
            job_memory.and_then(|job_memory| TableMember::new(job_memory, 0, self.group.rank()))
        {
            job.record_call(&Call::Close, self.file.path().as_str());
        }
    }

    /// Waits for what came of a call that moves no bytes.
    pub fn wait_outcome(&self, round: PendingRound) -> Result<CallOutcome, Error> {
        match round {
            PendingRound::AtNode(waiting) => match waiting.wait()?.0 {
                Reply::Shared(outcome) => Ok(outcome),
                _ => Err(strange_answer()),
            },
            PendingRound::TableMember { number, .. } => match self.table()? {
                Some(table) => table.outcome(number).map_err(|error| self.error(error)),
                None => Err(strange_answer()),
            },
        }
    }

    /// Waits for the place of an access.
    pub fn wait_placed(&self, round: PendingRound) -> Result<PlacedAccess, Error> {
        let (outcome, task) = match round {
            PendingRound::AtNode(waiting) => match waiting.wait()? {
                (Reply::Shared(outcome), data) => {
                    let number = match &outcome {
                        CallOutcome::Perform { number, .. } => *number,
                        _ => 0,
                    };
                    (outcome, PerformTask::AtNode { number, data })
                }
                _ => return Err(strange_answer()),
            },
            PendingRound::TableMember { number, ticket } => match self.table()? {
                Some(table) => {
                    let outcome = table.outcome(number).map_err(|error| self.error(error))?;
                    (outcome, PerformTask::TableMember { number, ticket })
                }
                None => return Err(strange_answer()),
            },
        };
        match outcome {
            CallOutcome::Placed(placement) => Ok(PlacedAccess::Placed(placement)),
            CallOutcome::Perform { placement, .. } => Ok(PlacedAccess::Perform(placement, task)),
            CallOutcome::Performed { placement, .. } => {
                Ok(PlacedAccess::Performed(placement, task))
            }
            CallOutcome::Done | CallOutcome::At(_) => Err(strange_answer()),
        }
    }

    /// Reads for all.
    pub fn read_for_all(
        &self,
        placement: AccessRange,
        task: PerformTask,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        let buffer = cut(buffer, placement);
        match task {
            PerformTask::AtNode { number, .. } => {
                let read = self.file.read_at(buffer, placement.offset);
                let count = read.as_ref().map_or(0, |count| *count);
                self.report(number, read.as_ref().map(|count| *count as u64), &buffer[..count])?;
                read
            }
            PerformTask::TableMember { number, ticket } => {
                ticket.wait();
                let table = self.table()?.ok_or_else(strange_answer)?;
                let mut failed = None;
                let given = table.broadcast_read(number, buffer, |from, piece| {
                    self.file.read_at(piece, placement.offset + from).map_err(|error| {
                        let why = error.to_string();
                        failed = Some(error);
                        why
                    })
                });
                match (given.map_err(|error| self.error(error))?, failed) {
                    (Ok(count), _) => Ok(count),
                    (Err(_), Some(error)) => Err(error),
                    (Err(why), None) => Err(Error::other(why)),
                }
            }
        }
    }

    /// Takes what another rank has read for all.
    pub fn read_by_other(
        &self,
        placement: AccessRange,
        task: PerformTask,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        match task {
            PerformTask::AtNode { data, .. } => {
                let count = usize::try_from(placement.len).unwrap_or(usize::MAX);
                let data = data.first().map(|bulk| &bulk[..]).unwrap_or_default();
                if data.len() != count || count > buffer.len() {
                    return Err(strange_answer());
                }
                buffer[..count].copy_from_slice(data);
                Ok(count)
            }
            PerformTask::TableMember { number, ticket } => {
                ticket.wait();
                let table = self.table()?.ok_or_else(strange_answer)?;
                table
                    .receive_read(number, cut(buffer, placement))
                    .map_err(|error| self.error(error))
            }
        }
    }

    /// Writes for all.
    pub fn write_for_all(
        &self,
        placement: AccessRange,
        task: PerformTask,
        buffer: &[u8],
    ) -> Result<(), Error> {
        let write = || self.file.write_at(buffer, placement.offset);
        match task {
            PerformTask::AtNode { number, .. } => {
                let written = write();
                self.report(number, written.as_ref().map(|()| placement.len), &[])?;
                written
            }
            PerformTask::TableMember { number, ticket } => {
                ticket.wait();
                let table = self.table()?.ok_or_else(strange_answer)?;
                let written = write();
                let done = written.as_ref().map(|()| placement.len).map_err(ToString::to_string);
                table.report_performed(number, &done).map_err(|error| self.error(error))?;
                written
            }
        }
    }

    /// Waits until another rank has written for all.
    pub fn written_by_other(&self, task: PerformTask) -> Result<(), Error> {
        match task {
            // The node answers when it is done.
            PerformTask::AtNode { .. } => Ok(()),
            PerformTask::TableMember { number, ticket } => {
                ticket.wait();
                let table = self.table()?.ok_or_else(strange_answer)?;
                table.wait_performed(number).map(|_| ()).map_err(|error| self.error(error))
            }
        }
    }

    /// A place for an access where the shared pointer is, first come, first served.
    pub fn transfer(&self, wanted: Transfer) -> Result<Result<AccessRange, PendingRound>, Error> {
        let Some(table) = self.table()? else {
            return Ok(Err(PendingRound::AtNode(self.request(SharedCall::Transfer(wanted))?)));
        };
        let placed = table.transfer(wanted, || self.measure());
        placed.map(Ok).map_err(|error| self.error(error))
    }

    /// Moves the shared pointer, without the others.
    pub fn seek(&self, seek: Seek) -> Result<u64, Error> {
        match self.table()? {
            Some(table) => table.seek(seek, || self.measure()).map_err(|error| self.error(error)),
            None => offset_of(
                self.wait_outcome(PendingRound::AtNode(self.request(SharedCall::Seek(seek))?))?,
            ),
        }
    }

    /// Where the shared pointer is.
    pub fn tell(&self) -> Result<u64, Error> {
        match self.table()? {
            Some(table) => table.offset().map_err(|error| self.error(error)),
            None => {
                offset_of(self.wait_outcome(PendingRound::AtNode(self.request(SharedCall::Tell)?))?)
            }
        }
    }

    /// Does something with bytes that nobody else uses meanwhile, or that nobody writes.
    pub fn exclusively<R>(
        &self,
        placement: AccessRange,
        is_write: bool,
        what: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut ranges = self.ranges.lock();
        let AccessRange { offset: from, len } = placement;
        if self.group.size() == 1 || len == 0 {
            return what();
        }
        if let Some(table) = self.table()? {
            let done = table.with_range(BytesUse::new(from, len, is_write), what);
            return done.map_err(|error| self.error(error))?;
        }
        *ranges += 1;
        let number = *ranges;
        self.request(SharedCall::Lock { number, from, len, is_write })?.wait()?;
        let done = what();
        self.notify(SharedCall::Unlock { number });
        done
    }

    /// Closes it: with the others, or without them.
    pub fn close(&self, coordination: Option<u64>) -> Result<(), Error> {
        let Some(table) = self.table()? else {
            return match coordination {
                Some(number) => {
                    self.wait_outcome(self.collective_call(number, Call::Close)?).map(|_| ())
                }
                None => self.request(SharedCall::Close)?.wait().map(|_| ()),
            };
        };
        self.record_close();
        // The node needs to keep nothing of it any more; nobody waits for that.
        let Some(number) = coordination else {
            table.close().map_err(|error| self.error(error))?;
            self.notify(SharedCall::Close);
            return Ok(());
        };
        drop(self.collective_call(number, Call::Close)?);
        if table.wait_closed(number).map_err(|error| self.error(error))? {
            self.notify(SharedCall::CloseForAll);
        }
        Ok(())
    }

    /// Puts it away without closing it: whoever waits for this process is told.
    pub fn leave(&self) {
        if let Ok(Some(table)) = self.table() {
            table.leave();
        }
        self.notify(SharedCall::Leave);
    }

    /// The table, if there is one.
    fn table(&self) -> Result<Option<&TableMember>, Error> {
        let Some((place, once)) = &self.table else { return Ok(None) };
        if let Some(table) = once.get() {
            return Ok(Some(table));
        }
        let job_memory = self.group.job_memory(place.memory);
        let table = job_memory
            .and_then(|job_memory| TableMember::new(job_memory, place.number, self.group.rank()));
        let table = table.map_err(|why| Error::other(format!("{}: {why}", self.file.path())))?;
        Ok(Some(once.get_or_init(|| table)))
    }

    fn measure(&self) -> Result<u64, String> {
        self.file.len().map_err(|error| error.to_string())
    }

    fn error(&self, error: CollectiveError) -> Error {
        self.group.error_of(self.file.path().to_string(), error)
    }

    /// Tells the node what came of an access that this rank has done for all, and what was read.
    fn report(&self, number: u64, done: Result<u64, &Error>, bytes: &[u8]) -> Result<(), Error> {
        let done = done.map_err(ToString::to_string);
        let request = SharedRequest {
            shared_file: self.shared_file,
            call: SharedCall::Performed { number, done },
        };
        let node = self.group.cluster.shared.interface();
        // SAFETY: the bytes are borrowed until the question was waited for.
        let waiting = unsafe { node.start_lent(Request::Shared(request), &[bytes]) }?;
        waiting.without_limit().wait().map(|_| ())
    }

    fn notify(&self, call: SharedCall) {
        let request = SharedRequest { shared_file: self.shared_file, call };
        self.group.cluster.shared.interface().tell(Request::Shared(request));
    }

    fn request(&self, call: SharedCall) -> Result<Waiting, Error> {
        let request = SharedRequest { shared_file: self.shared_file, call };
        self.group.start(Request::Shared(request))
    }
}

/// The offset that a call has led to.
pub(super) fn offset_of(outcome: CallOutcome) -> Result<u64, Error> {
    match outcome {
        CallOutcome::At(offset) => Ok(offset),
        _ => Err(strange_answer()),
    }
}

/// As much of a buffer as there is to read.
fn cut(buffer: &mut [u8], placement: AccessRange) -> &mut [u8] {
    let len = usize::try_from(placement.len).unwrap_or(usize::MAX).min(buffer.len());
    &mut buffer[..len]
}
