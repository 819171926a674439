//! Who has locked which bytes of which file, and who waits for whom: record locks as POSIX has them.
//!
//! Invariants: no byte is locked by two processes, unless both share it. The ranges that a process
//! has of a file do not overlap, and those that touch are of different kinds. A process never waits
//! for itself.
//!
//! *Order.* Waits that clash are over in the order in which they came; but who has locked something,
//! in whatever file, stands behind nobody who only waits, since that one may wait for it. So nobody
//! who comes with empty hands is overtaken by others like it, and standing in queue never makes a
//! circle.
//!
//! *Circles* of those who have what others want are found when the wait begins that would close one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use pario_net::SpaceId;
use pario_proto::{
    Failure, FileId, HOLDERS_SHOWN, HeldLock, LOCK_WAITS_SHOWN, LOCKS_LIMIT, LockKind, LockOutcome,
    LockRange,
};

/// The locks of all files. `T` is by whom an answer goes back.
#[derive(Debug)]
pub struct Locks<T> {
    files: HashMap<FileId, FileLocks<T>>,
    /// The files in which a process has locked something, or waits.
    known: HashMap<SpaceId, BTreeSet<FileId>>,
    /// How many ranges each process has locked, over all files.
    held: HashMap<SpaceId, u64>,
}

/// A process that locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locker {
    /// Which one.
    pub space: SpaceId,
    /// What others call it.
    pub pid: u32,
}

/// What is to be locked, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockClaim {
    /// Which bytes.
    pub range: LockRange,
    /// How.
    pub kind: LockKind,
}

/// What is to be answered.
pub type LockAnswers<T> = Vec<(T, Result<LockOutcome, Failure>)>;

/// A wait, as it can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingLock {
    /// Who waits.
    pub space: SpaceId,
    /// Through which open file.
    pub handle: u64,
    /// For what.
    pub claim: LockClaim,
    /// Who has it.
    pub holders: Vec<SpaceId>,
    /// Since when.
    pub since_ms: u64,
}

#[derive(Debug)]
struct FileLocks<T> {
    held: BTreeMap<SpaceId, Holder>,
    /// Those who wait, in the order in which they came.
    queue: VecDeque<Waiter<T>>,
}

#[derive(Debug)]
struct Holder {
    pid: u32,
    ranges: LockedRanges,
}

/// The ranges of one process by their first bytes: where each ends, and its kind.
type LockedRanges = BTreeMap<u64, (u64, LockKind)>;

#[derive(Debug)]
struct Waiter<T> {
    who: Locker,
    number: u64,
    handle: u64,
    claim: LockClaim,
    since_ms: u64,
    ticket: T,
}

impl<T> Default for Locks<T> {
    fn default() -> Self {
        Self { files: HashMap::new(), known: HashMap::new(), held: HashMap::new() }
    }
}

impl<T> Locks<T> {
    /// Locks bytes, if nobody has locked them.
    pub fn lock(
        &mut self,
        file: FileId,
        who: Locker,
        claim: LockClaim,
        ticket: T,
    ) -> LockAnswers<T> {
        if let Some(held) = self.first_conflict(file, who.space, claim) {
            return vec![(ticket, Ok(LockOutcome::Held(held)))];
        }
        self.change(file, who, claim.range, Some(claim.kind), ticket)
    }

    /// Unlocks what a process has locked of these bytes.
    pub fn unlock(
        &mut self,
        file: FileId,
        who: Locker,
        range: LockRange,
        ticket: T,
    ) -> LockAnswers<T> {
        self.change(file, who, range, None, ticket)
    }

    /// Locks bytes as soon as nobody has locked them. The wait has a number, and began through an
    /// open file.
    pub fn wait(
        &mut self,
        file: FileId,
        who: Locker,
        claim: LockClaim,
        (number, handle): (u64, u64),
        ticket: T,
        now_ms: u64,
    ) -> LockAnswers<T> {
        if self.count(file, who.space) >= LOCKS_LIMIT {
            return vec![(ticket, Err(too_many()))];
        }
        if let Some(pid) = self.deadlock_with(file, who.space, claim) {
            return vec![(ticket, Err(Failure::Deadlock { pid }))];
        }
        let waiter = Waiter { who, number, handle, claim, since_ms: now_ms, ticket };
        self.files.entry(file).or_default().queue.push_back(waiter);
        self.known.entry(who.space).or_default().insert(file);
        self.grant_waiting([file])
    }

    /// A process gives up a wait.
    pub fn withdraw(&mut self, space: SpaceId, number: u64) -> LockAnswers<T> {
        let is_it = |waiter: &Waiter<T>| waiter.who.space == space && waiter.number == number;
        for file in self.files_of(space) {
            let Some(locks) = self.files.get_mut(&file) else { continue };
            let Some(at) = locks.queue.iter().position(is_it) else { continue };
            let withdrawn = locks.queue.remove(at).map(|waiter| waiter.ticket);
            let answers = withdrawn.map(|ticket| (ticket, Ok(LockOutcome::Withdrawn)));
            let mut answers: LockAnswers<T> = answers.into_iter().collect();
            self.remove_empty(file, space);
            answers.extend(self.grant_waiting([file]));
            return answers;
        }
        Vec::new()
    }

    /// Who would be in the way.
    pub fn test(&self, file: FileId, space: SpaceId, claim: LockClaim) -> LockOutcome {
        self.first_conflict(file, space, claim).map_or(LockOutcome::Done, LockOutcome::Held)
    }

    /// A process has to do with a file no more: nothing of it is locked for it, and it waits for
    /// nothing.
    pub fn leave(&mut self, file: FileId, space: SpaceId) -> LockAnswers<T> {
        let withdrawn = self.remove(file, space).into_iter();
        let mut answers: LockAnswers<T> =
            withdrawn.map(|ticket| (ticket, Ok(LockOutcome::Withdrawn))).collect();
        answers.extend(self.grant_waiting([file]));
        answers
    }

    /// A process is gone, and has to do with no file any more.
    pub fn lose(&mut self, space: SpaceId) -> LockAnswers<T> {
        let files = self.files_of(space);
        let mut answers = Vec::new();
        for file in &files {
            let withdrawn = self.remove(*file, space).into_iter();
            answers.extend(withdrawn.map(|ticket| (ticket, Ok(LockOutcome::Withdrawn))));
        }
        answers.extend(self.grant_waiting(files));
        answers
    }

    /// Whether a process has locked something of a file, or waits for it.
    pub fn is_known(&self, file: FileId, space: SpaceId) -> bool {
        self.known.get(&space).is_some_and(|files| files.contains(&file))
    }

    /// Who waits, longest first.
    pub fn waits(&self) -> Vec<PendingLock> {
        let waiting = |locks: &FileLocks<T>, waiter: &Waiter<T>| {
            let (space, claim) = (waiter.who.space, waiter.claim);
            let clashes = locks.conflicts(space, claim).take(HOLDERS_SHOWN);
            let holders: BTreeSet<_> = clashes.map(|(one, _)| one).collect();
            let (handle, since_ms) = (waiter.handle, waiter.since_ms);
            PendingLock { space, handle, claim, holders: holders.into_iter().collect(), since_ms }
        };
        let files = self.files.values();
        let waits = files.flat_map(|locks| locks.queue.iter().map(|one| waiting(locks, one)));
        let waits = waits.take(LOCK_WAITS_SHOWN);
        let mut waits: Vec<_> = waits.collect();
        waits.sort_by_key(|wait| wait.since_ms);
        waits
    }

    /// Changes what a process has locked, where nobody is in the way.
    fn change(
        &mut self,
        file: FileId,
        who: Locker,
        range: LockRange,
        kind: Option<LockKind>,
        ticket: T,
    ) -> LockAnswers<T> {
        if !self.set(file, who, range, kind) {
            return vec![(ticket, Err(too_many()))];
        }
        let mut answers = vec![(ticket, Ok(LockOutcome::Done))];
        // Who has something stands behind nobody, wherever it waits.
        let others = self.files_of(who.space).into_iter().filter(|other| *other != file);
        answers.extend(self.grant_waiting([file].into_iter().chain(others)));
        answers
    }

    /// Ends all waits that can be over in these files, and in those where this lets others go on.
    fn grant_waiting(&mut self, files: impl IntoIterator<Item = FileId>) -> LockAnswers<T> {
        let mut answers = Vec::new();
        let mut files: VecDeque<FileId> = files.into_iter().collect();
        while let Some(file) = files.pop_front() {
            while let Some(waiter) = self.take_next(file) {
                let Waiter { who, claim, ticket, .. } = waiter;
                let is_set = self.set(file, who, claim.range, Some(claim.kind));
                let outcome = if is_set { Ok(LockOutcome::Done) } else { Err(too_many()) };
                answers.push((ticket, outcome));
                files.extend(self.files_of(who.space).into_iter().filter(|other| *other != file));
            }
        }
        answers
    }

    /// The first wait in the queue of a file that can be over.
    fn take_next(&mut self, file: FileId) -> Option<Waiter<T>> {
        let locks = self.files.get(&file)?;
        let can_be_over = |at: usize| {
            let Waiter { who, claim, .. } = &locks.queue[at];
            locks.conflicts(who.space, *claim).next().is_none()
                && (self.has_locked(who.space) || !locks.is_behind(at))
        };
        let at = (0..locks.queue.len()).find(|at| can_be_over(*at))?;
        self.files.get_mut(&file)?.queue.remove(at)
    }

    /// Makes bytes locked, or not; whether that is not too much.
    fn set(&mut self, file: FileId, who: Locker, range: LockRange, kind: Option<LockKind>) -> bool {
        let waits = self.files.get(&file).map_or(0, |locks| locks.waits_of(who.space));
        let locks = self.files.entry(file).or_default();
        let empty = Holder { pid: who.pid, ranges: LockedRanges::new() };
        let holder = locks.held.entry(who.space).or_insert(empty);
        let before = holder.ranges.len();
        // At most, one range becomes three.
        let is_fine = if holder.ranges.len() + waits + 2 <= LOCKS_LIMIT {
            set(&mut holder.ranges, range, kind);
            true
        } else {
            let mut changed = holder.ranges.clone();
            set(&mut changed, range, kind);
            let is_fine = changed.len() + waits <= LOCKS_LIMIT;
            if is_fine {
                holder.ranges = changed;
            }
            is_fine
        };
        let now = holder.ranges.len();
        self.count_held(who.space, before, now);
        self.known.entry(who.space).or_default().insert(file);
        self.remove_empty(file, who.space);
        is_fine
    }

    /// Forgets what a process has in a file; the tickets of its waits.
    fn remove(&mut self, file: FileId, space: SpaceId) -> Vec<T> {
        let Some(locks) = self.files.get_mut(&file) else { return Vec::new() };
        let before = locks.held.remove(&space).map_or(0, |holder| holder.ranges.len());
        let queue = std::mem::take(&mut locks.queue);
        let (its, others): (VecDeque<_>, _) =
            queue.into_iter().partition(|waiter| waiter.who.space == space);
        locks.queue = others;
        self.count_held(space, before, 0);
        self.remove_empty(file, space);
        its.into_iter().map(|waiter| waiter.ticket).collect()
    }

    /// Keeps nothing that says nothing.
    fn remove_empty(&mut self, file: FileId, space: SpaceId) {
        let Some(locks) = self.files.get_mut(&file) else { return };
        if locks.held.get(&space).is_some_and(|holder| holder.ranges.is_empty()) {
            locks.held.remove(&space);
        }
        let is_known = locks.held.contains_key(&space) || locks.waits_of(space) > 0;
        if !is_known && let Some(files) = self.known.get_mut(&space) {
            files.remove(&file);
            if files.is_empty() {
                self.known.remove(&space);
            }
        }
        if locks.held.is_empty() && locks.queue.is_empty() {
            self.files.remove(&file);
        }
    }

    fn first_conflict(&self, file: FileId, space: SpaceId, claim: LockClaim) -> Option<HeldLock> {
        let clashes = self.files.get(&file)?.conflicts(space, claim);
        let first = clashes.min_by_key(|(other, held)| (held.range.from, *other));
        first.map(|(_, held)| held)
    }

    /// If a wait would never end: who is in the way, and waits for who wants to wait.
    fn deadlock_with(&self, file: FileId, space: SpaceId, claim: LockClaim) -> Option<u32> {
        let mut seen = HashSet::new();
        let mut clashes = self.files.get(&file)?.conflicts(space, claim);
        let found = clashes.find(|(other, _)| self.waits_for(*other, space, &mut seen))?;
        Some(found.1.pid)
    }

    /// Whether a process waits for another, itself or through others; not through those that were
    /// seen before.
    fn waits_for(&self, one: SpaceId, other: SpaceId, seen: &mut HashSet<SpaceId>) -> bool {
        let mut next = Vec::from_iter(seen.insert(one).then_some(one));
        while let Some(space) = next.pop() {
            for locks in self.files_of(space).iter().filter_map(|file| self.files.get(file)) {
                for waiter in locks.queue.iter().filter(|waiter| waiter.who.space == space) {
                    for (holder, _) in locks.conflicts(space, waiter.claim) {
                        if holder == other {
                            return true;
                        }
                        next.extend(seen.insert(holder).then_some(holder));
                    }
                }
            }
        }
        false
    }

    /// Whether a process has locked anything.
    fn has_locked(&self, space: SpaceId) -> bool {
        let mut files = self.known.get(&space).into_iter().flatten();
        files.any(|file| self.files.get(file).is_some_and(|locks| locks.held.contains_key(&space)))
    }

    /// How many ranges a process has locked, over all files.
    pub fn range_count(&self, space: SpaceId) -> u64 {
        self.held.get(&space).copied().unwrap_or(0)
    }

    /// Notes that the ranges of a process in one file have become more or fewer.
    fn count_held(&mut self, space: SpaceId, before: usize, now: usize) {
        let held = self.held.entry(space).or_default();
        *held = (*held + now as u64).saturating_sub(before as u64);
        if *held == 0 {
            self.held.remove(&space);
        }
    }

    /// How many ranges of a file a process has locked or waits for.
    fn count(&self, file: FileId, space: SpaceId) -> usize {
        let Some(locks) = self.files.get(&file) else { return 0 };
        locks.held.get(&space).map_or(0, |holder| holder.ranges.len()) + locks.waits_of(space)
    }

    fn files_of(&self, space: SpaceId) -> Vec<FileId> {
        self.known.get(&space).into_iter().flatten().copied().collect()
    }
}

impl<T> Default for FileLocks<T> {
    fn default() -> Self {
        Self { held: BTreeMap::new(), queue: VecDeque::new() }
    }
}

impl<T> FileLocks<T> {
    /// What others have locked, and clashes with a claim.
    fn conflicts(
        &self,
        space: SpaceId,
        claim: LockClaim,
    ) -> impl Iterator<Item = (SpaceId, HeldLock)> {
        let others = self.held.iter().filter(move |(other, _)| **other != space);
        others.flat_map(move |(other, holder)| {
            holder.overlapping(claim.range).filter_map(move |(range, kind)| {
                let held = HeldLock { range, kind, pid: holder.pid };
                (!kind.goes_with(claim.kind)).then_some((*other, held))
            })
        })
    }

    /// Whether somebody else who came before a wait wants what clashes with it.
    fn is_behind(&self, at: usize) -> bool {
        let Waiter { who, claim, .. } = &self.queue[at];
        self.queue.range(..at).any(|before| {
            before.who.space != who.space
                && !before.claim.kind.goes_with(claim.kind)
                && before.claim.range.overlaps(&claim.range)
        })
    }

    fn waits_of(&self, space: SpaceId) -> usize {
        self.queue.iter().filter(|waiter| waiter.who.space == space).count()
    }
}

impl Holder {
    fn overlapping(&self, range: LockRange) -> impl Iterator<Item = (LockRange, LockKind)> {
        let before_its_end = self.ranges.range(..range.to).rev();
        let overlapping = before_its_end.take_while(move |(_, (to, _))| *to > range.from);
        overlapping.map(|(&from, &(to, kind))| (LockRange { from, to }, kind))
    }
}

/// Makes bytes locked in a way, or not at all; what touches and is of the same kind becomes one.
fn set(ranges: &mut LockedRanges, range: LockRange, kind: Option<LockKind>) {
    let LockRange { mut from, mut to } = range;
    let touching = ranges.range(..=range.to).rev().take_while(|(_, (end, _))| *end >= range.from);
    let touching: Vec<_> = touching.map(|(&start, &(end, before))| (start, end, before)).collect();
    for (start, end, before) in touching {
        ranges.remove(&start);
        if kind == Some(before) {
            (from, to) = (from.min(start), to.max(end));
            continue;
        }
        if start < range.from {
            ranges.insert(start, (end.min(range.from), before));
        }
        if end > range.to {
            ranges.insert(start.max(range.to), (end, before));
        }
    }
    if let Some(kind) = kind {
        ranges.insert(from, (to, kind));
    }
}

fn too_many() -> Failure {
    Failure::TooManyLocks { limit: LOCKS_LIMIT as u64 }
}

#[cfg(test)]
mod tests;
