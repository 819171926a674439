//! The home node: the coordination of a real node, without its network and its disks.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use pario_net::{SharedMemory, SharedMemoryShape, SpaceId};
use pario_proto::{
    Access, Call, CallOutcome, CollectiveError, CoordinationTable, Failure, FileId, FileKind,
    FilePath, FileRecord, Grant, Member, Mode, Opened, SharedCall, SharedFileId, TableLocation,
};
use pario_server::job_memory::JobMemories;
use pario_server::job_registry::{FileAction, FileActions, JobAction, JobKey, JobRegistry};

use crate::sim_thread::SimParker;
use crate::world::Ticket;

const USER: u32 = 7;
const JOB: &str = "job";

/// A node, since its last start.
pub struct HomeNode {
    registry: JobRegistry<u32, Ticket>,
    job_memories: JobMemories,
    /// The job memory, once the job has one.
    memory: Option<Arc<SharedMemory>>,
    /// How its processes wait for each other in that memory.
    parker: Arc<SimParker>,
    path: FilePath,
    size: u32,
    /// Open handles, and the processes that they belong to.
    handles: BTreeSet<(u64, SpaceId)>,
    last_handle: u64,
    /// Counts the starts of the job: each start has other processes.
    launch: u8,
    /// The ranks that are connected.
    here: BTreeSet<u32>,
    clock: u64,
}

/// The memory of the job, and the number of a table in it.
pub type MappedTable = (Arc<SharedMemory>, u32);

/// An output of the coordination for the ranks of the file.
pub enum FileOutput {
    /// A reply to a call.
    Answer(Ticket, Result<CallOutcome, CollectiveError>),
    /// The node must measure the file.
    Measure,
    /// A rank has measured the file.
    Measured,
    /// The table has processed a call that needs no other rank.
    Processed(Ticket, SharedCall),
    /// A rank has left the table.
    Left(Ticket),
    /// A rank has read the next bytes for all, or has failed to, in this round.
    ReadForAll(u64, Result<Vec<u8>, String>),
    /// An access for all has ended for a rank, with these bytes and their number.
    AccessEnded(Ticket, Vec<u8>, Result<Result<usize, String>, CollectiveError>),
    /// A collective call is recorded in its round.
    Recorded(Ticket, u64, Call),
}

/// An output of the coordination for ranks that open the file.
pub enum JobOutput {
    /// All ranks have called.
    AllCalled(Vec<u32>),
    /// The call of a rank has failed.
    Failed(u32, CollectiveError),
}

impl HomeNode {
    pub fn new(size: u32, parker: Arc<SimParker>) -> Self {
        Self {
            registry: JobRegistry::default(),
            job_memories: JobMemories::default(),
            memory: None,
            parker,
            path: FilePath::new("/file").expect("a valid path"),
            size,
            handles: BTreeSet::new(),
            last_handle: 0,
            launch: 0,
            here: BTreeSet::new(),
            clock: 0,
        }
    }

    /// Restarts the node: it forgets everything.
    pub fn restart(&mut self) {
        let clock = self.clock + 1;
        *self = Self { launch: self.launch, clock, ..Self::new(self.size, self.parker.clone()) };
    }

    /// Starts the processes of the job again.
    pub fn launch(&mut self) {
        self.launch += 1;
    }

    fn space(&self, rank: u32) -> SpaceId {
        let mut bytes = [self.launch; 16];
        bytes[..4].copy_from_slice(&rank.to_le_bytes());
        SpaceId::from_bytes(bytes)
    }

    /// Handles the collective open of a rank.
    pub fn ask(&mut self, rank: u32, number: u64) -> Result<Vec<JobOutput>> {
        self.here.insert(rank);
        self.clock += 1;
        let member = Member { job: JOB.to_owned(), size: self.size, rank };
        let call = (number, Call::Open("/file".to_owned()));
        let actions =
            self.registry.job_call(USER, self.space(rank), &member, call, rank, self.clock);
        job_outputs(actions)
    }

    /// Opens the file for all ranks. Ranks that were lost in between leave it again.
    pub fn open(
        &mut self,
        callers: &[u32],
        (mode, is_created): (Mode, bool),
        has_table: bool,
    ) -> Result<(SharedFileId, Option<MappedTable>)> {
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
        let (id, place) =
            self.registry.register_file(&job, &self.path, mode, &opened, of, self.clock);
        ensure!(place.is_some() == has_table, "the file has a table: {place:?}");
        let part = |place: TableLocation| {
            let memory = self.memory.as_ref().context("the job has no memory")?;
            anyhow::Ok((memory.clone(), place.number))
        };
        Ok((id, place.map(part).transpose()?))
    }

    /// Maps the memory of the job, which is new if the job is. Returns false if no rank is
    /// connected.
    fn share_memory(&mut self, job: &JobKey) -> Result<bool> {
        let Some((id, memory)) = self.registry.job_memory(job, self.clock) else {
            ensure!(self.here.is_empty(), "there is no memory for the job");
            return Ok(false);
        };
        self.job_memories.add(id, USER, &memory);
        let (words, bytes) =
            (CoordinationTable::word_count(self.size), CoordinationTable::BUFFER_BYTES);
        let shape =
            SharedMemoryShape { parts: CoordinationTable::TABLES_PER_JOB as usize, words, bytes };
        let shared = SharedMemory::from_descriptor(self.job_memories.share(id, USER)?, shape)?;
        memory.set_parker(self.parker.clone());
        shared.set_parker(self.parker.clone());
        self.memory = Some(Arc::new(shared));
        Ok(true)
    }

    pub fn is_here(&self, rank: u32) -> bool {
        self.here.contains(&rank)
    }

    /// Handles a call of a rank on the file.
    pub fn call(
        &mut self,
        rank: u32,
        id: SharedFileId,
        call: SharedCall,
        ticket: Ticket,
    ) -> Result<Vec<FileOutput>> {
        self.here.insert(rank);
        self.clock += 1;
        let actions = self.registry.file_call(self.space(rank), id, call, ticket, self.clock);
        self.outputs(actions)
    }

    pub fn measured(&mut self, id: SharedFileId, len: u64) -> Result<Vec<FileOutput>> {
        let actions = self.registry.measured(id, Ok(len));
        self.outputs(actions)
    }

    /// Handles the loss of the connection of a rank.
    pub fn lose(&mut self, rank: u32) -> Result<(Vec<JobOutput>, Vec<FileOutput>)> {
        self.here.remove(&rank);
        let lost = self.space(rank);
        self.handles.retain(|(_, space)| *space != lost);
        let (jobs, files) = self.registry.remove_process(lost);
        Ok((job_outputs(jobs)?, self.outputs(files)?))
    }

    fn outputs(&mut self, actions: FileActions<Ticket>) -> Result<Vec<FileOutput>> {
        let mut outputs = Vec::new();
        for action in actions {
            outputs.push(match action {
                FileAction::Measure(..) => FileOutput::Measure,
                FileAction::Answer(ticket, Ok(outcome)) => FileOutput::Answer(ticket, Ok(outcome)),
                FileAction::Answer(ticket, Err(failure)) => {
                    let error =
                        collective_error(failure).with_context(|| format!("for {ticket:?}"))?;
                    FileOutput::Answer(ticket, Err(error))
                }
                FileAction::Close(handle, space) => {
                    self.handles.remove(&(handle, space));
                    continue;
                }
            });
        }
        Ok(outputs)
    }

    /// Checks that no file is open and no rank waits.
    pub fn check_closed(&self) -> Result<()> {
        for job in self.registry.jobs(self.clock) {
            ensure!(job.files.is_empty(), "the file was never closed: {:?}", job.files);
            ensure!(job.waits.is_empty(), "a rank is reported to wait: {:?}", job.waits);
        }
        ensure!(self.handles.is_empty(), "handles were never closed: {:?}", self.handles);
        Ok(())
    }

    /// Checks that no job is left.
    pub fn check_empty(&self) -> Result<()> {
        let jobs = self.registry.jobs(self.clock);
        ensure!(jobs.is_empty(), "a job is reported: {jobs:?}");
        Ok(())
    }
}

fn job_outputs(actions: Vec<JobAction<u32>>) -> Result<Vec<JobOutput>> {
    let mut job_outputs = Vec::new();
    for action in actions {
        job_outputs.push(match action {
            JobAction::AllCalled(callers) => JobOutput::AllCalled(callers),
            JobAction::Fail(rank, failure) => JobOutput::Failed(rank, collective_error(failure)?),
        });
    }
    Ok(job_outputs)
}

fn collective_error(failure: Failure) -> Result<CollectiveError> {
    match failure {
        Failure::Collective { error, .. } => Ok(error),
        other => bail!("the node failed: {other}"),
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
        first_synced: Vec::new(),
    };
    let (rights_version, seal) = (0, [0; 32]);
    let grant = Grant { file, uid: USER, access, rights_version, epoch: 0, seal };
    Opened { record, grant, handle: 0, is_created, renew_after_ms: 0 }
}
