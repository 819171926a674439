//! Questions of a rank to the data servers of machines, and what it means if there is no answer.

use std::sync::Arc;
use std::time::Duration;

use pario_net::{PendingReply, RecvBuffer, RpcError};

use super::data_connections::DataConnections;
use super::message::{DataProtocol, DataReply, DataRequest};
use crate::board::MissingRank;
use crate::error::TeamError;
use crate::team::Team;

/// How long it may take until a loss that one process knows of is known to another.
pub const LOSS_SPREAD_TIME: Duration = Duration::from_secs(1);

impl Team {
    /// Begins to ask the data server of a rank's machine.
    pub(crate) fn start_request(
        &self,
        rank: u32,
        question: DataRequest,
    ) -> Result<PendingReply<DataProtocol>, TeamError> {
        self.start_request_into(rank, question, None)
    }

    /// The same, with a place for the bytes of the answer.
    pub(crate) fn start_request_into(
        &self,
        rank: u32,
        question: DataRequest,
        buffer: Option<&Arc<RecvBuffer>>,
    ) -> Result<PendingReply<DataProtocol>, TeamError> {
        let leader = self.leader_of(rank);
        let may_be_there = || self.shared.board.lost().is_none();
        match self
            .data_connections()
            .map(|connections| connections.start(leader, question, buffer, may_be_there))
        {
            Ok(Ok(pending)) => Ok(pending),
            Ok(Err(_)) => Err(self.no_reply_error(rank)),
            // The way leads over the host, which ends when somebody is lost.
            Err(error) => match self.shared.board.wait_for_loss(LOSS_SPREAD_TIME) {
                Some(rank) => Err(self.shared.error(MissingRank::Lost(rank))),
                None => Err(error),
            },
        }
    }

    /// Asks the data server of a rank's machine.
    pub(crate) fn request_data(
        &self,
        rank: u32,
        question: DataRequest,
    ) -> Result<DataReply, TeamError> {
        self.check_reply(rank, self.start_request(rank, question)?.wait())
    }

    /// What came of a question.
    pub(crate) fn check_reply(
        &self,
        rank: u32,
        answer: Result<DataReply, RpcError>,
    ) -> Result<DataReply, TeamError> {
        match answer {
            Ok(DataReply::Invalid(what)) => Err(TeamError::Invalid(what)),
            Ok(DataReply::HolderGone { rank, has_left: true }) => {
                Err(self.shared.error(MissingRank::Left(rank)))
            }
            Ok(DataReply::HolderGone { rank, has_left: false }) => {
                Err(self.shared.error(MissingRank::Lost(rank)))
            }
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.no_reply_error(rank)),
        }
    }

    /// The data server of a rank's machine does not answer: its leader has ended, perhaps because it
    /// has heard of a loss earlier than this process.
    fn no_reply_error(&self, rank: u32) -> TeamError {
        let leader = self.leader_of(rank);
        let lost = self.shared.board.wait_for_loss(LOSS_SPREAD_TIME).unwrap_or(leader);
        self.shared.error(MissingRank::Lost(lost))
    }

    /// A data server has check_reply something else than was asked for.
    pub(crate) fn unexpected_reply(&self, rank: u32, answer: DataReply) -> TeamError {
        TeamError::System(format!("the data server of rank {rank} answers {answer:?}"))
    }

    /// The way to data servers.
    fn data_connections(&self) -> Result<Arc<DataConnections>, TeamError> {
        let mut link = self.shared.data_connections.lock();
        if let Some(link) = &*link {
            return Ok(link.clone());
        }
        let made = match &*self.shared.leader.lock() {
            Some(leader) => DataConnections::new(leader.space().clone()),
            None => {
                let name = format!("rank {} ({})", self.rank(), std::process::id());
                DataConnections::connect(&self.shared.board.directory(), &name)
                    .map_err(|error| TeamError::system("the way to data servers", error))?
            }
        };
        let made = Arc::new(made);
        *link = Some(made.clone());
        Ok(made)
    }
}
