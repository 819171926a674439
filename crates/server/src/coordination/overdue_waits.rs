//! Waits that have lasted too long: each is reported once.

use std::collections::HashSet;
use std::hash::Hash;

use pario_proto::{
    AtomicWait, JobStatus, LockKind, LockRange, LockWait, SharedFileId, WaitCause, WaitStatus,
};

/// Finds waits that have lasted too long.
#[derive(Debug)]
pub struct OverdueWaits {
    limit_ms: u64,
    reported: HashSet<CollectiveKey>,
    reported_locks: HashSet<LockKey>,
    reported_atomic: HashSet<AtomicKey>,
}

/// Identifies a wait of a job: user, job, shared file, and what it waits for.
type CollectiveKey = (u32, String, Option<SharedFileId>, AwaitedKey);

/// What ranks wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AwaitedKey {
    /// Other ranks, in the round of this number.
    Others(u64),
    /// Bytes: the rank, and the number of its claim.
    Bytes(Option<u32>, u64),
    /// The size of the file.
    Size,
}

/// Identifies a wait for a lock: process, file, range and kind.
type LockKey = (String, String, LockRange, LockKind);

/// Identifies a wait for atomic access: process, file, the bytes as from, to and whether it writes,
/// and whether it waits for a recalled delegation.
type AtomicKey = (String, String, Option<(u64, u64, bool)>, bool);

impl OverdueWaits {
    /// Reports waits of at least `limit_ms` milliseconds.
    pub fn new(limit_ms: u64) -> Self {
        let (reported, reported_locks) = (HashSet::new(), HashSet::new());
        Self { limit_ms, reported, reported_locks, reported_atomic: HashSet::new() }
    }

    /// Returns the waits of jobs that have become overdue since the last call.
    pub fn newly_overdue<'j>(
        &mut self,
        jobs: &'j [JobStatus],
    ) -> Vec<(&'j JobStatus, &'j WaitStatus)> {
        let waits = jobs.iter().flat_map(|job| job.waits.iter().map(move |wait| (job, wait)));
        let late = waits.filter(|(_, wait)| wait.waited_ms >= self.limit_ms);
        unreported(&mut self.reported, late.collect(), |(job, wait)| {
            (job.uid, job.job.clone(), wait.opening, awaited(wait))
        })
    }

    /// Returns the waits for locks that have become overdue since the last call.
    pub fn newly_overdue_locks<'w>(&mut self, waits: &'w [LockWait]) -> Vec<&'w LockWait> {
        let late = waits.iter().filter(|wait| wait.waited_ms >= self.limit_ms);
        unreported(&mut self.reported_locks, late.collect(), |wait| {
            (wait.client.clone(), wait.path.to_string(), wait.range, wait.kind)
        })
    }

    /// Returns the waits for atomic access that have become overdue since the last call.
    pub fn newly_overdue_atomic<'w>(&mut self, waits: &'w [AtomicWait]) -> Vec<&'w AtomicWait> {
        let late = waits.iter().filter(|wait| wait.waited_ms >= self.limit_ms);
        unreported(&mut self.reported_atomic, late.collect(), |wait| {
            let bytes = wait.bytes.map(|bytes| (bytes.from, bytes.to, bytes.is_write));
            (wait.client.clone(), wait.path.to_string(), bytes, wait.is_recall)
        })
    }
}

fn awaited(wait: &WaitStatus) -> AwaitedKey {
    match wait.cause {
        WaitCause::Absence | WaitCause::Performance => AwaitedKey::Others(wait.number),
        WaitCause::Bytes(_) => {
            AwaitedKey::Bytes(wait.arrived.first().map(|(rank, _)| *rank), wait.number)
        }
        WaitCause::Size => AwaitedKey::Size,
    }
}

/// Keeps the waits that were not reported before, and remembers all of `late`.
fn unreported<W, K: Eq + Hash>(
    reported: &mut HashSet<K>,
    mut late: Vec<W>,
    known: impl Fn(&W) -> K,
) -> Vec<W> {
    let still = late.iter().map(&known).collect();
    let before = std::mem::replace(reported, still);
    late.retain(|wait| !before.contains(&known(wait)));
    late
}

#[cfg(test)]
mod tests {
    use pario_proto::{BytesUse, BytesWait, Call, FilePath, MissingRank};

    use super::*;

    fn job(waits: &[(u64, u64)]) -> JobStatus {
        let wait = |&(number, waited_ms): &(u64, u64)| WaitStatus {
            opening: None,
            path: None,
            mode: None,
            number,
            arrived: vec![(0, Call::Barrier)],
            missing: vec![MissingRank { rank: 1, is_here: true, last: None }],
            cause: WaitCause::Absence,
            waited_ms,
        };
        JobStatus {
            job: "job".to_owned(),
            uid: 7,
            size: 2,
            here: vec![0, 1],
            files: Vec::new(),
            waits: waits.iter().map(wait).collect(),
        }
    }

    #[test]
    fn every_wait_is_reported_once() {
        let mut overdue = OverdueWaits::new(10_000);
        let mut reported = |waits: &[(u64, u64)]| {
            let jobs = [job(waits)];
            let reported = overdue.newly_overdue(&jobs);
            reported.iter().map(|(_, wait)| wait.number).collect::<Vec<_>>()
        };
        assert_eq!(reported(&[(0, 9_999)]), [] as [u64; 0]);
        assert_eq!(reported(&[(0, 10_000), (1, 500)]), [0]);
        assert_eq!(reported(&[(0, 20_000), (1, 10_500)]), [1]);
        assert_eq!(reported(&[(0, 30_000), (1, 20_500)]), [] as [u64; 0]);
        assert_eq!(reported(&[]), [] as [u64; 0]);
        assert_eq!(reported(&[(0, 10_000)]), [0], "a new wait with the same number");
    }

    /// The number of a wait for bytes is that of a claim, and not that of a round.
    #[test]
    fn a_wait_for_bytes_differs_from_a_round() {
        let mut overdue = OverdueWaits::new(10);
        let mut jobs = [job(&[(3, 10)])];
        assert_eq!(overdue.newly_overdue(&jobs).len(), 1);
        let mut wait = jobs[0].waits[0].clone();
        let wanted = BytesUse::new(0, 1, true);
        wait.cause = WaitCause::Bytes(BytesWait { wanted, before: Vec::new(), more: 0 });
        jobs[0].waits.push(wait.clone());
        assert_eq!(overdue.newly_overdue(&jobs), [(&jobs[0], &wait)]);
        wait.arrived = vec![(1, Call::Barrier)];
        jobs[0].waits.push(wait.clone());
        assert_eq!(overdue.newly_overdue(&jobs), [(&jobs[0], &wait)]);
        wait.cause = WaitCause::Size;
        jobs[0].waits.push(wait.clone());
        assert_eq!(overdue.newly_overdue(&jobs), [(&jobs[0], &wait)]);
        assert!(overdue.newly_overdue(&jobs).is_empty());
    }

    #[test]
    fn every_wait_for_a_lock_is_reported_once() {
        let mut overdue = OverdueWaits::new(10);
        let wait = |client: &str, waited_ms| LockWait {
            path: FilePath::new("/f").unwrap(),
            uid: 0,
            client: client.to_owned(),
            range: LockRange::ALL,
            kind: LockKind::Shared,
            holders: Vec::new(),
            waited_ms,
        };
        let waits = [wait("a", 9), wait("b", 10)];
        assert_eq!(overdue.newly_overdue_locks(&waits), [&waits[1]]);
        let waits = [wait("a", 10), wait("b", 11)];
        assert_eq!(overdue.newly_overdue_locks(&waits), [&waits[0]]);
        assert!(overdue.newly_overdue_locks(&waits).is_empty());
    }

    #[test]
    fn every_wait_for_atomic_access_is_reported_once() {
        let mut overdue = OverdueWaits::new(10);
        let wait = |from, is_recall, waited_ms| AtomicWait {
            path: FilePath::new("/f").unwrap(),
            uid: 0,
            client: "a".to_owned(),
            bytes: Some(BytesUse::new(from, 1, true)),
            holders: Vec::new(),
            is_recall,
            waited_ms,
        };
        let waits = [wait(0, false, 10), wait(1, false, 9), wait(0, true, 11)];
        assert_eq!(overdue.newly_overdue_atomic(&waits), [&waits[0], &waits[2]]);
        let waits = [wait(0, false, 20), wait(1, false, 19)];
        assert_eq!(overdue.newly_overdue_atomic(&waits), [&waits[1]]);
        assert!(overdue.newly_overdue_atomic(&waits).is_empty());
    }
}
