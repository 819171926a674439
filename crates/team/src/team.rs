//! The processes of a job that have met.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::{SharedMemory, SharedMemoryShape};
use parking_lot::{Mutex, MutexGuard};

use crate::board::{Board, MissingRank, SLOT_BYTES};
use crate::call::Call;
use crate::callbacks::CallbackFn;
use crate::error::{TeamError, some_ranks};
use crate::free_memory;
use crate::local_rendezvous::{LocalRendezvous, Member, meet};
use crate::machine_memory::MachineMemory;
use crate::remote::data_connections::DataConnections;
use crate::remote::data_server::Registry;
use crate::remote::machine_leader::MachineLeader;
use crate::remote::message::DataRequest;
use crate::remote::requests::LOSS_SPREAD_TIME;
use crate::rendezvous::MultiMachine;

/// Processes that a team may have.
const SIZE_LIMIT: u32 = 4096;

/// How a team is made.
#[derive(Clone, Debug)]
pub struct TeamOptions {
    /// How long the others are waited for.
    pub timeout: Duration,
    /// Where machines meet, if there are several.
    pub multi_machine: Option<MultiMachine>,
}

impl Default for TeamOptions {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(60), multi_machine: None }
    }
}

/// The processes of a job that have met, as one of them sees it. Clones are the same one.
///
/// Collective calls are made by all, in the same order. Threads of one process may share a team; it
/// is theirs to agree which of them calls what.
///
/// When the last clone is dropped, this process leaves the team. A process that ends without that
/// is lost, and the calls of the others fail with its rank.
#[derive(Clone)]
pub struct Team {
    pub(crate) shared: Arc<TeamState>,
}

pub struct TeamState {
    pub member: Member,
    pub board: Arc<Board>,
    rendezvous: LocalRendezvous,
    /// The leader of the machine of each rank.
    machines: Vec<u32>,
    /// What a leader does for others.
    pub leader: Mutex<Option<MachineLeader>>,
    registry: Arc<Registry>,
    /// The way to data servers, when it was needed.
    pub data_connections: Mutex<Option<Arc<DataConnections>>>,
    /// Held during a collective call: how many things were made.
    created: Mutex<u64>,
}

/// All have come to a call and have called the same.
pub struct CompletedRound<'a> {
    shared: &'a TeamState,
    round: u32,
    made: MutexGuard<'a, u64>,
}

impl Team {
    /// Meets the other processes of a job: its name, how many there are, and which one this is.
    /// Returns when all are here.
    pub fn meet(job: &str, size: u32, rank: u32) -> Result<Self, TeamError> {
        Self::meet_with(job, size, rank, &TeamOptions::default())
    }

    /// The same, with options.
    pub fn meet_with(
        job: &str,
        size: u32,
        rank: u32,
        options: &TeamOptions,
    ) -> Result<Self, TeamError> {
        if rank >= size || size > SIZE_LIMIT {
            return Err(TeamError::Invalid(format!(
                "job {job}: rank {rank} of {size} cannot be: ranks begin at 0, and a team has at \
                 most {SIZE_LIMIT}"
            )));
        }
        let member = Member { job: job.to_owned(), size, rank };
        let until = Instant::now() + options.timeout;
        let multi_machine = options.multi_machine.as_ref().filter(|_| size > 1);
        let registry = Arc::new(Registry::default());
        let leader = Mutex::new(None);
        let open = |memory: &Arc<SharedMemory>| {
            let Some(multi_machine) = multi_machine else { return Ok(None) };
            let board = Arc::new(Board::new(memory.part(0), size, rank));
            let met = MachineLeader::meet(&member, multi_machine, board, registry.clone(), until)?;
            *leader.lock() = Some(met.0);
            Ok(Some(met.1))
        };
        let machine = multi_machine.map(|multi_machine| multi_machine.machine.as_str());
        let (mut rendezvous, memory) =
            meet(&member, machine, until, &open).map_err(|mut error| {
                if let TeamError::Missing { seconds, .. } = &mut error {
                    *seconds = options.timeout.as_secs();
                }
                error
            })?;
        let board = Arc::new(Board::new(memory.part(0), size, rank));
        rendezvous.watch(board.clone())?;
        board.mark_here();
        let all_here = board.wait_for_all(until);
        if let Some(leader) = &mut *leader.lock() {
            leader.withdraw();
        }
        let machines = board.machines();
        let (created, data_connections) = (Mutex::new(0), Mutex::new(None));
        let shared = TeamState {
            member,
            board,
            rendezvous,
            machines,
            leader,
            registry,
            data_connections,
            created,
        };
        if let Err(missing) = all_here {
            if let Some(rank) = shared.board.lost() {
                return Err(shared.error(MissingRank::Lost(rank)));
            }
            let verb = if missing.len() == 1 { "is" } else { "are" };
            let missing = format!("{} {verb}", some_ranks(&missing));
            let seconds = options.timeout.as_secs();
            let job = shared.member.job.clone();
            // Nobody waits for the end of a team that has not begun.
            if let Some(mut leader) = shared.leader.lock().take() {
                leader.end();
            }
            return Err(TeamError::Missing { job, missing, size, seconds });
        }
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Which process this is: 0 is the first.
    pub fn rank(&self) -> u32 {
        self.shared.member.rank
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        self.shared.member.size
    }

    /// The name of the job.
    pub fn job(&self) -> &str {
        &self.shared.member.job
    }

    /// Whether a rank is at the same machine, so that its memory can be used directly.
    pub fn is_near(&self, rank: u32) -> bool {
        let machines = &self.shared.machines;
        machines.get(rank as usize) == Some(&machines[self.rank() as usize])
    }

    /// The machine of a rank: a number that ranks of one machine have in common.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn machine_of(&self, rank: u32) -> u32 {
        self.leader_of(rank)
    }

    /// An error with the rank, if it is known that somebody was lost.
    pub fn check_complete(&self) -> Result<(), TeamError> {
        self.complete_without(self.shared.board.lost())
    }

    /// The same, when others may have heard of a loss earlier: waits until it would be known here.
    pub fn check_complete_soon(&self) -> Result<(), TeamError> {
        self.complete_without(self.shared.board.wait_for_loss(LOSS_SPREAD_TIME))
    }

    fn complete_without(&self, lost: Option<u32>) -> Result<(), TeamError> {
        lost.map_or(Ok(()), |rank| Err(self.shared.error(MissingRank::Lost(rank))))
    }

    /// The leader of a rank's machine.
    pub(crate) fn leader_of(&self, rank: u32) -> u32 {
        self.shared.machines[rank as usize]
    }

    /// Whether this process is the leader of its machine.
    fn is_leader(&self) -> bool {
        self.shared.machines[self.rank() as usize] == self.rank()
    }

    /// Whether there are several machines.
    fn is_multi_machine(&self) -> bool {
        let machines = &self.shared.machines;
        machines.iter().any(|machine| *machine != machines[0])
    }

    /// Comes to a collective call with some bytes, no more than a slot has.
    pub(crate) fn call(&self, call: Call, bytes: &[u8]) -> Result<CompletedRound<'_>, TeamError> {
        let made = self.shared.created.lock();
        self.shared.call(call, bytes, made)
    }

    /// Memory in common with those of this machine, of a shape and with places that they know, and
    /// its number; the numbers of what was made are the same everywhere.
    pub(crate) fn allocate_shared(
        &self,
        met: CompletedRound<'_>,
        shape: SharedMemoryShape,
        places: Vec<Option<(usize, usize)>>,
    ) -> Result<(u64, Arc<MachineMemory>), TeamError> {
        let CompletedRound { mut made, .. } = met;
        *made += 1;
        let number = *made;
        let shared = &*self.shared;
        let made_here = self.is_leader().then(|| {
            let memory = free_memory::allocate(shape)?;
            let given = shared.rendezvous.hand_out(number, &memory);
            given.map(|()| memory).map_err(|error| error.to_string())
        });
        let made = self.agree(made, made_here.as_ref().and_then(|made| made.as_ref().err()))?;
        let own = match made_here {
            Some(made_here) => made_here,
            None => match shared.rendezvous.take(number, || shared.board.lost().is_some()) {
                Some(taken) => {
                    SharedMemory::from_descriptor(taken, shape).map_err(|error| error.to_string())
                }
                None => Err("it was not handed out".to_owned()),
            },
        };
        let near = own.map(|memory| Arc::new(MachineMemory::new(Arc::new(memory).part(0), places)));
        // Before anybody elsewhere can know of it.
        if let (Ok(near), true) = (&near, self.is_leader() && self.is_multi_machine()) {
            shared.registry.add_memory(number, near.clone(), self.size());
        }
        drop(self.agree(made, near.as_ref().err())?);
        near.map(|near| (number, near)).map_err(TeamError::Memory)
    }

    /// This rank has no use for memory any more.
    pub(crate) fn release(&self, number: u64, near: &MachineMemory) {
        if !self.is_multi_machine() || self.shared.board.lost().is_some() {
            return;
        }
        near.release();
        let machines: BTreeSet<u32> = self.shared.machines.iter().copied().collect();
        for leader in machines.into_iter().filter(|leader| !self.is_near(*leader)) {
            // Whoever is lost has no memory to be freed.
            if let Ok(pending) = self.start_request(leader, DataRequest::Release { memory: number })
            {
                drop(pending);
            }
        }
    }

    /// Has the data servers know a function; its number.
    pub(crate) fn register_callback(
        &self,
        function: Arc<CallbackFn>,
        call: Call,
    ) -> Result<u64, TeamError> {
        let met = self.call(call, &[])?;
        let mut made = met.made;
        *made += 1;
        let number = *made;
        let started = self.is_leader().then(|| {
            self.shared.registry.add_callback(number, function);
            let mut leader = self.shared.leader.lock();
            if leader.is_none() {
                let (member, board) = (&self.shared.member, self.shared.board.clone());
                *leader = Some(MachineLeader::alone(member, board, self.shared.registry.clone())?);
            }
            Ok::<(), TeamError>(())
        });
        let wrong = started.and_then(Result::err).map(|error| error.to_string());
        drop(self.agree(made, wrong.as_ref())?);
        Ok(number)
    }

    /// Has the data server of this machine forget a function, if it is this process that serves.
    pub(crate) fn forget_callback(&self, number: u64) {
        self.shared.registry.remove_callback(number);
    }

    /// Says whether something went wrong here, and hears whether it did elsewhere.
    fn agree<'a>(
        &'a self,
        made: MutexGuard<'a, u64>,
        wrong: Option<&String>,
    ) -> Result<MutexGuard<'a, u64>, TeamError> {
        let said = wrong.map_or(&[][..], |wrong| wrong.as_bytes());
        let said = &said[..said.len().min(SLOT_BYTES)];
        let met = self.shared.call(Call::Gather { bytes: said.len() as u64 }, said, made)?;
        for (rank, said) in (0..self.size()).zip(met.all()) {
            if !said.is_empty() {
                let said = String::from_utf8_lossy(&said);
                let what = format!("job {}: rank {rank} cannot share memory: {said}", self.job());
                return Err(TeamError::Memory(what));
            }
        }
        Ok(met.made)
    }
}

impl TeamState {
    fn call<'a>(
        &'a self,
        call: Call,
        bytes: &[u8],
        made: MutexGuard<'a, u64>,
    ) -> Result<CompletedRound<'a>, TeamError> {
        let round = self.board.enter().map_err(|missing| self.error(missing))?;
        self.board.write(round, call, bytes);
        self.board.complete_round().map_err(|missing| self.error(missing))?;
        let calls = || (0..self.member.size).map(|rank| self.board.call(round, rank));
        if calls().all(|other| call.fits(other)) {
            return Ok(CompletedRound { shared: self, round, made });
        }
        let calls = calls().collect();
        Err(TeamError::Disagree { job: self.member.job.clone(), calls })
    }

    /// Why somebody is waited for in vain.
    pub fn error(&self, missing: MissingRank) -> TeamError {
        let job = self.member.job.clone();
        match missing {
            MissingRank::Lost(rank) => TeamError::Lost { job, rank },
            MissingRank::Left(rank) => TeamError::Left { job, rank },
        }
    }
}

impl CompletedRound<'_> {
    /// What each rank has told, where it has said how much that is.
    pub fn all(&self) -> Vec<Vec<u8>> {
        let board = &self.shared.board;
        let told = (0..self.shared.member.size).map(|rank| match board.call(self.round, rank) {
            Call::Gather { bytes } => {
                let len = usize::try_from(bytes).unwrap_or(0).min(SLOT_BYTES);
                self.of(rank, len)
            }
            _ => Vec::new(),
        });
        told.collect()
    }

    /// So many bytes of what a rank has told.
    pub fn of(&self, rank: u32, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.shared.board.read(self.round, rank, &mut bytes);
        bytes
    }
}

impl Drop for TeamState {
    fn drop(&mut self) {
        self.board.leave();
        // Whoever serves others stays until they have left.
        let Some(mut leader) = self.leader.lock().take() else { return };
        self.board.wait_for_end();
        leader.say_farewell();
        drop(self.data_connections.lock().take());
        leader.end();
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Member { job, size, rank } = &self.shared.member;
        write!(f, "Team(rank {rank} of {size}, job {job})")
    }
}
