//! A team: the processes of a job that have met.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pario_net::{SharedMemory, SharedMemoryShape};
use parking_lot::{Mutex, MutexGuard};

use crate::board::{Board, DepartedRank, SLOT_BYTES};
use crate::call::CollectiveCall;
use crate::callbacks::CallbackFn;
use crate::collective::RoundSlots;
use crate::error::{TeamError, some_ranks};
use crate::free_memory;
use crate::local_rendezvous::{LocalRendezvous, Member, meet};
use crate::machine_memory::MachineMemory;
use crate::remote::data_connections::DataConnections;
use crate::remote::data_server::MemoryRegistry;
use crate::remote::machine_leader::MachineLeader;
use crate::remote::message::DataRequest;
use crate::remote::requests::LOSS_SPREAD_TIME;
use crate::rendezvous::MultiMachine;

/// The most processes of a team.
const SIZE_LIMIT: u32 = 4096;

/// The options of a team.
#[derive(Clone, Debug)]
pub struct TeamOptions {
    /// The longest wait for the other processes.
    pub timeout: Duration,
    /// The rendezvous of machines, if there are several.
    pub multi_machine: Option<MultiMachine>,
}

impl Default for TeamOptions {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(60), multi_machine: None }
    }
}

/// A team, as one of its processes sees it. Clones are the same team.
///
/// All ranks make the collective calls, in the same order. Threads of one process may share a team;
/// they must agree which of them calls what.
///
/// When the last clone is dropped, this process leaves the team. A process that ends without that
/// is lost, and the calls of the others fail with its rank.
#[derive(Clone)]
pub struct Team {
    pub(crate) shared: Arc<TeamState>,
}

/// A team that this value does not keep alive.
#[derive(Clone)]
pub struct WeakTeam(Weak<TeamState>);

pub struct TeamState {
    pub member: Member,
    pub board: Arc<Board>,
    rendezvous: LocalRendezvous,
    /// The machine leader of each rank.
    machines: Vec<u32>,
    /// The machine leader, if this process is one.
    pub leader: Mutex<Option<MachineLeader>>,
    registry: Arc<MemoryRegistry>,
    /// The connections to data servers, opened on first use.
    pub data_connections: Mutex<Option<Arc<DataConnections>>>,
    /// Held during a collective call: the number of created objects.
    created: Mutex<u64>,
}

/// A completed round: all ranks have made the same call.
pub struct CompletedRound<'a> {
    shared: &'a TeamState,
    round: u32,
    made: MutexGuard<'a, u64>,
}

impl Team {
    /// Meets the other processes of a job: its name, its size, and the rank of this process.
    /// Returns when all are here.
    pub fn meet(job: &str, size: u32, rank: u32) -> Result<Self, TeamError> {
        Self::meet_with(job, size, rank, &TeamOptions::default())
    }

    /// Like [`meet`](Self::meet), with options.
    pub fn meet_with(
        job: &str,
        size: u32,
        rank: u32,
        options: &TeamOptions,
    ) -> Result<Self, TeamError> {
        if rank >= size || size > SIZE_LIMIT {
            return Err(TeamError::Invalid(format!(
                "job {job}: rank {rank} of {size} is not possible: ranks begin at 0, and a team has \
                 at most {SIZE_LIMIT}"
            )));
        }
        let member = Member { job: job.to_owned(), size, rank };
        let until = Instant::now() + options.timeout;
        let multi_machine = options.multi_machine.as_ref().filter(|_| size > 1);
        let registry = Arc::new(MemoryRegistry::default());
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
        if let Some(hand_out) = rendezvous.memory_hand_out() {
            registry.set_hand_out(hand_out);
        }
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
                return Err(shared.error(DepartedRank::Lost(rank)));
            }
            let verb = if missing.len() == 1 { "is" } else { "are" };
            let missing = format!("{} {verb}", some_ranks(&missing));
            let seconds = options.timeout.as_secs();
            let job = shared.member.job.clone();
            // No rank waits for the end of a team that has not begun.
            if let Some(mut leader) = shared.leader.lock().take() {
                leader.end();
            }
            return Err(TeamError::Missing { job, missing, size, seconds });
        }
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The rank of this process, from 0.
    pub fn rank(&self) -> u32 {
        self.shared.member.rank
    }

    /// The number of processes.
    pub fn size(&self) -> u32 {
        self.shared.member.size
    }

    /// The name of the job.
    pub fn job(&self) -> &str {
        &self.shared.member.job
    }

    /// Whether a rank is on the same machine, so that its memory can be used directly.
    pub fn is_near(&self, rank: u32) -> bool {
        let machines = &self.shared.machines;
        machines.get(rank as usize) == Some(&machines[self.rank() as usize])
    }

    /// The machine of a rank: a number that ranks of one machine share.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn machine_of(&self, rank: u32) -> u32 {
        self.leader_of(rank)
    }

    /// The ranks that are known to be lost, in ascending order. A loss becomes known by itself, also
    /// to ranks that make no call; if several ranks are lost at once, other machines may know only
    /// one of them.
    ///
    /// ```
    /// # let team = pario_team::Team::meet("complete", 1, 0)?;
    /// assert!(team.lost_ranks().is_empty());
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn lost_ranks(&self) -> Vec<u32> {
        self.shared.board.lost_ranks()
    }

    /// Whether both are clones of one team.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns a reference that does not keep this process in the team.
    pub fn downgrade(&self) -> WeakTeam {
        WeakTeam(Arc::downgrade(&self.shared))
    }

    /// Fails with the rank if a loss is known.
    pub fn check_complete(&self) -> Result<(), TeamError> {
        self.complete_without(self.shared.board.lost())
    }

    /// Like [`check_complete`](Self::check_complete), when others may know of a loss earlier: waits
    /// until it would be known here.
    pub fn check_complete_soon(&self) -> Result<(), TeamError> {
        self.complete_without(self.shared.board.wait_for_loss(LOSS_SPREAD_TIME))
    }

    fn complete_without(&self, lost: Option<u32>) -> Result<(), TeamError> {
        lost.map_or(Ok(()), |rank| Err(self.shared.error(DepartedRank::Lost(rank))))
    }

    /// The machine leader of a rank.
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

    /// Makes a collective call with some bytes, at most those of a slot.
    pub(crate) fn call(
        &self,
        call: CollectiveCall,
        bytes: &[u8],
    ) -> Result<CompletedRound<'_>, TeamError> {
        let made = self.shared.created.lock();
        self.shared.call(call, bytes, made)
    }

    /// Allocates memory shared by the ranks of this machine, of a known shape and with known
    /// places. Returns it with its number; objects have the same number everywhere.
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
        // Before other machines can know of it.
        if let (Ok(near), true) = (&near, self.is_leader() && self.is_multi_machine()) {
            shared.registry.add_memory(number, near.clone(), self.size());
        }
        drop(self.agree(made, near.as_ref().err())?);
        near.map(|near| (number, near)).map_err(TeamError::Memory)
    }

    /// Releases memory that this rank does not use any more.
    pub(crate) fn release(&self, number: u64, near: &MachineMemory) {
        if !self.is_multi_machine() || self.shared.board.lost().is_some() {
            return;
        }
        near.release();
        let machines: BTreeSet<u32> = self.shared.machines.iter().copied().collect();
        for leader in machines.into_iter().filter(|leader| !self.is_near(*leader)) {
            // A lost machine has no memory to release.
            if let Ok(pending) = self.start_request(leader, DataRequest::Release { memory: number })
            {
                drop(pending);
            }
        }
    }

    /// Registers a function with the data servers; returns its number.
    pub(crate) fn register_callback(
        &self,
        function: Arc<CallbackFn>,
        call: CollectiveCall,
    ) -> Result<u64, TeamError> {
        let met = self.call(call, &[])?;
        self.start_data_server(met, |number| self.shared.registry.add_callback(number, function))
    }

    /// Starts the data server of this machine, unless it runs, after a preparation with the number
    /// of a new object, which it returns. The preparation runs on machine leaders.
    pub(crate) fn start_data_server(
        &self,
        met: CompletedRound<'_>,
        prepare: impl FnOnce(u64),
    ) -> Result<u64, TeamError> {
        let mut made = met.made;
        *made += 1;
        let number = *made;
        let started = self.is_leader().then(|| {
            prepare(number);
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

    /// Has the data server of this machine allocate memory for ranks of a group here.
    pub(crate) fn allocate_near(
        &self,
        number: u64,
        places: &[(u32, usize, usize)],
        bytes: usize,
        users: u32,
    ) -> Result<(), TeamError> {
        let (places, users) = (places.to_vec(), self.is_multi_machine().then_some(users));
        let request = DataRequest::AllocateForGroup { memory: number, bytes, places, users };
        match self.request_data(self.rank(), request) {
            Ok(_) => Ok(()),
            Err(TeamError::Invalid(why)) => Err(TeamError::Memory(why)),
            Err(error) => Err(error),
        }
    }

    /// Takes the memory of a group that the data server of this machine has allocated.
    pub(crate) fn take_near(
        &self,
        number: u64,
        shape: SharedMemoryShape,
        places: Vec<Option<(usize, usize)>>,
    ) -> Result<Arc<MachineMemory>, TeamError> {
        let shared = &*self.shared;
        let taken = match self.is_leader() {
            true => shared.registry.take_for_leader(number),
            false => match shared.rendezvous.take(number, || shared.board.lost().is_some()) {
                Some(taken) => {
                    let memory = SharedMemory::from_descriptor(taken, shape);
                    Some(Arc::new(memory.map_err(|error| TeamError::Memory(error.to_string()))?))
                }
                None => None,
            },
        };
        let taken = taken.ok_or_else(|| TeamError::Memory("it was not handed out".to_owned()))?;
        Ok(Arc::new(MachineMemory::new(taken.part(0), places)))
    }

    /// Removes a function from the data server of this machine, if this process runs it.
    pub(crate) fn forget_callback(&self, number: u64) {
        self.shared.registry.remove_callback(number);
    }

    /// Tells all ranks whether something went wrong here, and fails if it did on any.
    fn agree<'a>(
        &'a self,
        made: MutexGuard<'a, u64>,
        wrong: Option<&String>,
    ) -> Result<MutexGuard<'a, u64>, TeamError> {
        let said = wrong.map_or(&[][..], |wrong| wrong.as_bytes());
        let said = &said[..said.len().min(SLOT_BYTES)];
        let met =
            self.shared.call(CollectiveCall::Gather { bytes: said.len() as u64 }, said, made)?;
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

impl WeakTeam {
    /// Returns the team, unless this process has left it.
    pub fn upgrade(&self) -> Option<Team> {
        self.0.upgrade().map(|shared| Team { shared })
    }

    /// Whether this process is still in the team.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl TeamState {
    fn call<'a>(
        &'a self,
        call: CollectiveCall,
        bytes: &[u8],
        made: MutexGuard<'a, u64>,
    ) -> Result<CompletedRound<'a>, TeamError> {
        let round = self.board.enter().map_err(|departed| self.error(departed))?;
        self.board.write(round, call, bytes);
        self.board.complete_round().map_err(|departed| self.error(departed))?;
        let calls = || (0..self.member.size).map(|rank| self.board.call(round, rank));
        if let Some(rank) = (0..)
            .zip(calls())
            .find_map(|(rank, call)| (call == CollectiveCall::Failed).then_some(rank))
        {
            let (_, why) = self.board.read_slot(rank, round);
            let why = String::from_utf8_lossy(&why).into_owned();
            return Err(TeamError::RankFailed { job: self.member.job.clone(), rank, why });
        }
        if calls().all(|other| call.fits(other)) {
            return Ok(CompletedRound { shared: self, round, made });
        }
        let calls = calls().collect();
        Err(TeamError::Disagree { job: self.member.job.clone(), calls })
    }

    /// The error of a call that needs a departed rank.
    pub fn error(&self, departed: DepartedRank) -> TeamError {
        let job = self.member.job.clone();
        match departed {
            DepartedRank::Lost(rank) => TeamError::Lost { job, rank },
            DepartedRank::Left(rank) => TeamError::Left { job, rank },
        }
    }
}

impl CompletedRound<'_> {
    /// The bytes of each rank in a gather.
    pub fn all(&self) -> Vec<Vec<u8>> {
        let board = &self.shared.board;
        let told = (0..self.shared.member.size).map(|rank| match board.call(self.round, rank) {
            CollectiveCall::Gather { bytes } => {
                let len = usize::try_from(bytes).unwrap_or(0).min(SLOT_BYTES);
                self.of(rank, len)
            }
            _ => Vec::new(),
        });
        told.collect()
    }

    /// The first `len` bytes of a rank.
    pub fn of(&self, rank: u32, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.shared.board.read(self.round, rank, &mut bytes);
        bytes
    }
}

impl RoundSlots for CompletedRound<'_> {
    fn of(&self, rank: u32, len: usize) -> Vec<u8> {
        self.of(rank, len)
    }

    fn all(&self) -> Vec<Vec<u8>> {
        self.all()
    }
}

impl Drop for TeamState {
    fn drop(&mut self) {
        self.board.leave();
        // A machine leader stays until the others have left.
        let Some(mut leader) = self.leader.lock().take() else { return };
        self.board.wait_for_end();
        leader.wait_for_others();
        drop(self.data_connections.lock().take());
        leader.end();
    }
}

impl fmt::Debug for WeakTeam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakTeam")
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Member { job, size, rank } = &self.shared.member;
        write!(f, "Team(rank {rank} of {size}, job {job})")
    }
}
