//! Parts of extents that tasks at other nodes want to see.

use std::ops::Range;
use std::sync::Arc;

use pario_flow::{OperationRef, PoolRef, Program, ThreadRef, Token};
use pario_net::Bulk;
use pario_proto::{CutPiece, Failure, Grant, Reply, ReplyMessage};

use super::extent_scheduler::ExtentScheduler;
use super::plain_reply;
use super::storage::Storage;
use crate::operation::Operation;

/// What another node wants.
#[derive(Clone)]
pub struct CutCall(pub Arc<CutRequest>);

/// What another node wants.
pub struct CutRequest {
    pub grant: Grant,
    pub operation: Arc<dyn Operation>,
    pub name: String,
    /// Each with its storage thread and the number of its disk.
    pub pieces: Vec<(usize, usize, CutPiece)>,
}

/// One part of it.
#[derive(Clone)]
pub struct CutTask {
    pub call: Arc<CutRequest>,
    pub number: usize,
}

/// That part, cut.
#[derive(Clone)]
pub struct CutResult {
    pub number: usize,
    pub bytes: Result<Bulk, Failure>,
}

/// All parts, as far as they are cut.
struct CutResults {
    pieces: Vec<Bulk>,
    failure: Option<Failure>,
}

impl Token for CutCall {}
impl Token for CutTask {}
impl Token for CutResult {}
impl Token for CutResults {}

/// Adds the operation.
pub fn add_to(
    program: &mut Program,
    scheduler: ThreadRef<ExtentScheduler>,
    storage: PoolRef<Storage>,
) -> OperationRef<CutCall, ReplyMessage<Bulk>> {
    program.operation("cut", |b| {
        b.on(scheduler)
            .split_indexed(CutCall::numbers, CutCall::one)
            .on(storage.at(CutTask::thread))
            .run(Storage::cut)
            .named("cut")
            .merge(scheduler, CutResults::none, CutResults::add)
            .map(CutResults::answer)
    })
}

impl CutCall {
    fn numbers(&self) -> Range<u64> {
        0..self.0.pieces.len() as u64
    }

    fn one(&self, number: u64) -> Option<CutTask> {
        Some(CutTask { call: self.0.clone(), number: usize::try_from(number).ok()? })
    }
}

impl CutTask {
    fn thread(&self) -> usize {
        self.call.pieces[self.number].0
    }
}

impl CutResults {
    fn none(call: &CutCall) -> Self {
        Self { pieces: vec![Bulk::new(); call.0.pieces.len()], failure: None }
    }

    fn add(&mut self, done: CutResult) {
        match done.bytes {
            Ok(bytes) => self.pieces[done.number] = bytes,
            Err(failure) => self.failure = Some(failure),
        }
    }

    fn answer(self) -> ReplyMessage<Bulk> {
        match self.failure {
            Some(failure) => plain_reply(Err(failure)),
            None => ReplyMessage { result: Ok(Reply::Cut), data: self.pieces },
        }
    }
}
