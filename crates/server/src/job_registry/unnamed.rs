//! Unnamed jobs: processes that say only their rank and the size of their job.
//!
//! Invariants: of each user and size, at most one unnamed job is incomplete. A process joins that
//! job, or begins it. A rank is given once: a second process with the rank is refused, also after
//! the first one has ended, as long as any process of the incomplete job runs. A complete job takes
//! no further process.

use std::collections::{BTreeMap, HashMap};

use pario_net::SpaceId;
use pario_proto::{Failure, Member, ProcessName};

use super::{Job, JobRegistry, SharedFileId, check_member};

/// The unnamed jobs that not all ranks have joined yet.
#[derive(Debug, Default)]
pub(super) struct UnnamedJobs {
    /// By user and size.
    incomplete: HashMap<(u32, u32), IncompleteJob>,
}

/// An unnamed job that not all ranks have joined yet.
#[derive(Debug)]
struct IncompleteJob {
    name: String,
    members: BTreeMap<u32, UnnamedMember>,
}

/// A process that has joined an unnamed job.
#[derive(Debug)]
struct UnnamedMember {
    space: SpaceId,
    process: ProcessName,
    has_ended: bool,
}

impl UnnamedJobs {
    /// Returns the name of the job that the process joins, if it exists.
    fn find(
        &self,
        user_and_size: (u32, u32),
        rank: u32,
        (space, process): (SpaceId, &ProcessName),
    ) -> Result<Option<&str>, Failure> {
        let Some(job) = self.incomplete.get(&user_and_size) else { return Ok(None) };
        match job.members.get(&rank) {
            Some(member) if member.space != space => Err(Failure::RankInUse {
                rank,
                size: user_and_size.1,
                holder: Box::new(member.process.clone()),
                has_ended: member.has_ended,
                newcomer: Box::new(process.clone()),
            }),
            Some(_) => Ok(Some(&job.name)),
            None => match job.members.iter().find(|(_, member)| member.space == space) {
                Some((known, _)) => Err(Failure::Invalid(format!(
                    "{process} is rank {known} of this job already, and cannot be rank {rank} too"
                ))),
                None => Ok(Some(&job.name)),
            },
        }
    }

    /// Adds a process to its job, and removes the job if it is complete.
    fn add(&mut self, uid: u32, member: &Member, space: SpaceId, process: ProcessName) {
        let key = (uid, member.size);
        let job = self.incomplete.entry(key).or_insert_with(|| IncompleteJob {
            name: member.job.clone(),
            members: BTreeMap::new(),
        });
        job.members.insert(member.rank, UnnamedMember { space, process, has_ended: false });
        if job.members.len() == member.size as usize {
            self.incomplete.remove(&key);
        }
    }

    /// Handles the end of a process. Removes jobs of which no process is left.
    pub(super) fn remove_process(&mut self, space: SpaceId) {
        self.incomplete.retain(|_, job| {
            for member in job.members.values_mut().filter(|member| member.space == space) {
                member.has_ended = true;
            }
            job.members.values().any(|member| !member.has_ended)
        });
    }

    /// Removes all jobs, or those of a user.
    pub(super) fn reset(&mut self, uid: Option<u32>) {
        self.incomplete.retain(|(of, _), _| uid.is_some_and(|uid| uid != *of));
    }
}

impl<J, T> JobRegistry<J, T> {
    /// Lets a process join the unnamed job of its user and size that is not complete yet, or begins
    /// the next one. Returns the name of the job. The process is a member of the job from now on:
    /// calls that wait for it fail when it ends.
    pub fn join_unnamed(
        &self,
        uid: u32,
        space: SpaceId,
        (size, rank): (u32, u32),
        process: ProcessName,
        now_ns: u64,
    ) -> Result<String, Failure> {
        let mut held = self.state.lock();
        let state = &mut *held;
        let process = process.cleaned();
        let found = state.unnamed_jobs.find((uid, size), rank, (space, &process))?;
        let job = match found {
            Some(name) => name.to_owned(),
            None => {
                let SharedFileId(id) = state.new_id(now_ns);
                format!("unnamed {}", &blake3::hash(&id.to_le_bytes()).to_hex()[..12])
            }
        };
        let member = Member { job, size, rank };
        check_member(&member).map_err(Failure::Invalid)?;
        let key = (uid, member.job.clone());
        self.check_new_job(state, &key)?;
        let job = state.jobs.entry(key).or_insert_with(|| Job::new(size));
        if !job.ranks.contains_key(&space) {
            let refused = |error| {
                let (what, job) = ("join".to_owned(), member.job.clone());
                Failure::Collective { what, job, error }
            };
            job.rounds.join(rank).map_err(refused)?;
            job.ranks.insert(space, rank);
        }
        state.unnamed_jobs.add(uid, &member, space, process);
        Ok(member.job)
    }
}

#[cfg(test)]
mod tests {
    use pario_proto::{Call, CollectiveError};

    use super::super::JobAction;
    use super::*;

    type Registry = JobRegistry<u32, u32>;

    fn space(number: u8) -> SpaceId {
        SpaceId::from_bytes([number; 16])
    }

    fn process(pid: u32) -> ProcessName {
        ProcessName { pid, program: "solver".to_owned(), host: "sun".to_owned() }
    }

    /// Joins with a process whose id is the number of its space.
    fn join(registry: &Registry, number: u8, size: u32, rank: u32) -> Result<String, Failure> {
        registry.join_unnamed(7, space(number), (size, rank), process(number.into()), 1_000)
    }

    #[test]
    fn ranks_meet_until_the_job_is_complete() {
        let registry = Registry::default();
        let first = join(&registry, 1, 3, 0).unwrap();
        assert_eq!(join(&registry, 1, 3, 0).unwrap(), first, "the same process again");
        assert_eq!(join(&registry, 2, 3, 2).unwrap(), first);
        assert_ne!(join(&registry, 9, 2, 0).unwrap(), first, "a job of another size");
        let other_user = registry.join_unnamed(8, space(8), (3, 0), process(8), 1_000).unwrap();
        assert_ne!(other_user, first);
        assert_eq!(join(&registry, 3, 3, 1).unwrap(), first);
        // It is complete, so the next process begins a new job.
        let second = join(&registry, 4, 3, 1).unwrap();
        assert_ne!(second, first);
        assert_eq!(join(&registry, 5, 3, 0).unwrap(), second);
        assert_ne!(join(&registry, 6, 1, 0).unwrap(), join(&registry, 7, 1, 0).unwrap());
    }

    #[test]
    fn a_second_process_with_a_rank_is_refused_and_both_are_named() {
        let registry = Registry::default();
        let job = join(&registry, 1, 2, 0).unwrap();
        let told = join(&registry, 2, 2, 0).unwrap_err().to_string();
        for part in [
            "process 2 (solver) on host sun cannot be rank 0 of 2",
            "process 1 (solver) on host sun is that rank",
            "PARIO_JOB",
        ] {
            assert!(told.contains(part), "{told}");
        }
        let told = join(&registry, 1, 2, 1).unwrap_err().to_string();
        assert!(told.contains("is rank 0 of this job already, and cannot be rank 1 too"), "{told}");
        assert_eq!(join(&registry, 3, 2, 1).unwrap(), job, "the job is as it was");
    }

    #[test]
    fn the_rank_of_an_ended_process_stays_taken_while_others_of_the_job_run() {
        let registry = Registry::default();
        let job = join(&registry, 1, 3, 0).unwrap();
        join(&registry, 2, 3, 1).unwrap();
        registry.remove_process(space(2));
        let told = join(&registry, 3, 3, 1).unwrap_err().to_string();
        assert!(told.contains("process 2 (solver) on host sun was that rank"), "{told}");
        // The ranks that are left learn who is missing.
        let member = Member { job: job.clone(), size: 3, rank: 0 };
        let actions = registry.job_call(7, space(1), &member, (0, Call::Barrier), 5, 0);
        let [JobAction::Fail(5, Failure::Collective { error, .. })] = actions.as_slice() else {
            panic!("{actions:?}");
        };
        assert_eq!(*error, CollectiveError::Gone { rank: 1 });
        registry.remove_process(space(1));
        assert_ne!(join(&registry, 3, 3, 1).unwrap(), job, "all are gone: a new job begins");
    }

    #[test]
    fn a_reset_and_impossible_ranks() {
        let registry = Registry::default();
        let job = join(&registry, 1, 2, 0).unwrap();
        registry.reset(Some(7), &[]);
        assert_ne!(join(&registry, 2, 2, 0).unwrap(), job);
        for (size, rank) in [(0, 0), (2, 2), (u32::MAX, 1)] {
            assert!(matches!(join(&registry, 3, size, rank), Err(Failure::Invalid(_))));
        }
    }
}
