//! A process of the simulator: its claims, its accesses, and the messages between it and the home
//! node.

use std::collections::VecDeque;

use pario::simulation::OpenerClaims;
use pario_net::SpaceId;
use pario_proto::{AtomicOutcome, BytesUse};
use pario_server::coordination::{OpenerId, OpenerRefusal};

use super::model::AccessKind;

/// A process.
#[derive(Debug)]
pub struct Process {
    pub life: Life,
    /// Whether it is a rank of the job; otherwise it is alone.
    pub is_rank: bool,
    /// Its user.
    pub uid: u32,
    /// Counts its connections.
    pub connection: u8,
    /// The number of its opener. After a reset it opens the file as a new one.
    pub opener: u64,
    /// The opener that was reset at the home node. The process may not know it yet.
    pub reset_opener: Option<u64>,
    pub registration: Registration,
    pub claims: OpenerClaims,
    /// The delegation whose recall it waits for.
    pub awaited: Option<u64>,
    pub accesses: Vec<Access>,
    /// Messages to the home node, and replies from it, with the number of the opener.
    pub requests: VecDeque<(u64, Message)>,
    pub replies: VecDeque<(u64, Message, Result<AtomicOutcome, OpenerRefusal>)>,
    /// Where its next append begins to look for the end.
    pub append_hint: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Runs,
    /// Since this time.
    Stopped(u64),
    Dead,
}

/// Whether the home node knows the process as an opener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    No,
    /// The open was sent at this time.
    Opening(u64),
    Yes,
}

/// An access of a process.
#[derive(Debug)]
pub struct Access {
    pub id: u64,
    /// The opener to which it belongs.
    pub opener: u64,
    pub kind: AccessKind,
    pub stage: Stage,
    pub bytes: BytesUse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waits for other ranks at the table.
    AtTable,
    /// Has this claim, and waits for its turn.
    Queued(u64),
    /// Has asked the home node, at this time.
    Asked(u64, u64),
    /// Must ask again: the connection was lost.
    Unasked(u64),
    /// Under way.
    Performing(u64),
}

/// A message to the home node. The reply carries it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Open,
    Claim(u64, BytesUse),
    Release(u64),
    AwaitRecall(u64),
    GiveBack(u64, Vec<(u64, BytesUse)>),
    Close,
    /// The connection is lost.
    Lost,
}

impl Process {
    pub fn new(is_rank: bool, uid: u32) -> Self {
        Self {
            life: Life::Runs,
            is_rank,
            uid,
            connection: 0,
            opener: 0,
            reset_opener: None,
            registration: Registration::No,
            claims: OpenerClaims::default(),
            awaited: None,
            accesses: Vec::new(),
            requests: VecDeque::new(),
            replies: VecDeque::new(),
            append_hint: 0,
        }
    }

    /// The identity of one of its openers.
    pub fn id(&self, number: usize, opener: u64) -> OpenerId {
        let number = u8::try_from(number).expect("there are few processes");
        let mut bytes = [number; 16];
        bytes[15] = self.connection;
        OpenerId { space: SpaceId::from_bytes(bytes), number: opener }
    }

    /// Sends a message to the home node.
    pub fn send(&mut self, message: Message) {
        self.requests.push_back((self.opener, message));
    }

    /// Whether its next access may mix with others: its claim was granted before a reset that it does
    /// not know yet. Without a delegation it learns of a reset only when it claims bytes again.
    pub fn has_stale_claims(&self) -> bool {
        self.reset_opener == Some(self.opener) && self.awaited.is_none()
    }

    /// Learns that its opener was reset: its accesses that wait fail, and it opens the file again.
    /// Returns the accesses that have failed.
    pub fn reset(&mut self) -> Vec<u64> {
        self.send(Message::Close);
        self.opener += 1;
        self.registration = Registration::No;
        self.claims = OpenerClaims::default();
        self.awaited = None;
        let is_waiting = |access: &Access| !matches!(access.stage, Stage::Performing(_));
        let failed = self.accesses.iter().filter(|access| is_waiting(access));
        let failed = failed.map(|access| access.id).collect();
        self.accesses.retain(|access| !is_waiting(access));
        failed
    }

    /// Loses the connection to a home node that is restarted.
    pub fn lose_home(&mut self) {
        self.connection = self.connection.wrapping_add(1);
        self.registration = Registration::No;
        self.claims.lose_home();
        self.awaited = None;
        self.requests.clear();
        self.replies.clear();
        for access in &mut self.accesses {
            if let Stage::Asked(number, _) = access.stage {
                access.stage = Stage::Unasked(number);
            }
        }
    }

    pub fn is_running(&self) -> bool {
        self.life == Life::Runs
    }
}

/// The bytes that an access claims.
pub fn claimed(kind: AccessKind, append_hint: u64) -> BytesUse {
    match kind {
        AccessKind::Read(from, len) => BytesUse::new(from, len, false),
        AccessKind::Write(from, len) => BytesUse::new(from, len, true),
        AccessKind::Append(_) => BytesUse { from: append_hint, to: u64::MAX, is_write: true },
        AccessKind::Measure => BytesUse { from: 0, to: u64::MAX, is_write: false },
        AccessKind::SetLen(_) => BytesUse { from: 0, to: u64::MAX, is_write: true },
    }
}
