//! The coordination of a shared file, as one rank sees it: in the job memory if all ranks run on
//! the node's machine, otherwise by messages to the node. Both give the same results.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_net::Bulk;
use pario_proto::{
    AccessRange, BytesUse, Call, CallOutcome, CollectiveError, Reply, Request, Seek, SharedCall,
    SharedFileId, SharedRequest, TableLocation, Transfer,
};

use super::files::{JobFiles, strange_answer};
use super::range_claim::{ClaimSite, RangeClaim};
use super::sequencer::{SequenceTicket, Sequencer};
use super::table_member::{ShownRequest, TableMember};

use crate::connection::Waiting;
use crate::error::Error;
use crate::file::File;

/// The coordination of a shared file by one rank.
pub(super) struct Coordination {
    files: JobFiles,
    pub file: File,
    shared_file: SharedFileId,
    /// The table, if the ranks coordinate in the job memory; attached at its first use.
    table: Option<(TableLocation, OnceLock<TableMember>)>,
    /// Orders the accesses that one rank performs for all by their rounds.
    sequencer: Sequencer,
    /// The claim of bytes at the table that the accesses of this process share.
    claim: RangeClaim,
    /// The number of claims at the node.
    node_claims: AtomicU64,
}

/// A call whose outcome is pending.
pub(super) enum PendingRound {
    /// The node will reply.
    AtNode(Waiting),
    /// The round is decided at the table.
    AtTable { number: u64, ticket: SequenceTicket },
}

/// A placed access.
pub(super) enum PlacedAccess {
    /// The range of the access.
    Placed(AccessRange),
    /// The range; this rank performs the access for all.
    Perform(AccessRange, PerformTask),
    /// The range; another rank performs the access for all.
    Performed(AccessRange, PerformTask),
}

/// An access that one rank performs for all.
pub(super) enum PerformTask {
    /// The node takes the report, or has sent the bytes that were read.
    AtNode { number: u64, data: Vec<Bulk> },
    /// The ranks exchange reports and bytes through the table.
    AtTable { number: u64, ticket: SequenceTicket },
}

impl Coordination {
    pub fn new(
        files: &JobFiles,
        file: File,
        shared_file: SharedFileId,
        table: Option<TableLocation>,
    ) -> Self {
        Self {
            files: files.clone(),
            file,
            shared_file,
            table: table.map(|location| (location, OnceLock::new())),
            sequencer: Sequencer::default(),
            claim: RangeClaim::default(),
            node_claims: AtomicU64::new(0),
        }
    }

    pub fn files(&self) -> &JobFiles {
        &self.files
    }

    /// Makes a collective call.
    pub fn collective_call(&self, number: u64, call: Call) -> Result<PendingRound, Error> {
        let Some(table) = self.table()? else {
            return Ok(PendingRound::AtNode(
                self.request(SharedCall::Collective { number, call })?,
            ));
        };
        table.call(number, &call, || self.measure()).map_err(|error| self.error(error))?;
        Ok(PendingRound::AtTable { number, ticket: self.sequencer.next_ticket() })
    }

    /// Records a call of this rank alone, for display.
    pub fn record_call(&self, call: &Call) {
        if let Ok(Some(table)) = self.table() {
            table.record_call(call, "");
        }
    }

    /// Shows the private pointer of this rank; `None` in a mode with a shared one.
    pub fn show_pointer(&self, pointer: Option<u64>) {
        if let Ok(Some(table)) = self.table() {
            table.show_pointer(pointer);
        }
    }

    /// Shows a started request of this rank, until the result is dropped; `None` if the ranks
    /// coordinate by messages.
    pub fn show_request(&self, id: u64, is_write: bool, len: u64) -> Option<ShownRequest> {
        Some(self.table().ok()??.show_request(id, is_write, len))
    }

    /// Records the close of the file in the table of the job, for display: the table of the file
    /// will be gone.
    fn record_close(&self) {
        let Some((location, _)) = &self.table else { return };
        let job_memory = self.files.job_memory(location.memory);
        if let Ok(job) = job_memory
            .and_then(|job_memory| TableMember::new(job_memory, 0, self.files.job().rank()))
        {
            job.record_call(&Call::Close, self.file.path().as_str());
        }
    }

    /// Waits for the outcome of a call that moves no bytes.
    pub fn wait_outcome(&self, round: PendingRound) -> Result<CallOutcome, Error> {
        match round {
            PendingRound::AtNode(waiting) => match self.wait_reply(waiting)?.0 {
                Reply::Shared(outcome) => Ok(outcome),
                _ => Err(strange_answer()),
            },
            PendingRound::AtTable { number, .. } => match self.table()? {
                Some(table) => table.outcome(number).map_err(|error| self.error(error)),
                None => Err(strange_answer()),
            },
        }
    }

    /// Waits for the range of an access.
    pub fn wait_placed(&self, round: PendingRound) -> Result<PlacedAccess, Error> {
        let (outcome, task) = match round {
            PendingRound::AtNode(waiting) => match self.wait_reply(waiting)? {
                (Reply::Shared(outcome), data) => {
                    let number = match &outcome {
                        CallOutcome::Perform { number, .. } => *number,
                        _ => 0,
                    };
                    (outcome, PerformTask::AtNode { number, data })
                }
                _ => return Err(strange_answer()),
            },
            PendingRound::AtTable { number, ticket } => match self.table()? {
                Some(table) => {
                    let outcome = table.outcome(number).map_err(|error| self.error(error))?;
                    (outcome, PerformTask::AtTable { number, ticket })
                }
                None => return Err(strange_answer()),
            },
        };
        match outcome {
            CallOutcome::Placed(range) => Ok(PlacedAccess::Placed(range)),
            CallOutcome::Perform { range, .. } => Ok(PlacedAccess::Perform(range, task)),
            CallOutcome::Performed { range, .. } => Ok(PlacedAccess::Performed(range, task)),
            CallOutcome::Done | CallOutcome::At(_) => Err(strange_answer()),
        }
    }

    /// Reads for all ranks.
    pub fn read_for_all(
        &self,
        range: AccessRange,
        task: PerformTask,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        let buffer = cut(buffer, range);
        match task {
            PerformTask::AtNode { number, .. } => {
                let read = self.file.read_at(buffer, range.offset);
                let count = read.as_ref().map_or(0, |count| *count);
                self.report(number, read.as_ref().map(|count| *count as u64), &buffer[..count])?;
                read
            }
            PerformTask::AtTable { number, ticket } => {
                // While earlier broadcasts are under way, the disks can already read for this one.
                let mut ahead =
                    (!ticket.is_next()).then(|| self.file.read_at(buffer, range.offset));
                ticket.wait();
                let table = self.table()?.ok_or_else(strange_answer)?;
                let mut failed = None;
                let given = table.broadcast_read(number, buffer, |from, piece| {
                    let read = match &ahead {
                        None => self.file.read_at(piece, range.offset + from),
                        Some(Ok(count)) => {
                            let from = usize::try_from(from).unwrap_or(usize::MAX);
                            Ok(count.saturating_sub(from).min(piece.len()))
                        }
                        Some(Err(_)) => ahead.take().unwrap_or(Ok(0)),
                    };
                    read.map_err(|error| {
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

    /// Receives the bytes that another rank has read for all.
    pub fn read_by_other(
        &self,
        range: AccessRange,
        task: PerformTask,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        match task {
            PerformTask::AtNode { data, .. } => {
                let count = usize::try_from(range.len).unwrap_or(usize::MAX);
                let data = data.first().map(|bulk| &bulk[..]).unwrap_or_default();
                if data.len() != count || count > buffer.len() {
                    return Err(strange_answer());
                }
                buffer[..count].copy_from_slice(data);
                Ok(count)
            }
            PerformTask::AtTable { number, ticket } => {
                ticket.wait();
                let table = self.table()?.ok_or_else(strange_answer)?;
                table.receive_read(number, cut(buffer, range)).map_err(|error| self.error(error))
            }
        }
    }

    /// Writes for all ranks.
    pub fn write_for_all(
        &self,
        range: AccessRange,
        task: PerformTask,
        buffer: &[u8],
    ) -> Result<(), Error> {
        let write = || self.file.write_at(buffer, range.offset);
        match task {
            PerformTask::AtNode { number, .. } => {
                let written = write();
                self.report(number, written.as_ref().map(|()| range.len), &[])?;
                written
            }
            PerformTask::AtTable { number, ticket } => {
                let written = write();
                ticket.wait();
                let table = self.table()?.ok_or_else(strange_answer)?;
                let done = written.as_ref().map(|()| range.len).map_err(ToString::to_string);
                table.report_performed(number, &done).map_err(|error| self.error(error))?;
                written
            }
        }
    }

    /// Waits until another rank has written for all.
    pub fn written_by_other(&self, task: PerformTask) -> Result<(), Error> {
        match task {
            // The node replies when the write is done.
            PerformTask::AtNode { .. } => Ok(()),
            PerformTask::AtTable { number, ticket } => {
                ticket.wait();
                let table = self.table()?.ok_or_else(strange_answer)?;
                table.wait_performed(number).map(|_| ()).map_err(|error| self.error(error))
            }
        }
    }

    /// Places an access at the shared pointer, first come, first served.
    pub fn transfer(&self, wanted: Transfer) -> Result<Result<AccessRange, PendingRound>, Error> {
        let Some(table) = self.table()? else {
            return Ok(Err(PendingRound::AtNode(self.request(SharedCall::Transfer(wanted))?)));
        };
        let placed = table.transfer(wanted, || self.measure());
        placed.map(Ok).map_err(|error| self.error(error))
    }

    /// Moves the shared pointer, without the other ranks.
    pub fn seek(&self, seek: Seek) -> Result<u64, Error> {
        match self.table()? {
            Some(table) => table.seek(seek, || self.measure()).map_err(|error| self.error(error)),
            None => offset_of(
                self.wait_outcome(PendingRound::AtNode(self.request(SharedCall::Seek(seek))?))?,
            ),
        }
    }

    /// The shared pointer.
    pub fn tell(&self) -> Result<u64, Error> {
        match self.table()? {
            Some(table) => table.offset().map_err(|error| self.error(error)),
            None => {
                offset_of(self.wait_outcome(PendingRound::AtNode(self.request(SharedCall::Tell)?))?)
            }
        }
    }

    /// The ranks among which [`exclusively`](Self::exclusively) keeps accesses apart; none if this
    /// process is alone. The home node of the file keeps them apart from all others.
    pub fn opener_group(&self) -> Option<SharedFileId> {
        (self.files.job().size() > 1).then_some(self.shared_file)
    }

    /// Runs `what` while no other rank uses the bytes, or while no other rank writes them.
    pub fn exclusively<R>(
        &self,
        range: AccessRange,
        is_write: bool,
        what: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let AccessRange { offset: from, len } = range;
        // Accesses of this process are in order by themselves.
        if self.files.job().size() == 1 || len == 0 {
            return what();
        }
        let bytes = BytesUse::new(from, len, is_write);
        match self.table()? {
            Some(table) => self.claim.with(&TableClaim { coordination: self, table }, bytes, what),
            None => {
                let _claim = self.claim_at_node(bytes)?;
                what()
            }
        }
    }

    /// Claims bytes by messages to the node, which keeps the claims of each access apart.
    fn claim_at_node(&self, bytes: BytesUse) -> Result<NodeClaim<'_>, Error> {
        let BytesUse { from, to, is_write } = bytes;
        let number = self.node_claims.fetch_add(1, Ordering::Relaxed);
        let lock = SharedCall::Lock { number, from, len: to - from, is_write };
        self.wait_reply(self.request(lock)?)?;
        Ok(NodeClaim { coordination: self, number })
    }

    /// Closes the file: in a collective round, or without the other ranks.
    pub fn close(&self, round: Option<u64>) -> Result<(), Error> {
        let Some(table) = self.table()? else {
            return match round {
                Some(number) => {
                    self.wait_outcome(self.collective_call(number, Call::Close)?).map(|_| ())
                }
                None => self.wait_reply(self.request(SharedCall::Close)?).map(|_| ()),
            };
        };
        self.record_close();
        // The node can forget the file; this call does not wait for that.
        let Some(number) = round else {
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

    /// Drops the file without closing it: collective calls of the other ranks fail.
    pub fn leave(&self) {
        if let Ok(Some(table)) = self.table() {
            table.leave();
        }
        self.notify(SharedCall::Leave);
    }

    /// The table, if the ranks coordinate in the job memory.
    fn table(&self) -> Result<Option<&TableMember>, Error> {
        let Some((location, once)) = &self.table else { return Ok(None) };
        if let Some(table) = once.get() {
            return Ok(Some(table));
        }
        let job_memory = self.files.job_memory(location.memory);
        let table = job_memory.and_then(|job_memory| {
            TableMember::new(job_memory, location.number, self.files.job().rank())
        });
        let table = table.map_err(|why| Error::other(format!("{}: {why}", self.file.path())))?;
        Ok(Some(once.get_or_init(|| table)))
    }

    fn measure(&self) -> Result<u64, String> {
        self.file.measured_len().map_err(|error| error.to_string())
    }

    fn error(&self, error: CollectiveError) -> Error {
        self.files.error_of(self.file.path().to_string(), error)
    }

    /// Reports the result of an access that this rank has performed for all, with the bytes that it
    /// read.
    fn report(&self, number: u64, done: Result<u64, &Error>, bytes: &[u8]) -> Result<(), Error> {
        let done = done.map_err(ToString::to_string);
        let request = SharedRequest {
            shared_file: self.shared_file,
            call: SharedCall::Performed { number, done },
        };
        let node = self.files.cluster.shared.interface();
        // SAFETY: the bytes are borrowed until the reply has been waited for.
        let waiting = unsafe { node.start_lent(Request::Shared(request), &[bytes]) }?;
        waiting.without_limit().wait().map(|_| ())
    }

    /// Waits for a reply of the node.
    fn wait_reply(&self, waiting: Waiting) -> Result<(Reply, Vec<Bulk>), Error> {
        waiting.wait().map_err(|error| self.files.noting_loss(error))
    }

    fn notify(&self, call: SharedCall) {
        let request = SharedRequest { shared_file: self.shared_file, call };
        self.files.cluster.shared.interface().tell(Request::Shared(request));
    }

    fn request(&self, call: SharedCall) -> Result<Waiting, Error> {
        let request = SharedRequest { shared_file: self.shared_file, call };
        self.files.start(Request::Shared(request))
    }
}

/// Claims bytes at the table.
struct TableClaim<'c> {
    coordination: &'c Coordination,
    table: &'c TableMember,
}

impl ClaimSite for TableClaim<'_> {
    fn claim(&self, _number: u64, bytes: BytesUse) -> Result<(), Error> {
        self.table.claim_range(bytes).map_err(|error| self.coordination.error(error))
    }

    fn widen(&self, bytes: BytesUse) -> bool {
        self.table.widen_range(bytes)
    }

    fn release(&self, _number: u64) {
        self.table.release_range();
    }
}

/// Bytes that an access has claimed at the node; dropping it releases them.
struct NodeClaim<'c> {
    coordination: &'c Coordination,
    number: u64,
}

impl Drop for NodeClaim<'_> {
    fn drop(&mut self) {
        self.coordination.notify(SharedCall::Unlock { number: self.number });
    }
}

/// Returns the offset of an outcome.
pub(super) fn offset_of(outcome: CallOutcome) -> Result<u64, Error> {
    match outcome {
        CallOutcome::At(offset) => Ok(offset),
        _ => Err(strange_answer()),
    }
}

/// Cuts a buffer to the length of a range.
fn cut(buffer: &mut [u8], range: AccessRange) -> &mut [u8] {
    let len = usize::try_from(range.len).unwrap_or(usize::MAX).min(buffer.len());
    &mut buffer[..len]
}
