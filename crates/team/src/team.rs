//! The processes of a job that have met.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::{CommonMemory, MemoryShape};
use parking_lot::{Mutex, MutexGuard};

use crate::board::{Board, Missing, SLOT_BYTES};
use crate::call::Call;
use crate::error::{TeamError, some_ranks};
use crate::meeting::{Meeting, Seat, meet};
use crate::room;

/// Processes that a team may have.
const SIZE_LIMIT: u32 = 4096;

/// How a team is made.
#[derive(Clone, Debug)]
pub struct TeamOptions {
    /// How long the others are waited for.
    pub patience: Duration,
}

impl Default for TeamOptions {
    fn default() -> Self {
        Self { patience: Duration::from_secs(60) }
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
    pub board: Board,
    pub meeting: Meeting,
    /// Held during a collective call: how many pieces of memory were made.
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
        let late = |mut error| {
            if let TeamError::Missing { seconds, .. } = &mut error {
                *seconds = options.patience.as_secs();
            }
            error
        };
        let (mut meeting, memory) = meet(&seat, until).map_err(late)?;
        meeting.watch(Board::new(memory.part(0), size, rank))?;
        let board = Board::new(memory.part(0), size, rank);
        board.come();
        let shared = Shared { seat, board, meeting, turn: Mutex::new(0) };
        if let Err(missing) = shared.board.wait_for_all(until) {
            if let Some(rank) = shared.board.lost() {
                return Err(shared.error(Missing::Lost(rank)));
            }
            let verb = if missing.len() == 1 { "is" } else { "are" };
            let missing = format!("{} {verb}", some_ranks(&missing));
            let seconds = options.patience.as_secs();
            let job = shared.seat.job.clone();
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

    /// Comes to a collective call with some bytes, no more than a slot has.
    pub(crate) fn call(&self, call: Call, bytes: &[u8]) -> Result<Met<'_>, TeamError> {
        let made = self.shared.turn.lock();
        self.shared.call(call, bytes, made)
    }

    /// Memory in common, of a shape that all know; the numbers of segments, or of mutexes.
    pub(crate) fn share(
        &self,
        met: Met<'_>,
        shape: MemoryShape,
    ) -> Result<Arc<CommonMemory>, TeamError> {
        let Met { mut made, .. } = met;
        *made += 1;
        let number = *made;
        let shared = &*self.shared;
        let is_first = self.rank() == 0;
        let made_here = is_first.then(|| {
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
        drop(self.agree(made, own.as_ref().err())?);
        own.map(Arc::new).map_err(TeamError::Memory)
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
        let round = self.board.next_round();
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
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seat { job, size, rank } = &self.shared.seat;
        write!(f, "Team(rank {rank} of {size}, job {job})")
    }
}
