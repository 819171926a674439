//! A shared file whose ranks coordinate in shared memory: each call is a thread that runs the real
//! code of the library, `pario::simulation::TableMember`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::{Result, bail, ensure};
use fastrand::Rng;
use pario::simulation::{JobMemory, TableMember};
use pario_net::{OwnerLock, SharedMemory, SharedMemoryPart, SwitchPoint};
use pario_proto::{
    AccessRange, BytesUse, Call, CallOutcome, CollectiveError, CoordinationTable, JobMemoryId,
    SharedCall,
};

use crate::bytes::Bytes;
use crate::home_node::FileOutput;
use crate::sim_thread::{SimReply, SimRequest, SimThread, Stop, request};
use crate::world::Ticket;

/// The members of a table, and their calls.
pub struct TableMembers {
    memory: SharedMemoryPart,
    members: Vec<Arc<TableMember>>,
    /// Whether each rank is connected to the node.
    connected: Vec<Arc<AtomicBool>>,
    calls: Vec<RunningCall>,
    last_id: u64,
    /// The rank that was the last to see that all ranks have closed the file.
    last_to_close: Option<u32>,
}

/// A call that is not over.
struct RunningCall {
    id: u64,
    ticket: Ticket,
    what: CallAtTable,
    thread: SimThread<CallEnd>,
    /// Whether the model knows that the table has processed it.
    is_known: bool,
    /// What its thread waits for.
    requested: Option<SimRequest>,
}

/// What a rank calls.
#[derive(Clone)]
enum CallAtTable {
    /// A call for a position, or about rounds.
    Call(SharedCall),
    /// Reads for all ranks.
    Broadcast(u64, AccessRange),
    /// Receives what another rank reads for all, or waits until it has written.
    Receive(u64, Option<AccessRange>),
}

/// The result of a call.
#[derive(Debug)]
enum CallEnd {
    Answer(Result<CallOutcome, CollectiveError>),
    /// Whether the rank was the last to see that all ranks have closed the file.
    Closed(Result<bool, CollectiveError>),
    /// The rank has released the bytes that it claimed, or its claim has failed.
    Released(Result<(), CollectiveError>),
    /// The bytes of an access for all, and their number.
    Access(Vec<u8>, Result<Result<usize, String>, CollectiveError>),
}

impl TableMembers {
    pub fn new(memory: &Arc<SharedMemory>, number: u32, size: u32) -> Self {
        let connected: Vec<_> = (0..size).map(|_| Arc::new(AtomicBool::new(true))).collect();
        let member = |(rank, connected): (u32, &Arc<AtomicBool>)| {
            let connected = connected.clone();
            let is_connected = move || connected.load(Ordering::Relaxed);
            let memory = JobMemory::new(JobMemoryId(1), memory.clone(), is_connected);
            TableMember::new(Arc::new(memory), number, rank).expect("the job has the table")
        };
        let members = (0..).zip(&connected).map(|one| Arc::new(member(one))).collect();
        let memory = memory.part(number as usize);
        Self { memory, members, connected, calls: Vec::new(), last_id: 0, last_to_close: None }
    }

    /// Whether a rank was the last to see that all ranks have closed the file.
    pub fn is_last_to_close(&self, rank: u32) -> bool {
        self.last_to_close == Some(rank)
    }

    /// Begins a call of a rank.
    pub fn call(&mut self, ticket: Ticket, call: SharedCall) {
        if let SharedCall::Unlock { .. } = &call {
            let is_its = |call: &&mut RunningCall| {
                call.ticket.rank == ticket.rank && call.requested == Some(SimRequest::Hold)
            };
            if let Some(holding) = self.calls.iter_mut().find(is_its) {
                holding.requested = None;
            }
            return;
        }
        self.begin(ticket, CallAtTable::Call(call));
    }

    /// Whether a rank has claimed bytes, and its call is not over.
    pub fn has_claim(&self, rank: u32) -> bool {
        let is_claim = |call: &RunningCall| {
            let is_lock = matches!(call.what, CallAtTable::Call(SharedCall::Lock { .. }));
            call.ticket.rank == rank && is_lock
        };
        self.calls.iter().any(is_claim)
    }

    /// Begins to read for all ranks.
    pub fn broadcast(&mut self, ticket: Ticket, number: u64, range: AccessRange) {
        self.begin(ticket, CallAtTable::Broadcast(number, range));
    }

    /// Begins to receive what another rank reads for all, or to wait until it has written.
    pub fn receive(&mut self, ticket: Ticket, number: u64, range: Option<AccessRange>) {
        self.begin(ticket, CallAtTable::Receive(number, range));
    }

    fn begin(&mut self, ticket: Ticket, what: CallAtTable) {
        let (member, body) = (self.members[ticket.rank as usize].clone(), what.clone());
        let thread = SimThread::new(move || body.make(&member));
        self.last_id += 1;
        let id = self.last_id;
        self.calls.push(RunningCall { id, ticket, what, thread, is_known: false, requested: None });
    }

    /// Calls whose threads can run, in any order: all of them or some.
    pub fn runnable(&self, rng: &mut Rng, all: bool) -> Vec<u64> {
        let runnable = self.calls.iter().filter(|call| call.can_run());
        let mut chosen: Vec<u64> =
            runnable.filter(|_| all || rng.bool()).map(|call| call.id).collect();
        rng.shuffle(&mut chosen);
        chosen
    }

    /// Calls of a rank that wait for nothing that only the rank can do.
    pub fn calls_of(&self, rank: u32) -> Vec<u64> {
        let is_its = |call: &&RunningCall| {
            call.ticket.rank == rank && call.requested != Some(SimRequest::Hold)
        };
        self.calls.iter().filter(is_its).map(|call| call.id).collect()
    }

    /// Calls whose threads wait for the lock.
    pub fn waiting_for_lock(&self) -> Vec<u64> {
        let waits =
            |call: &&RunningCall| call.thread.sleeps_on() == Some(CoordinationTable::LOCK_WORD);
        self.calls.iter().filter(waits).map(|call| call.id).collect()
    }

    /// Runs the thread of a call until it stops. Returns its outputs.
    pub fn run(&mut self, id: u64, rng: &mut Rng, file: &Bytes) -> Result<Vec<FileOutput>> {
        let mut outputs = Vec::new();
        let Some(at) = self.calls.iter().position(|call| call.id == id) else {
            return Ok(outputs);
        };
        let mut call = self.calls.swap_remove(at);
        let mut reply = call.reply(rng, file, &mut outputs);
        loop {
            match call.thread.run(std::mem::replace(&mut reply, SimReply::None)) {
                Stop::Between(Some((SwitchPoint::Unlocking, CoordinationTable::LOCK_WORD))) => {
                    self.notice(&mut call, &mut outputs);
                    if rng.u8(0..4) > 0 {
                        continue;
                    }
                }
                Stop::Between(_) | Stop::Parked => {}
                Stop::Requested(request) => {
                    if request == SimRequest::Hold {
                        outputs.push(FileOutput::Answer(call.ticket, Ok(CallOutcome::Done)));
                    }
                    call.requested = Some(request);
                }
                Stop::Ended(end) => {
                    self.end(&call, end, &mut outputs)?;
                    return Ok(outputs);
                }
            }
            self.calls.push(call);
            return Ok(outputs);
        }
    }

    /// Reports to the model what the table has processed, before the call releases the lock.
    fn notice(&self, call: &mut RunningCall, outputs: &mut Vec<FileOutput>) {
        let CallAtTable::Call(made) = &call.what else { return };
        if call.is_known {
            return;
        }
        let ticket = call.ticket;
        match made {
            SharedCall::Collective { number, call: made } => {
                let table = self.table();
                // A rank that found no slot, or found the rounds ended, calls again or fails.
                if !table.has_slot_for(*number) || table.ended_by().is_some() {
                    return;
                }
                outputs.push(FileOutput::Recorded(ticket, *number, made.clone()));
            }
            made => outputs.push(FileOutput::Processed(ticket, made.clone())),
        }
        call.is_known = true;
    }

    fn end(
        &mut self,
        call: &RunningCall,
        end: CallEnd,
        outputs: &mut Vec<FileOutput>,
    ) -> Result<()> {
        let ticket = call.ticket;
        let answer = match end {
            CallEnd::Answer(answer) => answer,
            CallEnd::Closed(Ok(is_last)) => {
                if is_last {
                    self.last_to_close = Some(ticket.rank);
                }
                Ok(CallOutcome::Done)
            }
            CallEnd::Closed(Err(error)) => Err(error),
            CallEnd::Released(Ok(())) => return Ok(()),
            CallEnd::Released(Err(error)) => Err(error),
            CallEnd::Access(buffer, done) => {
                outputs.push(FileOutput::AccessEnded(ticket, buffer, done));
                return Ok(());
            }
        };
        if let CallAtTable::Call(SharedCall::Leave) = call.what {
            outputs.push(FileOutput::Left(ticket));
            return Ok(());
        }
        let is_round = matches!(call.what, CallAtTable::Call(SharedCall::Collective { .. }));
        ensure!(
            call.is_known || !is_round || answer.is_err(),
            "rank {} got {answer:?} for a call that no rank recorded",
            ticket.rank
        );
        outputs.push(FileOutput::Answer(ticket, answer));
        Ok(())
    }

    fn table(&self) -> CoordinationTable<'_> {
        CoordinationTable::attach(self.memory.words()).expect("the node initialised the table")
    }

    /// Cuts the connection of a rank to the node.
    pub fn disconnect(&self, rank: u32) {
        self.connected[rank as usize].store(false, Ordering::Relaxed);
    }

    /// Kills a rank, if wanted while it holds the lock. Returns whether it dies with the lock.
    pub fn kill(&mut self, rank: u32, with_lock: bool) -> bool {
        let member = self.members[rank as usize].clone();
        let offset = move || CallEnd::Answer(member.offset().map(CallOutcome::At));
        let mut locking = SimThread::new(offset);
        if with_lock {
            while let Stop::Between(
                None | Some((SwitchPoint::Unlocked | SwitchPoint::Changed, _)),
            ) = locking.run(SimReply::None)
            {}
        }
        self.disconnect(rank);
        let load = |word: &AtomicU32| word.load(Ordering::SeqCst);
        let words: Vec<u32> = self.memory.words().iter().map(load).collect();
        drop(locking);
        self.calls.retain(|call| call.ticket.rank != rank);
        // A killed process runs no destructors.
        for (word, value) in self.memory.words().iter().zip(words) {
            word.store(value, Ordering::SeqCst);
        }
        OwnerLock::new(&self.memory, CoordinationTable::LOCK_WORD).owner() == Some(rank)
    }

    /// Fails if a rank sleeps although its wait is over: this check ends its sleep.
    pub fn check_wake_ups(&mut self) -> Result<()> {
        for call in self.calls.iter_mut().filter(|call| call.requested.is_none()) {
            let rank = call.ticket.rank;
            loop {
                match call.thread.run(SimReply::None) {
                    Stop::Between(_) => {}
                    Stop::Parked => break,
                    other => bail!("rank {rank} was not woken for {:?}: {other:?}", call.ticket),
                }
            }
        }
        Ok(())
    }
}

impl Drop for TableMembers {
    fn drop(&mut self) {
        // The destructors of killed threads wait for no other rank.
        (0..).zip(&self.connected).for_each(|(rank, _)| self.disconnect(rank));
        self.calls.clear();
    }
}

impl RunningCall {
    fn can_run(&self) -> bool {
        self.thread.sleeps_on().is_none() && self.requested != Some(SimRequest::Hold)
    }

    /// The reply that its thread waits for.
    fn reply(&mut self, rng: &mut Rng, file: &Bytes, outputs: &mut Vec<FileOutput>) -> SimReply {
        match (self.requested.take(), &self.what) {
            (Some(SimRequest::Measure), _) => {
                outputs.push(FileOutput::Measured);
                SimReply::Len(file.len())
            }
            (Some(SimRequest::Read { offset, len }), CallAtTable::Broadcast(number, range)) => {
                let offset = range.offset + offset;
                let there = file.len().saturating_sub(offset).min(len as u64);
                let bytes = file.read(offset, usize::try_from(there).unwrap_or(len));
                let bytes =
                    if rng.u8(0..60) > 0 { Ok(bytes) } else { Err("the disk fails".to_owned()) };
                outputs.push(FileOutput::ReadForAll(*number, bytes.clone()));
                SimReply::Bytes(bytes)
            }
            _ => SimReply::None,
        }
    }
}

impl CallAtTable {
    /// Makes the call as the library does.
    fn make(self, member: &TableMember) -> CallEnd {
        let measure = || match request(SimRequest::Measure) {
            SimReply::Len(len) => Ok(len),
            other => Err(format!("{other:?} is no size")),
        };
        let call = match self {
            Self::Call(call) => call,
            Self::Broadcast(number, range) => {
                let mut buffer = buffer(range);
                let done = member.broadcast_read(number, &mut buffer, |offset, piece| {
                    let SimReply::Bytes(bytes) =
                        request(SimRequest::Read { offset, len: piece.len() })
                    else {
                        return Err("no bytes".to_owned());
                    };
                    let bytes = bytes?;
                    piece[..bytes.len()].copy_from_slice(&bytes);
                    Ok(bytes.len())
                });
                return CallEnd::Access(buffer, done);
            }
            Self::Receive(number, None) => {
                let done = member.wait_performed(number);
                return CallEnd::Access(Vec::new(), done.map(|_| Ok(0)));
            }
            Self::Receive(number, Some(range)) => {
                let mut buffer = buffer(range);
                let done = member.receive_read(number, &mut buffer);
                return CallEnd::Access(buffer, done.map(Ok));
            }
        };
        CallEnd::Answer(match call {
            SharedCall::Collective { number, call: Call::Close } => {
                let made = member.call(number, &Call::Close, measure);
                return CallEnd::Closed(made.and_then(|()| member.wait_closed(number)));
            }
            SharedCall::Collective { number, call } => {
                member.call(number, &call, measure).and_then(|()| member.outcome(number))
            }
            SharedCall::Transfer(transfer) => {
                member.transfer(transfer, measure).map(CallOutcome::Placed)
            }
            SharedCall::Seek(seek) => member.seek(seek, measure).map(CallOutcome::At),
            SharedCall::Tell => member.offset().map(CallOutcome::At),
            SharedCall::Lock { from, len, is_write, .. } => {
                let bytes = BytesUse::new(from, len, is_write);
                return CallEnd::Released(member.with_range(bytes, || {
                    request(SimRequest::Hold);
                }));
            }
            SharedCall::Performed { number, done } => {
                member.report_performed(number, &done).map(|()| CallOutcome::Done)
            }
            SharedCall::Close => member.close().map(|()| CallOutcome::Done),
            SharedCall::Leave => {
                member.leave();
                Ok(CallOutcome::Done)
            }
            SharedCall::Unlock { .. } | SharedCall::CloseForAll => Ok(CallOutcome::Done),
        })
    }
}

fn buffer(range: AccessRange) -> Vec<u8> {
    vec![0; usize::try_from(range.len).unwrap_or(0)]
}
