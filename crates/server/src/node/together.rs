//! What the processes of a job do together, done: opening files once for all, answering those who
//! have waited, finding out sizes.

mod watching;

use std::collections::BTreeMap;
use std::sync::Arc;

use pario_flow::Run;
use pario_net::{Bulk, SpaceId};
use pario_proto::{
    AssemblyId, Call, Failure, FilePath, Identity, JobCall, Layout, LockCall, LockRequest,
    MemoryId, Mode, NamespaceRequest, OPEN_TEXT_LIMIT_BYTES, OpenTogether, Opened, Outcome, Part,
    Reply, ReplyMessage, Request, Seat, SharedCall, SharedRequest, SubfileIndex, SubfileMeasure,
    TeamCall,
};
use parking_lot::Mutex;

use crate::limits::{Resource, TEAM_PLACE_LIMIT_BYTES};
use crate::meetings::{FileAction, FileActions, JobAction, JobKey, Meetings, check_job};
use crate::open_files::OpenFile;
use crate::program::{NamesCall, Operations, Work, answer};
use crate::reporter::Reporter;
use crate::sessions::Session;
use crate::shared::Shared;
use crate::team_places::TeamPlaces;

/// Where the processes of jobs meet.
#[derive(Clone)]
pub struct Together {
    shared: Arc<Shared>,
    run: Arc<Run>,
    operations: Operations,
    meetings: Arc<Meetings<JobCaller, Reporter>>,
    teams: Arc<TeamPlaces>,
}

/// A process that asks something together with the others of its job.
struct JobCaller {
    reporter: Reporter,
    space: SpaceId,
    who: Identity,
    seat: Seat,
    call: JobCall,
}

/// The processes of a job that open a file.
struct Company {
    job: JobKey,
    /// In the order of ranks.
    members: Vec<(SpaceId, Identity)>,
    /// Whether they can meet in the memory of the job.
    are_near: bool,
}

impl JobCaller {
    fn job(&self) -> JobKey {
        (self.who.uid, self.seat.job.clone())
    }
}

impl Together {
    /// The meeting place of a node.
    pub fn new(shared: Arc<Shared>, run: Arc<Run>, operations: Operations) -> Self {
        let meetings = Arc::new(Meetings::with_quotas(shared.quotas.clone()));
        let teams = Arc::default();
        Self { shared, run, operations, meetings, teams }
    }

    /// A process of a job asks something.
    pub fn job(
        &self,
        session: &Session,
        seat: Seat,
        number: u64,
        call: JobCall,
        reporter: Reporter,
    ) {
        if let Err(failure) = self.shared.names() {
            return reporter.send(answer(Err(failure)));
        }
        let (space, who) = (session.space, session.identity.clone());
        let (uid, words) = (who.uid, call.as_call());
        let text_bytes = if let Call::Open(text) = &words { text.len() } else { 0 };
        if text_bytes > OPEN_TEXT_LIMIT_BYTES {
            let why = format!(
                "{text_bytes} bytes describe how a file is opened, the limit is \
                 {OPEN_TEXT_LIMIT_BYTES}: spread it over fewer disks"
            );
            return reporter.fail(Failure::Invalid(why));
        }
        let Some(reporter) = reporter.waiting(text_bytes) else { return };
        let caller = JobCaller { reporter, space, who, seat: seat.clone(), call };
        let now_ms = self.now_ms();
        let actions = self.meetings.ask(uid, space, &seat, (number, words), caller, now_ms);
        self.act_for_jobs(actions);
    }

    /// A process asks something of a file that it has open with others.
    pub fn file(
        &self,
        session: &Session,
        request: SharedRequest,
        data: &[Bulk],
        reporter: Reporter,
    ) {
        let SharedRequest { assembly, call } = request;
        // What gives something up is never refused.
        let reporter = match call {
            SharedCall::Meet { .. }
            | SharedCall::Transfer(_)
            | SharedCall::Seek(_)
            | SharedCall::Tell
            | SharedCall::Lock { .. } => reporter.waiting(0),
            SharedCall::Unlock { .. }
            | SharedCall::Close
            | SharedCall::CloseForAll
            | SharedCall::Leave
            | SharedCall::Performed { .. } => Some(reporter),
        };
        let Some(reporter) = reporter else { return };
        let actions = self.meetings.call(session.space, assembly, call, reporter, self.now_ms());
        self.act_for_files(actions, data);
    }

    /// A process asks something about the locks of a file that it has open.
    pub fn lock(&self, session: &Session, request: LockRequest, reporter: Reporter) {
        let names = match self.shared.names() {
            Ok(names) => names,
            Err(failure) => return reporter.send(answer(Err(failure))),
        };
        let (node, now_ms) = (self.shared.name(), self.now_ms());
        // What gives something up is never refused.
        let reporter = match request.call {
            LockCall::Wait { .. } => reporter.waiting(0),
            _ => Some(reporter),
        };
        let Some(reporter) = reporter else { return };
        names.locks.call(node, &names.open_files, session, request, reporter, now_ms);
    }

    /// A machine of a job asks where the others are.
    pub fn team(&self, session: &Session, job: String, call: TeamCall) -> Result<Reply, Failure> {
        // All must ask the same node.
        self.shared.names()?;
        check_job(&job).map_err(Failure::Invalid)?;
        let job = (session.identity.uid, job);
        match call {
            TeamCall::Settle(offer) => {
                let bytes = offer.address.len() + offer.key.len();
                if bytes > TEAM_PLACE_LIMIT_BYTES {
                    let why = format!(
                        "an address and a key of {bytes} bytes are no place to meet: the limit is \
                         {TEAM_PLACE_LIMIT_BYTES}"
                    );
                    return Err(Failure::Invalid(why));
                }
                let (own, all) = self.teams.count(&job);
                self.shared.quotas.check(job.0, Resource::TeamPlaces, own, all)?;
                self.teams.settle(job, session.space, offer).map(Reply::TeamPlace)
            }
            TeamCall::Withdraw => {
                self.teams.withdraw(&job, session.space);
                Ok(Reply::Done)
            }
        }
    }

    /// A process is gone.
    pub fn lose(&self, space: SpaceId) {
        self.teams.lose(space);
        let (told, actions) = self.meetings.lose(space);
        self.act_for_jobs(told);
        self.act_for_files(actions, &[]);
    }

    fn act_for_jobs(&self, actions: Vec<JobAction<JobCaller>>) {
        for action in actions {
            match action {
                JobAction::Fail(caller, failure) => caller.reporter.send_now(answer(Err(failure))),
                JobAction::Together(callers) => match callers.first().map(|one| one.call.clone()) {
                    Some(JobCall::Open(open)) => self.open_together(callers, open),
                    Some(JobCall::Barrier { .. }) => self.met(callers),
                    None => {}
                },
            }
        }
    }

    fn act_for_files(&self, actions: FileActions<Reporter>, data: &[Bulk]) {
        for action in actions {
            match action {
                FileAction::Answer(reporter, result) => {
                    let data = match &result {
                        Ok(Outcome::Performed { .. }) => data.to_vec(),
                        _ => Vec::new(),
                    };
                    let result = result.map(Reply::Shared);
                    reporter.send_now(ReplyMessage { result, data });
                }
                FileAction::Measure(assembly, opened) => self.measure(assembly, &opened),
                FileAction::Close(handle, space) => {
                    if let Some(names) = &self.shared.names {
                        names.close(handle, space);
                    }
                }
            }
        }
    }

    /// All have met. If they can have memory in common, they meet there the next time.
    fn met(&self, callers: Vec<JobCaller>) {
        let is_near =
            |caller: &JobCaller| matches!(caller.call, JobCall::Barrier { is_near: true });
        let first = callers.first().filter(|_| callers.iter().all(is_near));
        let memory = first.and_then(|first| self.memory_of(&first.job()));
        for caller in callers {
            caller.reporter.send_now(answer(Ok(Reply::Met { memory })));
        }
    }

    /// Memory for the processes of a job, which they can have from now on.
    fn memory_of(&self, job: &JobKey) -> Option<MemoryId> {
        let now_ns = crate::namespace::Clock::system().now_ns();
        if !self.meetings.has_memory(job) {
            let (own, all) = self.shared.memories.count(job.0);
            // Without memory in common, processes meet by messages.
            self.shared.quotas.check(job.0, Resource::Memories, own, all).ok()?;
        }
        let (id, memory) = self.meetings.memory_of(job, now_ns)?;
        self.shared.memories.add(id, job.0, &memory);
        Some(id)
    }

    /// All want a file opened, and each is answered.
    fn open_together(&self, callers: Vec<JobCaller>, open: OpenTogether) {
        let Some(first) = callers.first() else { return };
        let is_near = |caller: &JobCaller| match &caller.call {
            JobCall::Open(open) => open.is_near,
            JobCall::Barrier { .. } => false,
        };
        let job = first.job();
        let are_near = callers.iter().all(is_near) && self.memory_of(&job).is_some();
        let members = callers.iter().map(|caller| (caller.space, caller.who.clone())).collect();
        self.open(Company { job, members, are_near }, open, move |result| {
            for (rank, caller) in (0..).zip(callers) {
                let mut result = result.clone();
                if let Ok(Reply::OpenedTogether { opened, .. }) = &mut result {
                    opened.handle += rank;
                }
                caller.reporter.send_now(answer(result));
            }
        });
    }

    /// One process opens a file for all of its job, who have agreed on it.
    pub fn open_for_all(
        &self,
        session: &Session,
        seat: &Seat,
        open: OpenTogether,
        reporter: Reporter,
    ) {
        let job = (session.identity.uid, seat.job.clone());
        let spaces = match self.meetings.all_of(job.0, session.space, seat) {
            Ok(spaces) => spaces,
            Err(trouble) => {
                let (what, job) = (JobCall::Open(open).as_call().to_string(), job.1);
                let failure = Failure::Group { what, job, trouble };
                return reporter.send(answer(Err(failure)));
            }
        };
        let identity = |space| match self.shared.sessions.of(space) {
            Some(session) => session.identity.clone(),
            None => session.identity.clone(),
        };
        let members = spaces.into_iter().map(|space| (space, identity(space))).collect();
        self.open(Company { job, members, are_near: true }, open, move |result| {
            reporter.send_now(answer(result));
        });
    }

    /// Opens a file for a company: one look at the names. The answer is for rank 0.
    fn open(
        &self,
        company: Company,
        open: OpenTogether,
        then: impl FnOnce(Result<Reply, Failure>) + Send + 'static,
    ) {
        let Some((space, who)) = company.members.first().cloned() else { return };
        let OpenTogether { path, access, creation, mode, .. } = open;
        let request = match creation {
            Some(wish) => NamespaceRequest::Create {
                path: path.clone(),
                access,
                is_new: wish.is_new,
                mode: wish.mode,
                layout: wish.layout,
            },
            None => NamespaceRequest::Open { path: path.clone(), access },
        };
        let call = NamesCall { space, who, request };
        let this = self.clone();
        let begun = self.run.start_then(self.operations.names, call, move |result| {
            let internal = |why: String| {
                let node = this.shared.name().to_owned();
                Failure::Internal { node, why }
            };
            let result = match result {
                Ok(answer) => answer.result,
                Err(error) => Err(internal(error.to_string())),
            };
            then(result.and_then(|reply| match reply {
                Reply::Opened(opened) => this.opened(company, &path, mode, opened),
                _ => Err(internal("a file was opened with a strange answer".to_owned())),
            }));
        });
        if let Err(error) = begun {
            tracing::error!(%error, "an operation cannot be called");
        }
    }

    fn opened(
        &self,
        company: Company,
        path: &FilePath,
        mode: Mode,
        opened: Opened,
    ) -> Result<Reply, Failure> {
        let names = self.shared.names()?;
        let Company { job, members, are_near } = company;
        let spaces: Vec<SpaceId> = members.iter().map(|(space, _)| *space).collect();
        let (record, access) = (&opened.record, opened.grant.access);
        let (own, all) = self.meetings.file_count(job.0);
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
                names.close(opened.handle, spaces[0]);
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
        let handle = names.open_files.open_all(opening.zip(shares));
        // The first of them has one in its place.
        let _kept = names.open_files.close(opened.handle, spaces[0]);
        let opened = Opened { handle, ..opened };
        let now_ns = crate::namespace::Clock::system().now_ns();
        let (assembly, table) =
            self.meetings.open(&job, path, mode, &opened, (&spaces, are_near), now_ns);
        for space in spaces {
            // Who was lost meanwhile has nothing open.
            if self.shared.sessions.of(space).is_none() {
                names.lose(space);
                self.lose(space);
            }
        }
        Ok(Reply::OpenedTogether { opened, assembly, table })
    }

    /// Finds out how long a file is: asks all its nodes at once.
    fn measure(&self, assembly: AssemblyId, opened: &Opened) {
        let mut by_node: BTreeMap<usize, Vec<Part>> = BTreeMap::new();
        let layout = opened.record.layout.as_ref();
        let disks = layout.map(|layout| layout.disks().as_slice()).unwrap_or_default();
        for (index, &disk) in (0..).zip(disks) {
            let Some((node, _)) = self.shared.map.read().disk(disk) else {
                return self.measured(assembly, Err(format!("no node has {disk} at the moment")));
            };
            let part = Part { disk, subfile: SubfileIndex(index) };
            by_node.entry(node as usize).or_default().push(part);
        }
        let measuring = Arc::new(Measuring {
            together: self.clone(),
            assembly,
            layout: opened.record.layout.clone(),
            found: Mutex::new((by_node.len(), Ok(Vec::new()))),
        });
        for (node, parts) in by_node {
            let measuring = measuring.clone();
            if node != self.shared.me {
                let files = vec![(self.shared.reissue(&opened.grant), parts)];
                self.shared.peers.ask_then(node, Request::Measure { files }, move |answer| {
                    measuring.take(answer.and_then(|answer| answer.result));
                });
                continue;
            }
            let number = |part: &Part| Ok((self.shared.disks.number_of(part.disk)?, *part));
            let parts: Result<Vec<_>, Failure> = parts.iter().map(number).collect();
            let work = match parts {
                Ok(parts) => Work::Measure { files: vec![(opened.grant.clone(), parts)] },
                Err(failure) => {
                    measuring.take(Err(failure));
                    continue;
                }
            };
            let begun = self.run.start_then(self.operations.here, work, move |result| {
                let node = measuring.together.shared.name().to_owned();
                let internal = |why| Failure::Internal { node, why };
                let result = result.map_err(|error| internal(error.to_string()));
                measuring.take(result.and_then(|answer| answer.result));
            });
            if let Err(error) = begun {
                tracing::error!(%error, "an operation cannot be called");
            }
        }
    }

    fn measured(&self, assembly: AssemblyId, len: Result<u64, String>) {
        let actions = self.meetings.measured(assembly, len);
        self.act_for_files(actions, &[]);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.shared.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A file whose nodes have been asked for sizes.
struct Measuring {
    together: Together,
    assembly: AssemblyId,
    layout: Option<Layout>,
    /// How many have not answered, and what the others have said.
    found: Mutex<(usize, Result<Vec<SubfileMeasure>, String>)>,
}

impl Measuring {
    /// A node has answered; the last one ends it.
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
                _ => Err("it is not a file of bytes".to_owned()),
            }
        });
        self.together.measured(self.assembly, len);
    }
}
