//! The board: the shared memory of the ranks of a machine from the beginning, with words, locks,
//! and a slot for each rank.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pario_net::{ChangeWord, OwnerLock, SharedMemoryPart, SharedMemoryShape, WaitLimits};

use crate::call::{CALL_BYTES, CollectiveCall};

/// The bytes of a rank in one round.
pub const SLOT_BYTES: usize = 64 << 10;
/// Locks of each rank.
pub const LOCKS_PER_RANK: usize = 64;

/// Counts changes that ranks wait for: rounds, and ranks that are here, have left or are lost. The
/// next word counts the threads that sleep.
const CHANGES: usize = 0;
/// Counts what the leader has to report to other machines. The next word counts sleepers.
const NEWS: usize = 2;
/// The first lost rank, plus one.
const LOST: usize = 4;
/// The number of completed rounds.
const ROUND: usize = 5;
/// The number of ranks that have arrived at the next round.
const ARRIVED: usize = 6;
/// The number of ranks that are here.
const HERE: usize = 7;
/// The number of ranks that have left.
const LEFT: usize = 8;
/// The number of ranks of this machine.
const MACHINE_RANKS: usize = 9;
/// One more than the last round at which all ranks of this machine have arrived.
const MACHINE_ROUND: usize = 10;
/// The machine leader, plus one.
const LEADER: usize = 11;
/// Whether there are other machines.
const IS_MULTI_MACHINE: usize = 12;
/// Bytes of the directory text.
const DIRECTORY_LEN: usize = 13;
/// The first rank that left, plus one.
const FIRST_LEFT: usize = 14;
/// The round that would have been its next.
const LEFT_BEFORE: usize = 15;
/// The first word of the ranks: state, process, machine; then the locks.
const FIRST_OF_RANKS: usize = 16;
/// Words of each rank before its locks.
const WORDS_PER_RANK: usize = 3;
/// The longest directory text.
const DIRECTORY_BYTES: usize = 512;

const IS_HERE: u32 = 1;
const HAS_LEFT: u32 = 2;
const IS_LOST: u32 = 3;

/// No round.
const NO_ROUND: u64 = u64::MAX;

/// How a rank waits for a round or a lock.
const SHORT_WAIT: WaitLimits = WaitLimits { spins: 200, ..LONG_WAIT };
/// How a rank waits for other processes to start or end.
const LONG_WAIT: WaitLimits = WaitLimits {
    spins: 0,
    yield_time: Duration::ZERO,
    first_park: Duration::from_millis(100),
    longest_park: Duration::from_millis(100),
};

/// The board, as one rank sees it.
pub struct Board {
    part: SharedMemoryPart,
    size: u32,
    rank: u32,
    /// The last round at which this rank has arrived, or `NO_ROUND`.
    last_arrived: AtomicU64,
}

/// A rank that takes part in no further round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepartedRank {
    /// Its process has ended without leaving.
    Lost(u32),
    /// It has left the team.
    Left(u32),
}

/// The shape of the board for a team of this size.
pub fn shape(size: u32) -> SharedMemoryShape {
    let ranks = size as usize;
    SharedMemoryShape {
        parts: 1,
        words: FIRST_OF_RANKS + ranks * (WORDS_PER_RANK + LOCKS_PER_RANK),
        bytes: ranks * 2 * (CALL_BYTES + SLOT_BYTES) + DIRECTORY_BYTES,
    }
}

impl Board {
    /// The board in memory that has its shape.
    pub fn new(part: SharedMemoryPart, size: u32, rank: u32) -> Self {
        Self { part, size, rank, last_arrived: AtomicU64::new(NO_ROUND) }
    }

    fn word(&self, number: usize) -> &AtomicU32 {
        &self.part.words()[number]
    }

    fn changes(&self) -> ChangeWord<'_> {
        ChangeWord::new(&self.part, CHANGES)
    }

    fn news_word(&self) -> ChangeWord<'_> {
        ChangeWord::new(&self.part, NEWS)
    }

    /// Increments a word that ranks wait for.
    fn count(&self, number: usize) {
        self.word(number).fetch_add(1, Ordering::AcqRel);
        self.changes().signal();
    }

    fn state(&self, rank: u32) -> &AtomicU32 {
        self.word(FIRST_OF_RANKS + rank as usize)
    }

    fn process(&self, rank: u32) -> &AtomicU32 {
        self.word(FIRST_OF_RANKS + (self.size + rank) as usize)
    }

    /// The machine leader of a rank, plus one.
    fn machine(&self, rank: u32) -> &AtomicU32 {
        self.word(FIRST_OF_RANKS + (2 * self.size + rank) as usize)
    }

    /// Makes this rank the leader of its machine, which may be one of several.
    pub fn lead(&self, is_multi_machine: bool) {
        self.word(IS_MULTI_MACHINE).store(u32::from(is_multi_machine), Ordering::Release);
        self.word(LEADER).store(self.rank + 1, Ordering::Release);
        self.admit(self.rank);
    }

    /// Adds a rank of this machine, before it is here, so that no round has too few.
    pub fn admit(&self, rank: u32) {
        let leader = self.word(LEADER).load(Ordering::Acquire);
        self.machine(rank).store(leader, Ordering::Release);
        self.word(MACHINE_RANKS).fetch_add(1, Ordering::AcqRel);
    }

    /// The leader of this machine.
    pub fn leader(&self) -> u32 {
        self.word(LEADER).load(Ordering::Acquire).saturating_sub(1)
    }

    /// The ranks of this machine.
    pub fn machine_ranks(&self) -> Vec<u32> {
        let leader = self.word(LEADER).load(Ordering::Acquire);
        let is_near = |rank: &u32| self.machine(*rank).load(Ordering::Acquire) == leader;
        (0..self.size).filter(is_near).collect()
    }

    /// The leader of the machine of each rank.
    pub fn machines(&self) -> Vec<u32> {
        let of = |rank| self.machine(rank).load(Ordering::Acquire).saturating_sub(1);
        (0..self.size).map(of).collect()
    }

    /// Sets the address and the key of the directory.
    pub fn set_directory(&self, directory: &str) {
        let len = directory.len().min(DIRECTORY_BYTES);
        self.part.put(self.slot(0, self.size * 2), &directory.as_bytes()[..len]);
        self.word(DIRECTORY_LEN).store(u32::try_from(len).unwrap_or(0), Ordering::Release);
    }

    /// The address and the key of the directory; empty if not set.
    pub fn directory(&self) -> String {
        let len = self.word(DIRECTORY_LEN).load(Ordering::Acquire) as usize;
        let mut bytes = vec![0; len.min(DIRECTORY_BYTES)];
        self.part.get(self.slot(0, self.size * 2), &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Adds a rank of another machine.
    pub fn joined_elsewhere(&self, rank: u32, leader: u32) {
        self.machine(rank).store(leader + 1, Ordering::Release);
        self.state(rank).store(IS_HERE, Ordering::Release);
        self.count(HERE);
    }

    /// Whether the process of a rank still runs. After the leader has left, no process watches.
    /// Always true for other machines.
    fn is_running(&self, rank: u32) -> bool {
        let process = self.process(rank).load(Ordering::Acquire);
        process == 0 || self.part.is_running(process)
    }

    /// Marks this rank as here.
    pub fn mark_here(&self) {
        self.process(self.rank).store(self.part.process_id(), Ordering::Release);
        self.state(self.rank).store(IS_HERE, Ordering::Release);
        self.count(HERE);
    }

    /// Waits until all ranks are here. The error lists those that are not.
    pub fn wait_for_all(&self, until: Instant) -> Result<(), Vec<usize>> {
        let deadline = self.part.now() + until.saturating_duration_since(Instant::now());
        match self.changes().wait_until(&LONG_WAIT, deadline, || self.check_all_here()) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => {
                let is_absent = |rank: &u32| self.state(*rank).load(Ordering::Acquire) == 0;
                let absent = (0..self.size).filter(is_absent).map(|rank| rank as usize);
                Err(absent.collect())
            }
        }
    }

    /// Whether all ranks are here, or one has departed; none as long as neither is known.
    pub fn check_all_here(&self) -> Option<Result<(), DepartedRank>> {
        let departed = self.departed(0);
        // The departed rank may have left after all were here.
        let is_complete = self.word(HERE).load(Ordering::Acquire) >= self.size;
        if is_complete { Some(Ok(())) } else { departed.map(Err) }
    }

    /// This rank leaves.
    pub fn leave(&self) {
        self.mark_left(self.rank, self.next_round());
        self.wake_leader();
    }

    /// Marks a rank as having left before a round. The first rank that left has left before the
    /// same round as all others, since no round completes without it.
    pub fn mark_left(&self, rank: u32, before: u32) {
        if self.has_left(rank) {
            return;
        }
        // A reader that sees that it has left must see before which round.
        if self.word(FIRST_LEFT).load(Ordering::Acquire) == 0 {
            self.word(LEFT_BEFORE).store(before, Ordering::Release);
            self.word(FIRST_LEFT).store(rank + 1, Ordering::Release);
        }
        if self.state(rank).swap(HAS_LEFT, Ordering::AcqRel) != HAS_LEFT {
            self.count(LEFT);
        }
    }

    /// Waits until all ranks have left, or one was lost.
    pub fn wait_for_end(&self) {
        self.changes().wait(&LONG_WAIT, || self.is_end().then_some(()));
    }

    /// Whether all ranks have left, or one was lost.
    pub fn is_end(&self) -> bool {
        self.word(LEFT).load(Ordering::Acquire) >= self.size || self.lost().is_some()
    }

    /// Whether a rank has left.
    pub fn has_left(&self, rank: u32) -> bool {
        self.state(rank).load(Ordering::Acquire) == HAS_LEFT
    }

    /// Whether all ranks have left.
    pub fn have_all_left(&self) -> bool {
        (0..self.size).all(|rank| self.has_left(rank))
    }

    /// Whether this rank has left.
    pub fn has_this_left(&self) -> bool {
        self.has_left(self.rank)
    }

    /// Marks a rank as lost: it has ended without leaving.
    pub fn mark_lost(&self, rank: u32) {
        let _ = self.state(rank).compare_exchange(
            IS_HERE,
            IS_LOST,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let first =
            self.word(LOST).compare_exchange(0, rank + 1, Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() {
            self.changes().signal();
            self.wake_leader();
        }
    }

    /// Handles the end of a process of this machine, as the leader sees it.
    pub fn on_process_gone(&self, rank: u32) {
        if !self.has_left(rank) {
            self.mark_lost(rank);
        }
    }

    /// Handles the end of the leader's process. A rank that leaves closes its own connection.
    pub fn on_leader_gone(&self) {
        let leader = self.leader();
        if !self.has_left(leader) && !self.has_this_left() {
            self.mark_lost(leader);
        }
    }

    /// The counter of reports.
    pub fn news(&self) -> u32 {
        self.news_word().count()
    }

    /// Sleeps until the leader has something to report, for a short time at most.
    pub fn wait_for_news(&self, known: u32) {
        self.news_word().park(known, LONG_WAIT.longest_park);
    }

    /// Makes the leader check the board.
    pub fn wake_leader(&self) {
        self.news_word().signal();
    }

    /// The round at which all ranks of this machine have arrived, while they wait for other
    /// machines.
    pub fn machine_round(&self) -> Option<u32> {
        let round = self.next_round();
        let is_full = self.word(MACHINE_ROUND).load(Ordering::Acquire) == round.wrapping_add(1);
        is_full.then_some(round)
    }

    /// Ends the round: all machines have arrived.
    pub fn end_round(&self) {
        self.count(ROUND);
    }

    /// The first lost rank.
    pub fn lost(&self) -> Option<u32> {
        self.word(LOST).load(Ordering::Acquire).checked_sub(1)
    }

    /// All ranks that are known to be lost.
    pub fn lost_ranks(&self) -> Vec<u32> {
        let first = self.lost();
        let is_lost = |rank: &u32| {
            first == Some(*rank) || self.state(*rank).load(Ordering::Acquire) == IS_LOST
        };
        (0..self.size).filter(is_lost).collect()
    }

    /// Waits for a limited time until a loss is known.
    pub fn wait_for_loss(&self, limit: Duration) -> Option<u32> {
        let deadline = self.part.now() + limit;
        self.changes().wait_until(&LONG_WAIT, deadline, || self.lost())
    }

    /// The first rank that has departed before a round.
    fn departed(&self, round: u32) -> Option<DepartedRank> {
        if let Some(rank) = self.lost() {
            return Some(DepartedRank::Lost(rank));
        }
        let first = self.first_left()?;
        // Other machines may learn of a completed round later than of the end of its ranks.
        let before = self.word(LEFT_BEFORE).load(Ordering::Acquire);
        // Round numbers wrap around; no two that matter are far apart.
        let is_earlier = round.wrapping_sub(before).cast_signed() >= 0;
        is_earlier.then_some(DepartedRank::Left(first))
    }

    /// The first rank that left.
    pub fn first_left(&self) -> Option<u32> {
        self.word(FIRST_LEFT).load(Ordering::Acquire).checked_sub(1)
    }

    /// The round before which a rank of this machine has left.
    pub fn left_before(&self) -> u32 {
        self.word(LEFT_BEFORE).load(Ordering::Acquire)
    }

    /// Arrives at the next round and waits until it is complete. Returns its number.
    pub fn complete_round(&self) -> Result<u32, DepartedRank> {
        let round = self.arrive();
        self.changes().wait(&SHORT_WAIT, || self.check_round(round)).map(|()| round)
    }

    /// Returns the next round for this rank, or why there is none. A rank arrives at a round once:
    /// when the round fails, the ranks that have arrived stay counted, and their bytes may be under
    /// way.
    pub fn enter(&self) -> Result<u32, DepartedRank> {
        let round = self.next_round();
        if self.last_arrived.load(Ordering::Relaxed) == u64::from(round)
            && let Some(departed) = self.departed(round)
        {
            return Err(departed);
        }
        Ok(round)
    }

    /// Arrives at the next round without waiting. Returns its number.
    pub fn arrive(&self) -> u32 {
        let round = self.word(ROUND).load(Ordering::Acquire);
        self.last_arrived.store(u64::from(round), Ordering::Relaxed);
        let near = self.word(MACHINE_RANKS).load(Ordering::Acquire);
        if self.word(ARRIVED).fetch_add(1, Ordering::AcqRel) + 1 == near {
            self.word(ARRIVED).store(0, Ordering::Release);
            if self.word(IS_MULTI_MACHINE).load(Ordering::Relaxed) == 0 {
                self.end_round();
            } else {
                self.word(MACHINE_ROUND).store(round.wrapping_add(1), Ordering::Release);
                self.wake_leader();
            }
        }
        round
    }

    /// Whether a round at which this rank has arrived is over, or a rank has departed; none as long
    /// as neither is known.
    pub fn check_round(&self, round: u32) -> Option<Result<(), DepartedRank>> {
        let departed = self.departed(round);
        // The departed rank may have gone after the round was complete.
        if self.next_round() != round { Some(Ok(())) } else { departed.map(Err) }
    }

    /// Starts the rounds of an unused board at this number.
    pub fn start_at_round(&self, round: u32) {
        self.word(ROUND).store(round, Ordering::Release);
        self.word(MACHINE_ROUND).store(round, Ordering::Release);
    }

    /// The number of the next round.
    pub fn next_round(&self) -> u32 {
        self.word(ROUND).load(Ordering::Acquire)
    }

    fn slot(&self, round: u32, rank: u32) -> usize {
        let number = (round & 1) * self.size + rank;
        number as usize * (CALL_BYTES + SLOT_BYTES)
    }

    /// Writes the call of this rank in a round, with its bytes.
    pub fn write(&self, round: u32, call: CollectiveCall, bytes: &[u8]) {
        self.write_slot(self.rank, round, &call.to_bytes(bytes.len()), bytes);
    }

    /// Writes the slot of a rank of another machine.
    pub fn write_slot(&self, rank: u32, round: u32, call: &[u8; CALL_BYTES], bytes: &[u8]) {
        let slot = self.slot(round, rank);
        self.part.put(slot, call);
        self.part.put(slot + CALL_BYTES, &bytes[..bytes.len().min(SLOT_BYTES)]);
    }

    /// Reads the slot of a rank in a round.
    pub fn read_slot(&self, rank: u32, round: u32) -> ([u8; CALL_BYTES], Vec<u8>) {
        let mut call = [0; CALL_BYTES];
        self.part.get(self.slot(round, rank), &mut call);
        let mut bytes = vec![0; CollectiveCall::payload_bytes(&call).min(SLOT_BYTES)];
        self.read(round, rank, &mut bytes);
        (call, bytes)
    }

    /// The call of a rank in a round.
    pub fn call(&self, round: u32, rank: u32) -> CollectiveCall {
        let mut bytes = [0; CALL_BYTES];
        self.part.get(self.slot(round, rank), &mut bytes);
        CollectiveCall::of_bytes(&bytes)
    }

    /// Reads the bytes of a rank in a round.
    pub fn read(&self, round: u32, rank: u32, bytes: &mut [u8]) {
        self.part.get(self.slot(round, rank) + CALL_BYTES, bytes);
    }

    /// The lock of a rank with this number.
    pub fn lock_of(&self, rank: u32, number: usize) -> RankLock<'_> {
        let word = FIRST_OF_RANKS
            + self.size as usize * WORDS_PER_RANK
            + rank as usize * LOCKS_PER_RANK
            + number % LOCKS_PER_RANK;
        RankLock { lock: OwnerLock::new(&self.part, word), board: self }
    }

    /// A lock in other memory.
    pub fn lock_in<'a>(&'a self, part: &'a SharedMemoryPart, word: usize) -> RankLock<'a> {
        RankLock { lock: OwnerLock::new(part, word), board: self }
    }
}

/// A lock whose owners are ranks.
pub struct RankLock<'a> {
    lock: OwnerLock<'a>,
    board: &'a Board,
}

impl RankLock<'_> {
    /// Takes the lock for a rank. Fails with the owner if that is gone.
    pub fn lock_for(&self, rank: u32) -> Result<(), DepartedRank> {
        let board = self.board;
        self.lock.lock(rank, &SHORT_WAIT, |owner| {
            if board.has_left(owner) {
                Some(DepartedRank::Left(owner))
            } else {
                let is_lost = board.lost() == Some(owner) || !board.is_running(owner);
                is_lost.then_some(DepartedRank::Lost(owner))
            }
        })
    }

    /// Takes the lock. Fails with the owner if that is gone.
    pub fn lock(&self) -> Result<(), DepartedRank> {
        self.lock_for(self.board.rank)
    }

    /// Takes the lock for a rank if it is free.
    pub fn try_lock_for(&self, rank: u32) -> bool {
        self.lock.try_lock(rank)
    }

    /// Releases the lock. Returns false if this rank does not hold it.
    pub fn unlock(&self) -> bool {
        self.unlock_for(self.board.rank)
    }

    /// Releases the lock for a rank. Returns false if that rank does not hold it.
    pub fn unlock_for(&self, rank: u32) -> bool {
        self.lock.unlock(rank)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pario_net::SharedMemory;

    use super::*;

    /// The boards of a machine, as each rank sees it: all are here.
    fn boards(size: u32, is_multi_machine: bool) -> Vec<Board> {
        let memory = Arc::new(SharedMemory::new(shape(size)).unwrap());
        let boards: Vec<Board> =
            (0..size).map(|rank| Board::new(memory.part(0), size, rank)).collect();
        boards[0].lead(is_multi_machine);
        (1..size).for_each(|rank| boards[0].admit(rank));
        boards.iter().for_each(Board::mark_here);
        boards
    }

    #[test]
    fn a_rank_that_calls_again_after_a_failure_is_not_counted_again() {
        for is_lost in [false, true] {
            let boards = boards(3, false);
            let departed = if is_lost { DepartedRank::Lost(2) } else { DepartedRank::Left(2) };
            if is_lost {
                boards[0].on_process_gone(2)
            } else {
                boards[2].leave()
            }
            for board in [&boards[0], &boards[0], &boards[1], &boards[0], &boards[1]] {
                assert_eq!(board.enter().and_then(|_| board.complete_round()), Err(departed));
            }
        }
    }

    #[test]
    fn rounds_go_on_when_their_numbers_begin_again() {
        let boards = boards(2, true);
        let first = u32::MAX - 1;
        boards[0].start_at_round(first);
        for number in 0..4 {
            let round = first.wrapping_add(number);
            assert_eq!(boards[0].arrive(), round);
            assert_eq!(boards[0].machine_round(), None);
            assert_eq!(boards[1].arrive(), round);
            assert_eq!(boards[0].machine_round(), Some(round));
            assert_eq!(boards[0].check_round(round), None);
            boards[0].end_round();
            assert_eq!(boards[0].check_round(round), Some(Ok(())));
        }
    }

    #[test]
    fn a_rank_that_left_after_the_last_number_does_not_disturb_the_round_before() {
        let boards = boards(2, true);
        boards[0].start_at_round(u32::MAX);
        boards[0].mark_left(1, 0);
        assert_eq!(boards[0].arrive(), u32::MAX);
        assert_eq!(boards[0].check_round(u32::MAX), None);
        boards[0].end_round();
        assert_eq!(boards[0].arrive(), 0);
        assert_eq!(boards[0].check_round(0), Some(Err(DepartedRank::Left(1))));
    }
}
