//! The jobs that this process has joined: joining the same job again returns the one that is alive.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use pario_proto::Member;
use pario_team::{Team, WeakTeam};
use parking_lot::Mutex;

use super::JobState;

/// A job that this process has joined, and its team. Arrays and segments keep the team alive, also
/// when the job is dropped: a rank cannot meet the others twice at the same time.
#[derive(Default)]
struct JoinedJob {
    state: Weak<JobState>,
    team: Option<WeakTeam>,
}

static JOINED: Mutex<Option<HashMap<Member, JoinedJob>>> = Mutex::new(None);

/// Returns the job that this process has joined as this member; otherwise creates it, with the team
/// that is still alive.
pub fn find_or_insert(
    member: &Member,
    create: impl FnOnce(Option<Team>) -> JobState,
) -> Arc<JobState> {
    let mut joined = JOINED.lock();
    let jobs = joined.get_or_insert_default();
    jobs.retain(|_, job| job.is_alive());
    let entry = jobs.entry(member.clone()).or_default();
    if let Some(state) = entry.state.upgrade() {
        return state;
    }
    let team = entry.team.as_ref().and_then(WeakTeam::upgrade);
    let state = Arc::new(create(team));
    entry.state = Arc::downgrade(&state);
    state
}

/// Notes the team of a joined job.
pub fn note_team(member: &Member, team: &Team) {
    if let Some(job) = JOINED.lock().as_mut().and_then(|jobs| jobs.get_mut(member)) {
        job.team = Some(team.downgrade());
    }
}

impl JoinedJob {
    fn is_alive(&self) -> bool {
        self.state.strong_count() > 0 || self.team.as_ref().is_some_and(WeakTeam::is_alive)
    }
}

#[cfg(test)]
mod tests {
    use crate::Job;

    #[test]
    fn the_same_member_is_the_same_job_while_it_is_alive() {
        let first = Job::new("registry", 2, 1).unwrap();
        let again = Job::new("registry", 2, 1).unwrap();
        assert!(std::sync::Arc::ptr_eq(&first.state, &again.state));
        for (name, size, rank) in [("registry", 2, 0), ("registry", 3, 1), ("another", 2, 1)] {
            let other = Job::new(name, size, rank).unwrap();
            assert!(!std::sync::Arc::ptr_eq(&first.state, &other.state));
        }
        let weak = std::sync::Arc::downgrade(&first.state);
        drop((first, again));
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn a_job_of_which_an_array_is_left_uses_the_same_team() {
        let job = Job::new("an array is left", 1, 0).unwrap();
        let array = job.array::<u64>(10).unwrap();
        drop(job);
        let again = Job::new("an array is left", 1, 0).unwrap();
        assert!(array.raw().team().is_same(&again.team().unwrap()));
        drop(array);
        assert!(again.barrier().is_ok());
    }
}
