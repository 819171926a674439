//! Cuts pieces of extents, which tasks on other nodes need as neighbours.

use std::ops::Range;
use std::sync::Arc;

use pario_flow::{OperationRef, Program, Token, Window};
use pario_net::Bulk;
use pario_proto::{CutPiece, Failure, Grant, Reply, ReplyMessage};
use pario_store::Extent;

use super::compute::Compute;
use super::plain_reply;
use super::processing::{FETCHES_UNDER_WAY, ProcessThreads};
use super::scheduler::Scheduler;
use crate::operation::Operation;

/// A request of another node.
#[derive(Clone)]
pub struct CutCall(pub Arc<CutRequest>);

/// The pieces that another node has requested.
pub struct CutRequest {
    pub grant: Grant,
    pub operation: Arc<dyn Operation>,
    pub name: String,
    /// The name of this node.
    pub node: String,
    /// The pieces, each with the number of its disk.
    pub pieces: Vec<(usize, CutPiece)>,
    /// The caller of the disks.
    pub caller: u64,
}

/// One piece to cut.
#[derive(Clone)]
pub struct CutTask {
    pub call: Arc<CutRequest>,
    pub number: usize,
}

/// A piece whose extent is read; the inner `None` says that the extent does not exist.
#[derive(Clone)]
pub struct PieceToCut {
    pub task: CutTask,
    pub extent: Result<Option<Extent>, Failure>,
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
impl Token for PieceToCut {}
impl Token for CutResult {}
impl Token for CutResults {}

/// Adds the operation to the program.
pub fn add_to(
    program: &mut Program,
    threads: ProcessThreads,
) -> OperationRef<CutCall, ReplyMessage<Bulk>> {
    let ProcessThreads { scheduler, compute, .. } = threads;
    program.operation("cut", |b| {
        b.on(scheduler)
            .window(Window::fixed(FETCHES_UNDER_WAY))
            .split_indexed(CutCall::numbers, CutCall::task)
            .run_async(Scheduler::read_piece)
            .named("read")
            .on(compute.any())
            .run(Compute::cut_piece)
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
