//! Opens of single processes of a job: the first one counts for all of them.

use pario_proto::{
    Call, CollectiveError, Failure, JobOpenCall, JobStatus, Member, MissingRank, Reply, WaitStatus,
};

use super::CollectiveService;
use crate::coordination::{ForgottenOpen, OpenTurn, Opener, RankWait};
use crate::job_registry::{JobKey, check_member};
use crate::limits::Resource;
use crate::program::plain_reply;
use crate::reply_sender::ReplySender;
use crate::sessions::Session;

impl CollectiveService {
    /// Handles a call of a process that opens a file without the other processes of its job.
    pub fn job_open(
        &self,
        session: &Session,
        member: Member,
        call: JobOpenCall,
        reply: ReplySender,
    ) {
        if let Err(failure) = self.shared.interface() {
            return reply.send(plain_reply(Err(failure)));
        }
        if let Err(why) = check_member(&member) {
            return reply.fail(Failure::Invalid(why));
        }
        let (space, now_ms) = (session.space, self.now_ms());
        let turns = match call {
            JobOpenCall::Begin(path) => {
                let share = match session.account.take(Resource::JobOpens, 1) {
                    Ok(share) => share,
                    Err(failure) => return reply.fail(failure),
                };
                let Some(caller) = reply.waiting(path.as_str().len()) else { return };
                let Member { job, size, rank } = member;
                let opener = Opener { space, rank, size, caller, share };
                let job = (session.identity.uid, job);
                let turn = self.first_opens.lock().begin(job, path, opener, now_ms);
                if self.shared.sessions.get(space).is_none() {
                    // The process was lost in between.
                    self.remove_opener(space);
                }
                turn.into_iter().collect()
            }
            JobOpenCall::Opened { open } => {
                let turns = self.first_opens.lock().opened(open, space);
                reply.send(plain_reply(Ok(Reply::Done)));
                turns
            }
            JobOpenCall::Closed { open } => {
                let turn = self.first_opens.lock().close(open, space, now_ms);
                reply.send(plain_reply(Ok(Reply::Done)));
                turn.into_iter().collect()
            }
        };
        send_turns(turns);
    }

    /// Removes a lost process from the opens of its job.
    pub(super) fn remove_opener(&self, space: pario_net::SpaceId) {
        let turns = self.first_opens.lock().leave(space, self.now_ms());
        send_turns(turns);
    }

    /// Ends the waits for the first opens of jobs.
    pub(super) fn reset_opens(&self, is_wanted: impl Fn(&JobKey, &pario_proto::FilePath) -> bool) {
        let forgotten = self.first_opens.lock().forget(is_wanted);
        for ForgottenOpen { caller, job, path } in forgotten {
            let what = Call::Open(path.to_string()).to_string();
            caller.fail(Failure::Collective { what, job, error: CollectiveError::Reset });
        }
    }

    /// Adds the waits for the first opens of jobs to the status of the jobs.
    pub(super) fn add_open_waits(&self, jobs: &mut Vec<JobStatus>, now_ms: u64) {
        let opens = self.first_opens.lock();
        for ((uid, name), size, path, wait) in opens.waits() {
            let RankWait { number, arrived, missing, since_ms, cause } = wait;
            let is_here = |rank| MissingRank { rank, is_here: true, last: None };
            let wait = WaitStatus {
                opening: None,
                path: Some(path.clone()),
                mode: None,
                number,
                arrived,
                missing: missing.into_iter().map(is_here).collect(),
                cause,
                waited_ms: now_ms.saturating_sub(since_ms),
            };
            match jobs.iter_mut().find(|job| job.uid == *uid && job.job == *name) {
                Some(job) => job.waits.push(wait),
                None => jobs.push(JobStatus {
                    job: name.clone(),
                    uid: *uid,
                    size,
                    here: Vec::new(),
                    files: Vec::new(),
                    waits: vec![wait],
                }),
            }
        }
    }
}

fn send_turns(turns: Vec<OpenTurn<ReplySender>>) {
    for OpenTurn { caller, open, is_first } in turns {
        caller.send_now(plain_reply(Ok(Reply::OpenTurn { open, is_first })));
    }
}
