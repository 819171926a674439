//! Requests for processing of extents: checks them, and starts the calls.

use std::sync::Arc;

use pario_flow::{OperationRef, RunningProgram};
use pario_net::Bulk;
use pario_proto::{
    CutPiece, Disks, ExtentSelection, Failure, Grant, ModuleReference, ProcessRequest, ProcessWork,
    SELECTION_LIMIT,
};

use super::dispatcher::{Dispatcher, start_operation};
use crate::limits::{QuotaShare, Resource};
use crate::modules::{self, PEER_PREFIX};
use crate::node_state::RequestTicket;
use crate::operation::{ExtentBytes, Operation, OperationCall, OperationTask};
use crate::processing::RunningCall;
use crate::program::{CutCall, CutRequest, PlacedPiece, ProcessCall, plain_reply};
use crate::reply_sender::ReplySender;
use crate::sessions::Session;

/// The limit of pieces in one request.
const PIECES_LIMIT: usize = 1000;

impl Dispatcher {
    /// Handles a request for processing.
    pub(super) fn process(
        &self,
        session: &Session,
        request: ProcessRequest,
        data: Vec<Bulk>,
        reply: ReplySender,
    ) {
        let calls = &self.shared.calls;
        match request {
            ProcessRequest::More { call } => calls.request_more(session.space, call, reply),
            ProcessRequest::Stop { call } => {
                calls.cancel(session.space, call);
                reply.send(plain_reply(Ok(pario_proto::Reply::Done)));
            }
            ProcessRequest::Begin { call, work } => {
                let parameters = data.into_iter().next().unwrap_or_default();
                match self.begin(session, call, work, parameters) {
                    Ok(running) => {
                        running.request_more(reply);
                        self.find_and_launch(session, running);
                    }
                    Err(failure) => reply.fail(failure),
                }
            }
            ProcessRequest::Cut { grant, operation, pieces } => {
                self.cut(session, grant, operation, pieces, reply);
            }
        }
    }

    fn begin(
        &self,
        session: &Session,
        call: u64,
        work: ProcessWork,
        parameters: Bulk,
    ) -> Result<Arc<RunningCall>, Failure> {
        self.check_grant(session, &work.grant, true, false)?;
        if let Some(target) = &work.target {
            self.check_grant(session, &target.grant, false, true)?;
        }
        let parts =
            work.target.as_ref().map_or(0, |target| target.parts.len()).max(work.parts.len());
        if parts > Disks::MAX as usize {
            return Err(Failure::Invalid(format!("a file has at most {} subfiles", Disks::MAX)));
        }
        if matches!(&work.extents, ExtentSelection::These(places) if places.len() > SELECTION_LIMIT)
        {
            let why = format!("a call names at most {SELECTION_LIMIT} extents: make several calls");
            return Err(Failure::Invalid(why));
        }
        let is_module = self.shared.operations.find(&work.operation).is_none();
        if is_module && ModuleReference::parse(&work.operation).is_none() {
            return Err(self.unknown_operation(&work.operation));
        }
        let chosen = match &work.extents {
            ExtentSelection::These(places) => places.len() as u64,
            ExtentSelection::All => 0,
        };
        let shares = [
            session.account.take(Resource::Calls, 1)?,
            session.account.take(Resource::ChosenExtents, chosen)?,
        ];
        let ticket = self.shared.begin()?;
        let caller = (session.space, call);
        let shared = self.shared.clone();
        let running =
            Arc::new(RunningCall::new(shared, caller, work, parameters, (ticket, shares)));
        self.shared.calls.begin(session.space, call, running.clone())?;
        Ok(running)
    }

    /// Finds the operation of a call and launches the call. A call of a module may wait until the
    /// module is fetched and compiled, on other threads.
    fn find_and_launch(&self, session: &Session, running: Arc<RunningCall>) {
        let (run, process) = (self.run.clone(), self.operations.process);
        let name = running.work.operation.clone();
        if let Some(operation) = self.shared.operations.find(&name) {
            running.set_operation(operation, name);
            return launch(&run, process, running);
        }
        let Some(reference) = ModuleReference::parse(&name) else {
            unreachable!("the name was checked when the call began")
        };
        let share = match session.account.take(Resource::ModuleCalls, 1) {
            Ok(share) => share,
            Err(failure) => {
                running.fail(failure);
                return running.end();
            }
        };
        let (account, unknown) = (session.account.clone(), self.unknown_operation(&name));
        let who = session.identity.clone();
        modules::find_for_call(&self.shared, reference, who, move |found| {
            let operation = found.and_then(|found| {
                let operation = found.module.operation(&found.title, &account)?;
                Ok((Arc::new(CountedOperation { operation, _share: share }), found.peer_name))
            });
            match operation {
                Ok((operation, peer_name)) => {
                    running.set_operation(operation, peer_name);
                    launch(&run, process, running);
                }
                Err(failure) => {
                    running.fail(match failure {
                        Failure::NoSuchModule { .. } => unknown,
                        failure => failure,
                    });
                    running.end();
                }
            }
        });
    }

    /// Cuts pieces of extents for another node.
    fn cut(
        &self,
        session: &Session,
        grant: Grant,
        name: String,
        pieces: Vec<CutPiece>,
        reply: ReplySender,
    ) {
        let checked = self.check_cut(session, &grant, pieces);
        let (pieces, ticket) = match checked {
            Ok(checked) => checked,
            Err(failure) => return reply.fail(failure),
        };
        if !name.starts_with(PEER_PREFIX) {
            let Some(operation) = self.shared.operations.find(&name) else {
                return reply.fail(self.unknown_operation(&name));
            };
            let call = CutCall(Arc::new(CutRequest { grant, operation, name, pieces }));
            self.start(self.operations.cut, call, reply, ticket);
            return;
        }
        let account = self.shared.quotas.account(grant.uid);
        let (run, cut, node) = (self.run.clone(), self.operations.cut, self.shared.label.clone());
        modules::find_for_peer(&self.shared, &name.clone(), move |found| {
            let operation = found.and_then(|found| found.module.operation(&found.title, &account));
            match operation {
                Ok(operation) => {
                    let call = CutCall(Arc::new(CutRequest { grant, operation, name, pieces }));
                    start_operation(&run, &node, cut, call, reply, ticket);
                }
                Err(failure) => reply.fail(failure),
            }
        });
    }

    /// Checks a request of another node to cut pieces, and finds their disks.
    fn check_cut(
        &self,
        session: &Session,
        grant: &Grant,
        pieces: Vec<CutPiece>,
    ) -> Result<(Vec<PlacedPiece>, RequestTicket), Failure> {
        if !session.is_node {
            return Err(self.refused("only nodes of the cluster may ask this"));
        }
        self.check_grant(session, grant, true, false)?;
        if pieces.len() > PIECES_LIMIT {
            return Err(self.refused(&format!("a request cuts at most {PIECES_LIMIT} pieces")));
        }
        let disks = &self.shared.disks;
        let placed = |piece: CutPiece| {
            let disk = disks.number_of(piece.part.disk)?;
            Ok((self.shared.storage_threads.first_of(disk), disk, piece))
        };
        let pieces: Result<Vec<_>, Failure> = pieces.into_iter().map(placed).collect();
        Ok((pieces?, self.shared.begin()?))
    }

    fn unknown_operation(&self, name: &str) -> Failure {
        Failure::UnknownOperation {
            node: self.shared.name().into(),
            operation: name.into(),
            known: self.shared.operations.names().join(", ").into(),
        }
    }
}

/// The operation of a module, with the share of its caller's calls.
struct CountedOperation {
    operation: Arc<dyn Operation>,
    _share: QuotaShare,
}

impl Operation for CountedOperation {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        self.operation.prepare(call)
    }

    fn cut(&self, selection: &[u8], extent: Option<ExtentBytes<'_>>) -> Result<Vec<u8>, String> {
        self.operation.cut(selection, extent)
    }
}

/// Launches a call whose operation is set.
fn launch(
    run: &RunningProgram,
    process: OperationRef<ProcessCall, ProcessCall>,
    running: Arc<RunningCall>,
) {
    let call = ProcessCall(running.clone());
    let started = run.start_then(process, call, move |result| {
        if let Err(error) = result {
            let node = running.shared.name().to_owned();
            running.fail(Failure::Internal { node, why: error.to_string() });
            running.end();
        }
    });
    if let Err(error) = started {
        tracing::error!(%error, "cannot start the processing operation of the node");
    }
}
