//! Messages between ranks, and groups of ranks.
//!
//! The data server of a machine holds the mailboxes of its ranks and the rounds of the groups whose
//! first rank it serves. Both are state machines without I/O. A request whose reply has to wait
//! holds no thread of the server.

pub mod group;
pub mod group_rounds;
pub mod mailboxes;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pario_net::PendingReply;

use crate::board::DepartedRank;
use crate::call::CollectiveCall;
use crate::error::TeamError;
use crate::remote::message::{DataProtocol, DataReply, DataRequest, MessageFilter, MessagePart};
use crate::remote::requests::LOSS_SPREAD_TIME;
use crate::team::Team;

/// Bytes of a part of a message.
const PART_BYTES: usize = 1 << 20;
/// The time after which a waiting rank checks again whether another one is missing.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The number of the next message of this process. The other end knows a message by its sender and
/// this number.
static MESSAGES: AtomicU64 = AtomicU64::new(0);

/// Messages between the ranks of a team, and groups of ranks. Clones are the same, and all that a
/// team starts share the tags.
///
/// ```
/// # let team = pario_team::Team::meet("messages", 1, 0)?;
/// let messaging = team.messaging()?; // collective
/// messaging.send(b"three steps", 0, 7)?; // to rank 0, with tag 7
/// let message = messaging.receive(Some(0), 7)?;
/// assert_eq!((message.from, &message.bytes[..]), (0, &b"three steps"[..]));
/// let group = messaging.group(&[0])?; // the ranks of the group call this
/// group.barrier()?;
/// # Ok::<(), pario_team::TeamError>(())
/// ```
#[derive(Clone)]
pub struct Messaging {
    team: Team,
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sending rank.
    pub from: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The number of further messages from this rank with this tag that have arrived.
    pub queued: u64,
}

impl Team {
    /// Starts messaging, together with all ranks.
    pub fn messaging(&self) -> Result<Messaging, TeamError> {
        let met = self.call(CollectiveCall::Messaging, &[])?;
        self.start_data_server(met, |_| {})?;
        Ok(Messaging { team: self.clone() })
    }
}

impl Messaging {
    /// The team.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// Sends bytes to a rank, with a tag. Returns when they are in the rank's mailbox, and the
    /// mailbox has room for more: messages that are not received make senders wait.
    ///
    /// Messages of one thread to one rank with one tag arrive in their order.
    pub fn send(&self, bytes: &[u8], to: u32, tag: u64) -> Result<(), TeamError> {
        self.check_rank(to)?;
        let message = MESSAGES.fetch_add(1, Ordering::Relaxed);
        let (mut rest, mut is_first) = (bytes, true);
        while is_first || !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(PART_BYTES));
            rest = later;
            let part = MessagePart {
                from: self.team.rank(),
                tag,
                message,
                is_first,
                rest: rest.len() as u64,
                bytes: now.to_vec().into(),
            };
            let reply = self.team.start_request(to, DataRequest::Send { to, part })?;
            match self.team.wait_unless_missing(to, reply, |team| team.first_left(&[to]))? {
                DataReply::Done => {}
                other => return Err(self.team.unexpected_reply(to, other)),
            }
            is_first = false;
        }
        Ok(())
    }

    /// Waits for a message with a tag, from a rank or from any, and takes it.
    pub fn receive(&self, from: Option<u32>, tag: u64) -> Result<Message, TeamError> {
        from.map_or(Ok(()), |from| self.check_rank(from))?;
        let filter = MessageFilter { from, tag, message: None };
        let (first, queued) = self.receive_part(filter)?;
        let MessagePart { from, message, mut rest, bytes, .. } = first;
        let mut bytes = bytes.to_vec();
        while rest > 0 {
            let filter = MessageFilter { from: Some(from), tag, message: Some(message) };
            let (part, _) = self.receive_part(filter)?;
            bytes.extend_from_slice(&part.bytes);
            rest = part.rest;
        }
        Ok(Message { from, bytes, queued })
    }

    fn receive_part(&self, filter: MessageFilter) -> Result<(MessagePart, u64), TeamError> {
        let own = self.team.rank();
        let missing = |team: &Team| match filter.from {
            Some(from) => team.first_left(&[from]),
            None => team.only_one_left(),
        };
        let reply = self.team.start_request(own, DataRequest::Receive { to: own, filter })?;
        match self.team.wait_unless_missing(own, reply, missing)? {
            DataReply::Message { part, queued } => Ok((part, queued)),
            other => Err(self.team.unexpected_reply(own, other)),
        }
    }

    fn check_rank(&self, rank: u32) -> Result<(), TeamError> {
        let size = self.team.size();
        if rank < size {
            return Ok(());
        }
        Err(TeamError::Invalid(format!("there are {size} ranks, and so no rank {rank}")))
    }
}

impl Team {
    /// Waits for the reply of the data server of a rank's machine that needs other ranks to act.
    /// Fails if a rank is lost, or if the function names a rank that has left.
    fn wait_unless_missing(
        &self,
        rank: u32,
        mut reply: PendingReply<DataProtocol>,
        missing: impl Fn(&Self) -> Option<u32>,
    ) -> Result<DataReply, TeamError> {
        let board = &self.shared.board;
        loop {
            match reply.wait_until(Instant::now() + CHECK_INTERVAL) {
                Ok(reply) => return self.check_reply(rank, reply),
                Err(pending) => reply = pending,
            }
            if let Some(lost) = board.lost() {
                return Err(self.shared.error(DepartedRank::Lost(lost)));
            }
            if let Some(left) = missing(self) {
                // The rank may have acted before it left: then the reply is on its way.
                return match reply.wait_until(Instant::now() + LOSS_SPREAD_TIME) {
                    Ok(reply) => self.check_reply(rank, reply),
                    Err(_) => Err(self.shared.error(DepartedRank::Left(left))),
                };
            }
        }
    }

    /// The first of these ranks that has left.
    fn first_left(&self, ranks: &[u32]) -> Option<u32> {
        ranks.iter().copied().find(|rank| self.shared.board.has_left(*rank))
    }

    /// A rank that has left, if all others have.
    fn only_one_left(&self) -> Option<u32> {
        let mut others = (0..self.size()).filter(|rank| *rank != self.rank());
        let is_alone = others.clone().all(|rank| self.shared.board.has_left(rank));
        others.next().filter(|_| is_alone)
    }
}

impl fmt::Debug for Messaging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Messaging({:?})", self.team)
    }
}
