//! Record locks as in POSIX: which process has locked which bytes of which file, and who waits for
//! whom.
//!
//! Invariants: no byte is locked by two processes, unless both locks are shared. The ranges of a
//! process in a file do not overlap, and adjacent ones are of different kinds. A process never
//! waits for itself.
//!
//! *Order.* Conflicting waits end in the order in which they began. Exception: a process that holds
//! any lock, in any file, does not queue behind processes that only wait, because they may wait for
//! it. So processes without locks do not overtake each other, and queueing alone never causes a
//! deadlock.
//!
//! *Deadlocks* among processes that hold locks are detected when the wait begins that would close
//! the cycle.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use pario_net::SpaceId;
use pario_proto::{
    Failure, FileId, HOLDERS_SHOWN, HeldLock, LOCK_WAITS_SHOWN, LOCKS_LIMIT, LockKind, LockOutcome,
    LockRange,
};

/// The locks of all files. `T` identifies the caller that a reply goes to.
#[derive(Debug)]
pub struct Locks<T> {
    files: HashMap<FileId, FileLocks<T>>,
    /// The files in which a process holds locks, or waits.
    known: HashMap<SpaceId, BTreeSet<FileId>>,
    /// The number of ranges that each process has locked, over all files.
    held: HashMap<SpaceId, u64>,
}

/// A process that locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locker {
    /// The address space of the process.
    pub space: SpaceId,
    /// The process id, for display.
    pub pid: u32,
}

/// The lock that a process asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockClaim {
    /// The bytes.
    pub range: LockRange,
    /// The kind of the lock.
    pub kind: LockKind,
}

/// Callers and their replies.
pub type LockAnswers<T> = Vec<(T, Result<LockOutcome, Failure>)>;

/// A wait for a lock, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingLock {
    /// The process that waits.
    pub space: SpaceId,
    /// The handle of its open file.
    pub handle: u64,
    /// The lock that it waits for.
    pub claim: LockClaim,
    /// The processes that hold conflicting locks.
    pub holders: Vec<SpaceId>,
    /// When the wait began.
    pub since_ms: u64,
}

#[derive(Debug)]
struct FileLocks<T> {
    held: BTreeMap<SpaceId, Holder>,
    /// The locks that processes wait for, oldest first.
    queue: VecDeque<QueuedLock<T>>,
}

#[derive(Debug)]
struct Holder {
    pid: u32,
    ranges: LockedRanges,
}

/// The ranges of one process by their first byte: end and kind.
type LockedRanges = BTreeMap<u64, (u64, LockKind)>;

/// A lock that a process waits for.
#[derive(Debug)]
struct QueuedLock<T> {
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
    /// Locks bytes if no other lock conflicts.
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

    /// Locks bytes as soon as no other lock conflicts. The wait has a number, and belongs to an
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
        let queued = QueuedLock { who, number, handle, claim, since_ms: now_ms, ticket };
        self.files.entry(file).or_default().queue.push_back(queued);
        self.known.entry(who.space).or_default().insert(file);
        self.grant_waiting([file])
    }

    /// Withdraws a wait of a process.
    pub fn withdraw(&mut self, space: SpaceId, number: u64) -> LockAnswers<T> {
        let is_it = |queued: &QueuedLock<T>| queued.who.space == space && queued.number == number;
        for file in self.files_of(space) {
            let Some(locks) = self.files.get_mut(&file) else { continue };
            let Some(at) = locks.queue.iter().position(is_it) else { continue };
            let withdrawn = locks.queue.remove(at).map(|queued| queued.ticket);
            let answers = withdrawn.map(|ticket| (ticket, Ok(LockOutcome::Withdrawn)));
            let mut answers: LockAnswers<T> = answers.into_iter().collect();
            self.remove_empty(file, space);
            answers.extend(self.grant_waiting([file]));
            return answers;
        }
        Vec::new()
    }

    /// Returns the first lock that would conflict.
    pub fn test(&self, file: FileId, space: SpaceId, claim: LockClaim) -> LockOutcome {
        self.first_conflict(file, space, claim).map_or(LockOutcome::Done, LockOutcome::Held)
    }

    /// Removes all locks and waits of a process in a file.
    pub fn leave(&mut self, file: FileId, space: SpaceId) -> LockAnswers<T> {
        let withdrawn = self.remove(file, space).into_iter();
        let mut answers: LockAnswers<T> =
            withdrawn.map(|ticket| (ticket, Ok(LockOutcome::Withdrawn))).collect();
        answers.extend(self.grant_waiting([file]));
        answers
    }

    /// Removes all locks and waits of a process that is lost.
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

    /// Whether a process holds locks of a file, or waits for one.
    pub fn is_known(&self, file: FileId, space: SpaceId) -> bool {
        self.known.get(&space).is_some_and(|files| files.contains(&file))
    }

    /// The waits, longest first.
    pub fn waits(&self) -> Vec<PendingLock> {
        let waiting = |locks: &FileLocks<T>, queued: &QueuedLock<T>| {
            let (space, claim) = (queued.who.space, queued.claim);
            let clashes = locks.conflicts(space, claim).take(HOLDERS_SHOWN);
            let holders: BTreeSet<_> = clashes.map(|(one, _)| one).collect();
            let (handle, since_ms) = (queued.handle, queued.since_ms);
            PendingLock { space, handle, claim, holders: holders.into_iter().collect(), since_ms }
        };
        let files = self.files.values();
        let waits = files.flat_map(|locks| locks.queue.iter().map(|one| waiting(locks, one)));
        let waits = waits.take(LOCK_WAITS_SHOWN);
        let mut waits: Vec<_> = waits.collect();
        waits.sort_by_key(|wait| wait.since_ms);
        waits
    }

    /// Changes what a process has locked, where no other lock conflicts.
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
        // A process that holds a lock does not queue behind others, so its waits in other files may
        // end too.
        let others = self.files_of(who.space).into_iter().filter(|other| *other != file);
        answers.extend(self.grant_waiting([file].into_iter().chain(others)));
        answers
    }

    /// Ends all waits that can end in these files, and in files where that lets others end.
    fn grant_waiting(&mut self, files: impl IntoIterator<Item = FileId>) -> LockAnswers<T> {
        let mut answers = Vec::new();
        let mut files: VecDeque<FileId> = files.into_iter().collect();
        while let Some(file) = files.pop_front() {
            while let Some(queued) = self.take_next(file) {
                let QueuedLock { who, claim, ticket, .. } = queued;
                let is_set = self.set(file, who, claim.range, Some(claim.kind));
                let outcome = if is_set { Ok(LockOutcome::Done) } else { Err(too_many()) };
                answers.push((ticket, outcome));
                files.extend(self.files_of(who.space).into_iter().filter(|other| *other != file));
            }
        }
        answers
    }

    /// Removes the first wait in the queue of a file that can end.
    fn take_next(&mut self, file: FileId) -> Option<QueuedLock<T>> {
        let locks = self.files.get(&file)?;
        let can_be_over = |at: usize| {
            let QueuedLock { who, claim, .. } = &locks.queue[at];
            locks.conflicts(who.space, *claim).next().is_none()
                && (self.has_locked(who.space) || !locks.is_behind(at))
        };
        let at = (0..locks.queue.len()).find(|at| can_be_over(*at))?;
        self.files.get_mut(&file)?.queue.remove(at)
    }

    /// Locks or unlocks bytes. Returns false, and changes nothing, if the process would exceed its
    /// limit.
    fn set(&mut self, file: FileId, who: Locker, range: LockRange, kind: Option<LockKind>) -> bool {
        let waits = self.files.get(&file).map_or(0, |locks| locks.waits_of(who.space));
        let locks = self.files.entry(file).or_default();
        let empty = Holder { pid: who.pid, ranges: LockedRanges::new() };
        let holder = locks.held.entry(who.space).or_insert(empty);
        let before = holder.ranges.len();
        // One range can become three at most.
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

    /// Removes a process from a file. Returns the callers of its waits.
    fn remove(&mut self, file: FileId, space: SpaceId) -> Vec<T> {
        let Some(locks) = self.files.get_mut(&file) else { return Vec::new() };
        let before = locks.held.remove(&space).map_or(0, |holder| holder.ranges.len());
        let queue = std::mem::take(&mut locks.queue);
        let (its, others): (VecDeque<_>, _) =
            queue.into_iter().partition(|queued| queued.who.space == space);
        locks.queue = others;
        self.count_held(space, before, 0);
        self.remove_empty(file, space);
        its.into_iter().map(|queued| queued.ticket).collect()
    }

    /// Removes entries that are empty.
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

    /// Returns the process id of a lock holder that waits for this process, if the wait would be a
    /// deadlock.
    fn deadlock_with(&self, file: FileId, space: SpaceId, claim: LockClaim) -> Option<u32> {
        let mut seen = HashSet::new();
        let mut clashes = self.files.get(&file)?.conflicts(space, claim);
        let found = clashes.find(|(other, _)| self.waits_for(*other, space, &mut seen))?;
        Some(found.1.pid)
    }

    /// Whether one process waits for another, directly or through others. Skips processes in
    /// `seen`.
    fn waits_for(&self, one: SpaceId, other: SpaceId, seen: &mut HashSet<SpaceId>) -> bool {
        let mut next = Vec::from_iter(seen.insert(one).then_some(one));
        while let Some(space) = next.pop() {
            for locks in self.files_of(space).iter().filter_map(|file| self.files.get(file)) {
                for queued in locks.queue.iter().filter(|queued| queued.who.space == space) {
                    for (holder, _) in locks.conflicts(space, queued.claim) {
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

    /// Whether a process holds any lock.
    fn has_locked(&self, space: SpaceId) -> bool {
        let mut files = self.known.get(&space).into_iter().flatten();
        files.any(|file| self.files.get(file).is_some_and(|locks| locks.held.contains_key(&space)))
    }

    /// The number of ranges that a process has locked, over all files.
    pub fn range_count(&self, space: SpaceId) -> u64 {
        self.held.get(&space).copied().unwrap_or(0)
    }

    /// Updates the number of ranges of a process after a change in one file.
    fn count_held(&mut self, space: SpaceId, before: usize, now: usize) {
        let held = self.held.entry(space).or_default();
        *held = (*held + now as u64).saturating_sub(before as u64);
        if *held == 0 {
            self.held.remove(&space);
        }
    }

    /// The number of ranges of a file that a process has locked or waits for.
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
    /// The locks of other processes that conflict with a claim.
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

    /// Whether an earlier wait of another process conflicts with a wait.
    fn is_behind(&self, at: usize) -> bool {
        let QueuedLock { who, claim, .. } = &self.queue[at];
        self.queue.range(..at).any(|before| {
            before.who.space != who.space
                && !before.claim.kind.goes_with(claim.kind)
                && before.claim.range.overlaps(&claim.range)
        })
    }

    fn waits_of(&self, space: SpaceId) -> usize {
        self.queue.iter().filter(|queued| queued.who.space == space).count()
    }
}

impl Holder {
    fn overlapping(&self, range: LockRange) -> impl Iterator<Item = (LockRange, LockKind)> {
        let before_its_end = self.ranges.range(..range.to).rev();
        let overlapping = before_its_end.take_while(move |(_, (to, _))| *to > range.from);
        overlapping.map(|(&from, &(to, kind))| (LockRange { from, to }, kind))
    }
}

/// Sets or removes the lock of a range, and joins adjacent ranges of the same kind.
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
