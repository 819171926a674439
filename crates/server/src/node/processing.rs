//! Requests for processing of extents: checks them, and starts the calls.

use std::sync::Arc;

use pario_net::Bulk;
use pario_proto::{
    CutPiece, Disks, ExtentSelection, Failure, Grant, ProcessRequest, ProcessWork, SELECTION_LIMIT,
};

use super::dispatcher::Dispatcher;
use crate::limits::Resource;
use crate::operation::Operation;
use crate::processing::RunningCall;
use crate::program::{CutCall, CutRequest, ProcessCall, plain_reply};
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
                    Ok(running) => self.launch(running, reply),
                    Err(failure) => reply.fail(failure),
                }
            }
            ProcessRequest::Cut { grant, operation, pieces } => {
                match self.cut_call(session, grant, operation, pieces) {
                    Ok((call, ticket)) => {
                        self.start(self.operations.cut, call, reply, ticket);
                    }
                    Err(failure) => reply.fail(failure),
                }
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
        let operation = self.find_operation(&work.operation)?;
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
        let running = Arc::new(RunningCall::new(
            shared,
            caller,
            work,
            parameters,
            operation,
            (ticket, shares),
        ));
        self.shared.calls.begin(session.space, call, running.clone())?;
        Ok(running)
    }

    fn launch(&self, running: Arc<RunningCall>, reply: ReplySender) {
        running.request_more(reply);
        let call = ProcessCall(running.clone());
        let started = self.run.start_then(self.operations.process, call, move |result| {
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

    fn cut_call(
        &self,
        session: &Session,
        grant: Grant,
        name: String,
        pieces: Vec<CutPiece>,
    ) -> Result<(CutCall, crate::node_state::RequestTicket), Failure> {
        if !session.is_node {
            return Err(self.refused("only nodes of the cluster may ask this"));
        }
        self.check_grant(session, &grant, true, false)?;
        if pieces.len() > PIECES_LIMIT {
            return Err(self.refused(&format!("a request cuts at most {PIECES_LIMIT} pieces")));
        }
        let operation = self.find_operation(&name)?;
        let disks = &self.shared.disks;
        let placed = |piece: CutPiece| {
            let disk = disks.number_of(piece.part.disk)?;
            Ok((disk, piece))
        };
        let pieces: Result<Vec<_>, Failure> = pieces.into_iter().map(placed).collect();
        let (node, caller) = (self.shared.name().to_owned(), session.number);
        let call = CutRequest { grant, operation, name, node, pieces: pieces?, caller };
        Ok((CutCall(Arc::new(call)), self.shared.begin()?))
    }

    fn find_operation(&self, name: &str) -> Result<Arc<dyn Operation>, Failure> {
        self.shared.operations.find(name).ok_or_else(|| Failure::UnknownOperation {
            node: self.shared.name().into(),
            operation: name.into(),
            known: self.shared.operations.names().join(", ").into(),
        })
    }
}
