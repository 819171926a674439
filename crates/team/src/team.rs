//! The processes of a job that have met.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::{CommonMemory, MemoryShape};
use parking_lot::{Mutex, MutexGuard};

use crate::board::{Board, Missing, SLOT_BYTES};
use crate::call::Call;
use crate::callbacks::CallbackFn;
use crate::error::{TeamError, some_ranks};
use crate::far::asking::HEARSAY;
use crate::far::captain::Captain;
use crate::far::link::Link;
use crate::far::message::ToServer;
use crate::far::server::Registry;
use crate::meeting::{Meeting, Seat, meet};
use crate::near::Near;
use crate::rendezvous::Across;
use crate::room;

/// Processes that a team may have.
const SIZE_LIMIT: u32 = 4096;

/// How a team is made.
#[derive(Clone, Debug)]
pub struct TeamOptions {
    /// How long the others are waited for.
    pub patience: Duration,
    /// Where machines meet, if there are several.
    pub across: Option<Across>,
}

impl Default for TeamOptions {
    fn default() -> Self {
        Self { patience: Duration::from_secs(60), across: None }
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
    pub(crate) shared: Arc<Shared>,
}

pub struct Shared {
    pub seat: Seat,
    pub board: Arc<Board>,
    meeting: Meeting,
    /// The captain of the machine of each rank.
    machines: Vec<u32>,
    /// What a captain does for others.
    pub captain: Mutex<Option<Captain>>,
    registry: Arc<Registry>,
    /// The way to data servers, when it was needed.
    pub link: Mutex<Option<Arc<Link>>>,
    /// Held during a collective call: how many things were made.
    turn: Mutex<u64>,
}

/// All have come to a call and have called the same.
pub struct Met<'a> {
    shared: &'a Shared,
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
        let seat = Seat { job: job.to_owned(), size, rank };
        let until = Instant::now() + options.patience;
        let across = options.across.as_ref().filter(|_| size > 1);
        let registry = Arc::new(Registry::default());
        let captain = Mutex::new(None);
        let open = |memory: &Arc<CommonMemory>| {
            let Some(across) = across else { return Ok(None) };
            let board = Arc::new(Board::new(memory.part(0), size, rank));
            let met = Captain::meet(&seat, across, board, registry.clone(), until)?;
            *captain.lock() = Some(met.0);
            Ok(Some(met.1))
        };
        let machine = across.map(|across| across.machine.as_str());
        let (mut meeting, memory) = meet(&seat, machine, until, &open).map_err(|mut error| {
            if let TeamError::Missing { seconds, .. } = &mut error {
                *seconds = options.patience.as_secs();
            }
            error
        })?;
        let board = Arc::new(Board::new(memory.part(0), size, rank));
        meeting.watch(board.clone())?;
        board.come();
        let all_here = board.wait_for_all(until);
        if let Some(captain) = &mut *captain.lock() {
            captain.withdraw();
        }
        let machines = board.machines();
        let (turn, link) = (Mutex::new(0), Mutex::new(None));
        let shared = Shared { seat, board, meeting, machines, captain, registry, link, turn };
        if let Err(missing) = all_here {
            if let Some(rank) = shared.board.lost() {
                return Err(shared.error(Missing::Lost(rank)));
            }
            let verb = if missing.len() == 1 { "is" } else { "are" };
            let missing = format!("{} {verb}", some_ranks(&missing));
            let seconds = options.patience.as_secs();
            let job = shared.seat.job.clone();
            // Nobody waits for the end of a team that has not begun.
            if let Some(mut captain) = shared.captain.lock().take() {
                captain.end();
            }
            return Err(TeamError::Missing { job, missing, size, seconds });
        }
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Which process this is: 0 is the first.
    pub fn rank(&self) -> u32 {
        self.shared.seat.rank
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        self.shared.seat.size
    }

    /// The name of the job.
    pub fn job(&self) -> &str {
        &self.shared.seat.job
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
        self.captain_of(rank)
    }

    /// An error with the rank, if it is known that somebody was lost.
    pub fn check_complete(&self) -> Result<(), TeamError> {
        self.complete_without(self.shared.board.lost())
    }

    /// The same, when others may have heard of a loss earlier: waits until it would be known here.
    pub fn check_complete_soon(&self) -> Result<(), TeamError> {
        self.complete_without(self.shared.board.wait_for_loss(HEARSAY))
    }

    fn complete_without(&self, lost: Option<u32>) -> Result<(), TeamError> {
        lost.map_or(Ok(()), |rank| Err(self.shared.error(Missing::Lost(rank))))
    }

    /// The captain of a rank's machine.
    pub(crate) fn captain_of(&self, rank: u32) -> u32 {
        self.shared.machines[rank as usize]
    }

    /// Whether this process is the captain of its machine.
    fn is_captain(&self) -> bool {
        self.shared.machines[self.rank() as usize] == self.rank()
    }

    /// Whether there are several machines.
    fn spans(&self) -> bool {
        let machines = &self.shared.machines;
        machines.iter().any(|machine| *machine != machines[0])
    }

    /// Comes to a collective call with some bytes, no more than a slot has.
    pub(crate) fn call(&self, call: Call, bytes: &[u8]) -> Result<Met<'_>, TeamError> {
        let made = self.shared.turn.lock();
        self.shared.call(call, bytes, made)
    }

    /// Memory in common with those of this machine, of a shape and with places that they know, and
    /// its number; the numbers of what was made are the same everywhere.
    pub(crate) fn share(
        &self,
        met: Met<'_>,
        shape: MemoryShape,
        places: Vec<Option<(usize, usize)>>,
    ) -> Result<(u64, Arc<Near>), TeamError> {
        let Met { mut made, .. } = met;
        *made += 1;
        let number = *made;
        let shared = &*self.shared;
        let made_here = self.is_captain().then(|| {
            let memory = room::new_memory(shape)?;
            let given = shared.meeting.hand_out(number, &memory);
            given.map(|()| memory).map_err(|error| error.to_string())
        });
        let made = self.agree(made, made_here.as_ref().and_then(|made| made.as_ref().err()))?;
        let own = match made_here {
            Some(made_here) => made_here,
            None => match shared.meeting.take(number, || shared.board.lost().is_some()) {
                Some(taken) => CommonMemory::of(taken, shape).map_err(|error| error.to_string()),
                None => Err("it was not handed out".to_owned()),
            },
        };
        let near = own.map(|memory| Arc::new(Near::new(Arc::new(memory).part(0), places)));
        // Before anybody elsewhere can know of it.
        if let (Ok(near), true) = (&near, self.is_captain() && self.spans()) {
            shared.registry.add_memory(number, near.clone(), self.size());
        }
        drop(self.agree(made, near.as_ref().err())?);
        near.map(|near| (number, near)).map_err(TeamError::Memory)
    }

    /// This rank has no use for memory any more.
    pub(crate) fn let_go(&self, number: u64, near: &Near) {
        if !self.spans() || self.shared.board.lost().is_some() {
            return;
        }
        near.let_go();
        let machines: BTreeSet<u32> = self.shared.machines.iter().copied().collect();
        for captain in machines.into_iter().filter(|captain| !self.is_near(*captain)) {
            // Whoever is lost has no memory to be freed.
            if let Ok(pending) = self.start_asking(captain, ToServer::LetGo { memory: number }) {
                drop(pending);
            }
        }
    }

    /// Has the data servers know a function; its number.
    pub(crate) fn serve_callback(
        &self,
        function: Arc<CallbackFn>,
        call: Call,
    ) -> Result<u64, TeamError> {
        let met = self.call(call, &[])?;
        let mut made = met.made;
        *made += 1;
        let number = *made;
        let started = self.is_captain().then(|| {
            self.shared.registry.add_callback(number, function);
            let mut captain = self.shared.captain.lock();
            if captain.is_none() {
                let (seat, board) = (&self.shared.seat, self.shared.board.clone());
                *captain = Some(Captain::alone(seat, board, self.shared.registry.clone())?);
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

impl Shared {
    fn call<'a>(
        &'a self,
        call: Call,
        bytes: &[u8],
        made: MutexGuard<'a, u64>,
    ) -> Result<Met<'a>, TeamError> {
        let round = self.board.enter().map_err(|missing| self.error(missing))?;
        self.board.write(round, call, bytes);
        self.board.meet().map_err(|missing| self.error(missing))?;
        let calls = || (0..self.seat.size).map(|rank| self.board.call(round, rank));
        if calls().all(|other| call.fits(other)) {
            return Ok(Met { shared: self, round, made });
        }
        let calls = calls().collect();
        Err(TeamError::Disagree { job: self.seat.job.clone(), calls })
    }

    /// Why somebody is waited for in vain.
    pub fn error(&self, missing: Missing) -> TeamError {
        let job = self.seat.job.clone();
        match missing {
            Missing::Lost(rank) => TeamError::Lost { job, rank },
            Missing::Left(rank) => TeamError::Left { job, rank },
        }
    }
}

impl Met<'_> {
    /// What each rank has told, where it has said how much that is.
    pub fn all(&self) -> Vec<Vec<u8>> {
        let board = &self.shared.board;
        let told = (0..self.shared.seat.size).map(|rank| match board.call(self.round, rank) {
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

impl Drop for Shared {
    fn drop(&mut self) {
        self.board.leave();
        // Whoever serves others stays until they have left.
        let Some(mut captain) = self.captain.lock().take() else { return };
        self.board.wait_for_end();
        captain.say_farewell();
        drop(self.link.lock().take());
        captain.end();
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seat { job, size, rank } = &self.shared.seat;
        write!(f, "Team(rank {rank} of {size}, job {job})")
    }
}
