//! What must come out: who was let in, who has come to which round with what, who has gone. It knows
//! nothing of boards, of the host and of messages.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use pario_team::simulation::{MissingRank, News};

use super::plan::Said;

/// What has really happened.
pub struct Model {
    first_round: u32,
    ranks: Vec<Rank>,
    /// How many rounds are over at each machine.
    over: Vec<usize>,
    /// The machine that may say so, and the rank that it may miss.
    lost: BTreeSet<(usize, u32)>,
    /// Who has a lock, by machine, rank and number: the process and its rank. Those who were killed
    /// with a lock have it for ever.
    locks: BTreeMap<Lock, (usize, u32)>,
    /// The news that the captain has heard who has heard most.
    list: Vec<News>,
}

/// A machine, a rank, and the number of one of its locks.
type Lock = (usize, u32, usize);

/// What one rank has done.
#[derive(Default)]
struct Rank {
    /// The process that is this rank, and its captain.
    is: Option<(usize, u32)>,
    /// What it has told in the rounds to which it has come.
    came: Vec<Said>,
    /// How many of them were over for it.
    passed: usize,
    has_failed: bool,
    has_left: bool,
}

impl Model {
    pub fn new(size: u32, machines: usize, first_round: u32) -> Self {
        let ranks = (0..size).map(|_| Rank::default()).collect();
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

    fn rank(&mut self, rank: u32) -> &mut Rank {
        &mut self.ranks[rank as usize]
    }

    /// The host has decided whether a process is a rank.
    pub fn decide(
        &mut self,
        rank: u32,
        (process, captain): (usize, u32),
        is_accepted: bool,
    ) -> Result<()> {
        let is = &mut self.rank(rank).is;
        let is_free = is.is_none();
        ensure!(is_accepted == is_free, "process {process} is rank {rank}: {is_accepted}, {is:?}");
        is.get_or_insert((process, captain));
        Ok(())
    }

    /// The process that is a rank.
    pub fn process_of(&self, rank: u32) -> Option<usize> {
        Some(self.ranks[rank as usize].is?.0)
    }

    /// From now on a machine may miss a rank.
    pub fn lose(&mut self, machine: usize, rank: u32) {
        self.lost.insert((machine, rank));
    }

    pub fn leave(&mut self, rank: u32) {
        self.rank(rank).has_left = true;
    }

    pub fn has_left(&self, rank: u32) -> bool {
        self.ranks[rank as usize].has_left
    }

    /// For a rank all are here.
    pub fn gathered(&self) -> Result<()> {
        let absent = self.ranks.iter().position(|rank| rank.is.is_none());
        ensure!(absent.is_none(), "all are said to be here, and {absent:?} is not");
        Ok(())
    }

    /// A rank has come to a round that has this number for it; it may try again when that has
    /// failed, but not pass.
    pub fn come(&mut self, rank: u32, round: u32, said: &Said) -> Result<()> {
        let first = self.first_round;
        let state = self.rank(rank);
        if state.has_failed {
            return Ok(());
        }
        let number = u32::try_from(state.passed).context("rounds are few")?;
        let number = first.wrapping_add(number);
        ensure!(round == number, "rank {rank} comes to round {round}, and not {number}");
        state.came.push(said.clone());
        Ok(())
    }

    /// The round to which a rank has come is over for it: all must have come.
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

    /// A machine has heard that a round is over, with all that was told in it.
    pub fn end_round(&mut self, machine: usize) {
        self.over[machine] += 1;
    }

    /// What another rank has told in the last round that a rank has passed.
    pub fn told(&self, rank: u32, other: u32) -> Result<&Said> {
        let round = self.ranks[rank as usize].passed.checked_sub(1).context("a round is over")?;
        self.ranks[other as usize].came.get(round).context("all have come to it")
    }

    /// Those who have not come to the round that is the next one for a rank.
    pub fn awaited_by(&self, rank: u32) -> Vec<u32> {
        self.not_come(self.ranks[rank as usize].passed)
    }

    fn not_come(&self, round: usize) -> Vec<u32> {
        let ranks = (0..).zip(&self.ranks);
        ranks.filter(|(_, rank)| rank.came.len() <= round).map(|(number, _)| number).collect()
    }

    /// A rank of a machine is told that it waits in vain.
    pub fn fail(&mut self, rank: u32, machine: usize, missing: MissingRank) -> Result<()> {
        let Rank { passed: round, has_failed, .. } = self.ranks[rank as usize];
        let is_over = self.over[machine] > round;
        ensure!(!is_over || has_failed, "rank {rank} waits in vain for a round that is over");
        match missing {
            MissingRank::Lost(lost) => {
                let is_lost = self.lost.contains(&(machine, lost));
                ensure!(is_lost, "rank {rank} is told that {lost} is lost, which it is not");
            }
            MissingRank::Left(left) => {
                let other = &self.ranks[left as usize];
                ensure!(other.has_left, "rank {rank} is told that {left} has left");
                let has_come = other.came.len() > round;
                ensure!(!has_come, "rank {rank} is told that {left} has left, but that has come");
            }
        }
        self.rank(rank).has_failed = true;
        Ok(())
    }

    /// A process has got a lock.
    pub fn lock(&mut self, lock: Lock, owner: (usize, u32)) -> Result<()> {
        let other = self.locks.insert(lock, owner).filter(|other| *other != owner);
        ensure!(other.is_none(), "{owner:?} has got lock {lock:?}, and {other:?} has it");
        Ok(())
    }

    /// A process releases a lock.
    pub fn unlock(&mut self, lock: Lock) {
        self.locks.remove(&lock);
    }

    /// The processes that have locks.
    pub fn owners(&self) -> impl Iterator<Item = usize> {
        self.locks.values().map(|(process, _)| *process)
    }

    /// Who has a lock.
    pub fn owner(&self, lock: Lock) -> Option<(usize, u32)> {
        self.locks.get(&lock).copied()
    }

    /// A captain has heard one of the news: the same as all others, and true.
    pub fn hear(&mut self, machine: usize, number: usize, news: News) -> Result<()> {
        if let Some(known) = self.list.get(number) {
            ensure!(*known == news, "machine {machine} hears {news:?}, others heard {known:?}");
            return Ok(());
        }
        ensure!(number == self.list.len(), "machine {machine} has missed some of the news");
        let is_told = self.list.iter().any(|known| match (known, news) {
            (News::Joined { rank, .. }, News::Joined { rank: other, .. }) => *rank == other,
            (News::Joined { .. }, _) | (_, News::Joined { .. }) => false,
            (
                News::Left { rank, .. } | News::Lost { rank },
                News::Left { rank: other, .. } | News::Lost { rank: other },
            ) => *rank == other,
        });
        ensure!(!is_told, "{news:?} is told again");
        self.list.push(news);
        self.check(news)
    }

    fn check(&self, news: News) -> Result<()> {
        match news {
            News::Joined { rank, leader: captain } => {
                let is = self.ranks[rank as usize].is.map(|(_, captain)| captain);
                ensure!(is == Some(captain), "{news:?}, but it is at {is:?}");
            }
            News::Left { rank, before } => {
                let state = &self.ranks[rank as usize];
                ensure!(state.has_left, "{news:?}, which it has not");
                // When somebody is lost it does not matter who was how far.
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

    /// Whether captains have heard of a loss.
    pub fn is_loss_told(&self) -> bool {
        self.list.iter().any(|news| matches!(news, News::Lost { .. }))
    }

    /// What is finally on the board of a machine that was not lost: only what has happened.
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
