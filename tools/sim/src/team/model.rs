//! The model of a team: which process was admitted, which rank has come to which round with which
//! bytes, which rank has gone. It uses no board, no coordinator and no messages.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use pario_team::simulation::{DepartedRank, News};

use super::plan::RoundCall;

/// What the ranks have really done.
pub struct TeamModel {
    first_round: u32,
    ranks: Vec<ModelRank>,
    /// The number of rounds that are over at each machine.
    over: Vec<usize>,
    /// A machine, and a rank that it may report as lost.
    lost: BTreeSet<(usize, u32)>,
    /// The process that holds each lock, and its rank. A process that was killed with a lock holds
    /// it for ever.
    locks: BTreeMap<TeamLock, (usize, u32)>,
    /// The longest list of news that a leader has received.
    list: Vec<News>,
}

/// A machine, a rank, and the number of one of its locks.
type TeamLock = (usize, u32, usize);

/// What one rank has really done.
#[derive(Default)]
struct ModelRank {
    /// The process that has this rank, and the rank of its leader.
    is: Option<(usize, u32)>,
    /// Its calls in the rounds to which it has come.
    came: Vec<RoundCall>,
    /// The number of rounds that it has passed.
    passed: usize,
    has_failed: bool,
    has_left: bool,
}

impl TeamModel {
    pub fn new(size: u32, machines: usize, first_round: u32) -> Self {
        let ranks = (0..size).map(|_| ModelRank::default()).collect();
        let over = vec![0; machines];
        Self {
            first_round,
            ranks,
            over,
            lost: BTreeSet::new(),
            locks: BTreeMap::new(),
            list: Vec::new(),
        }
    }

    fn rank(&mut self, rank: u32) -> &mut ModelRank {
        &mut self.ranks[rank as usize]
    }

    /// Checks the coordinator's decision whether a process gets a rank.
    pub fn decide(
        &mut self,
        rank: u32,
        (process, leader): (usize, u32),
        is_accepted: bool,
    ) -> Result<()> {
        let is = &mut self.rank(rank).is;
        let is_free = is.is_none();
        ensure!(is_accepted == is_free, "process {process} is rank {rank}: {is_accepted}, {is:?}");
        is.get_or_insert((process, leader));
        Ok(())
    }

    /// The process that has a rank.
    pub fn process_of(&self, rank: u32) -> Option<usize> {
        Some(self.ranks[rank as usize].is?.0)
    }

    /// Allows a machine to report a rank as lost from now on.
    pub fn lose(&mut self, machine: usize, rank: u32) {
        self.lost.insert((machine, rank));
    }

    pub fn leave(&mut self, rank: u32) {
        self.rank(rank).has_left = true;
    }

    pub fn has_left(&self, rank: u32) -> bool {
        self.ranks[rank as usize].has_left
    }

    /// Checks that all ranks have come.
    pub fn check_gathered(&self) -> Result<()> {
        let absent = self.ranks.iter().position(|rank| rank.is.is_none());
        ensure!(absent.is_none(), "all ranks are reported to be here, and {absent:?} is not");
        Ok(())
    }

    /// Records that a rank has come to a round, and checks its number. A rank whose call has failed
    /// may call again, but passes no round.
    pub fn come(&mut self, rank: u32, round: u32, call: &RoundCall) -> Result<()> {
        let first = self.first_round;
        let state = self.rank(rank);
        if state.has_failed {
            return Ok(());
        }
        let number = u32::try_from(state.passed).context("rounds are few")?;
        let number = first.wrapping_add(number);
        ensure!(round == number, "rank {rank} comes to round {round}, and not {number}");
        state.came.push(call.clone());
        Ok(())
    }

    /// Lets a rank pass the round to which it has come. All ranks must have come to it.
    pub fn pass(&mut self, rank: u32) -> Result<()> {
        let state = &self.ranks[rank as usize];
        ensure!(!state.has_failed, "rank {rank} passes a round after it has failed");
        let missing = self.not_come(state.passed);
        ensure!(
            missing.is_empty(),
            "rank {rank} passes a round to which {missing:?} have not come"
        );
        self.rank(rank).passed += 1;
        Ok(())
    }

    /// Records that a machine has the end of a round on its board.
    pub fn end_round(&mut self, machine: usize) {
        self.over[machine] += 1;
    }

    /// The call of another rank in the last round that a rank has passed.
    pub fn sent(&self, rank: u32, other: u32) -> Result<&RoundCall> {
        let round = self.ranks[rank as usize].passed.checked_sub(1).context("a round is over")?;
        self.ranks[other as usize].came.get(round).context("all have come to it")
    }

    /// The ranks that have not come to the next round of a rank.
    pub fn awaited_by(&self, rank: u32) -> Vec<u32> {
        self.not_come(self.ranks[rank as usize].passed)
    }

    fn not_come(&self, round: usize) -> Vec<u32> {
        let ranks = (0..).zip(&self.ranks);
        ranks.filter(|(_, rank)| rank.came.len() <= round).map(|(number, _)| number).collect()
    }

    /// Checks the reason why the wait of a rank fails.
    pub fn fail(&mut self, rank: u32, machine: usize, departed: DepartedRank) -> Result<()> {
        let ModelRank { passed: round, has_failed, .. } = self.ranks[rank as usize];
        let is_over = self.over[machine] > round;
        ensure!(!is_over || has_failed, "the wait of rank {rank} fails, and its round is over");
        match departed {
            DepartedRank::Lost(lost) => {
                let is_lost = self.lost.contains(&(machine, lost));
                ensure!(is_lost, "the error of rank {rank} is the loss of {lost}, which lives");
            }
            DepartedRank::Left(left) => {
                let other = &self.ranks[left as usize];
                ensure!(other.has_left, "the error of rank {rank} is that {left} has left");
                let has_come = other.came.len() > round;
                ensure!(!has_come, "rank {rank} fails because of {left}, which has come before");
            }
        }
        self.rank(rank).has_failed = true;
        Ok(())
    }

    /// Notes that a process has taken a lock: no other process may hold it.
    pub fn lock(&mut self, lock: TeamLock, owner: (usize, u32)) -> Result<()> {
        let other = self.locks.insert(lock, owner).filter(|other| *other != owner);
        ensure!(other.is_none(), "{owner:?} has taken lock {lock:?}, and {other:?} holds it");
        Ok(())
    }

    /// Notes that a process releases a lock.
    pub fn unlock(&mut self, lock: TeamLock) {
        self.locks.remove(&lock);
    }

    /// The processes that hold locks.
    pub fn owners(&self) -> impl Iterator<Item = usize> {
        self.locks.values().map(|(process, _)| *process)
    }

    /// The process that holds a lock, and its rank.
    pub fn owner(&self, lock: TeamLock) -> Option<(usize, u32)> {
        self.locks.get(&lock).copied()
    }

    /// Checks one of the news that a leader has received: it must be the same as at all others, and
    /// true.
    pub fn check_news(&mut self, machine: usize, number: usize, news: News) -> Result<()> {
        if let Some(known) = self.list.get(number) {
            ensure!(*known == news, "machine {machine} receives {news:?}, others had {known:?}");
            return Ok(());
        }
        ensure!(number == self.list.len(), "machine {machine} has missed some of the news");
        let is_known = self.list.iter().any(|known| match (known, news) {
            (News::Joined { rank, .. }, News::Joined { rank: other, .. }) => *rank == other,
            (News::Joined { .. }, _) | (_, News::Joined { .. }) => false,
            (
                News::Left { rank, .. } | News::Lost { rank },
                News::Left { rank: other, .. } | News::Lost { rank: other },
            ) => *rank == other,
        });
        ensure!(!is_known, "{news:?} is sent twice");
        self.list.push(news);
        self.check(news)
    }

    fn check(&self, news: News) -> Result<()> {
        match news {
            News::Joined { rank, leader } => {
                let is = self.ranks[rank as usize].is.map(|(_, leader)| leader);
                ensure!(is == Some(leader), "{news:?}, but it is at {is:?}");
            }
            News::Left { rank, before } => {
                let state = &self.ranks[rank as usize];
                ensure!(state.has_left, "{news:?}, which it has not");
                // After a loss the machines may disagree about the rounds of a rank.
                let passed = u32::try_from(state.passed).context("rounds are few")?;
                let is_right = before == self.first_round.wrapping_add(passed);
                ensure!(is_right || !self.lost.is_empty(), "{news:?}, after {passed} rounds");
            }
            News::Lost { rank } => {
                let is_lost = self.lost.iter().any(|(_, lost)| *lost == rank);
                ensure!(is_lost, "{news:?}, which it is not");
            }
        }
        Ok(())
    }

    /// Whether a leader has received a loss.
    pub fn is_loss_reported(&self) -> bool {
        self.list.iter().any(|news| matches!(news, News::Lost { .. }))
    }

    /// Checks the final board of a machine that was not lost: it has only what has happened.
    pub fn check_board(&self, machine: usize, lost: Option<u32>, left: &[u32]) -> Result<()> {
        if let Some(lost) = lost {
            let is_lost = self.lost.contains(&(machine, lost));
            ensure!(is_lost, "the board of machine {machine} says that rank {lost} is lost");
        }
        for rank in left {
            if !self.has_left(*rank) {
                bail!("the board of machine {machine} says that rank {rank} has left");
            }
        }
        Ok(())
    }
}
