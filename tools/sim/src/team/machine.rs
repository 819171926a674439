//! A machine: its board, its captain, and the captain's way to the host.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::Result;
use fastrand::Rng;
use pario_net::SharedMemory;
use pario_team::simulation::{
    Board, CoordinatorReply, CoordinatorRequest, MachineReporter, News, NewsFeed, RoundEnd, shape,
};

use crate::sim_thread::SimParker;

/// A machine, and its captain, who does nothing before it is accepted by the host.
pub struct Machine {
    memory: Arc<SharedMemory>,
    /// How its processes wait for each other.
    pub parker: Arc<SimParker>,
    size: u32,
    /// Which rank the captain is, and which process.
    pub captain: u32,
    pub captain_process: usize,
    pub duty: Duty,
    /// The board, as the captain sees it.
    pub board: Board,
    pub steward: MachineReporter,
    /// How many of the board's news the steward has seen.
    pub seen: Option<u32>,
    /// The steward has looked for ends, and is about to look for a round.
    pub is_looking: bool,
    /// Once the captain was accepted.
    pub follower: Option<NewsFeed>,
    /// What the follower has heard and not noted.
    pub heard: VecDeque<News>,
    /// How many news it has noted.
    pub noted: usize,
    /// The end of a round that is being written on the board.
    pub ending: Option<RoundEnd>,
    /// The process about which the host is asked.
    pub gate: Option<usize>,
    /// Guests whose connections are closed, which the captain has not noticed.
    pub closed: VecDeque<u32>,
    pub link: Link,
    /// The host has accepted the captain.
    pub has_joined: bool,
    /// The host has heard that it is gone.
    pub is_gone: bool,
    /// The host has heard that it wants more news, and has told it none since: it knows all.
    pub is_following: bool,
    /// Of how many ends the host has told it, and whether of a loss.
    pub ends_told: u32,
    pub is_loss_told: bool,
}

/// What a captain does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// It was not started, or waits for the host to accept it.
    Coming,
    Serving,
    /// It has ended by itself, when it was not needed any more.
    Ended,
    /// It has ended because not all have come.
    GivenUp,
    Killed,
    /// The host has not accepted it, or could not.
    Refused,
}

/// What goes between a captain and the host, in order in each direction.
#[derive(Default)]
pub struct Link {
    pub up: VecDeque<Up>,
    pub down: VecDeque<Down>,
    pub is_cut: bool,
}

/// To the host.
pub enum Up {
    Ask(What, CoordinatorRequest),
    /// The captain is gone.
    Gone,
}

/// From the host.
pub enum Down {
    Answer(What, CoordinatorReply),
    /// The host is gone.
    Broken,
}

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Whether a process may come.
    Come(usize),
    Follow,
    Round(u32),
    Tell,
}

impl Machine {
    pub fn new(
        (captain, captain_process): (u32, usize),
        size: u32,
        first_round: u32,
        rng: Rng,
    ) -> Result<Self> {
        let memory = Arc::new(SharedMemory::new(shape(size))?);
        let parker = SimParker::new(rng);
        memory.set_parker(parker.clone());
        let board = Board::new(memory.part(0), size, captain);
        board.start_at_round(first_round);
        Ok(Self {
            memory,
            parker,
            size,
            captain,
            captain_process,
            duty: Duty::Coming,
            board,
            steward: MachineReporter::new(size),
            seen: None,
            is_looking: false,
            follower: None,
            heard: VecDeque::new(),
            noted: 0,
            ending: None,
            gate: None,
            closed: VecDeque::new(),
            link: Link::default(),
            has_joined: false,
            is_gone: false,
            is_following: false,
            ends_told: 0,
            is_loss_told: false,
        })
    }

    /// The board, as a rank of this machine sees it.
    pub fn board_of(&self, rank: u32) -> Arc<Board> {
        Arc::new(Board::new(self.memory.part(0), self.size, rank))
    }

    pub fn is_serving(&self) -> bool {
        self.duty == Duty::Serving
    }

    /// Whether the steward has something to look at.
    pub fn is_steward_awake(&self) -> bool {
        self.is_serving() && (self.is_looking || self.seen != Some(self.board.news()))
    }

    /// The steward looks: for ends first, and then for a round.
    pub fn look(&mut self) {
        if !std::mem::replace(&mut self.is_looking, true) {
            self.seen = Some(self.board.news());
            if let Some(ends) = self.steward.take_ends(&self.board) {
                self.link.ask(What::Tell, ends);
            }
            return;
        }
        self.is_looking = false;
        if let Some((number, round)) = self.steward.take_round(&self.board) {
            self.link.ask(What::Round(number), round);
        }
    }

    /// Asks the host for more news.
    pub fn follow(&mut self) {
        if let Some(follower) = &self.follower {
            self.link.ask(What::Follow, follower.request());
        }
    }

    /// The host tells it news.
    pub fn is_told(&mut self, news: &[News]) {
        self.is_following = false;
        let ends = news.iter().filter(|news| !matches!(news, News::Joined { .. })).count();
        self.ends_told += u32::try_from(ends).unwrap_or(0);
        self.is_loss_told |= news.iter().any(|news| matches!(news, News::Lost { .. }));
    }
}

impl Link {
    pub fn ask(&mut self, what: What, question: CoordinatorRequest) {
        if !self.is_cut {
            self.up.push_back(Up::Ask(what, question));
        }
    }

    pub fn answer(&mut self, what: What, answer: CoordinatorReply) {
        if !self.is_cut {
            self.down.push_back(Down::Answer(what, answer));
        }
    }

    /// The captain closes it: all that it has asked is heard before.
    pub fn close(&mut self) {
        if !std::mem::replace(&mut self.is_cut, true) {
            self.up.push_back(Up::Gone);
        }
        self.down.clear();
    }

    /// The captain is killed: some of what it has asked is never heard.
    pub fn lose_captain(&mut self, rng: &mut Rng) {
        self.down.clear();
        if !std::mem::replace(&mut self.is_cut, true) {
            self.up.truncate(rng.usize(0..=self.up.len()));
            self.up.push_back(Up::Gone);
        }
    }

    /// The host is gone: some of what it has answered is never heard.
    pub fn lose_host(&mut self, rng: &mut Rng) {
        self.up.clear();
        if !std::mem::replace(&mut self.is_cut, true) {
            self.down.truncate(rng.usize(0..=self.down.len()));
            self.down.push_back(Down::Broken);
        }
    }

    /// Both are there, and nothing comes through any more.
    pub fn cut(&mut self, rng: &mut Rng) {
        if !std::mem::replace(&mut self.is_cut, true) {
            self.up.truncate(rng.usize(0..=self.up.len()));
            self.up.push_back(Up::Gone);
            self.down.truncate(rng.usize(0..=self.down.len()));
            self.down.push_back(Down::Broken);
        }
    }
}
