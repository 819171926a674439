//! How the processes of a shared file meet: in memory that they have in common, if all of them are
//! on the machine of the node; otherwise by asking the node. Both give the same.

use std::sync::OnceLock;

use pario_net::Bulk;
use pario_proto::{
    AssemblyId, BytesUse, Call, Outcome, Placement, Reply, Request, Seek, SharedCall,
    SharedRequest, TablePlace, Transfer, Trouble,
};
use parking_lot::Mutex;

use super::at_table::AtTable;
use super::turns::{Turn, Turns};
use super::{Group, strange_answer};
use crate::connection::Waiting;
use crate::error::Error;
use crate::file::File;

/// Where the processes of a shared file meet, as one of them sees it.
pub(super) struct Meeting {
    group: Group,
    pub file: File,
    assembly: AssemblyId,
    /// If all have memory in common: where in it, and it is had when it is first needed.
    table: Option<(TablePlace, OnceLock<AtTable>)>,
    /// What one does for all is received in the order of rounds.
    turns: Turns,
    /// Held while this process has bytes for itself; how often it has wanted some.
    ranges: Mutex<u64>,
}

/// A call whose outcome can be waited for.
pub(super) enum Round {
    /// The node will answer.
    Asked(Waiting),
    /// It is decided at the table.
    AtTable { number: u64, turn: Turn },
}

/// Where an access goes that was waited for.
pub(super) enum Access {
    /// There.
    Placed(Placement),
    /// There, and this rank does it for all.
    Perform(Placement, Task),
    /// Another rank does it for all, or has done it.
    Performed(Placement, Task),
}

/// What one rank does for all.
pub(super) enum Task {
    /// The node is told, or has told: bytes that were read.
    AtNode { number: u64, data: Vec<Bulk> },
    /// By way of the table.
    AtTable { number: u64, turn: Turn },
}

impl Meeting {
    pub fn new(group: &Group, file: File, assembly: AssemblyId, table: Option<TablePlace>) -> Self {
        Self {
            group: group.clone(),
            file,
            assembly,
            table: table.map(|place| (place, OnceLock::new())),
            turns: Turns::default(),
            ranges: Mutex::new(0),
        }
    }

    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Makes a call in which all meet.
    pub fn meet(&self, number: u64, call: Call) -> Result<Round, Error> {
        let Some(table) = self.table()? else {
            return Ok(Round::Asked(self.ask(SharedCall::Meet { number, call })?));
        };
        table.meet(number, &call, || self.measure()).map_err(|trouble| self.error(trouble))?;
        Ok(Round::AtTable { number, turn: self.turns.give() })
    }

    /// Notes for people a call of this rank that the others do not take part in.
    pub fn note(&self, call: &Call) {
        if let Ok(Some(table)) = self.table() {
            table.note(call, "");
        }
    }

    /// Notes for people, in the table of the job, that this rank closes the file: that of the file
    /// will be gone.
    fn note_close(&self) {
        let Some((place, _)) = &self.table else { return };
        let seated = self.group.memory(place.memory);
        if let Ok(job) = seated.and_then(|seated| AtTable::new(seated, 0, self.group.rank())) {
            job.note(&Call::Close, self.file.path().as_str());
        }
    }

    /// Waits for what came of a call that moves no bytes.
    pub fn settle(&self, round: Round) -> Result<Outcome, Error> {
        match round {
            Round::Asked(waiting) => match waiting.wait()?.0 {
                Reply::Shared(outcome) => Ok(outcome),
                _ => Err(strange_answer()),
            },
            Round::AtTable { number, .. } => match self.table()? {
                Some(table) => table.outcome(number).map_err(|trouble| self.error(trouble)),
                None => Err(strange_answer()),
            },
        }
    }

    /// Waits for the place of an access.
    pub fn place(&self, round: Round) -> Result<Access, Error> {
        let (outcome, task) = match round {
            Round::Asked(waiting) => match waiting.wait()? {
                (Reply::Shared(outcome), data) => {
                    let number = match &outcome {
                        Outcome::Perform { number, .. } => *number,
                        _ => 0,
                    };
                    (outcome, Task::AtNode { number, data })
                }
                _ => return Err(strange_answer()),
            },
            Round::AtTable { number, turn } => match self.table()? {
                Some(table) => {
                    let outcome = table.outcome(number).map_err(|trouble| self.error(trouble))?;
                    (outcome, Task::AtTable { number, turn })
                }
                None => return Err(strange_answer()),
            },
        };
        match outcome {
            Outcome::Placed(placement) => Ok(Access::Placed(placement)),
            Outcome::Perform { placement, .. } => Ok(Access::Perform(placement, task)),
            Outcome::Performed { placement, .. } => Ok(Access::Performed(placement, task)),
            Outcome::Done | Outcome::At(_) => Err(strange_answer()),
        }
    }

    /// Reads for all.
    pub fn read_for_all(
        &self,
        placement: Placement,
        task: Task,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        let buffer = cut(buffer, placement);
        match task {
            Task::AtNode { number, .. } => {
                let read = self.file.read_at(buffer, placement.offset);
                let count = read.as_ref().map_or(0, |count| *count);
                self.report(number, read.as_ref().map(|count| *count as u64), &buffer[..count])?;
                read
            }
            Task::AtTable { number, turn } => {
                turn.wait();
                let table = self.table()?.ok_or_else(strange_answer)?;
                let mut failed = None;
                let given = table.give(number, buffer, |from, piece| {
                    self.file.read_at(piece, placement.offset + from).map_err(|error| {
                        let why = error.to_string();
                        failed = Some(error);
                        why
                    })
                });
                match (given.map_err(|trouble| self.error(trouble))?, failed) {
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
        placement: Placement,
        task: Task,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        match task {
            Task::AtNode { data, .. } => {
                let count = usize::try_from(placement.len).unwrap_or(usize::MAX);
                let data = data.first().map(|bulk| &bulk[..]).unwrap_or_default();
                if data.len() != count || count > buffer.len() {
                    return Err(strange_answer());
                }
                buffer[..count].copy_from_slice(data);
                Ok(count)
            }
            Task::AtTable { number, turn } => {
                turn.wait();
                let table = self.table()?.ok_or_else(strange_answer)?;
                table.get(number, cut(buffer, placement)).map_err(|trouble| self.error(trouble))
            }
        }
    }

    /// Writes for all.
    pub fn write_for_all(
        &self,
        placement: Placement,
        task: Task,
        buffer: &[u8],
    ) -> Result<(), Error> {
        let write = || self.file.write_at(buffer, placement.offset);
        match task {
            Task::AtNode { number, .. } => {
                let written = write();
                self.report(number, written.as_ref().map(|()| placement.len), &[])?;
                written
            }
            Task::AtTable { number, turn } => {
                turn.wait();
                let table = self.table()?.ok_or_else(strange_answer)?;
                let written = write();
                let done = written.as_ref().map(|()| placement.len).map_err(ToString::to_string);
                table.report(number, &done).map_err(|trouble| self.error(trouble))?;
                written
            }
        }
    }

    /// Waits until another rank has written for all.
    pub fn written_by_other(&self, task: Task) -> Result<(), Error> {
        match task {
            // The node answers when it is done.
            Task::AtNode { .. } => Ok(()),
            Task::AtTable { number, turn } => {
                turn.wait();
                let table = self.table()?.ok_or_else(strange_answer)?;
                table.performed(number).map(|_| ()).map_err(|trouble| self.error(trouble))
            }
        }
    }

    /// A place for an access where the shared pointer is, first come, first served.
    pub fn transfer(&self, wanted: Transfer) -> Result<Result<Placement, Round>, Error> {
        let Some(table) = self.table()? else {
            return Ok(Err(Round::Asked(self.ask(SharedCall::Transfer(wanted))?)));
        };
        let placed = table.transfer(wanted, || self.measure());
        placed.map(Ok).map_err(|trouble| self.error(trouble))
    }

    /// Moves the shared pointer, without the others.
    pub fn seek(&self, seek: Seek) -> Result<u64, Error> {
        match self.table()? {
            Some(table) => {
                table.seek(seek, || self.measure()).map_err(|trouble| self.error(trouble))
            }
            None => at(self.settle(Round::Asked(self.ask(SharedCall::Seek(seek))?))?),
        }
    }

    /// Where the shared pointer is.
    pub fn tell(&self) -> Result<u64, Error> {
        match self.table()? {
            Some(table) => table.offset().map_err(|trouble| self.error(trouble)),
            None => at(self.settle(Round::Asked(self.ask(SharedCall::Tell)?))?),
        }
    }

    /// Does something with bytes that nobody else uses meanwhile, or that nobody writes.
    pub fn alone<R>(
        &self,
        placement: Placement,
        is_write: bool,
        what: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut ranges = self.ranges.lock();
        let Placement { offset: from, len } = placement;
        if self.group.size() == 1 || len == 0 {
            return what();
        }
        if let Some(table) = self.table()? {
            let done = table.with_range(BytesUse::new(from, len, is_write), what);
            return done.map_err(|trouble| self.error(trouble))?;
        }
        *ranges += 1;
        let number = *ranges;
        self.ask(SharedCall::Lock { number, from, len, is_write })?.wait()?;
        let done = what();
        self.say(SharedCall::Unlock { number });
        done
    }

    /// Closes it: with the others, or without them.
    pub fn close(&self, meeting: Option<u64>) -> Result<(), Error> {
        let Some(table) = self.table()? else {
            return match meeting {
                Some(number) => self.settle(self.meet(number, Call::Close)?).map(|_| ()),
                None => self.ask(SharedCall::Close)?.wait().map(|_| ()),
            };
        };
        self.note_close();
        // The node needs to keep nothing of it any more; nobody waits for that.
        let Some(number) = meeting else {
            table.close().map_err(|trouble| self.error(trouble))?;
            self.say(SharedCall::Close);
            return Ok(());
        };
        drop(self.meet(number, Call::Close)?);
        if table.closed(number).map_err(|trouble| self.error(trouble))? {
            self.say(SharedCall::CloseForAll);
        }
        Ok(())
    }

    /// Puts it away without closing it: whoever waits for this process is told.
    pub fn leave(&self) {
        if let Ok(Some(table)) = self.table() {
            table.leave();
        }
        self.say(SharedCall::Leave);
    }

    /// The table, if there is one.
    fn table(&self) -> Result<Option<&AtTable>, Error> {
        let Some((place, once)) = &self.table else { return Ok(None) };
        if let Some(table) = once.get() {
            return Ok(Some(table));
        }
        let seated = self.group.memory(place.memory);
        let table = seated.and_then(|seated| AtTable::new(seated, place.number, self.group.rank()));
        let table = table.map_err(|why| Error::other(format!("{}: {why}", self.file.path())))?;
        Ok(Some(once.get_or_init(|| table)))
    }

    fn measure(&self) -> Result<u64, String> {
        self.file.len().map_err(|error| error.to_string())
    }

    fn error(&self, trouble: Trouble) -> Error {
        self.group.error_of(self.file.path().to_string(), trouble)
    }

    /// Tells the node what came of an access that this rank has done for all, and what was read.
    fn report(&self, number: u64, done: Result<u64, &Error>, bytes: &[u8]) -> Result<(), Error> {
        let done = done.map_err(ToString::to_string);
        let request =
            SharedRequest { assembly: self.assembly, call: SharedCall::Performed { number, done } };
        let node = self.group.cluster.shared.interface();
        // SAFETY: the bytes are borrowed until the question was waited for.
        let waiting = unsafe { node.start_lent(Request::Shared(request), &[bytes]) }?;
        waiting.without_limit().wait().map(|_| ())
    }

    fn say(&self, call: SharedCall) {
        let request = SharedRequest { assembly: self.assembly, call };
        self.group.cluster.shared.interface().tell(Request::Shared(request));
    }

    fn ask(&self, call: SharedCall) -> Result<Waiting, Error> {
        let request = SharedRequest { assembly: self.assembly, call };
        self.group.start(Request::Shared(request))
    }
}

/// The offset that a call has led to.
pub(super) fn at(outcome: Outcome) -> Result<u64, Error> {
    match outcome {
        Outcome::At(offset) => Ok(offset),
        _ => Err(strange_answer()),
    }
}

/// As much of a buffer as there is to read.
fn cut(buffer: &mut [u8], placement: Placement) -> &mut [u8] {
    let len = usize::try_from(placement.len).unwrap_or(usize::MAX).min(buffer.len());
    &mut buffer[..len]
}
