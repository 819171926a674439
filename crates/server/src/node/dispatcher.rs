//! The dispatcher: receives the requests of clients, checks who sends each one, and passes it to
//! the operation that answers.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pario_flow::{OperationRef, RunningProgram, Token};
use pario_net::wire::BULK_BYTES;
use pario_net::{
    Bulk, FilePart, IncomingRequest, RecvError, RpcServer, Sender, SpaceId, panic_text,
};
use pario_proto::{
    AtomicCall, AtomicRequest, CheckRequest, DiskId, FILES_LIMIT, Failure, GROUPS_LIMIT, Grant,
    Identity, NamespaceRequest, PROTOCOL_VERSION, PeerKind, PeerRequest, RANGES_LIMIT, Reply,
    ReplyMessage, Request, RequestMessage, SubfileLocation, TRANSFER_LIMIT_BYTES, home_node,
};

use super::collective_service::CollectiveService;
use super::leader_slot::{LeaderSlot, Leadership};
use super::{grant_news, joining, monitor, short_cut};
use crate::check;
use crate::config::ShortCut;
use crate::modules;
use crate::node_state::{NodeState, RequestTicket};
use crate::program::{DataCall, NamespaceCall, NodeTask, Operations, Storage, plain_reply};
use crate::protocol::NodeProtocol;
use crate::reply_sender::ReplySender;
use crate::sessions::Session;

type Port = RpcServer<NodeProtocol>;

/// Threads of the dispatcher. One receives requests; the others wait for a disk or stand by.
pub const DISPATCH_THREADS: usize = 4;

/// The dispatcher of a node.
pub struct Dispatcher {
    pub(super) shared: Arc<NodeState>,
    pub(super) run: Arc<RunningProgram>,
    pub(super) operations: Operations,
    collectives: CollectiveService,
    port: Port,
    leader_slot: LeaderSlot,
}

impl Dispatcher {
    /// Creates the dispatcher of a node whose program runs.
    pub fn new(
        shared: Arc<NodeState>,
        run: Arc<RunningProgram>,
        operations: Operations,
        port: Port,
    ) -> Self {
        let collectives = CollectiveService::new(shared.clone(), run.clone(), operations);
        Self { shared, run, operations, collectives, port, leader_slot: LeaderSlot::default() }
    }

    /// Logs a warning for each process that waits too long for another one. Returns when the node
    /// stops.
    pub fn warn_of_long_waits(&self) {
        self.collectives.warn_of_long_waits();
    }

    /// Receives and dispatches requests while this thread leads. Returns when the node's space is
    /// closed.
    ///
    /// A panic ends only its own request: the [`ReplySender`] answers the client, the ticket and
    /// the shares of the request are released, and the thread continues to lead if no standby has
    /// taken over.
    pub fn serve(&self, is_first: bool) {
        let mut is_leader = is_first || self.leader_slot.wait();
        while is_leader {
            let leadership = self.leader_slot.leadership();
            let kind = Cell::new("receiving");
            let served = catch_unwind(AssertUnwindSafe(|| self.serve_next(&leadership, &kind)));
            match served {
                Ok(true) => {}
                Ok(false) => break,
                Err(panic) => log_panic(kind.get(), &*panic),
            }
            is_leader = leadership.is_held() || self.leader_slot.wait();
        }
        self.leader_slot.close();
    }

    /// Receives and dispatches the next request; `false` after the last one. Sets `kind` to the
    /// kind of the request.
    fn serve_next(&self, leadership: &Leadership<'_>, kind: &Cell<&'static str>) -> bool {
        match self.port.recv() {
            Ok(incoming) => {
                kind.set(incoming.request.request.kind());
                self.dispatch(incoming, leadership);
            }
            Err(RecvError::Lost { space, .. }) => {
                kind.set("the loss of a client");
                self.remove_client(space);
            }
            Err(RecvError::Closed { .. }) => return false,
            Err(error) => tracing::warn!(%error, "the dispatcher drops a malformed request"),
        }
        true
    }

    /// Removes a client whose link is lost. Every step runs, even if another one panics.
    fn remove_client(&self, space: SpaceId) {
        let (node, now_ms) = (self.shared.name(), self.shared.now_ms());
        let steps: [&dyn Fn(); 5] = [
            &|| self.shared.sessions.close(space),
            &|| self.shared.calls.remove_client(space),
            &|| self.collectives.remove_process(space),
            &|| self.shared.atomic_files.lose(node, space, now_ms),
            &|| self.shared.interface.iter().for_each(|interface| interface.remove_client(space)),
        ];
        for step in steps {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(step)) {
                log_panic("the loss of a client", &*panic);
            }
        }
    }

    /// Checks a request and passes it to the operation that answers.
    fn dispatch(&self, incoming: IncomingRequest<NodeProtocol>, leadership: &Leadership<'_>) {
        let IncomingRequest { request: message, sender: from, responder } = incoming;
        let RequestMessage { request, data } = message;
        let session = self.shared.sessions.get(from.space);
        let node = self.shared.label.clone();
        let logs = (self.shared.audit.clone(), self.shared.events.clone());
        let client = session.clone().ok_or_else(|| from.clone());
        let meter = self.shared.requests.of(request.kind());
        let reply = ReplySender::new(responder, node, request.kind(), client, logs, meter);
        if let Request::Hello { version, identity, client, peer } = request {
            let welcome = self.hello(&from, version, identity, (client, peer));
            return reply.send(plain_reply(welcome));
        }
        let Some(session) = session else {
            return reply.fail(self.refused("say hello first"));
        };
        #[cfg(test)]
        super::panic_tests::panic_if_requested(&session, &request);
        let needs_namespace = matches!(
            request,
            Request::Namespace(_) | Request::OpenForAll { .. } | Request::Module(_)
        );
        if needs_namespace
            && let Some(failure) = self.shared.rebuild.refusal(&self.shared.config, self.shared.me)
        {
            return reply.fail(failure);
        }
        match request {
            Request::Map => {
                let map = self.shared.map.read().clone();
                reply.send(plain_reply(Ok(Reply::Map(map))));
            }
            Request::Status => {
                reply.send(plain_reply(Ok(Reply::Status(Box::new(monitor::status(&self.shared))))))
            }
            Request::FileSystems => {
                let devices = self.shared.disks.devices();
                reply.send(plain_reply(Ok(Reply::FileSystems(devices))));
            }
            Request::Stop => {
                let stopped = self.check_administrator(&session, "stop the node");
                self.note_administration(&session, "stop the node", &stopped);
                if stopped.is_ok() {
                    let (name, uid) = (&session.name, session.identity.uid);
                    let node = self.shared.name();
                    tracing::info!("node {node} is stopping: {name}, user {uid}, has asked for it");
                }
                reply.send(plain_reply(stopped.map(|()| Reply::Done)));
                if self.shared.is_administrator(&session.identity) {
                    self.shared.shutdown.request();
                }
            }
            // Collective calls take no ticket: a node that stops does not wait for ranks.
            Request::Job { member, number, call } => {
                self.collectives.job_call(&session, member, number, call, reply);
            }
            Request::JobOpen { member, call } => {
                self.collectives.job_open(&session, member, call, reply);
            }
            Request::OpenForAll { member, open } => {
                self.collectives.open_for_all(&session, &member, open, reply);
            }
            Request::Jobs => reply.send(plain_reply(self.collectives.jobs(&session))),
            Request::Reset { files } => {
                let reset = self.collectives.reset(&session, &files);
                let object = match files.as_slice() {
                    [] => "reset all files and jobs".to_owned(),
                    files => format!("reset {} files, first {}", files.len(), files[0]),
                };
                self.note_administration(&session, &object, &reset);
                reply.send(plain_reply(reset));
            }
            Request::Shared(request) => self.collectives.file_call(&session, request, &data, reply),
            Request::Lock(request) => self.collectives.lock_call(&session, request, reply),
            Request::LockWaits => reply.send(plain_reply(self.collectives.lock_waits(&session))),
            Request::Atomic(request) => self.serve_atomic(&session, request, reply),
            Request::AtomicWaits => reply.send(plain_reply(self.atomic_waits(&session))),
            Request::Process(request) => self.process(&session, request, data, reply),
            Request::Module(request) => self.module(&session, request, data, reply),
            Request::Team { job, call } => {
                reply.send(plain_reply(self.collectives.team_call(&session, job, call)));
            }
            Request::JoinUnnamedJob { size, rank, process } => {
                let joined = self.collectives.join_unnamed(&session, (size, rank), process);
                reply.send(plain_reply(joined));
            }
            request => match self.shared.begin() {
                Ok(ticket) if required_grant(&request).is_some() => {
                    self.serve_data(&session, (request, data), leadership, reply, ticket);
                }
                Ok(ticket) => self.start_task(&session, request, reply, ticket),
                Err(failure) => reply.fail(failure),
            },
        }
    }

    /// Serves a call of an opener of a file whose home is this node.
    fn serve_atomic(&self, session: &Session, request: AtomicRequest, reply: ReplySender) {
        let nodes = &self.shared.config.nodes;
        let home = home_node(request.file, nodes.len());
        if home != self.shared.me {
            let why = format!("node {} is the home of file {}", nodes[home].name, request.file);
            return reply.fail(self.refused(&why));
        }
        if let AtomicCall::Open { grant, .. } = &request.call {
            let why = || "it is the grant of another file".to_owned();
            let is_right = grant.file == request.file;
            let checked = match is_right {
                true => self.check_grant(session, grant, false, false),
                false => Err(Failure::BadGrant { file: request.file, why: why() }),
            };
            if let Err(failure) = checked {
                return reply.fail(failure);
            }
        }
        let (node, now_ms) = (self.shared.name(), self.shared.now_ms());
        self.shared.atomic_files.call(node, session, request, reply, now_ms);
    }

    /// The waits of openers that a client may see.
    fn atomic_waits(&self, session: &Session) -> Result<Reply, Failure> {
        let mut waits = self.shared.atomic_files.waits(&self.shared.sessions, self.shared.now_ms());
        if !self.shared.is_administrator(&session.identity) {
            waits.retain(|wait| wait.uid == session.identity.uid);
        }
        Ok(Reply::AtomicWaits(waits))
    }

    /// Serves a request on a subfile: at once on this thread, or on the storage thread of its disk.
    fn serve_data(
        &self,
        session: &Session,
        (request, data): (Request, Vec<Bulk>),
        leadership: &Leadership<'_>,
        reply: ReplySender,
        ticket: RequestTicket,
    ) {
        let mut call = match self.data_call(session, request, data) {
            Ok(call) => call,
            Err(failure) => return reply.fail(failure),
        };
        if reply.takes_files()
            && let Some((found, part)) = self.find_cached(&call)
        {
            return reply.send_file(found, part);
        }
        if let Err(failure) = self.enqueue(&call) {
            return reply.fail(failure);
        }
        // This thread has the bytes in its processor cache, and the page cache usually takes them
        // at once. It does not if the disk has too much to write back, or is configured as a slower
        // disk.
        let disk = self.shared.disks.disk(call.disk);
        // Only the interface node knows whether the subfile was ever synced.
        let must_ask_interface = self.shared.interface.is_none()
            && call
                .subfile()
                .is_some_and(|(grant, part)| !disk.is_known(grant.file, part.subfile.0));
        if matches!(call.request, Request::Write { .. })
            && !must_ask_interface
            && !disk.is_slow
            && disk.load.stalled_for().is_none()
            && let Some(long_work) = leadership.begin()
        {
            let mut storage = Storage::new(self.shared.clone());
            #[cfg(test)]
            super::panic_tests::panic_in_work_if_requested(session, &disk.load, call.bytes());
            let written = storage.serve(call);
            drop(long_work);
            // The leader sends collected replies before it waits for the next request.
            match leadership.is_held() {
                true => reply.send(written),
                false => reply.send_now(written),
            }
            drop(ticket);
            return;
        }
        let (thread, queued) = self.shared.storage_threads.enqueue(call.disk);
        (call.thread, call.queued) = (thread, Some(Arc::new(queued)));
        let bytes = call.bytes();
        let operation =
            if must_ask_interface { self.operations.find_data } else { self.operations.data };
        if !self.start(operation, call, reply, ticket) {
            disk.load.dequeue(bytes);
        }
    }

    fn start_task(
        &self,
        session: &Arc<Session>,
        request: Request,
        reply: ReplySender,
        ticket: RequestTicket,
    ) {
        let operations = &self.operations;
        let (space, who) = (session.space, session.identity.clone());
        let task = match request {
            Request::Namespace(request @ NamespaceRequest::SetRights { .. }) => {
                let call = NamespaceCall { space, who, request };
                self.start(operations.set_rights, call, reply, ticket);
                return;
            }
            Request::Namespace(request) => {
                let call = NamespaceCall { space, who, request };
                self.start(operations.namespace, call, reply, ticket);
                return;
            }
            Request::Measure { files } => self.measure(session, files),
            Request::SyncMany { subfiles } => self.sync_many(session, subfiles),
            Request::Check(what) => return self.check(session, what, reply, ticket),
            Request::Peer(request) => {
                if !session.is_node {
                    return reply.fail(self.refused("only nodes of the cluster may ask this"));
                }
                return self.serve_peer(session, request, reply, ticket);
            }
            _ => Err(self.refused("it does not know this request")),
        };
        match task {
            Ok(task) => {
                self.start(operations.perform_task, task, reply, ticket);
            }
            Err(failure) => reply.fail(failure),
        }
    }

    /// Records an administrator's action in the audit log. The reply sender records refusals.
    fn note_administration<T>(&self, session: &Session, object: &str, result: &Result<T, Failure>) {
        let who = (session.identity.uid, session.name.as_str());
        self.shared.audit.note_administration(who, object.to_owned(), result);
    }

    /// Adds a request to the queue of its disk. If the queue is full, the dispatcher waits as long
    /// as the disk makes progress, and refuses the request if the disk has stalled.
    fn enqueue(&self, call: &DataCall) -> Result<(), Failure> {
        let disk = self.shared.disks.disk(call.disk);
        while disk.load.is_full() {
            if let Some(stalled) = disk.load.stalled_for() {
                return Err(disk.stall_failure(stalled));
            }
            disk.load.wait_for_room();
        }
        disk.load.enqueue(call.bytes());
        Ok(())
    }

    /// Starts an operation; the thread that has its result replies to the client. Returns `false`
    /// if the program has stopped.
    pub(super) fn start<I: Token>(
        &self,
        operation: OperationRef<I, ReplyMessage<Bulk>>,
        input: I,
        reply: ReplySender,
        ticket: RequestTicket,
    ) -> bool {
        start_operation(&self.run, &self.shared.label, operation, input, reply, ticket)
    }

    /// Returns a range that is in the page cache, to be sent from there to the socket without a
    /// copy and without a storage thread. Any other read may wait for a disk.
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

    /// Checks the grant of a request on a subfile, and finds its disk.
    fn data_call(
        &self,
        session: &Session,
        request: Request,
        data: Vec<Bulk>,
    ) -> Result<DataCall, Failure> {
        let Some((grant, disk, read, write)) = required_grant(&request) else {
            return Err(self.refused("it does not know this request"));
        };
        self.check_grant(session, grant, read, write)?;
        let disk = self.shared.disks.number_of(disk)?;
        let thread = self.shared.storage_threads.first_of(disk);
        Ok(DataCall { thread, queued: None, disk, request, data, failure: None })
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
    ) -> Result<NodeTask, Failure> {
        if files.iter().map(|(_, parts)| parts.len()).sum::<usize>() > RANGES_LIMIT {
            return Err(
                self.refused(&format!("a request measures at most {RANGES_LIMIT} subfiles"))
            );
        }
        let mut measured = Vec::with_capacity(files.len());
        for (grant, parts) in files {
            self.check_grant(session, &grant, false, false)?;
            let part =
                |part: &SubfileLocation| Ok((self.shared.disks.number_of(part.disk)?, *part));
            let parts: Result<Vec<_>, Failure> = parts.iter().map(part).collect();
            measured.push((grant, parts?));
        }
        Ok(NodeTask::Measure { files: measured })
    }

    fn sync_many(
        &self,
        session: &Session,
        subfiles: Vec<(Grant, SubfileLocation)>,
    ) -> Result<NodeTask, Failure> {
        if subfiles.len() > FILES_LIMIT {
            let why = format!("a request syncs at most {FILES_LIMIT} subfiles");
            return Err(self.refused(&why));
        }
        let check = |(grant, part): (Grant, SubfileLocation)| {
            self.check_grant(session, &grant, false, true)?;
            Ok((self.shared.disks.number_of(part.disk)?, grant, part))
        };
        Ok(NodeTask::Sync { subfiles: subfiles.into_iter().map(check).collect() })
    }

    fn check(
        &self,
        session: &Arc<Session>,
        what: CheckRequest,
        reply: ReplySender,
        ticket: RequestTicket,
    ) {
        if let Err(failure) = self.check_administrator(session, "check the cluster") {
            return reply.fail(failure);
        }
        let (shared, session) = (self.shared.clone(), session.clone());
        self.run_in_thread("check", reply, ticket, move || {
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

    /// Handles a request of another node.
    fn serve_peer(
        &self,
        session: &Arc<Session>,
        request: PeerRequest,
        reply: ReplySender,
        ticket: RequestTicket,
    ) {
        let shared = self.shared.clone();
        let task = match request {
            PeerRequest::Join { node } => {
                let session = session.clone();
                return self.run_in_thread("join", reply, ticket, move || {
                    let object = format!("join of node {}", node.name);
                    let joined = joining::admit_node(&shared, node);
                    let who = (session.identity.uid, session.name.as_str());
                    shared.audit.note_administration(who, object, &joined);
                    joined
                });
            }
            PeerRequest::FindFile { file } => {
                let known = shared.interface().and_then(|interface| interface.known_file(file));
                return reply.send(plain_reply(known.map(Reply::File)));
            }
            PeerRequest::RepairSubfile { disk, file, subfile } => {
                return self.run_in_thread("repair", reply, ticket, move || {
                    check::repair_subfile(&shared, disk, file, subfile)
                });
            }
            PeerRequest::FindModule { module, who } => {
                let found = shared
                    .interface()
                    .and_then(|interface| interface.namespace.callable_module(&who, &module));
                return reply.send(plain_reply(found.map(|found| Reply::Module(Box::new(found)))));
            }
            PeerRequest::FetchModule { name, hash } => {
                let fetched = modules::fetch(&shared, None, &name, Some(hash));
                return reply.send(fetched.unwrap_or_else(|failure| plain_reply(Err(failure))));
            }
            PeerRequest::Describe { files } => NodeTask::Describe { files },
            PeerRequest::RemoveSubfiles { files, epoch } => NodeTask::Remove { files, epoch },
            PeerRequest::Revoke(revocation) => NodeTask::Revoke(revocation),
            PeerRequest::GrantNews { node } => {
                reply.send(plain_reply(grant_news::grant_news(&shared, &node)));
                return;
            }
            PeerRequest::Revocations { node, known_epoch, after } => {
                return self.run_in_thread("revocations", reply, ticket, move || {
                    grant_news::revocations(&shared, &node, known_epoch, after)
                });
            }
            PeerRequest::ListSubfiles { after, limit, depth } => {
                return self.run_in_thread("list", reply, ticket, move || {
                    check::list_subfiles(&shared, after, limit, depth)
                });
            }
        };
        self.start(self.operations.perform_task, task, reply, ticket);
    }

    /// Runs a long request in a thread of its own.
    pub(super) fn run_in_thread(
        &self,
        name: &str,
        reply: ReplySender,
        ticket: RequestTicket,
        work: impl FnOnce() -> Result<Reply, Failure> + Send + 'static,
    ) {
        let label = name.to_owned();
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // The thread drops both when it ends, also by a panic.
            let (reply, _ticket) = (reply, ticket);
            let worked = catch_unwind(AssertUnwindSafe(|| reply.send(plain_reply(work()))));
            if let Err(panic) = worked {
                log_panic(&label, &*panic);
            }
        });
        if let Err(error) = started {
            tracing::error!(%error, "cannot start a thread for a request");
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
        if self.shared.shutdown.is_requested() {
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
        self.shared.sessions.open(from.space, client, identity.clone(), is_node, account)?;
        let is_near = from.user.is_some() && self.shared.node().short_cut != ShortCut::Off;
        let descriptors = is_near.then(|| short_cut::socket_path(&self.shared));
        Ok(Reply::Welcome {
            node,
            identity,
            map: self.shared.map.read().clone(),
            descriptors: descriptors.map(|path| path.display().to_string()),
        })
    }

    fn check_administrator(&self, session: &Session, action: &str) -> Result<(), Failure> {
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

/// Starts an operation of a node, like [`Dispatcher::start`].
pub(super) fn start_operation<I: Token>(
    run: &RunningProgram,
    node: &str,
    operation: OperationRef<I, ReplyMessage<Bulk>>,
    input: I,
    reply: ReplySender,
    ticket: RequestTicket,
) -> bool {
    let node = node.to_owned();
    let started = run.start_then(operation, input, move |result| {
        let result = result.unwrap_or_else(|error| {
            plain_reply(Err(Failure::Internal { node, why: error.to_string() }))
        });
        reply.send_now(result);
        drop(ticket);
    });
    if let Err(error) = &started {
        tracing::error!(%error, "cannot start an operation of the node");
    }
    started.is_ok()
}

/// Returns the grant that a request on a subfile needs, its disk, and whether it reads and writes.
fn required_grant(request: &Request) -> Option<(&Grant, DiskId, bool, bool)> {
    Some(match request {
        Request::Read { grant, part, .. } => (grant, part.disk, true, false),
        Request::Write { grant, part, .. }
        | Request::Resize { grant, part, .. }
        | Request::Grow { grant, part, .. }
        | Request::SetModified { grant, part, .. }
        | Request::Compact { grant, part, .. }
        | Request::Sync { grant, part } => (grant, part.disk, false, true),
        Request::ReadExtent { grant, disk, .. } => (grant, *disk, true, false),
        // A client that may write extents may list them, so that it can delete all of them.
        Request::ListExtents { grant, disk, .. } => (grant, *disk, !grant.access.write, false),
        Request::WriteExtent { grant, disk, .. } | Request::DeleteExtent { grant, disk, .. } => {
            (grant, *disk, false, true)
        }
        _ => return None,
    })
}

/// Logs a panic with the kind of its request.
fn log_panic(kind: &str, panic: &(dyn Any + Send)) {
    let text = panic_text(panic);
    tracing::error!(
        request = kind,
        panic = text,
        "a request panicked; only this request has failed"
    );
}
