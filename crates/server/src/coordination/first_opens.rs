//! The first open counts: which files the processes of a job have open one by one, without a
//! collective open.
//!
//! The first process of a job that opens a path performs the open, with all that it asks for:
//! creating, truncating, refusing an existing file. Until the last of them has closed it, the other
//! processes of the job *join* this open: they get the same file and change nothing. They wait while
//! the first process is still opening. If that fails, or if its process is lost, the next one is the
//! first.
//!
//! Invariants: a process joins an open once. A process that opens the path again, even after a close,
//! joins a later open of another process, or performs one of its own.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use pario_net::SpaceId;
use pario_proto::{Call, FilePath, WaitCause};

use super::round_collector::RankWait;
use crate::job_registry::JobKey;

/// The opens of all jobs. `T` identifies the caller that a reply goes to, `S` is held for each process
/// that has a file open.
#[derive(Debug)]
pub struct FirstOpens<T, S> {
    opens: BTreeMap<u64, JobOpen<T, S>>,
    /// The opens of a path, oldest first.
    by_path: HashMap<(JobKey, FilePath), Vec<u64>>,
    last: u64,
}

/// An open that one process performs for its job.
#[derive(Debug)]
struct JobOpen<T, S> {
    job: JobKey,
    /// The number of ranks of the job, for display.
    size: u32,
    path: FilePath,
    /// The processes that have joined it, also those that have closed the file.
    joined: HashSet<SpaceId>,
    /// The processes that have the file open.
    holders: HashMap<SpaceId, S>,
    /// The process that performs the open, until it is done, its rank, and since when.
    opener: Option<(SpaceId, u32, u64)>,
    waiting: VecDeque<WaitingOpen<T, S>>,
}

#[derive(Debug)]
struct WaitingOpen<T, S> {
    space: SpaceId,
    rank: u32,
    caller: T,
    share: S,
}

/// A process that opens a path.
#[derive(Debug)]
pub struct Opener<T, S> {
    /// Its address space.
    pub space: SpaceId,
    /// Its rank, for display.
    pub rank: u32,
    /// The number of ranks of the job.
    pub size: u32,
    /// The caller.
    pub caller: T,
    /// Held while the process has the file open.
    pub share: S,
}

/// A caller that waits in an open that was forgotten.
#[derive(Debug, PartialEq, Eq)]
pub struct ForgottenOpen<T> {
    /// The caller.
    pub caller: T,
    /// The name of the job.
    pub job: String,
    /// The path.
    pub path: FilePath,
}

/// A reply: the number of the open, and whether the caller performs it.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenTurn<T> {
    /// The caller.
    pub caller: T,
    /// The number of the open.
    pub open: u64,
    /// Whether the caller is the first.
    pub is_first: bool,
}

impl<T, S> Default for FirstOpens<T, S> {
    fn default() -> Self {
        Self { opens: BTreeMap::new(), by_path: HashMap::new(), last: 0 }
    }
}

impl<T, S> FirstOpens<T, S> {
    /// Begins the open of a path by a process. Returns a reply unless the process has to wait.
    pub fn begin(
        &mut self,
        job: JobKey,
        path: FilePath,
        opener: Opener<T, S>,
        now_ms: u64,
    ) -> Option<OpenTurn<T>> {
        let Opener { space, rank, size, caller, share } = opener;
        let key = (job, path);
        let numbers = self.by_path.get(&key).into_iter().flatten();
        let is_new = |number: &u64| !self.opens[number].joined.contains(&space);
        if let Some(number) = numbers.copied().find(is_new)
            && let Some(open) = self.opens.get_mut(&number)
        {
            open.joined.insert(space);
            if open.opener.is_some() {
                open.waiting.push_back(WaitingOpen { space, rank, caller, share });
                return None;
            }
            open.holders.insert(space, share);
            return Some(OpenTurn { caller, open: number, is_first: false });
        }
        self.last += 1;
        let number = self.last;
        let open = JobOpen {
            job: key.0.clone(),
            size,
            path: key.1.clone(),
            joined: HashSet::from([space]),
            holders: HashMap::from([(space, share)]),
            opener: Some((space, rank, now_ms)),
            waiting: VecDeque::new(),
        };
        self.opens.insert(number, open);
        self.by_path.entry(key).or_default().push(number);
        Some(OpenTurn { caller, open: number, is_first: true })
    }

    /// The first process has performed an open: those that wait join it.
    pub fn opened(&mut self, number: u64, space: SpaceId) -> Vec<OpenTurn<T>> {
        let Some(open) = self.opens.get_mut(&number) else { return Vec::new() };
        if open.opener.is_none_or(|(opener, ..)| opener != space) {
            return Vec::new();
        }
        open.opener = None;
        let mut turns = Vec::new();
        for WaitingOpen { space, caller, share, .. } in std::mem::take(&mut open.waiting) {
            open.holders.insert(space, share);
            turns.push(OpenTurn { caller, open: number, is_first: false });
        }
        turns
    }

    /// A process has closed the file, or could not open it. If it was to perform the open, the next
    /// process that waits is the first.
    pub fn close(&mut self, number: u64, space: SpaceId, now_ms: u64) -> Option<OpenTurn<T>> {
        let open = self.opens.get_mut(&number)?;
        open.holders.remove(&space)?;
        let mut turn = None;
        if open.opener.is_some_and(|(opener, ..)| opener == space) {
            open.joined.remove(&space);
            open.opener = None;
            if let Some(WaitingOpen { space, rank, caller, share }) = open.waiting.pop_front() {
                open.holders.insert(space, share);
                open.opener = Some((space, rank, now_ms));
                turn = Some(OpenTurn { caller, open: number, is_first: true });
            }
        }
        self.remove_if_closed(number);
        turn
    }

    /// Removes a lost process from all opens.
    pub fn leave(&mut self, space: SpaceId, now_ms: u64) -> Vec<OpenTurn<T>> {
        let joined: Vec<u64> = self
            .opens
            .iter()
            .filter_map(|(number, open)| open.joined.contains(&space).then_some(*number))
            .collect();
        let mut turns = Vec::new();
        for number in joined {
            turns.extend(self.close(number, space, now_ms));
            if let Some(open) = self.opens.get_mut(&number) {
                open.joined.remove(&space);
                open.waiting.retain(|waiting| waiting.space != space);
            }
        }
        turns
    }

    fn remove_if_closed(&mut self, number: u64) {
        let is_closed = self.opens.get(&number).is_some_and(|open| open.holders.is_empty());
        if !is_closed {
            return;
        }
        // Without a holder none waits: those that wait have a process to wait for.
        let Some(open) = self.opens.remove(&number) else { return };
        let key = (open.job, open.path);
        if let Some(numbers) = self.by_path.get_mut(&key) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.by_path.remove(&key);
            }
        }
    }

    /// Forgets opens, and returns the callers that wait in them.
    pub fn forget(
        &mut self,
        is_wanted: impl Fn(&JobKey, &FilePath) -> bool,
    ) -> Vec<ForgottenOpen<T>> {
        let wanted = self.opens.iter().filter(|(_, open)| is_wanted(&open.job, &open.path));
        let numbers: Vec<u64> = wanted.map(|(number, _)| *number).collect();
        let mut forgotten = Vec::new();
        for number in numbers {
            let Some(open) = self.opens.get_mut(&number) else { continue };
            open.holders.clear();
            let (job, path) = (open.job.1.clone(), open.path.clone());
            for WaitingOpen { caller, .. } in std::mem::take(&mut open.waiting) {
                forgotten.push(ForgottenOpen { caller, job: job.clone(), path: path.clone() });
            }
            self.remove_if_closed(number);
        }
        forgotten
    }

    /// The processes that wait for the first one: their job, its size, the path, and the wait.
    pub fn waits(&self) -> impl Iterator<Item = (&JobKey, u32, &FilePath, RankWait)> {
        self.opens.iter().filter_map(|(number, open)| {
            let (_, rank, since_ms) = open.opener?;
            if open.waiting.is_empty() {
                return None;
            }
            let call = || Call::Open(open.path.to_string());
            let wait = RankWait {
                number: *number,
                arrived: open.waiting.iter().map(|waiting| (waiting.rank, call())).collect(),
                missing: vec![rank],
                since_ms,
                cause: WaitCause::Performance,
            };
            Some((&open.job, open.size, &open.path, wait))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Opens = FirstOpens<u32, ()>;

    fn space(rank: u32) -> SpaceId {
        SpaceId::from_bytes([u8::try_from(rank).unwrap(); 16])
    }

    fn begin(opens: &mut Opens, path: &str, rank: u32) -> Option<(u64, bool)> {
        let opener = Opener { space: space(rank), rank, size: 4, caller: rank, share: () };
        let job = (7, "job".to_owned());
        let turn = opens.begin(job, FilePath::new(path).unwrap(), opener, 0)?;
        assert_eq!(turn.caller, rank);
        Some((turn.open, turn.is_first))
    }

    #[test]
    fn the_others_wait_for_the_first_and_join_it_until_the_last_close() {
        let mut opens = Opens::default();
        let (open, true) = begin(&mut opens, "/a", 0).unwrap() else { panic!("it is the first") };
        assert_eq!(begin(&mut opens, "/a", 1), None);
        let waits: Vec<_> = opens.waits().map(|(.., wait)| (wait.arrived, wait.missing)).collect();
        assert_eq!(waits, [(vec![(1, Call::Open("/a".to_owned()))], vec![0])]);
        assert_eq!(begin(&mut opens, "/b", 1), Some((open + 1, true)), "another path");
        assert!(opens.opened(open, space(1)).is_empty(), "only the first process opens it");
        let turns = opens.opened(open, space(0));
        assert_eq!(turns, [OpenTurn { caller: 1, open, is_first: false }]);
        assert_eq!(begin(&mut opens, "/a", 2), Some((open, false)));
        for rank in [0, 2] {
            assert_eq!(opens.close(open, space(rank), 0), None);
        }
        assert_eq!(begin(&mut opens, "/a", 3), Some((open, false)), "rank 1 has it open");
        opens.close(open, space(1), 0);
        opens.close(open, space(3), 0);
        let (next, is_first) = begin(&mut opens, "/a", 1).unwrap();
        assert!(next > open && is_first, "all have closed it");
    }

    #[test]
    fn a_process_that_opens_again_performs_its_own_open_and_the_others_join_that() {
        let mut opens = Opens::default();
        let (one, _) = begin(&mut opens, "/a", 0).unwrap();
        opens.opened(one, space(0));
        assert_eq!(begin(&mut opens, "/a", 1), Some((one, false)));
        let (two, is_first) = begin(&mut opens, "/a", 1).unwrap();
        assert!(is_first && two != one);
        opens.opened(two, space(1));
        opens.close(one, space(0), 0);
        assert_eq!(begin(&mut opens, "/a", 0), Some((two, false)));
        assert_eq!(begin(&mut opens, "/a", 2), Some((one, false)));
    }

    #[test]
    fn an_open_that_fails_or_is_lost_passes_to_the_next() {
        let mut opens = Opens::default();
        let (open, _) = begin(&mut opens, "/a", 0).unwrap();
        for rank in 1..4 {
            assert_eq!(begin(&mut opens, "/a", rank), None);
        }
        let first = |caller| OpenTurn { caller, open, is_first: true };
        assert_eq!(opens.close(open, space(0), 0), Some(first(1)), "it could not open the file");
        assert_eq!(opens.leave(space(2), 0), [], "it waits no more");
        assert_eq!(opens.leave(space(1), 0), [first(3)]);
        assert_eq!(opens.leave(space(3), 0), []);
        assert!(opens.opens.is_empty() && opens.by_path.is_empty());
        let (next, is_first) = begin(&mut opens, "/a", 0).unwrap();
        assert!(is_first && next > open);
        assert_eq!(begin(&mut opens, "/a", 1), None);
        assert!(opens.forget(|_, path| path.as_str() == "/b").is_empty());
        let forgotten = opens.forget(|(uid, _), _| *uid == 7);
        assert_eq!(forgotten.iter().map(|open| open.caller).collect::<Vec<_>>(), [1]);
        assert!(opens.opens.is_empty() && opens.by_path.is_empty());
    }
}
