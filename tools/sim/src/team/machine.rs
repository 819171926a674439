//! A machine: its board, its leader, and the leader's link to the coordinator.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::Result;
use fastrand::Rng;
use pario_net::SharedMemory;
use pario_team::simulation::{
    Board, CoordinatorReply, CoordinatorRequest, MachineReporter, News, NewsFeed, RoundEnd, shape,
};

use crate::sim_thread::SimParker;

/// A machine and its leader, which does nothing before the coordinator has accepted it.
pub struct SimulatedMachine {
    memory: Arc<SharedMemory>,
    /// How its processes wait for each other.
    pub parker: Arc<SimParker>,
    size: u32,
    /// The rank and the process of the leader.
    pub leader: u32,
    pub leader_process: usize,
    pub state: LeaderStage,
    /// The board, as the leader sees it.
    pub board: Board,
    pub reporter: MachineReporter,
    /// The event count of the board at the last look of the reporter.
    pub seen: Option<u32>,
    /// Whether the reporter has looked for ends, and looks for a round next.
    pub is_looking: bool,
    /// The news feed, once the coordinator has accepted the leader.
    pub news_feed: Option<NewsFeed>,
    /// News that the feed has received and not copied to the board.
    pub received: VecDeque<News>,
    /// The number of news on the board.
    pub noted: usize,
    /// The end of a round that the leader is writing to the board.
    pub ending: Option<RoundEnd>,
    /// The process for which the leader asks the coordinator.
    pub joining: Option<usize>,
    /// Ranks whose connections are closed, which the leader has not noticed.
    pub closed: VecDeque<u32>,
    pub link: LeaderLink,
    /// Whether the coordinator has accepted the leader.
    pub has_joined: bool,
    /// Whether the coordinator knows that the leader is gone.
    pub is_gone: bool,
    /// Whether the coordinator has a request for news and none to send: the leader knows all.
    pub has_all_news: bool,
    /// The number of ends that the coordinator has sent to the leader; whether one was a loss.
    pub ends_reported: u32,
    pub is_loss_reported: bool,
}

/// The state of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderStage {
    /// It was not started, or waits for the coordinator to accept it.
    Joining,
    Serving,
    /// It has ended by itself, when all ranks had left.
    Ended,
    /// It has ended at the time limit, because not all ranks have come.
    GivenUp,
    Killed,
    /// The coordinator has refused it, or was lost.
    Refused,
}

/// The messages between a leader and the coordinator, in order in each direction.
#[derive(Default)]
pub struct LeaderLink {
    pub up: VecDeque<ToCoordinator>,
    pub down: VecDeque<ToLeader>,
    pub is_cut: bool,
}

/// A message to the coordinator.
pub enum ToCoordinator {
    Request(RequestPurpose, CoordinatorRequest),
    /// The leader is gone.
    LeaderGone,
}

/// A message to a leader.
pub enum ToLeader {
    Reply(RequestPurpose, CoordinatorReply),
    /// The coordinator is gone.
    CoordinatorGone,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPurpose {
    /// Lets a process join.
    Join(usize),
    /// Requests more news.
    News,
    /// Reports a round.
    Round(u32),
    /// Reports ranks that have left or are lost.
    Ends,
}

impl SimulatedMachine {
    pub fn new(
        (leader, leader_process): (u32, usize),
        size: u32,
        first_round: u32,
        rng: Rng,
    ) -> Result<Self> {
        let memory = Arc::new(SharedMemory::new(shape(size))?);
        let parker = SimParker::new(rng);
        memory.set_parker(parker.clone());
        let board = Board::new(memory.part(0), size, leader);
        board.start_at_round(first_round);
        Ok(Self {
            memory,
            parker,
            size,
            leader,
            leader_process,
            state: LeaderStage::Joining,
            board,
            reporter: MachineReporter::new(size),
            seen: None,
            is_looking: false,
            news_feed: None,
            received: VecDeque::new(),
            noted: 0,
            ending: None,
            joining: None,
            closed: VecDeque::new(),
            link: LeaderLink::default(),
            has_joined: false,
            is_gone: false,
            has_all_news: false,
            ends_reported: 0,
            is_loss_reported: false,
        })
    }

    /// The board, as a rank of this machine sees it.
    pub fn board_of(&self, rank: u32) -> Arc<Board> {
        Arc::new(Board::new(self.memory.part(0), self.size, rank))
    }

    pub fn is_serving(&self) -> bool {
        self.state == LeaderStage::Serving
    }

    /// Whether the reporter has something new to look at.
    pub fn is_reporter_awake(&self) -> bool {
        self.is_serving() && (self.is_looking || self.seen != Some(self.board.news()))
    }

    /// Lets the reporter look: for ends first, then for a round.
    pub fn look(&mut self) {
        if !std::mem::replace(&mut self.is_looking, true) {
            self.seen = Some(self.board.news());
            if let Some(ends) = self.reporter.take_ends(&self.board) {
                self.link.request(RequestPurpose::Ends, ends);
            }
            return;
        }
        self.is_looking = false;
        if let Some((number, round)) = self.reporter.take_round(&self.board) {
            self.link.request(RequestPurpose::Round(number), round);
        }
    }

    /// Requests more news from the coordinator.
    pub fn request_news(&mut self) {
        if let Some(news_feed) = &self.news_feed {
            self.link.request(RequestPurpose::News, news_feed.request());
        }
    }

    /// Counts the news that the coordinator sends.
    pub fn receive_news(&mut self, news: &[News]) {
        self.has_all_news = false;
        let ends = news.iter().filter(|news| !matches!(news, News::Joined { .. })).count();
        self.ends_reported += u32::try_from(ends).unwrap_or(0);
        self.is_loss_reported |= news.iter().any(|news| matches!(news, News::Lost { .. }));
    }
}

impl LeaderLink {
    pub fn request(&mut self, purpose: RequestPurpose, request: CoordinatorRequest) {
        if !self.is_cut {
            self.up.push_back(ToCoordinator::Request(purpose, request));
        }
    }

    pub fn reply(&mut self, purpose: RequestPurpose, reply: CoordinatorReply) {
        if !self.is_cut {
            self.down.push_back(ToLeader::Reply(purpose, reply));
        }
    }

    /// Closes the link by the leader: the coordinator receives all requests first.
    pub fn close(&mut self) {
        if !std::mem::replace(&mut self.is_cut, true) {
            self.up.push_back(ToCoordinator::LeaderGone);
        }
        self.down.clear();
    }

    /// Kills the leader: some of its last requests are lost.
    pub fn lose_leader(&mut self, rng: &mut Rng) {
        self.down.clear();
        if !std::mem::replace(&mut self.is_cut, true) {
            self.up.truncate(rng.usize(0..=self.up.len()));
            self.up.push_back(ToCoordinator::LeaderGone);
        }
    }

    /// Kills the coordinator: some of its last replies are lost.
    pub fn lose_coordinator(&mut self, rng: &mut Rng) {
        self.up.clear();
        if !std::mem::replace(&mut self.is_cut, true) {
            self.down.truncate(rng.usize(0..=self.down.len()));
            self.down.push_back(ToLeader::CoordinatorGone);
        }
    }

    /// Cuts the link while both ends live.
    pub fn cut(&mut self, rng: &mut Rng) {
        if !std::mem::replace(&mut self.is_cut, true) {
            self.up.truncate(rng.usize(0..=self.up.len()));
            self.up.push_back(ToCoordinator::LeaderGone);
            self.down.truncate(rng.usize(0..=self.down.len()));
            self.down.push_back(ToLeader::CoordinatorGone);
        }
    }
}
