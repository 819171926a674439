//! Which waits have become too long: each is told once.

use std::collections::HashSet;

use pario_proto::{AssemblyId, JobStatus, WaitStatus};

/// Finds waits that last too long.
#[derive(Debug)]
pub struct Overdue {
    limit_ms: u64,
    told: HashSet<Known>,
}

/// A wait: the user, the job, the opening of a file, the number of the call.
type Known = (u32, String, Option<AssemblyId>, u64);

impl Overdue {
    /// Waits of so many milliseconds are too long.
    pub fn new(limit_ms: u64) -> Self {
        Self { limit_ms, told: HashSet::new() }
    }

    /// Those that have become too long since it was last asked.
    pub fn look<'j>(&mut self, jobs: &'j [JobStatus]) -> Vec<(&'j JobStatus, &'j WaitStatus)> {
        let all = || jobs.iter().flat_map(|job| job.waits.iter().map(move |wait| (job, wait)));
        let known = |(job, wait): (&JobStatus, &WaitStatus)| -> Known {
            (job.uid, job.job.clone(), wait.opening, wait.number)
        };
        let late = || all().filter(|(_, wait)| wait.waited_ms >= self.limit_ms);
        let still: HashSet<Known> = late().map(known).collect();
        let new = late().filter(|wait| !self.told.contains(&known(*wait))).collect();
        self.told = still;
        new
    }
}

#[cfg(test)]
mod tests {
    use pario_proto::{Call, MissingRank};

    use super::*;

    fn job(waits: &[(u64, u64)]) -> JobStatus {
        let wait = |&(number, waited_ms): &(u64, u64)| WaitStatus {
            opening: None,
            path: None,
            mode: None,
            number,
            arrived: vec![(0, Call::Barrier)],
            missing: vec![MissingRank { rank: 1, is_here: true, last: None }],
            is_performed: false,
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
    fn every_wait_is_told_once() {
        let mut overdue = Overdue::new(10_000);
        let mut told = |waits: &[(u64, u64)]| {
            let jobs = [job(waits)];
            let told = overdue.look(&jobs);
            told.iter().map(|(_, wait)| wait.number).collect::<Vec<_>>()
        };
        assert_eq!(told(&[(0, 9_999)]), [] as [u64; 0]);
        assert_eq!(told(&[(0, 10_000), (1, 500)]), [0]);
        assert_eq!(told(&[(0, 20_000), (1, 10_500)]), [1]);
        assert_eq!(told(&[(0, 30_000), (1, 20_500)]), [] as [u64; 0]);
        assert_eq!(told(&[]), [] as [u64; 0]);
        assert_eq!(told(&[(0, 10_000)]), [0], "this is another one with the same number");
    }
}
