//! Functions that run at the machine of any rank.

use std::fmt;
use std::sync::Arc;

use pario_net::Pending;

use crate::call::Call;
use crate::error::TeamError;
use crate::far::message::{FromServer, ToServer};
use crate::team::Team;

/// What a callback is called with.
#[derive(Clone, Copy, Debug)]
pub struct CallbackCall<'a> {
    /// Who calls.
    pub from: u32,
    /// The rank that was meant: one of the machine at which the function runs.
    pub target: u32,
    /// What says what is wanted.
    pub header: &'a [u8],
    /// What it is wanted with.
    pub data: &'a [u8],
}

/// A function that data servers call: it gives the bytes of its result, or says what is wrong.
pub type CallbackFn = dyn Fn(&CallbackCall<'_>) -> Result<Vec<u8>, String> + Send + Sync;

/// A function that all ranks have registered, and that runs in the data server of whichever machine
/// it is called at. Clones are the same.
///
/// The data server of a machine is a thread of one of its processes. It calls one function at a time,
/// and serves nobody else meanwhile.
///
/// ```
/// # let team = pario_team::Team::meet("callbacks", 1, 0)?;
/// let reversed = team.callback(|call| Ok(call.data.iter().rev().copied().collect()))?;
/// let pending = reversed.start(0, b"", b"abc")?; // at the machine of rank 0
/// assert_eq!(pending.wait()?, b"cba");
/// # Ok::<(), pario_team::TeamError>(())
/// ```
#[derive(Clone)]
pub struct Callback {
    team: Team,
    number: u64,
}

/// A call of a callback that was begun.
#[must_use = "the result comes by waiting"]
pub struct CallbackPending {
    team: Team,
    rank: u32,
    answer: Pending<FromServer>,
}

impl Team {
    /// Registers a function, together with all others: the same one, if the results are to be the
    /// same everywhere.
    pub fn callback(
        &self,
        function: impl Fn(&CallbackCall<'_>) -> Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Result<Callback, TeamError> {
        let number = self.serve_callback(Arc::new(function), Call::Callback)?;
        Ok(Callback { team: self.clone(), number })
    }
}

impl Callback {
    /// Calls the function at the machine of a rank. What it is called with is taken at once.
    pub fn start(
        &self,
        rank: u32,
        header: &[u8],
        data: &[u8],
    ) -> Result<CallbackPending, TeamError> {
        let team = self.team.clone();
        let (size, from) = (team.size(), team.rank());
        if rank >= size {
            let what = format!("there are {size} ranks, and so no rank {rank}");
            return Err(TeamError::Invalid(what));
        }
        let (header, data) = (header.to_vec().into(), data.to_vec().into());
        let question = ToServer::Call { number: self.number, from, target: rank, header, data };
        let answer = team.start_asking(rank, question)?;
        Ok(CallbackPending { team, rank, answer })
    }

    /// The same, and waits for the result.
    pub fn call(&self, rank: u32, header: &[u8], data: &[u8]) -> Result<Vec<u8>, TeamError> {
        self.start(rank, header, data)?.wait()
    }
}

impl CallbackPending {
    /// Waits for the result.
    pub fn wait(self) -> Result<Vec<u8>, TeamError> {
        match self.team.answered(self.rank, self.answer.wait())? {
            FromServer::Bytes(bytes) => Ok(bytes.to_vec()),
            FromServer::Failed(why) => Err(TeamError::Callback { rank: self.rank, why }),
            other => Err(self.team.strange(self.rank, other)),
        }
    }

    /// Whether waiting for it would take no time.
    pub fn is_done(&self) -> bool {
        self.answer.is_done()
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Callback({})", self.number)
    }
}
