//! The node at which the ranks meet: the real one's coordination, without its network and its disks.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use pario_net::{SharedMemory, SharedMemoryPart, SharedMemoryShape, SpaceId};
use pario_proto::{
    Access, AssemblyId, Call, Failure, FileId, FileKind, FilePath, FileRecord, Grant, Mode, Opened,
    Outcome, Seat, SharedCall, Table, TablePlace, Trouble,
};
use pario_server::job_memory::Memories;
use pario_server::meetings::{FileAction, FileActions, JobAction, JobKey, Meetings};

use crate::world::Ticket;

const USER: u32 = 7;
const JOB: &str = "job";

/// A node, since it was last started.
pub struct Home {
    meetings: Meetings<u32, Ticket>,
    memories: Memories,
    /// Memory in common, once the job has some.
    memory: Option<Arc<SharedMemory>>,
    path: FilePath,
    size: u32,
    /// Handles that are open, and whose they are.
    handles: BTreeSet<(u64, SpaceId)>,
    last_handle: u64,
    /// Which processes they are: a job that is started again has others.
    launch: u8,
    /// Whose connections are open.
    here: BTreeSet<u32>,
    clock: u64,
}

/// What comes out for those who ask something of a file.
pub enum Said {
    /// An answer.
    Answer(Ticket, Result<Outcome, Trouble>),
    /// The size of the file is to be found out.
    Measure,
    /// The size of the file was found out.
    Measured,
    /// A call in which all meet counts.
    Counted(Ticket, u64, Call),
}

/// What comes out for those who open the file together.
pub enum Gathered {
    /// All have come.
    All(Vec<u32>),
    /// One is told why not.
    Told(u32, Trouble),
}

impl Home {
    pub fn new(size: u32) -> Self {
        Self {
            meetings: Meetings::default(),
            memories: Memories::default(),
            memory: None,
            path: FilePath::new("/file").expect("it is a path"),
            size,
            handles: BTreeSet::new(),
            last_handle: 0,
            launch: 0,
            here: BTreeSet::new(),
            clock: 0,
        }
    }

    /// It ends and is started again: it knows nothing of before.
    pub fn restart(&mut self) {
        let clock = self.clock + 1;
        *self = Self { launch: self.launch, clock, ..Self::new(self.size) };
    }

    /// The processes of the job are started again.
    pub fn launch(&mut self) {
        self.launch += 1;
    }

    fn space(&self, rank: u32) -> SpaceId {
        let mut bytes = [self.launch; 16];
        bytes[..4].copy_from_slice(&rank.to_le_bytes());
        SpaceId::from_bytes(bytes)
    }

    /// A rank wants to open the file, together with the others.
    pub fn ask(&mut self, rank: u32, number: u64) -> Result<Vec<Gathered>> {
        self.here.insert(rank);
        self.clock += 1;
        let seat = Seat { job: JOB.to_owned(), size: self.size, rank };
        let call = (number, Call::Open("/file".to_owned()));
        let actions = self.meetings.ask(USER, self.space(rank), &seat, call, rank, self.clock);
        gathered(actions)
    }

    /// The names were looked at: the file is open. Those who have gone meanwhile leave it again.
    pub fn open(
        &mut self,
        callers: &[u32],
        (mode, is_created): (Mode, bool),
        has_table: bool,
    ) -> Result<(AssemblyId, Option<SharedMemoryPart>)> {
        ensure!(callers.iter().copied().eq(0..self.size), "{callers:?} open the file");
        self.clock += 1;
        let spaces: Vec<SpaceId> = callers.iter().map(|rank| self.space(*rank)).collect();
        let job = (USER, JOB.to_owned());
        let has_table = has_table && self.share_memory(&job)?;
        let handle = self.last_handle + 1;
        for (handle, space) in (handle..).zip(&spaces) {
            self.handles.insert((handle, *space));
            self.last_handle = handle;
        }
        let opened = Opened { handle, ..opened(is_created) };
        let of = (&spaces[..], has_table);
        let (id, place) = self.meetings.open(&job, &self.path, mode, &opened, of, self.clock);
        ensure!(place.is_some() == has_table, "the file has a table: {place:?}");
        let part = |place: TablePlace| {
            let memory = self.memory.as_ref().context("the job has memory")?;
            anyhow::Ok(memory.part(place.number as usize))
        };
        Ok((id, place.map(part).transpose()?))
    }

    /// The processes of the job have the memory, which is another one if the job is; false if nobody
    /// of the job is here.
    fn share_memory(&mut self, job: &JobKey) -> Result<bool> {
        let Some((id, memory)) = self.meetings.memory_of(job, self.clock) else {
            ensure!(self.here.is_empty(), "there is no memory for the job");
            return Ok(false);
        };
        self.memories.add(id, USER, &memory);
        let (words, bytes) = (Table::words_of(self.size), Table::ROOM_BYTES);
        let shape = SharedMemoryShape { parts: Table::COUNT as usize, words, bytes };
        let shared = SharedMemory::from_descriptor(self.memories.share(id, USER)?, shape)?;
        self.memory = Some(Arc::new(shared));
        Ok(true)
    }

    pub fn is_here(&self, rank: u32) -> bool {
        self.here.contains(&rank)
    }

    /// A rank asks something of a file.
    pub fn call(
        &mut self,
        rank: u32,
        id: AssemblyId,
        call: SharedCall,
        ticket: Ticket,
    ) -> Result<Vec<Said>> {
        self.here.insert(rank);
        self.clock += 1;
        let actions = self.meetings.call(self.space(rank), id, call, ticket, self.clock);
        self.said(actions)
    }

    pub fn measured(&mut self, id: AssemblyId, len: u64) -> Result<Vec<Said>> {
        let actions = self.meetings.measured(id, Ok(len));
        self.said(actions)
    }

    /// The connection of a rank is lost.
    pub fn lose(&mut self, rank: u32) -> Result<(Vec<Gathered>, Vec<Said>)> {
        self.here.remove(&rank);
        let lost = self.space(rank);
        self.handles.retain(|(_, space)| *space != lost);
        let (jobs, files) = self.meetings.lose(lost);
        Ok((gathered(jobs)?, self.said(files)?))
    }

    fn said(&mut self, actions: FileActions<Ticket>) -> Result<Vec<Said>> {
        let mut said = Vec::new();
        for action in actions {
            said.push(match action {
                FileAction::Measure(..) => Said::Measure,
                FileAction::Answer(ticket, Ok(outcome)) => Said::Answer(ticket, Ok(outcome)),
                FileAction::Answer(ticket, Err(failure)) => {
                    let trouble = trouble(failure).with_context(|| format!("for {ticket:?}"))?;
                    Said::Answer(ticket, Err(trouble))
                }
                FileAction::Close(handle, space) => {
                    self.handles.remove(&(handle, space));
                    continue;
                }
            });
        }
        Ok(said)
    }

    /// Nobody has anything open, or waits.
    pub fn check_closed(&self) -> Result<()> {
        for job in self.meetings.jobs(self.clock) {
            ensure!(job.files.is_empty(), "the file was never closed: {:?}", job.files);
            ensure!(job.waits.is_empty(), "somebody is said to wait: {:?}", job.waits);
        }
        ensure!(self.handles.is_empty(), "handles were never closed: {:?}", self.handles);
        Ok(())
    }

    /// Nobody is there any more.
    pub fn check_empty(&self) -> Result<()> {
        let jobs = self.meetings.jobs(self.clock);
        ensure!(jobs.is_empty(), "a job is said to be there: {jobs:?}");
        Ok(())
    }
}

fn gathered(actions: Vec<JobAction<u32>>) -> Result<Vec<Gathered>> {
    let mut gathered = Vec::new();
    for action in actions {
        gathered.push(match action {
            JobAction::Together(callers) => Gathered::All(callers),
            JobAction::Fail(rank, failure) => Gathered::Told(rank, trouble(failure)?),
        });
    }
    Ok(gathered)
}

fn trouble(failure: Failure) -> Result<Trouble> {
    match failure {
        Failure::Group { trouble, .. } => Ok(trouble),
        other => bail!("the node says: {other}"),
    }
}

fn opened(is_created: bool) -> Opened {
    let (file, access) = (FileId(1), Access { read: true, write: true });
    let record = FileRecord {
        id: file,
        kind: FileKind::Flat,
        layout: None,
        uid: USER,
        gid: USER,
        mode: 0o600,
        created_ns: 0,
        changed_ns: 0,
        rights_version: 0,
        settled: Vec::new(),
    };
    let (rights_version, seal) = (0, [0; 32]);
    let grant = Grant { file, uid: USER, access, rights_version, epoch: 0, seal };
    Opened { record, grant, handle: 0, is_created, renew_after_ms: 0 }
}
