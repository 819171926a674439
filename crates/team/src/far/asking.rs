//! Questions of a rank to the data servers of machines, and what it means if there is no answer.

use std::sync::Arc;
use std::time::Duration;

use pario_net::{Landing, PendingReply, RpcError};

use super::link::Link;
use super::message::{DataProtocol, FromServer, ToServer};
use crate::board::Missing;
use crate::error::TeamError;
use crate::team::Team;

/// How long it may take until a loss that one process knows of is known to another.
pub const HEARSAY: Duration = Duration::from_secs(1);

impl Team {
    /// Begins to ask the data server of a rank's machine.
    pub(crate) fn start_asking(
        &self,
        rank: u32,
        question: ToServer,
    ) -> Result<PendingReply<DataProtocol>, TeamError> {
        self.start_asking_into(rank, question, None)
    }

    /// The same, with a place for the bytes of the answer.
    pub(crate) fn start_asking_into(
        &self,
        rank: u32,
        question: ToServer,
        landing: Option<&Arc<Landing>>,
    ) -> Result<PendingReply<DataProtocol>, TeamError> {
        let captain = self.captain_of(rank);
        let may_be_there = || self.shared.board.lost().is_none();
        match self.link().map(|link| link.start(captain, question, landing, may_be_there)) {
            Ok(Ok(pending)) => Ok(pending),
            Ok(Err(_)) => Err(self.unanswered(rank)),
            // The way leads over the host, which ends when somebody is lost.
            Err(error) => match self.shared.board.wait_for_loss(HEARSAY) {
                Some(rank) => Err(self.shared.error(Missing::Lost(rank))),
                None => Err(error),
            },
        }
    }

    /// Asks the data server of a rank's machine.
    pub(crate) fn ask_server(
        &self,
        rank: u32,
        question: ToServer,
    ) -> Result<FromServer, TeamError> {
        self.answered(rank, self.start_asking(rank, question)?.wait())
    }

    /// What came of a question.
    pub(crate) fn answered(
        &self,
        rank: u32,
        answer: Result<FromServer, RpcError>,
    ) -> Result<FromServer, TeamError> {
        match answer {
            Ok(FromServer::Wrong(what)) => Err(TeamError::Invalid(what)),
            Ok(FromServer::Gone { rank, has_left: true }) => {
                Err(self.shared.error(Missing::Left(rank)))
            }
            Ok(FromServer::Gone { rank, has_left: false }) => {
                Err(self.shared.error(Missing::Lost(rank)))
            }
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.unanswered(rank)),
        }
    }

    /// The data server of a rank's machine does not answer: its captain has ended, perhaps because it
    /// has heard of a loss earlier than this process.
    fn unanswered(&self, rank: u32) -> TeamError {
        let captain = self.captain_of(rank);
        let lost = self.shared.board.wait_for_loss(HEARSAY).unwrap_or(captain);
        self.shared.error(Missing::Lost(lost))
    }

    /// A data server has answered something else than was asked for.
    pub(crate) fn strange(&self, rank: u32, answer: FromServer) -> TeamError {
        TeamError::System(format!("the data server of rank {rank} answers {answer:?}"))
    }

    /// The way to data servers.
    fn link(&self) -> Result<Arc<Link>, TeamError> {
        let mut link = self.shared.link.lock();
        if let Some(link) = &*link {
            return Ok(link.clone());
        }
        let made = match &*self.shared.captain.lock() {
            Some(captain) => Link::new(captain.space().clone()),
            None => {
                let name = format!("rank {} ({})", self.rank(), std::process::id());
                Link::of_way(&self.shared.board.way(), &name)
                    .map_err(|error| TeamError::system("the way to data servers", error))?
            }
        };
        let made = Arc::new(made);
        *link = Some(made.clone());
        Ok(made)
    }
}
