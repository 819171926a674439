//! `pario reset`: ends jobs and shared files; their waiting calls fail.

use pario_proto::{FilePath, SharedFileId};

use super::{FileActions, JobAction, JobKey, JobRegistry, decide};
use crate::coordination::Departure;

/// The result of a reset, and the actions for the calls that failed.
#[derive(Debug)]
pub struct Reset<J, T> {
    /// The jobs that were removed.
    pub jobs: Vec<String>,
    /// The shared files that were ended.
    pub files: Vec<FilePath>,
    /// Actions for the ranks of jobs.
    pub job_actions: Vec<JobAction<J>>,
    /// Actions for the ranks of shared files.
    pub file_actions: FileActions<T>,
}

impl<J, T> JobRegistry<J, T> {
    /// Ends these shared files; if `wanted` is empty, all of them, and the jobs too. With a user,
    /// only those of this user.
    pub fn reset(&self, uid: Option<u32>, wanted: &[FilePath]) -> Reset<J, T> {
        let mut reset = Reset {
            jobs: Vec::new(),
            files: Vec::new(),
            job_actions: Vec::new(),
            file_actions: Vec::new(),
        };
        let mut state = self.state.lock();
        let is_of = |key: &JobKey| uid.is_none_or(|uid| uid == key.0);
        let mut ids: Vec<SharedFileId> = Vec::new();
        for (key, job) in state.jobs.iter().filter(|(key, _)| is_of(key)) {
            let files = state.files.iter().filter(|(_, file)| {
                let is_of_job = file.ranks.keys().any(|space| job.ranks.contains_key(space));
                let is_wanted = wanted.is_empty() || wanted.contains(&file.path);
                file.job == *key && is_of_job && is_wanted
            });
            ids.extend(files.map(|(id, _)| *id));
        }
        for id in ids {
            let Some(file) = state.files.get_mut(&id) else { continue };
            reset.files.push(file.path.clone());
            let mut actions = Vec::new();
            file.coordinator.reset(&mut |action| actions.push(action));
            file.is_table_reusable = false;
            if let Some((_, table)) = &file.table {
                table.reset();
            }
            reset.file_actions.extend(state.finish(id, actions));
        }
        if wanted.is_empty() {
            state.unnamed_jobs.reset(uid);
            state.jobs.retain(|key, job| {
                if !is_of(key) {
                    return true;
                }
                job.rounds.leave_all(Departure::Reset);
                if let Some(memory) = &job.memory {
                    memory.job_table().reset();
                }
                reset.job_actions.extend(decide(&key.1, job));
                reset.jobs.push(key.1.clone());
                false
            });
        }
        reset.jobs.sort();
        reset.files.sort();
        reset.files.dedup();
        reset
    }
}

#[cfg(test)]
mod tests {
    use pario_net::SpaceId;
    use pario_proto::{Call, CollectiveError, Failure, Member};

    use super::*;

    /// Jobs of two users with the same name, each with a rank that waits for the other rank of its
    /// job.
    fn two_users() -> JobRegistry<u32, u32> {
        let registry = JobRegistry::default();
        for uid in [1_u8, 2] {
            let member = Member { job: "job".to_owned(), size: 2, rank: 0 };
            let space = SpaceId::from_bytes([uid; 16]);
            let uid = u32::from(uid);
            let actions = registry.job_call(uid, space, &member, (0, Call::Barrier), uid, 100);
            assert!(actions.is_empty(), "{actions:?}");
        }
        registry
    }

    #[test]
    fn jobs_of_other_users_are_kept() {
        let registry = two_users();
        let jobs = registry.jobs(350);
        assert_eq!(jobs.iter().map(|job| job.uid).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(jobs[0].waits[0].waited_ms, 250);
        assert_eq!((jobs[0].here.as_slice(), jobs[0].waits[0].awaited()), (&[0][..], vec![1]));
        let reset = registry.reset(Some(1), &[]);
        assert_eq!(reset.jobs, ["job"]);
        let [JobAction::Fail(1, Failure::Collective { error: CollectiveError::Reset, .. })] =
            &reset.job_actions[..]
        else {
            panic!("{:?}", reset.job_actions)
        };
        assert_eq!(registry.jobs(350).len(), 1);
        assert_eq!(registry.jobs(350)[0].uid, 2);
    }

    #[test]
    fn all_users_are_reset_without_a_user_and_only_files_if_they_are_named() {
        let registry = two_users();
        let none = registry.reset(None, &[FilePath::new("/f").unwrap()]);
        assert!(none.jobs.is_empty() && none.files.is_empty() && none.job_actions.is_empty());
        let all = registry.reset(None, &[]);
        assert_eq!((all.jobs.len(), all.job_actions.len()), (2, 2));
        assert!(registry.jobs(0).is_empty());
    }
}
