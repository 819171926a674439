//! Parts of extents that tasks at other nodes want to see.

use std::ops::Range;
use std::sync::Arc;

use pario_flow::{OperationRef, PoolRef, Program, ThreadRef, Token};
use pario_net::Bulk;
use pario_proto::{CutPiece, Failure, Grant, Reply, ReplyMessage};

use super::answer;
use super::process::Walker;
use super::storage::Storage;
use crate::operation::Operation;

/// What another node wants.
#[derive(Clone)]
pub struct Cutting(pub Arc<CutCall>);

/// What another node wants.
pub struct CutCall {
    pub grant: Grant,
    pub operation: Arc<dyn Operation>,
    pub name: String,
    /// Each with its storage thread and the number of its disk.
    pub pieces: Vec<(usize, usize, CutPiece)>,
}

/// One part of it.
#[derive(Clone)]
pub struct CutOne {
    pub call: Arc<CutCall>,
    pub number: usize,
}

/// That part, cut.
#[derive(Clone)]
pub struct CutDone {
    pub number: usize,
    pub bytes: Result<Bulk, Failure>,
}

/// All parts, as far as they are cut.
struct CutAll {
    pieces: Vec<Bulk>,
    failure: Option<Failure>,
}

impl Token for Cutting {}
impl Token for CutOne {}
impl Token for CutDone {}
impl Token for CutAll {}

/// Adds the operation.
pub fn add_to(
    program: &mut Program,
    walker: ThreadRef<Walker>,
    storage: PoolRef<Storage>,
) -> OperationRef<Cutting, ReplyMessage<Bulk>> {
    program.operation("cut", |b| {
        b.on(walker)
            .split_indexed(Cutting::numbers, Cutting::one)
            .on(storage.at(CutOne::thread))
            .run(Storage::cut)
            .named("cut")
            .merge(walker, CutAll::none, CutAll::add)
            .map(CutAll::answer)
    })
}

impl Cutting {
    fn numbers(&self) -> Range<u64> {
        0..self.0.pieces.len() as u64
    }

    fn one(&self, number: u64) -> Option<CutOne> {
        Some(CutOne { call: self.0.clone(), number: usize::try_from(number).ok()? })
    }
}

impl CutOne {
    fn thread(&self) -> usize {
        self.call.pieces[self.number].0
    }
}

impl CutAll {
    fn none(call: &Cutting) -> Self {
        Self { pieces: vec![Bulk::new(); call.0.pieces.len()], failure: None }
    }

    fn add(&mut self, done: CutDone) {
        match done.bytes {
            Ok(bytes) => self.pieces[done.number] = bytes,
            Err(failure) => self.failure = Some(failure),
        }
    }

    fn answer(self) -> ReplyMessage<Bulk> {
        match self.failure {
            Some(failure) => answer(Err(failure)),
            None => ReplyMessage { result: Ok(Reply::Cut), data: self.pieces },
        }
    }
}
