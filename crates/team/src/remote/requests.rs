//! Requests of a rank to the data servers of machines, and what a missing reply means.

use std::sync::Arc;
use std::time::Duration;

use pario_net::{PendingReply, RecvBuffer, RpcError};

use super::data_connections::DataConnections;
use super::message::{DataProtocol, DataReply, DataRequest};
use crate::board::DepartedRank;
use crate::error::TeamError;
use crate::team::Team;

/// The time within which a loss that one process knows is known to the others.
pub const LOSS_SPREAD_TIME: Duration = Duration::from_secs(1);

impl Team {
    /// Sends a request to the data server of a rank's machine.
    pub(crate) fn start_request(
        &self,
        rank: u32,
        request: DataRequest,
    ) -> Result<PendingReply<DataProtocol>, TeamError> {
        self.start_request_into(rank, request, None)
    }

    /// Like `start_request`, with a buffer for the bytes of the reply.
    pub(crate) fn start_request_into(
        &self,
        rank: u32,
        request: DataRequest,
        buffer: Option<&Arc<RecvBuffer>>,
    ) -> Result<PendingReply<DataProtocol>, TeamError> {
        let leader = self.leader_of(rank);
        let may_be_there = || self.shared.board.lost().is_none();
        match self
            .data_connections()
            .map(|connections| connections.start(leader, request, buffer, may_be_there))
        {
            Ok(Ok(pending)) => Ok(pending),
            Ok(Err(_)) => Err(self.no_reply_error(rank)),
            // The connection needs the coordinator, which ends after a loss.
            Err(error) => match self.shared.board.wait_for_loss(LOSS_SPREAD_TIME) {
                Some(rank) => Err(self.shared.error(DepartedRank::Lost(rank))),
                None => Err(error),
            },
        }
    }

    /// Sends a request to the data server of a rank's machine, and waits for the reply.
    pub(crate) fn request_data(
        &self,
        rank: u32,
        request: DataRequest,
    ) -> Result<DataReply, TeamError> {
        self.check_reply(rank, self.start_request(rank, request)?.wait())
    }

    /// Checks a reply.
    pub(crate) fn check_reply(
        &self,
        rank: u32,
        answer: Result<DataReply, RpcError>,
    ) -> Result<DataReply, TeamError> {
        match answer {
            Ok(DataReply::Invalid(what)) => Err(TeamError::Invalid(what)),
            Ok(DataReply::HolderGone { rank, has_left: true }) => {
                Err(self.shared.error(DepartedRank::Left(rank)))
            }
            Ok(DataReply::HolderGone { rank, has_left: false }) => {
                Err(self.shared.error(DepartedRank::Lost(rank)))
            }
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.no_reply_error(rank)),
        }
    }

    /// The error when the data server of a rank's machine does not reply: its machine leader has
    /// ended, perhaps because it has learnt of a loss earlier than this process.
    fn no_reply_error(&self, rank: u32) -> TeamError {
        let leader = self.leader_of(rank);
        let lost = self.shared.board.wait_for_loss(LOSS_SPREAD_TIME).unwrap_or(leader);
        self.shared.error(DepartedRank::Lost(lost))
    }

    /// The error for a reply of the wrong kind.
    pub(crate) fn unexpected_reply(&self, rank: u32, answer: DataReply) -> TeamError {
        TeamError::System(format!("the data server of rank {rank} answers {answer:?}"))
    }

    /// The connections to data servers.
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
