//! The members of jobs with names: which process is which rank.
//!
//! Invariant: a rank has one process at a time. A process that has ended is no member, so that
//! processes may follow each other as the same rank.

use pario_net::SpaceId;
use pario_proto::{CollectiveError, Failure, Member};

use super::{Job, JobRegistry, check_member};

/// Why a process cannot be a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinRefusal {
    /// This process is the rank.
    Taken(SpaceId),
    /// Any other reason.
    Failed(Failure),
}

impl<J, T> JobRegistry<J, T> {
    /// Makes a process a member of a job. `is_other` says whether the connection of the present
    /// member is that of another process, and exists.
    pub fn join_named(
        &self,
        uid: u32,
        space: SpaceId,
        member: &Member,
        is_other: impl Fn(SpaceId) -> bool,
    ) -> Result<(), JoinRefusal> {
        check_member(member).map_err(|why| JoinRefusal::Failed(Failure::Invalid(why)))?;
        let key = (uid, member.job.clone());
        let mut state = self.state.lock();
        self.check_new_job(&state, &key).map_err(JoinRefusal::Failed)?;
        let job = state.jobs.entry(key).or_insert_with(|| Job::new(member.size));
        let size = job.rounds.size();
        if size != member.size {
            let error = CollectiveError::WrongSize { rank: member.rank, size, said: member.size };
            let (what, job) = ("join".to_owned(), member.job.clone());
            return Err(JoinRefusal::Failed(Failure::Collective { what, job, error }));
        }
        match job.members.get(&member.rank) {
            Some(holder) if *holder != space && is_other(*holder) => {
                Err(JoinRefusal::Taken(*holder))
            }
            _ => {
                job.members.insert(member.rank, space);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(number: u8) -> SpaceId {
        SpaceId::from_bytes([number; 16])
    }

    #[test]
    fn a_rank_has_one_process_at_a_time() {
        let registry = JobRegistry::<u32, u32>::default();
        let join = |number: u8, job: &str, rank| {
            let member = Member { job: job.to_owned(), size: 2, rank };
            registry
                .join_named(7, space(number), &member, |holder| (holder, number) != (space(9), 1))
        };
        assert_eq!(join(9, "a", 0), Ok(()));
        assert_eq!(join(9, "a", 0), Ok(()), "the same process again");
        assert_eq!(join(1, "a", 0), Ok(()), "the same process by another connection");
        assert_eq!(join(2, "a", 0), Err(JoinRefusal::Taken(space(1))));
        assert_eq!(join(2, "a", 1), Ok(()));
        assert_eq!(join(3, "b", 0), Ok(()), "another job");
        assert_eq!(registry.jobs(0).iter().map(|job| job.here.len()).collect::<Vec<_>>(), [2, 1]);
        registry.remove_process(space(1));
        assert_eq!(join(4, "a", 0), Ok(()), "the process has ended");
        for number in [2, 3, 4] {
            registry.remove_process(space(number));
        }
        assert!(registry.jobs(0).is_empty());
        assert!(matches!(join(1, "", 0), Err(JoinRefusal::Failed(Failure::Invalid(_)))));
        assert!(matches!(join(1, "a", 2), Err(JoinRefusal::Failed(Failure::Invalid(_)))));
        assert_eq!(join(1, "a", 1), Ok(()));
        let larger = Member { job: "a".to_owned(), size: 3, rank: 2 };
        let refused = registry.join_named(7, space(2), &larger, |_| true);
        assert!(matches!(refused, Err(JoinRefusal::Failed(Failure::Collective { .. }))));
    }
}
