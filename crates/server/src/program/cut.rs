//! Cuts pieces of extents, which tasks on other nodes need as neighbours.

use std::ops::Range;
use std::sync::Arc;

use pario_flow::{OperationRef, PoolRef, Program, ThreadRef, Token};
use pario_net::Bulk;
use pario_proto::{CutPiece, Failure, Grant, Reply, ReplyMessage};

use super::extent_scheduler::ExtentScheduler;
use super::plain_reply;
use super::storage::Storage;
use crate::operation::Operation;

/// A piece with its storage thread and the number of its disk.
pub type PlacedPiece = (usize, usize, CutPiece);

/// A request of another node.
#[derive(Clone)]
pub struct CutCall(pub Arc<CutRequest>);

/// The pieces that another node has requested.
pub struct CutRequest {
    pub grant: Grant,
    pub operation: Arc<dyn Operation>,
    pub name: String,
    /// The pieces.
    pub pieces: Vec<PlacedPiece>,
}

/// One piece to cut.
#[derive(Clone)]
pub struct CutTask {
    pub call: Arc<CutRequest>,
    pub number: usize,
}

/// One piece after the cut.
#[derive(Clone)]
pub struct CutResult {
    pub number: usize,
    pub bytes: Result<Bulk, Failure>,
}

/// The pieces of a request that are cut so far.
struct CutResults {
    pieces: Vec<Bulk>,
    failure: Option<Failure>,
}

impl Token for CutCall {}
impl Token for CutTask {}
impl Token for CutResult {}
impl Token for CutResults {}

/// Adds the operation to the program.
pub fn add_to(
    program: &mut Program,
    scheduler: ThreadRef<ExtentScheduler>,
    storage: PoolRef<Storage>,
) -> OperationRef<CutCall, ReplyMessage<Bulk>> {
    program.operation("cut", |b| {
        b.on(scheduler)
            .split_indexed(CutCall::numbers, CutCall::task)
            .on(storage.at(CutTask::thread))
            .run(Storage::cut)
            .named("cut")
            .merge(scheduler, CutResults::empty, CutResults::add)
            .map(CutResults::into_reply)
    })
}

impl CutCall {
    fn numbers(&self) -> Range<u64> {
        0..self.0.pieces.len() as u64
    }

    fn task(&self, number: u64) -> Option<CutTask> {
        Some(CutTask { call: self.0.clone(), number: usize::try_from(number).ok()? })
    }
}

impl CutTask {
    fn thread(&self) -> usize {
        self.call.pieces[self.number].0
    }
}

impl CutResults {
    fn empty(call: &CutCall) -> Self {
        Self { pieces: vec![Bulk::new(); call.0.pieces.len()], failure: None }
    }

    fn add(&mut self, done: CutResult) {
        match done.bytes {
            Ok(bytes) => self.pieces[done.number] = bytes,
            Err(failure) => self.failure = Some(failure),
        }
    }

    fn into_reply(self) -> ReplyMessage<Bulk> {
        match self.failure {
            Some(failure) => plain_reply(Err(failure)),
            None => ReplyMessage { result: Ok(Reply::Cut), data: self.pieces },
        }
    }
}
