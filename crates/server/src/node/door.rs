//! The door: who asks, whether they may, and which operation answers.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pario_flow::{OperationRef, RunningProgram, Token};
use pario_net::wire::BULK_BYTES;
use pario_net::{Bulk, FilePart, IncomingRequest, RecvError, RpcServer, Sender, SpaceId};
use pario_proto::{
    CheckRequest, DiskId, FILES_LIMIT, Failure, GROUPS_LIMIT, Grant, Identity, NamespaceRequest,
    PROTOCOL_VERSION, PeerKind, PeerRequest, RANGES_LIMIT, Reply, ReplyMessage, Request,
    RequestMessage, SubfileLocation, TRANSFER_LIMIT_BYTES,
};

use super::collective_service::CollectiveService;
use super::turns::{Turn, Turns};
use super::{informing, joining, monitor, short_cut};
use crate::check;
use crate::config::ShortCut;
use crate::program::{DataCall, NamesCall, Operations, Storage, Work, answer};
use crate::protocol::NodeProtocol;
use crate::reporter::Reporter;
use crate::sessions::Session;
use crate::shared::{Shared, Ticket};

type Port = RpcServer<NodeProtocol>;

/// Threads at the door: one receives, others wait for a disk or to receive in its place.
pub const THREADS: usize = 4;

/// The door of a node.
pub struct Door {
    pub(super) shared: Arc<Shared>,
    pub(super) run: Arc<RunningProgram>,
    pub(super) operations: Operations,
    collectives: CollectiveService,
    port: Port,
    turns: Turns,
}

impl Door {
    /// The door of a node whose program runs.
    pub fn new(
        shared: Arc<Shared>,
        run: Arc<RunningProgram>,
        operations: Operations,
        port: Port,
    ) -> Self {
        let collectives = CollectiveService::new(shared.clone(), run.clone(), operations);
        Self { shared, run, operations, collectives, port, turns: Turns::default() }
    }

    /// Warns of processes that wait for each other too long, until the node is asked to stop.
    pub fn watch(&self) {
        self.collectives.warn_of_long_waits();
    }

    /// Lets questions in until the node's space is closed, when it is this thread's turn.
    ///
    /// A panic ends the request that it happens in, and nothing else: its [`Reporter`] answers the
    /// client, its ticket and its shares are given back, and the thread goes on with the turn, if it
    /// still has it.
    pub fn serve(&self, is_first: bool) {
        let mut has_turn = is_first || self.turns.wait();
        while has_turn {
            let turn = self.turns.held();
            let kind = Cell::new("receiving");
            let served = catch_unwind(AssertUnwindSafe(|| self.serve_next(&turn, &kind)));
            match served {
                Ok(true) => {}
                Ok(false) => break,
                Err(panic) => tell_panic(kind.get(), &*panic),
            }
            has_turn = turn.is_held() || self.turns.wait();
        }
        self.turns.close();
    }

    /// Receives and dispatches the next question; false when none will come any more. `kind` becomes
    /// that of the question.
    fn serve_next(&self, turn: &Turn<'_>, kind: &Cell<&'static str>) -> bool {
        match self.port.recv() {
            Ok(asked) => {
                kind.set(asked.request.request.kind());
                self.let_in(asked, turn);
            }
            Err(RecvError::Lost { space, .. }) => {
                kind.set("the loss of a client");
                self.lose(space);
            }
            Err(RecvError::Closed { .. }) => return false,
            Err(error) => tracing::warn!(%error, "a question that cannot be understood"),
        }
        true
    }

    /// A client is gone. Each step is done even if another one panics.
    fn lose(&self, space: SpaceId) {
        let steps: [&dyn Fn(); 4] = [
            &|| self.shared.sessions.leave(space),
            &|| self.shared.calls.lose(space),
            &|| self.collectives.remove_process(space),
            &|| self.shared.names.iter().for_each(|names| names.lose(space)),
        ];
        for step in steps {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(step)) {
                tell_panic("the loss of a client", &*panic);
            }
        }
    }

    /// Lets a question in.
    fn let_in(&self, asked: IncomingRequest<NodeProtocol>, turn: &Turn<'_>) {
        let IncomingRequest { request: question, sender: from, responder } = asked;
        let RequestMessage { request, data } = question;
        let session = self.shared.sessions.of(from.space);
        let node = self.shared.label.clone();
        let logs = (self.shared.audit.clone(), self.shared.events.clone());
        let client = session.clone().ok_or_else(|| from.clone());
        let meter = self.shared.requests.of(request.kind());
        let reporter = Reporter::new(responder, node, request.kind(), client, logs, meter);
        if let Request::Hello { version, identity, client, peer } = request {
            let welcome = self.hello(&from, version, identity, (client, peer));
            return reporter.send(answer(welcome));
        }
        let Some(session) = session else {
            return reporter.fail(self.refused("say hello first"));
        };
        #[cfg(test)]
        super::panic_tests::panic_if_wanted(&session, &request);
        let needs_names = matches!(request, Request::Namespace(_) | Request::OpenForAll { .. });
        if needs_names
            && let Some(failure) = self.shared.rebuild.refusal(&self.shared.config, self.shared.me)
        {
            return reporter.fail(failure);
        }
        match request {
            Request::Map => {
                let map = self.shared.map.read().clone();
                reporter.send(answer(Ok(Reply::Map(map))));
            }
            Request::Status => {
                reporter.send(answer(Ok(Reply::Status(Box::new(monitor::status(&self.shared))))))
            }
            Request::FileSystems => {
                let devices = self.shared.disks.devices();
                reporter.send(answer(Ok(Reply::FileSystems(devices))));
            }
            Request::Stop => {
                let stopped = self.administrators_only(&session, "stop the node");
                self.note_administration(&session, "stop the node", &stopped);
                if stopped.is_ok() {
                    let (name, uid) = (&session.name, session.identity.uid);
                    let node = self.shared.name();
                    tracing::info!("node {node} is stopping: {name}, user {uid}, has asked for it");
                }
                reporter.send(answer(stopped.map(|()| Reply::Done)));
                if self.shared.is_administrator(&session.identity) {
                    self.shared.stopping.ask();
                }
            }
            // Whoever waits for others does not hold up a node that stops.
            Request::Job { member, number, call } => {
                self.collectives.job_call(&session, member, number, call, reporter);
            }
            Request::OpenForAll { member, open } => {
                self.collectives.open_for_all(&session, &member, open, reporter);
            }
            Request::Jobs => reporter.send(answer(self.collectives.jobs(&session))),
            Request::Reset { files } => {
                let reset = self.collectives.reset(&session, &files);
                let object = match files.as_slice() {
                    [] => "reset all files and jobs".to_owned(),
                    files => format!("reset {} files, first {}", files.len(), files[0]),
                };
                self.note_administration(&session, &object, &reset);
                reporter.send(answer(reset));
            }
            Request::Shared(request) => {
                self.collectives.file_call(&session, request, &data, reporter)
            }
            Request::Lock(request) => self.collectives.lock_call(&session, request, reporter),
            Request::LockWaits => reporter.send(answer(self.collectives.lock_waits(&session))),
            Request::Process(request) => self.process(&session, request, data, reporter),
            Request::Team { job, call } => {
                reporter.send(answer(self.collectives.team_call(&session, job, call)));
            }
            request => match self.shared.begin() {
                Ok(ticket) if needs(&request).is_some() => {
                    self.data(&session, (request, data), turn, reporter, ticket);
                }
                Ok(ticket) => self.work(&session, request, reporter, ticket),
                Err(failure) => reporter.fail(failure),
            },
        }
    }

    /// Something with a subfile: done at once, or by the storage thread of its disk.
    fn data(
        &self,
        session: &Session,
        (request, data): (Request, Vec<Bulk>),
        turn: &Turn<'_>,
        reporter: Reporter,
        ticket: Ticket,
    ) {
        let call = match self.data_call(session, request, data) {
            Ok(call) => call,
            Err(failure) => return reporter.fail(failure),
        };
        if reporter.takes_files()
            && let Some((found, part)) = self.find_cached(&call)
        {
            return reporter.send_file(found, part);
        }
        if let Err(failure) = self.queue(&call) {
            return reporter.fail(failure);
        }
        // What is to be written is in the cache of this thread's processor, and the page cache
        // takes it at once, unless there is too much that the disk has not written yet, or the disk
        // behaves like a slower one.
        let disk = self.shared.disks.disk(call.disk);
        // The interface node may have to be asked whether the subfile was ever there.
        let must_ask = self.shared.names.is_none()
            && call
                .subfile()
                .is_some_and(|(grant, part)| !disk.is_known(grant.file, part.subfile.0));
        if matches!(call.request, Request::Write { .. })
            && !must_ask
            && !disk.is_slow
            && disk.load.stalled_for().is_none()
            && let Some(working) = turn.begin()
        {
            let mut storage = Storage::new(self.shared.clone());
            #[cfg(test)]
            super::panic_tests::panic_in_work_if_wanted(session, &disk.load, call.bytes());
            let written = storage.serve(call);
            drop(working);
            // Who receives next sends what is gathered before it waits.
            match turn.is_held() {
                true => reporter.send(written),
                false => reporter.send_now(written),
            }
            drop(ticket);
            return;
        }
        let bytes = call.bytes();
        let operation = if must_ask { self.operations.find_data } else { self.operations.data };
        if !self.start(operation, call, reporter, ticket) {
            disk.load.leave(bytes);
        }
    }

    fn work(&self, session: &Arc<Session>, request: Request, reporter: Reporter, ticket: Ticket) {
        let operations = &self.operations;
        let (space, who) = (session.space, session.identity.clone());
        let begun = match request {
            Request::Namespace(request @ NamespaceRequest::SetRights { .. }) => {
                let call = NamesCall { space, who, request };
                self.start(operations.set_rights, call, reporter, ticket);
                return;
            }
            Request::Namespace(request) => {
                let call = NamesCall { space, who, request };
                self.start(operations.names, call, reporter, ticket);
                return;
            }
            Request::Measure { files } => self.measure(session, files),
            Request::SyncMany { subfiles } => self.sync_many(session, subfiles),
            Request::Check(what) => return self.check(session, what, reporter, ticket),
            Request::Peer(request) => {
                if !session.is_node {
                    return reporter.fail(self.refused("only nodes of the cluster may ask this"));
                }
                return self.peer(session, request, reporter, ticket);
            }
            _ => Err(self.refused("it does not know this request")),
        };
        match begun {
            Ok(work) => {
                self.start(operations.here, work, reporter, ticket);
            }
            Err(failure) => reporter.fail(failure),
        }
    }

    /// Tells the audit log what an administrator has done. The reporter tells it of refusals.
    fn note_administration<T>(&self, session: &Session, object: &str, result: &Result<T, Failure>) {
        let who = (session.identity.uid, session.name.as_str());
        self.shared.audit.note_administration(who, object.to_owned(), result);
    }

    /// Lets a request wait for its disk. If too many do, everybody waits in front of the door as
    /// long as the disk gets on; for one that does not, nobody may.
    fn queue(&self, call: &DataCall) -> Result<(), Failure> {
        let disk = self.shared.disks.disk(call.disk);
        while disk.load.is_crowded() {
            if let Some(stalled) = disk.load.stalled_for() {
                return Err(disk.overrun(stalled));
            }
            disk.load.wait_for_room();
        }
        disk.load.arrive(call.bytes());
        Ok(())
    }

    /// Calls an operation; its result goes to the client from the thread that has it. False if the
    /// program has stopped.
    pub(super) fn start<I: Token>(
        &self,
        operation: OperationRef<I, ReplyMessage<Bulk>>,
        input: I,
        reporter: Reporter,
        ticket: Ticket,
    ) -> bool {
        let node = self.shared.name().to_owned();
        let begun = self.run.start_then(operation, input, move |result| {
            let result = result.unwrap_or_else(|error| {
                answer(Err(Failure::Internal { node, why: error.to_string() }))
            });
            reporter.send_now(result);
            drop(ticket);
        });
        if let Err(error) = &begun {
            tracing::error!(%error, "an operation cannot be called");
        }
        begun.is_ok()
    }

    /// What is read that is in the page cache goes from there to the socket: no storage thread is
    /// woken for it, and none of it is copied here. Everything else may have to wait for a disk.
    fn find_cached(&self, call: &DataCall) -> Option<(ReplyMessage<Bulk>, FilePart)> {
        let Request::Read { grant, part, ranges } = &call.request else { return None };
        let [range] = ranges.as_slice() else { return None };
        let is_long = (BULK_BYTES as u64..=TRANSFER_LIMIT_BYTES).contains(&range.len);
        let disk = self.shared.disks.disk(call.disk);
        let flat = disk.open_flat(grant.file, part.subfile.0).filter(|_| is_long)?;
        let cached = flat.cached(range.offset, range.len)?;
        let len = usize::try_from(cached.len_bytes()).ok().filter(|len| *len >= BULK_BYTES)?;
        disk.load.read(len as u64);
        let result = Ok(Reply::Read { lens: vec![len as u64] });
        let position = cached.position();
        let part = FilePart::new(cached, position, len);
        Some((ReplyMessage { result, data: vec![Bulk::new()] }, part))
    }

    /// A request for a subfile: which disk it concerns, and whether it was granted.
    fn data_call(
        &self,
        session: &Session,
        request: Request,
        data: Vec<Bulk>,
    ) -> Result<DataCall, Failure> {
        let Some((grant, disk, read, write)) = needs(&request) else {
            return Err(self.refused("it does not know this request"));
        };
        self.check_grant(session, grant, read, write)?;
        let disk = self.shared.disks.number_of(disk)?;
        let thread = self.shared.disks.disk(disk).thread;
        Ok(DataCall { thread, disk, request, data, failure: None })
    }

    pub(super) fn check_grant(
        &self,
        session: &Session,
        grant: &Grant,
        read: bool,
        write: bool,
    ) -> Result<(), Failure> {
        if grant.uid != session.identity.uid && !session.is_node {
            let why = "it was given to another user".to_owned();
            return Err(Failure::BadGrant { file: grant.file, why });
        }
        self.shared.check_grant(grant, read, write)
    }

    fn measure(
        &self,
        session: &Session,
        files: Vec<(Grant, Vec<SubfileLocation>)>,
    ) -> Result<Work, Failure> {
        if files.iter().map(|(_, parts)| parts.len()).sum::<usize>() > RANGES_LIMIT {
            return Err(self.refused("too many subfiles are to be measured at once"));
        }
        let mut measured = Vec::with_capacity(files.len());
        for (grant, parts) in files {
            self.check_grant(session, &grant, false, false)?;
            let part =
                |part: &SubfileLocation| Ok((self.shared.disks.number_of(part.disk)?, *part));
            let parts: Result<Vec<_>, Failure> = parts.iter().map(part).collect();
            measured.push((grant, parts?));
        }
        Ok(Work::Measure { files: measured })
    }

    fn sync_many(
        &self,
        session: &Session,
        subfiles: Vec<(Grant, SubfileLocation)>,
    ) -> Result<Work, Failure> {
        if subfiles.len() > FILES_LIMIT {
            let why = format!("at most {FILES_LIMIT} subfiles are synced at once");
            return Err(self.refused(&why));
        }
        let check = |(grant, part): (Grant, SubfileLocation)| {
            self.check_grant(session, &grant, false, true)?;
            Ok((self.shared.disks.number_of(part.disk)?, grant, part))
        };
        Ok(Work::Sync { subfiles: subfiles.into_iter().map(check).collect() })
    }

    fn check(
        &self,
        session: &Arc<Session>,
        what: CheckRequest,
        reporter: Reporter,
        ticket: Ticket,
    ) {
        if let Err(failure) = self.administrators_only(session, "check the cluster") {
            return reporter.fail(failure);
        }
        let (shared, session) = (self.shared.clone(), session.clone());
        self.aside("check", reporter, ticket, move || {
            let checked = check::check(&shared, what);
            let object = match what {
                CheckRequest { is_rebuild: true, .. } => "rebuild the namespace",
                CheckRequest { is_repair: true, .. } => "repair the cluster",
                CheckRequest { .. } => "check the cluster",
            };
            let who = (session.identity.uid, session.name.as_str());
            shared.audit.note_administration(who, object.to_owned(), &checked);
            checked.map(Reply::Checked)
        });
    }

    /// What another node asks for.
    fn peer(
        &self,
        session: &Arc<Session>,
        request: PeerRequest,
        reporter: Reporter,
        ticket: Ticket,
    ) {
        let shared = self.shared.clone();
        let work = match request {
            PeerRequest::Join { node } => {
                let session = session.clone();
                return self.aside("join", reporter, ticket, move || {
                    let object = format!("join of node {}", node.name);
                    let joined = joining::enter(&shared, node);
                    let who = (session.identity.uid, session.name.as_str());
                    shared.audit.note_administration(who, object, &joined);
                    joined
                });
            }
            PeerRequest::FindFile { file } => {
                let known = shared.names().and_then(|names| names.known_file(file));
                return reporter.send(answer(known.map(Reply::File)));
            }
            PeerRequest::RepairSubfile { disk, file, subfile } => {
                return self.aside("repair", reporter, ticket, move || {
                    check::repair_subfile(&shared, disk, file, subfile)
                });
            }
            PeerRequest::Describe { files } => Work::Describe { files },
            PeerRequest::RemoveSubfiles { files, epoch } => Work::Remove { files, epoch },
            PeerRequest::Revoke(revocation) => Work::Revoke(revocation),
            PeerRequest::GrantNews { node } => {
                reporter.send(answer(informing::grant_news(&shared, &node)));
                return;
            }
            PeerRequest::Revocations { node, known_epoch, after } => {
                return self.aside("revocations", reporter, ticket, move || {
                    informing::revocations(&shared, &node, known_epoch, after)
                });
            }
            PeerRequest::ListSubfiles { after, limit, depth } => {
                return self.aside("list", reporter, ticket, move || {
                    check::list_subfiles(&shared, after, limit, depth)
                });
            }
        };
        self.start(self.operations.here, work, reporter, ticket);
    }

    /// Something that takes long: in a thread of its own.
    fn aside(
        &self,
        name: &str,
        reporter: Reporter,
        ticket: Ticket,
        work: impl FnOnce() -> Result<Reply, Failure> + Send + 'static,
    ) {
        let label = name.to_owned();
        let begun = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Whatever happens, they go when this thread ends.
            let (reporter, _ticket) = (reporter, ticket);
            let worked = catch_unwind(AssertUnwindSafe(|| reporter.send(answer(work()))));
            if let Err(panic) = worked {
                tell_panic(&label, &*panic);
            }
        });
        if let Err(error) = begun {
            tracing::error!(%error, "no thread can be started");
        }
    }

    fn hello(
        &self,
        from: &Sender,
        version: u32,
        claimed: Identity,
        (client, peer): (String, PeerKind),
    ) -> Result<Reply, Failure> {
        let node = self.shared.name().to_owned();
        if version != PROTOCOL_VERSION {
            return Err(Failure::Version { node, client: version, server: PROTOCOL_VERSION });
        }
        if self.shared.stopping.is_asked() {
            return Err(Failure::Stopping { node });
        }
        let administrator = &self.shared.administrator;
        let (identity, may_be_node) = match &from.user {
            Some(user) => {
                let mut gids = vec![user.gid];
                gids.extend(user.groups.iter().copied().filter(|gid| *gid != user.gid));
                let is_trusted = user.uid == administrator.uid || user.uid == 0;
                (Identity { uid: user.uid, gids }, is_trusted || from.knows_key)
            }
            None if from.knows_key && claimed.gids.len() > GROUPS_LIMIT => {
                let why = format!("a user is in at most {GROUPS_LIMIT} groups");
                return Err(self.refused(&why));
            }
            None if from.knows_key => (claimed, true),
            None => return Err(self.refused("over TCP the key of the cluster is required")),
        };
        let client: String = client.chars().filter(|c| !c.is_control()).take(80).collect();
        let is_node = peer == PeerKind::Node;
        if is_node && !may_be_node {
            let uid = identity.uid;
            let why = format!("it says that it is a node, which a process of user {uid} cannot be");
            return Err(self.refused(&why));
        }
        let account = self.shared.quotas.account(identity.uid);
        self.shared.sessions.enter(from.space, client, identity.clone(), is_node, account)?;
        let is_near = from.user.is_some() && self.shared.node().short_cut != ShortCut::Off;
        let descriptors = is_near.then(|| short_cut::socket_path(&self.shared));
        Ok(Reply::Welcome {
            node,
            identity,
            map: self.shared.map.read().clone(),
            descriptors: descriptors.map(|path| path.display().to_string()),
        })
    }

    fn administrators_only(&self, session: &Session, action: &str) -> Result<(), Failure> {
        if self.shared.is_administrator(&session.identity) {
            return Ok(());
        }
        let (uid, action) = (session.identity.uid, action.to_owned());
        Err(Failure::NotAdministrator { uid, action })
    }

    pub(super) fn refused(&self, why: &str) -> Failure {
        Failure::Refused { node: self.shared.name().to_owned(), why: why.to_owned() }
    }
}

/// What a request for a subfile needs: a grant, a disk, and whether it reads or writes.
fn needs(request: &Request) -> Option<(&Grant, DiskId, bool, bool)> {
    Some(match request {
        Request::Read { grant, part, .. } => (grant, part.disk, true, false),
        Request::Write { grant, part, .. }
        | Request::Resize { grant, part, .. }
        | Request::Grow { grant, part, .. }
        | Request::SetModified { grant, part, .. }
        | Request::Compact { grant, part, .. }
        | Request::Sync { grant, part } => (grant, part.disk, false, true),
        Request::ReadExtent { grant, disk, .. } => (grant, *disk, true, false),
        // Who may write extents may know which there are: to delete them all.
        Request::ListExtents { grant, disk, .. } => (grant, *disk, !grant.access.write, false),
        Request::WriteExtent { grant, disk, .. } | Request::DeleteExtent { grant, disk, .. } => {
            (grant, *disk, false, true)
        }
        _ => return None,
    })
}

/// Logs a panic, with the kind of the request in which it happened.
fn tell_panic(kind: &str, panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    tracing::error!(request = kind, panic = text, "a request panicked: it has failed, alone");
}
