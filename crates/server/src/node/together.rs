//! What the processes of a job do together, done: opening files once for all, answering those who
//! have waited, finding out sizes.

mod watching;

use std::collections::BTreeMap;
use std::sync::Arc;

use pario_flow::Run;
use pario_net::{Bulk, Responder, SpaceId};
use pario_proto::{
    Answer, AssemblyId, Failure, FilePath, Identity, JobCall, Layout, LockRequest, Mode,
    NamespaceRequest, OpenTogether, Opened, Outcome, Part, Reply, Request, Seat, SharedRequest,
    SubfileIndex, SubfileMeasure,
};
use parking_lot::Mutex;

use crate::meetings::{FileAction, FileActions, JobAction, Meetings};
use crate::open_files::OpenFile;
use crate::program::{NamesCall, Operations, Work, answer};
use crate::sessions::Session;
use crate::shared::Shared;
use crate::tables::SharedTable;

type Reporter = Responder<Answer<Bulk>>;

/// Where the processes of jobs meet.
#[derive(Clone)]
pub struct Together {
    shared: Arc<Shared>,
    run: Arc<Run>,
    operations: Operations,
    meetings: Arc<Meetings<JobCaller, Reporter>>,
}

/// A process that asks something together with the others of its job.
struct JobCaller {
    reporter: Reporter,
    space: SpaceId,
    who: Identity,
    seat: Seat,
    call: JobCall,
}

impl Together {
    /// The meeting place of a node.
    pub fn new(shared: Arc<Shared>, run: Arc<Run>, operations: Operations) -> Self {
        Self { shared, run, operations, meetings: Arc::new(Meetings::new()) }
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
        names.locks.call(node, &names.open_files, session.space, request, reporter, now_ms);
    }

    /// A process is gone.
    pub fn lose(&self, space: SpaceId) {
        let (told, actions) = self.meetings.lose(space);
        self.act_for_jobs(told);
        self.act_for_files(actions, &[]);
    }

    fn act_for_jobs(&self, actions: Vec<JobAction<JobCaller>>) {
        for action in actions {
            match action {
                JobAction::Fail(caller, failure) => caller.reporter.send_now(answer(Err(failure))),
                JobAction::Together(callers) => match callers.first().map(|one| one.call.clone()) {
                    Some(JobCall::Open(open)) => self.open(callers, &open),
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
                    reporter.send_now(Answer { result, data });
                }
                FileAction::Measure(assembly, opened) => self.measure(assembly, &opened),
            }
        }
    }

    /// All have met. If they can have memory in common, they meet there the next time.
    fn met(&self, callers: Vec<JobCaller>) {
        let is_near =
            |caller: &JobCaller| matches!(caller.call, JobCall::Barrier { is_near: true });
        let first = callers.first().filter(|_| callers.iter().all(is_near));
        let now_ns = crate::namespace::Clock::system().now_ns();
        let table = first.and_then(|first| {
            let (id, table) = self.meetings.table_of(first.who.uid, &first.seat, now_ns)?;
            self.shared.tables.add(id, first.who.uid, &table);
            Some(id)
        });
        for caller in callers {
            caller.reporter.send_now(answer(Ok(Reply::Met { table })));
        }
    }

    /// Opens a file for all: one look at the names.
    fn open(&self, callers: Vec<JobCaller>, open: &OpenTogether) {
        let Some(first) = callers.first() else { return };
        let (path, access, mode) = (open.path.clone(), open.access, open.mode);
        let request = match &open.creation {
            Some(wish) => NamespaceRequest::Create {
                path: path.clone(),
                access,
                is_new: wish.is_new,
                mode: wish.mode,
                layout: wish.layout.clone(),
            },
            None => NamespaceRequest::Open { path: path.clone(), access },
        };
        let call = NamesCall { space: first.space, who: first.who.clone(), request };
        let this = self.clone();
        let begun = self.run.start_then(self.operations.names, call, move |result| {
            let result = match result {
                Ok(answer) => answer.result,
                Err(error) => {
                    let node = this.shared.name().to_owned();
                    Err(Failure::Internal { node, why: error.to_string() })
                }
            };
            match result {
                Ok(Reply::Opened(opened)) => this.opened(callers, &path, mode, &opened),
                Ok(_) => {}
                Err(failure) => {
                    for caller in callers {
                        caller.reporter.send_now(answer(Err(failure.clone())));
                    }
                }
            }
        });
        if let Err(error) = begun {
            tracing::error!(%error, "an operation cannot be called");
        }
    }

    fn opened(&self, callers: Vec<JobCaller>, path: &FilePath, mode: Mode, opened: &Opened) {
        let (Ok(names), Some(first)) = (self.shared.names(), callers.first()) else { return };
        let spaces: Vec<SpaceId> = callers.iter().map(|caller| caller.space).collect();
        let now_ns = crate::namespace::Clock::system().now_ns();
        let is_near = |caller: &JobCaller| match &caller.call {
            JobCall::Open(open) => open.is_near,
            JobCall::Barrier { .. } => false,
        };
        let len = opened.is_created.then_some(0);
        let table =
            callers.iter().all(is_near).then(|| SharedTable::new(first.seat.size, mode, len));
        let table = table.flatten();
        let has_table = table.is_some();
        let of = (&spaces[..], table.clone());
        let assembly = self.meetings.open(&first.seat.job, path, mode, opened, of, now_ns);
        if let Some(table) = table {
            self.shared.tables.add(assembly, first.who.uid, &table);
        }
        let access = opened.grant.access;
        for (number, caller) in callers.into_iter().enumerate() {
            let handle = if number == 0 {
                opened.handle
            } else {
                names.open_files.open(OpenFile {
                    space: caller.space,
                    identity: caller.who.clone(),
                    path: path.clone(),
                    record: opened.record.clone(),
                    access,
                })
            };
            // Who was lost meanwhile has nothing open.
            if self.shared.sessions.of(caller.space).is_none() {
                names.close(handle, caller.space);
                self.lose(caller.space);
                continue;
            }
            let opened = Opened { handle, ..opened.clone() };
            let reply = Reply::OpenedTogether { opened, assembly, has_table };
            caller.reporter.send_now(answer(Ok(reply)));
        }
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
                let files = vec![(opened.grant.clone(), parts)];
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
