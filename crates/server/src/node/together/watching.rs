//! Looking at what the processes of jobs do together, from outside: telling, warning, ending.

use std::time::Duration;

use pario_proto::{Failure, FilePath, JobStatus, LockWait, Ranks, Reply};

use super::Together;
use crate::coordination::Overdue;
use crate::sessions::Session;

/// How often the node looks for waits that are too long, at most.
const LOOK: Duration = Duration::from_secs(1);

impl Together {
    /// The jobs that a client may know of.
    pub fn jobs(&self, session: &Session) -> Result<Reply, Failure> {
        self.shared.names()?;
        let mut jobs = self.meetings.jobs(self.now_ms());
        if let Some(uid) = self.only_of(session) {
            jobs.retain(|job| job.uid == uid);
        }
        Ok(Reply::Jobs(jobs))
    }

    /// The processes that wait for locks, as far as a client may know of them.
    pub fn lock_waits(&self, session: &Session) -> Result<Reply, Failure> {
        self.shared.names()?;
        let mut waits = self.all_lock_waits();
        if let Some(uid) = self.only_of(session) {
            waits.retain(|wait| wait.uid == uid);
        }
        Ok(Reply::LockWaits(waits))
    }

    /// Ends what jobs do together; whoever waits is told.
    pub fn reset(&self, session: &Session, files: &[FilePath]) -> Result<Reply, Failure> {
        self.shared.names()?;
        let reset = self.meetings.reset(self.only_of(session), files);
        self.act_for_jobs(reset.told);
        self.act_for_files(reset.actions, &[]);
        let (jobs, files) = (reset.jobs, reset.files);
        if !jobs.is_empty() || !files.is_empty() {
            tracing::info!(client = session.name, ?jobs, ?files, "reset");
        }
        Ok(Reply::Reset { jobs, files })
    }

    /// Warns of waits that are too long, until the node is asked to stop.
    pub fn watch(&self) {
        let Some(limit) = self.shared.node().wait_warning else { return };
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let mut overdue = Overdue::new(limit_ms);
        let pause = limit.min(LOOK).max(Duration::from_millis(10));
        while !self.shared.stopping.is_asked() {
            let jobs = self.meetings.jobs(self.now_ms());
            for (job, wait) in overdue.look(&jobs) {
                tracing::warn!(job = job.job, waited_ms = wait.waited_ms, "{}", told(job, wait));
            }
            let lock_waits = self.all_lock_waits();
            for wait in overdue.look_at_locks(&lock_waits) {
                let path = &wait.path;
                let hint = format!("`pario status --file {path}` tells more");
                tracing::warn!(waited_ms = wait.waited_ms, "{wait}; {hint}");
            }
            self.shared.stopping.pause(pause);
        }
    }

    fn all_lock_waits(&self) -> Vec<LockWait> {
        let Some(names) = &self.shared.names else { return Vec::new() };
        names.locks.waits(&names.open_files, &self.shared.sessions, self.now_ms())
    }

    /// Whose jobs a client may know of: its user's own, or everybody's.
    fn only_of(&self, session: &Session) -> Option<u32> {
        let is_administrator = self.shared.is_administrator(&session.identity);
        (!is_administrator).then_some(session.identity.uid)
    }
}

fn told(job: &JobStatus, wait: &pario_proto::WaitStatus) -> String {
    let away: Vec<u32> =
        wait.missing.iter().filter(|missing| !missing.is_here).map(|away| away.rank).collect();
    let away = match away.as_slice() {
        [] => String::new(),
        [_] => format!(" ({} is not here)", Ranks(&away)),
        _ => format!(" ({} are not here)", Ranks(&away)),
    };
    format!("{wait}{away}; `pario why {}` tells more", job.job)
}
