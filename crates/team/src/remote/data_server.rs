//! The data server of a machine: it accesses memory for ranks of other machines, and runs callbacks
//! for all, holds the mailboxes of its ranks, and collects the rounds of groups.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use std::sync::OnceLock;

use pario_net::{
    IncomingRequest, PortOptions, RecvError, Responder, RpcServer, SharedMemory, SharedMemoryShape,
    Space,
};
use parking_lot::{Mutex, RwLock};

use super::data_connections::data_port;
use super::message::{AtomicChange, DataProtocol, DataReply, DataRequest, RankPiece};
use crate::board::{Board, DepartedRank};
use crate::callbacks::{CallbackFn, CallbackRequest};
use crate::free_memory;
use crate::local_rendezvous::MemoryHandOut;
use crate::machine_memory::{MACHINE_MEMORY_WORDS, MachineMemory, Numbers};
use crate::messaging::group_rounds::GroupRounds;
use crate::messaging::mailboxes::Mailboxes;
use crate::number::{Number, Word, with_kind};
use crate::segments::SegmentPiece;

/// The state of a data server: memory and callbacks by number, mailboxes and groups.
#[derive(Default)]
pub struct MemoryRegistry {
    memories: Mutex<HashMap<u64, RegisteredMemory>>,
    callbacks: RwLock<HashMap<u64, Arc<CallbackFn>>>,
    mailboxes: Mutex<Mailboxes<Responder<DataProtocol>>>,
    groups: Mutex<GroupRounds<Responder<DataProtocol>>>,
    /// Memory of groups that the machine leader has not taken yet.
    for_leader: Mutex<HashMap<u64, Arc<SharedMemory>>>,
    /// Passes memory of groups to the other processes of the machine.
    hand_out: OnceLock<MemoryHandOut>,
}

/// Memory, and the number of ranks that release it.
struct RegisteredMemory {
    near: Arc<MachineMemory>,
    users: u32,
}

impl MemoryRegistry {
    /// Adds memory that this many ranks release, and drops memory that all have released.
    pub fn add_memory(&self, number: u64, near: Arc<MachineMemory>, users: u32) {
        let mut memories = self.memories.lock();
        memories.retain(|_, memory| memory.near.released_by() < memory.users);
        memories.insert(number, RegisteredMemory { near, users });
    }

    /// Adds a callback.
    pub fn add_callback(&self, number: u64, function: Arc<CallbackFn>) {
        self.callbacks.write().insert(number, function);
    }

    /// Removes a callback.
    pub fn remove_callback(&self, number: u64) {
        self.callbacks.write().remove(&number);
    }

    /// Sets the way to the other processes of the machine.
    pub fn set_hand_out(&self, hand_out: MemoryHandOut) {
        // There is one rendezvous for each team.
        let _ = self.hand_out.set(hand_out);
    }

    /// Takes memory of a group for the machine leader.
    pub fn take_for_leader(&self, number: u64) -> Option<Arc<SharedMemory>> {
        self.for_leader.lock().remove(&number)
    }

    fn memory(&self, number: u64) -> Result<Arc<MachineMemory>, DataReply> {
        let found = self.memories.lock().get(&number).map(|memory| memory.near.clone());
        found.ok_or_else(|| DataReply::Invalid("that memory was freed".to_owned()))
    }

    /// Allocates memory for ranks of a group on this machine, and passes it to them.
    fn allocate_for_group(
        &self,
        board: &Board,
        number: u64,
        bytes: usize,
        places: &[(u32, usize, usize)],
        users: Option<u32>,
    ) -> Result<(), String> {
        let shape = SharedMemoryShape { parts: 1, words: MACHINE_MEMORY_WORDS, bytes };
        let ranks = board.machine_ranks();
        let is_inside = |(rank, start, len): &(u32, usize, usize)| {
            ranks.contains(rank) && start.checked_add(*len).is_some_and(|end| end <= bytes)
        };
        if !places.iter().all(is_inside) {
            return Err(
                "the segments of the group do not fit into the memory of this machine".to_owned()
            );
        }
        let memory = Arc::new(free_memory::allocate(shape)?);
        let leader = board.leader();
        let followers: Vec<u32> =
            places.iter().map(|(rank, ..)| *rank).filter(|rank| *rank != leader).collect();
        if let Some(hand_out) = self.hand_out.get() {
            hand_out.to(&followers, number, &memory).map_err(|error| error.to_string())?;
        }
        if let Some(users) = users {
            let place_of = |rank: u32| {
                let place = places.iter().find(|(owner, ..)| *owner == rank);
                place.map(|(_, start, len)| (*start, *len))
            };
            let last = places.iter().map(|(rank, ..)| *rank).max().unwrap_or(0);
            let near = MachineMemory::new(memory.part(0), (0..=last).map(place_of).collect());
            self.add_memory(number, Arc::new(near), users);
        }
        if followers.len() < places.len() {
            self.for_leader.lock().insert(number, memory);
        }
        Ok(())
    }
}

/// Serves until the space is closed.
pub fn serve(port: &RpcServer<DataProtocol>, board: &Arc<Board>, registry: &MemoryRegistry) {
    loop {
        match port.recv() {
            Ok(incoming) => handle(incoming, board, registry),
            Err(RecvError::Closed { .. }) => return,
            // The machine leader notices a lost rank; an undecodable request was refused.
            Err(_) => {}
        }
    }
}

/// Creates the port of a data server.
pub fn open(space: &Space, leader: u32) -> Result<RpcServer<DataProtocol>, String> {
    RpcServer::new(space, &data_port(leader), PortOptions::default())
        .map_err(|error| error.to_string())
}

fn handle(incoming: IncomingRequest<DataProtocol>, board: &Arc<Board>, registry: &MemoryRegistry) {
    let IncomingRequest { request, responder, .. } = incoming;
    match request {
        DataRequest::Lock { memory, number, by } => {
            let near = match registry.memory(memory) {
                Ok(near) if number < near.part().words().len() => near,
                Ok(_) => return responder.send(DataReply::Invalid(format!("no mutex {number}"))),
                Err(wrong) => return responder.send(wrong),
            };
            if board.lock_in(near.part(), number).try_lock_for(by) {
                return responder.send(DataReply::Done);
            }
            // The mutex is taken: another thread waits, so that this one serves others.
            let board = board.clone();
            let wait = move || {
                let locked = board.lock_in(near.part(), number).lock_for(by);
                responder.send_now(done(locked));
            };
            let thread = std::thread::Builder::new().name("team lock".to_owned());
            // Without a thread the responder is dropped, and the client gets an error.
            let _ = thread.spawn(wait);
        }
        DataRequest::CollectiveCall { number, from, target, header, data } => {
            let call = CallbackRequest::new((from, target), header, data, responder);
            let function = registry.callbacks.read().get(&number).cloned();
            let Some(function) = function else {
                return call.reply(Err("there is no such callback".to_owned()));
            };
            // A panic drops the request, which replies.
            let _ = catch_unwind(AssertUnwindSafe(|| function(call)));
        }
        DataRequest::Send { to, part } => {
            let replies = registry.mailboxes.lock().send(to, part, responder);
            send_all(replies);
        }
        DataRequest::Receive { to, filter } => {
            let replies = registry.mailboxes.lock().receive(to, filter, responder);
            send_all(replies);
        }
        DataRequest::JoinGroup { members, by } => {
            let replies = registry.groups.lock().join(members, by, responder);
            send_all(replies);
        }
        DataRequest::GroupRound { group, by, call, bytes } => {
            let replies = registry.groups.lock().arrive(group, by, call, bytes, responder);
            send_all(replies);
        }
        request => responder.send(perform(request, board, registry).unwrap_or_else(|wrong| wrong)),
    }
}

fn send_all(replies: Vec<(Responder<DataProtocol>, DataReply)>) {
    for (responder, reply) in replies {
        responder.send(reply);
    }
}

fn done(result: Result<(), DepartedRank>) -> DataReply {
    match result {
        Ok(()) => DataReply::Done,
        Err(DepartedRank::Lost(rank)) => DataReply::HolderGone { rank, has_left: false },
        Err(DepartedRank::Left(rank)) => DataReply::HolderGone { rank, has_left: true },
    }
}

fn perform(
    request: DataRequest,
    board: &Board,
    registry: &MemoryRegistry,
) -> Result<DataReply, DataReply> {
    let outside = || DataReply::Invalid("a place that is not in the segment".to_owned());
    match request {
        DataRequest::Put { memory, pieces, bytes } => {
            let near = registry.memory(memory)?;
            let mut rest = &bytes[..];
            for RankPiece { rank, piece: SegmentPiece { offset, len } } in pieces {
                let (now, later) = rest.split_at_checked(len).ok_or_else(outside)?;
                if !near.put(rank, offset, now) {
                    return Err(outside());
                }
                rest = later;
            }
            Ok(DataReply::Done)
        }
        DataRequest::Get { memory, pieces } => {
            let near = registry.memory(memory)?;
            // Allocate no more memory than there is to read.
            let total = pieces.iter().try_fold(0_usize, |total, RankPiece { rank, piece }| {
                near.pointer(*rank, piece.offset, piece.len)?;
                total.checked_add(piece.len)
            });
            let total = total.filter(|total| *total <= GET_LIMIT_BYTES).ok_or_else(outside)?;
            let mut bytes = vec![0; total];
            let mut rest = &mut bytes[..];
            for RankPiece { rank, piece: SegmentPiece { offset, len } } in pieces {
                let (now, later) = rest.split_at_mut(len);
                near.get(rank, offset, now);
                rest = later;
            }
            Ok(DataReply::Bytes(bytes.into()))
        }
        DataRequest::Accumulate { memory, kind, factor, pieces, bytes } => {
            let near = registry.memory(memory)?;
            let added = Added { near: &near, board, factor, pieces: &pieces, bytes: &bytes };
            with_kind!(kind, T => added.add::<T>()).unwrap_or_else(|| Err(outside()))
        }
        DataRequest::Change { memory, rank, offset, change } => {
            let near = registry.memory(memory)?;
            let was = match change {
                AtomicChange::Add32(value) => changed(&near, rank, offset, value, u32::fetch_add),
                AtomicChange::Swap32(value) => changed(&near, rank, offset, value, u32::swap),
                AtomicChange::Add64(value) => changed(&near, rank, offset, value, u64::fetch_add),
                AtomicChange::Swap64(value) => changed(&near, rank, offset, value, u64::swap),
            };
            was.map(DataReply::Previous).ok_or_else(outside)
        }
        DataRequest::Unlock { memory, number, by } => {
            let near = registry.memory(memory)?;
            let is_there = number < near.part().words().len();
            if is_there && board.lock_in(near.part(), number).unlock_for(by) {
                return Ok(DataReply::Done);
            }
            Err(DataReply::Invalid("that mutex is not locked by this process".to_owned()))
        }
        DataRequest::Release { memory } => {
            registry.memory(memory)?.release();
            Ok(DataReply::Done)
        }
        DataRequest::LeaveGroup { group } => {
            registry.groups.lock().leave(group);
            Ok(DataReply::Done)
        }
        DataRequest::AllocateForGroup { memory, bytes, places, users } => registry
            .allocate_for_group(board, memory, bytes, &places, users)
            .map(|()| DataReply::Done)
            .map_err(DataReply::Invalid),
        DataRequest::Lock { .. }
        | DataRequest::CollectiveCall { .. }
        | DataRequest::Send { .. }
        | DataRequest::Receive { .. }
        | DataRequest::JoinGroup { .. }
        | DataRequest::GroupRound { .. } => Err(outside()),
    }
}

/// The longest reply, in bytes.
pub const GET_LIMIT_BYTES: usize = 8 << 20;

fn changed<T: Word + Into<u64>>(
    near: &MachineMemory,
    rank: u32,
    offset: usize,
    value: T,
    change: unsafe fn(*mut u8, T) -> T,
) -> Option<u64> {
    // SAFETY: `change` of memory gives places that are aligned and mapped.
    let was = near.change(rank, offset, |place| unsafe { change(place, value) });
    was.map(Into::into)
}

/// Numbers to add.
struct Added<'a> {
    near: &'a MachineMemory,
    board: &'a Board,
    factor: [u8; 8],
    pieces: &'a [RankPiece],
    bytes: &'a [u8],
}

impl Added<'_> {
    fn add<T: Number>(&self) -> Result<DataReply, DataReply> {
        let outside = || DataReply::Invalid("a place that is not in the segment".to_owned());
        let factor = T::of_bytes(&self.factor);
        let mut rest = self.bytes;
        for RankPiece { rank, piece: SegmentPiece { offset, len } } in self.pieces {
            let (now, later) = rest.split_at_checked(*len).ok_or_else(outside)?;
            let numbers = Numbers::<T>::of_bytes(now);
            let added = self.near.accumulate(self.board, *rank, *offset, factor, numbers);
            match added {
                Ok(true) => rest = later,
                Ok(false) => return Err(outside()),
                Err(missing) => return Err(done(Err(missing))),
            }
        }
        Ok(DataReply::Done)
    }
}
