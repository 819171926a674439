//! The collective service of a node: passes calls of ranks to the job registry, and performs the
//! resulting actions. It opens files once for all ranks, sends replies, and measures files.

mod job_opens;
mod monitoring;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use monitoring::WaitWarnings;
use pario_flow::RunningProgram;
use pario_net::{Bulk, SpaceId};
use pario_proto::{
    Call, CallOutcome, CollectiveOpen, FAILED_CALL_LIMIT_BYTES, Failure, FilePath, Identity,
    JobCall, JobMemoryId, Layout, LockCall, LockRequest, Member, Mode, NamespaceRequest,
    OPEN_TEXT_LIMIT_BYTES, Opened, ProcessName, Reply, ReplyMessage, Request, SharedCall,
    SharedFileId, SharedRequest, SubfileIndex, SubfileLocation, SubfileMeasure, TeamCall,
};
use parking_lot::Mutex;

use crate::coordination::FirstOpens;
use crate::job_registry::{
    FileAction, FileActions, JobAction, JobKey, JobRegistry, check_job_name,
};
use crate::limits::{QuotaShare, RENDEZVOUS_LIMIT_BYTES, Resource};
use crate::node_state::NodeState;
use crate::open_files::OpenFile;
use crate::program::{NamespaceCall, NodeTask, Operations, plain_reply};
use crate::reply_sender::ReplySender;
use crate::sessions::Session;
use crate::team_rendezvous::TeamRendezvous;

/// Handles the collective calls of jobs, and the calls on shared files, locks and team places.
#[derive(Clone)]
pub struct CollectiveService {
    shared: Arc<NodeState>,
    run: Arc<RunningProgram>,
    operations: Operations,
    registry: Arc<JobRegistry<JobCaller, ReplySender>>,
    teams: Arc<TeamRendezvous>,
    first_opens: Arc<Mutex<FirstOpens<ReplySender, QuotaShare>>>,
}

/// A rank that has made a collective call outside of files.
struct JobCaller {
    reply: ReplySender,
    space: SpaceId,
    who: Identity,
    member: Member,
    call: JobCall,
}

/// The ranks of a job that open a file together.
struct OpeningRanks {
    job: JobKey,
    /// The processes, in the order of ranks.
    members: Vec<(SpaceId, Identity)>,
    /// Whether they can coordinate in the job memory.
    are_near: bool,
}

impl JobCaller {
    fn job(&self) -> JobKey {
        (self.who.uid, self.member.job.clone())
    }
}

impl CollectiveService {
    /// Creates the service of a node.
    pub fn new(shared: Arc<NodeState>, run: Arc<RunningProgram>, operations: Operations) -> Self {
        let registry = Arc::new(JobRegistry::with_quotas(shared.quotas.clone()));
        let (teams, first_opens) = (Arc::default(), Arc::default());
        Self { shared, run, operations, registry, teams, first_opens }
    }

    /// Handles a collective call of a rank outside of files.
    pub fn job_call(
        &self,
        session: &Session,
        member: Member,
        number: u64,
        call: JobCall,
        reply: ReplySender,
    ) {
        if let Err(failure) = self.shared.interface() {
            return reply.send(plain_reply(Err(failure)));
        }
        let (space, who) = (session.space, session.identity.clone());
        let (uid, round_call) = (who.uid, call.as_call());
        let text_bytes = round_call.text_bytes();
        if let Err(failure) = check_text(&round_call) {
            return reply.fail(failure);
        }
        let Some(reply) = reply.waiting(text_bytes) else { return };
        let caller = JobCaller { reply, space, who, member: member.clone(), call };
        let now_ms = self.now_ms();
        let actions =
            self.registry.job_call(uid, space, &member, (number, round_call), caller, now_ms);
        self.act_for_jobs(actions);
    }

    /// Handles a call of a rank on a shared file.
    pub fn file_call(
        &self,
        session: &Session,
        request: SharedRequest,
        data: &[Bulk],
        reply: ReplySender,
    ) {
        let SharedRequest { shared_file, call } = request;
        let mut text_bytes = 0;
        if let SharedCall::Collective { call, .. } = &call {
            if let Err(failure) = check_text(call) {
                return reply.fail(failure);
            }
            text_bytes = call.text_bytes();
        }
        // Calls that release something are never refused.
        let reply = match call {
            SharedCall::Collective { .. }
            | SharedCall::Transfer(_)
            | SharedCall::Seek(_)
            | SharedCall::Tell
            | SharedCall::Lock { .. } => reply.waiting(text_bytes),
            SharedCall::Unlock { .. }
            | SharedCall::Close
            | SharedCall::CloseForAll
            | SharedCall::Leave
            | SharedCall::Performed { .. } => Some(reply),
        };
        let Some(reply) = reply else { return };
        let actions =
            self.registry.file_call(session.space, shared_file, call, reply, self.now_ms());
        self.act_for_files(actions, data);
    }

    /// Handles a call of a process on the locks of an open file.
    pub fn lock_call(&self, session: &Session, request: LockRequest, reply: ReplySender) {
        let interface = match self.shared.interface() {
            Ok(interface) => interface,
            Err(failure) => return reply.send(plain_reply(Err(failure))),
        };
        let (node, now_ms) = (self.shared.name(), self.now_ms());
        // Calls that release something are never refused.
        let reply = match request.call {
            LockCall::Wait { .. } => reply.waiting(0),
            _ => Some(reply),
        };
        let Some(reply) = reply else { return };
        interface.locks.call(node, &interface.open_files, session, request, reply, now_ms);
    }

    /// Lets a process join an unnamed job.
    pub fn join_unnamed(
        &self,
        session: &Session,
        size_and_rank: (u32, u32),
        process: ProcessName,
    ) -> Result<Reply, Failure> {
        // All processes must ask the same node.
        let now_ns = self.shared.interface()?.namespace.now_ns();
        let (uid, space) = (session.identity.uid, session.space);
        let job = self.registry.join_unnamed(uid, space, size_and_rank, process, now_ns)?;
        Ok(Reply::UnnamedJobJoined { job })
    }

    /// Handles a request about the rendezvous of the machines of a job.
    pub fn team_call(
        &self,
        session: &Session,
        job: String,
        call: TeamCall,
    ) -> Result<Reply, Failure> {
        // All machines must ask the same node.
        self.shared.interface()?;
        check_job_name(&job).map_err(Failure::Invalid)?;
        let job = (session.identity.uid, job);
        match call {
            TeamCall::Settle(offer) => {
                let bytes = offer.address.len() + offer.key.len();
                if bytes > RENDEZVOUS_LIMIT_BYTES {
                    let why = format!(
                        "address and key of a team have {bytes} bytes together: the limit is \
                         {RENDEZVOUS_LIMIT_BYTES}"
                    );
                    return Err(Failure::Invalid(why));
                }
                let (own, all) = self.teams.count(&job);
                self.shared.quotas.check(job.0, Resource::TeamRendezvous, own, all)?;
                self.teams.offer(job, session.space, offer).map(Reply::TeamPlace)
            }
            TeamCall::Withdraw => {
                self.teams.withdraw(&job, session.space);
                Ok(Reply::Done)
            }
        }
    }

    /// Removes a lost process.
    pub fn remove_process(&self, space: SpaceId) {
        self.teams.lose(space);
        self.remove_opener(space);
        let (job_actions, actions) = self.registry.remove_process(space);
        self.act_for_jobs(job_actions);
        self.act_for_files(actions, &[]);
    }

    fn act_for_jobs(&self, actions: Vec<JobAction<JobCaller>>) {
        for action in actions {
            match action {
                JobAction::Fail(caller, failure) => {
                    caller.reply.send_now(plain_reply(Err(failure)))
                }
                JobAction::AllCalled(callers) => {
                    match callers.first().map(|one| one.call.clone()) {
                        Some(JobCall::Open(open)) => self.open_for_callers(callers, open),
                        Some(JobCall::Barrier { .. }) => self.answer_barrier(callers),
                        // The registry fails a round with such a call.
                        Some(JobCall::Failed(_)) | None => {}
                    }
                }
            }
        }
    }

    fn act_for_files(&self, actions: FileActions<ReplySender>, data: &[Bulk]) {
        for action in actions {
            match action {
                FileAction::Answer(reply, result) => {
                    let data = match &result {
                        Ok(CallOutcome::Performed { .. }) => data.to_vec(),
                        _ => Vec::new(),
                    };
                    let result = result.map(Reply::Shared);
                    reply.send_now(ReplyMessage { result, data });
                }
                FileAction::Measure(shared_file, opened) => self.measure(shared_file, &opened),
                FileAction::Close(handle, space) => {
                    if let Some(interface) = &self.shared.interface {
                        interface.close(handle, space);
                    }
                }
            }
        }
    }

    /// Answers a barrier. If all ranks can map the job memory, they coordinate there from now on.
    fn answer_barrier(&self, callers: Vec<JobCaller>) {
        let is_near =
            |caller: &JobCaller| matches!(caller.call, JobCall::Barrier { is_near: true });
        let first = callers.first().filter(|_| callers.iter().all(is_near));
        let memory = first.and_then(|first| self.job_memory(&first.job()));
        for caller in callers {
            caller.reply.send_now(plain_reply(Ok(Reply::BarrierDone { memory })));
        }
    }

    /// Returns the memory of a job, and gives its user access to it.
    fn job_memory(&self, job: &JobKey) -> Option<JobMemoryId> {
        let now_ns = self.shared.interface().ok()?.namespace.now_ns();
        if !self.registry.has_memory(job) {
            let (own, all) = self.shared.job_memories.count(job.0);
            // Without a job memory, ranks coordinate by messages.
            self.shared.quotas.check(job.0, Resource::JobMemories, own, all).ok()?;
        }
        let (id, memory) = self.registry.job_memory(job, now_ns)?;
        self.shared.job_memories.add(id, job.0, &memory);
        Some(id)
    }

    /// Opens a file for ranks that have all requested it, and replies to each of them.
    fn open_for_callers(&self, callers: Vec<JobCaller>, open: CollectiveOpen) {
        let Some(first) = callers.first() else { return };
        let is_near = |caller: &JobCaller| match &caller.call {
            JobCall::Open(open) => open.is_near,
            JobCall::Barrier { .. } | JobCall::Failed(_) => false,
        };
        let job = first.job();
        let are_near = callers.iter().all(is_near) && self.job_memory(&job).is_some();
        let members = callers.iter().map(|caller| (caller.space, caller.who.clone())).collect();
        self.open(OpeningRanks { job, members, are_near }, open, move |result| {
            for (rank, caller) in (0..).zip(callers) {
                let mut result = result.clone();
                if let Ok(Reply::OpenedForAll { opened, .. }) = &mut result {
                    opened.handle += rank;
                }
                caller.reply.send_now(plain_reply(result));
            }
        });
    }

    /// Opens a file for all ranks of a job, which have agreed on it in the job memory.
    pub fn open_for_all(
        &self,
        session: &Session,
        member: &Member,
        open: CollectiveOpen,
        reply: ReplySender,
    ) {
        let job = (session.identity.uid, member.job.clone());
        let spaces = match self.registry.spaces_of_job(job.0, session.space, member) {
            Ok(spaces) => spaces,
            Err(error) => {
                let (what, job) = (JobCall::Open(open).as_call().to_string(), job.1);
                let failure = Failure::Collective { what, job, error };
                return reply.send(plain_reply(Err(failure)));
            }
        };
        let identity = |space| match self.shared.sessions.get(space) {
            Some(session) => session.identity.clone(),
            None => session.identity.clone(),
        };
        let members = spaces.into_iter().map(|space| (space, identity(space))).collect();
        self.open(OpeningRanks { job, members, are_near: true }, open, move |result| {
            reply.send_now(plain_reply(result));
        });
    }

    /// Opens a file for ranks, with one request to the namespace. The reply is for rank 0.
    fn open(
        &self,
        ranks: OpeningRanks,
        open: CollectiveOpen,
        then: impl FnOnce(Result<Reply, Failure>) + Send + 'static,
    ) {
        let Some((space, who)) = ranks.members.first().cloned() else { return };
        let CollectiveOpen { path, access, creation, mode, .. } = open;
        let request = match creation {
            Some(options) => NamespaceRequest::Create {
                path: path.clone(),
                access,
                is_new: options.is_new,
                mode: options.mode,
                layout: options.layout,
            },
            None => NamespaceRequest::Open { path: path.clone(), access },
        };
        let call = NamespaceCall { space, who, request };
        let this = self.clone();
        let started = self.run.start_then(self.operations.namespace, call, move |result| {
            let internal = |why: String| {
                let node = this.shared.name().to_owned();
                Failure::Internal { node, why }
            };
            let result = match result {
                Ok(answer) => answer.result,
                Err(error) => Err(internal(error.to_string())),
            };
            then(result.and_then(|reply| match reply {
                Reply::Opened(opened) => this.opened(ranks, &path, mode, opened),
                _ => Err(internal(
                    "the namespace has answered an open with another reply".to_owned(),
                )),
            }));
        });
        if let Err(error) = started {
            tracing::error!(%error, "cannot start an operation of the node");
        }
    }

    fn opened(
        &self,
        ranks: OpeningRanks,
        path: &FilePath,
        mode: Mode,
        opened: Opened,
    ) -> Result<Reply, Failure> {
        let interface = self.shared.interface()?;
        let OpeningRanks { job, members, are_near } = ranks;
        let spaces: Vec<SpaceId> = members.iter().map(|(space, _)| *space).collect();
        let (record, access) = (&opened.record, opened.grant.access);
        let (own, all) = self.registry.file_count(job.0);
        let quotas = &self.shared.quotas;
        let checked = quotas.check(job.0, Resource::SharedFiles, own, all);
        let shares: Result<Vec<_>, Failure> = checked.and_then(|()| {
            let take =
                |(_, who): &(SpaceId, Identity)| quotas.account(who.uid).take(Resource::Handles, 1);
            members.iter().map(take).collect()
        });
        let shares = match shares {
            Ok(shares) => shares,
            Err(failure) => {
                interface.close(opened.handle, spaces[0]);
                return Err(failure);
            }
        };
        let opening = members.into_iter().map(|(space, identity)| OpenFile {
            space,
            identity,
            path: path.clone(),
            record: record.clone(),
            access,
        });
        let handle = interface.open_files.open_all(opening.zip(shares));
        // Rank 0 has a new handle instead of this one.
        let _kept = interface.open_files.close(opened.handle, spaces[0]);
        let opened = Opened { handle, ..opened };
        let now_ns = interface.namespace.now_ns();
        let (shared_file, table) =
            self.registry.register_file(&job, path, mode, &opened, (&spaces, are_near), now_ns);
        for space in spaces {
            // A process that was lost in between has no open files.
            if self.shared.sessions.get(space).is_none() {
                interface.remove_client(space);
                self.remove_process(space);
            }
        }
        Ok(Reply::OpenedForAll { opened, shared_file, table })
    }

    /// Measures a file: asks all its nodes at once.
    fn measure(&self, shared_file: SharedFileId, opened: &Opened) {
        let mut by_node: BTreeMap<usize, Vec<SubfileLocation>> = BTreeMap::new();
        let layout = opened.record.layout.as_ref();
        let disks = layout.map(|layout| layout.disks().as_slice()).unwrap_or_default();
        for (index, &disk) in (0..).zip(disks) {
            let Some((node, _)) = self.shared.map.read().disk(disk) else {
                return self
                    .measured(shared_file, Err(format!("no node has {disk} at the moment")));
            };
            let part = SubfileLocation { disk, subfile: SubfileIndex(index) };
            by_node.entry(node as usize).or_default().push(part);
        }
        let query = Arc::new(SizeQuery {
            service: self.clone(),
            shared_file,
            layout: opened.record.layout.clone(),
            found: Mutex::new((by_node.len(), Ok(Vec::new()))),
        });
        for (node, parts) in by_node {
            let query = query.clone();
            if node != self.shared.me {
                let files = vec![(self.shared.reissue(&opened.grant), parts)];
                self.shared.peers.ask_then(node, Request::Measure { files }, move |answer| {
                    query.take(answer.and_then(|answer| answer.result));
                });
                continue;
            }
            let number =
                |part: &SubfileLocation| Ok((self.shared.disks.number_of(part.disk)?, *part));
            let parts: Result<Vec<_>, Failure> = parts.iter().map(number).collect();
            let work = match parts {
                Ok(parts) => NodeTask::Measure { files: vec![(opened.grant.clone(), parts)] },
                Err(failure) => {
                    query.take(Err(failure));
                    continue;
                }
            };
            let started = self.run.start_then(self.operations.perform_task, work, move |result| {
                let node = query.service.shared.name().to_owned();
                let internal = |why| Failure::Internal { node, why };
                let result = result.map_err(|error| internal(error.to_string()));
                query.take(result.and_then(|answer| answer.result));
            });
            if let Err(error) = started {
                tracing::error!(%error, "cannot start an operation of the node");
            }
        }
    }

    fn measured(&self, shared_file: SharedFileId, len: Result<u64, String>) {
        let actions = self.registry.measured(shared_file, len);
        self.act_for_files(actions, &[]);
    }

    fn now_ms(&self) -> u64 {
        self.shared.now_ms()
    }
}

/// Refuses a call with too long a text.
fn check_text(call: &Call) -> Result<(), Failure> {
    let bytes = call.text_bytes();
    match call {
        Call::Failed(_) if bytes > FAILED_CALL_LIMIT_BYTES => Err(Failure::Invalid(format!(
            "the reason of a call that failed has {bytes} bytes, the limit is \
             {FAILED_CALL_LIMIT_BYTES}"
        ))),
        _ if bytes > OPEN_TEXT_LIMIT_BYTES => Err(Failure::Invalid(format!(
            "the options of the open have {bytes} bytes as text, the limit is \
             {OPEN_TEXT_LIMIT_BYTES}: spread the file over fewer disks"
        ))),
        _ => Ok(()),
    }
}

/// A query for the size of a file to all its nodes.
struct SizeQuery {
    service: CollectiveService,
    shared_file: SharedFileId,
    layout: Option<Layout>,
    /// The number of nodes that have not replied, and the sizes from the others.
    found: Mutex<(usize, Result<Vec<SubfileMeasure>, String>)>,
}

impl SizeQuery {
    /// Takes the reply of a node; the last one ends the query.
    fn take(&self, answered: Result<Reply, Failure>) {
        let found = {
            let mut state = self.found.lock();
            let (left, found) = &mut *state;
            *left -= 1;
            match (answered, &mut *found) {
                (Ok(Reply::Measured(lists)), Ok(all)) => all.extend(lists.into_iter().flatten()),
                (Err(failure), Ok(_)) => *found = Err(failure.to_string()),
                _ => {}
            }
            if *left > 0 {
                return;
            }
            std::mem::replace(found, Ok(Vec::new()))
        };
        let len = found.and_then(|mut all| {
            all.sort_by_key(|measure| measure.subfile);
            let lens: Vec<u64> = all.iter().map(|measure| measure.len).collect();
            match &self.layout {
                Some(Layout::Striped(striped)) => {
                    striped.file_size_bytes(&lens).map_err(|error| error.to_string())
                }
                _ => Err("it is not a flat file".to_owned()),
            }
        });
        self.service.measured(self.shared_file, len);
    }
}
