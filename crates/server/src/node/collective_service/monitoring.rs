//! Monitoring of jobs: status, warnings of long waits, and reset.

use std::time::{Duration, Instant};

use pario_proto::{Failure, FilePath, JobStatus, LockWait, RankList, Reply};

use super::CollectiveService;
use crate::coordination::OverdueWaits;
use crate::sessions::Session;

/// The longest pause between two searches for long waits.
const SEARCH_PERIOD: Duration = Duration::from_secs(1);

/// The search for processes that wait too long for another one.
pub struct WaitWarnings {
    overdue: OverdueWaits,
    period: Duration,
    /// When the next search is due.
    next: Instant,
}

impl WaitWarnings {
    /// Returns the time between two searches.
    pub fn period(&self) -> Duration {
        self.period
    }
}

impl CollectiveService {
    /// The jobs that a client may see.
    pub fn jobs(&self, session: &Session) -> Result<Reply, Failure> {
        self.shared.interface()?;
        let mut jobs = self.all_jobs();
        if let Some(uid) = self.visible_uid(session) {
            jobs.retain(|job| job.uid == uid);
        }
        Ok(Reply::Jobs(jobs))
    }

    /// The waits for locks that a client may see.
    pub fn lock_waits(&self, session: &Session) -> Result<Reply, Failure> {
        self.shared.interface()?;
        let mut waits = self.all_lock_waits();
        if let Some(uid) = self.visible_uid(session) {
            waits.retain(|wait| wait.uid == uid);
        }
        Ok(Reply::LockWaits(waits))
    }

    /// Ends jobs and shared files; their waiting calls fail.
    pub fn reset(&self, session: &Session, files: &[FilePath]) -> Result<Reply, Failure> {
        self.shared.interface()?;
        let uid = self.visible_uid(session);
        let reset = self.registry.reset(uid, files);
        self.reset_opens(|(owner, _), path| {
            uid.is_none_or(|uid| uid == *owner) && (files.is_empty() || files.contains(path))
        });
        self.act_for_jobs(reset.job_actions);
        self.act_for_files(reset.file_actions, &[]);
        let (jobs, files) = (reset.jobs, reset.files);
        if !jobs.is_empty() || !files.is_empty() {
            tracing::info!(client = session.name, ?jobs, ?files, "reset");
        }
        Ok(Reply::Reset { jobs, files })
    }

    /// Returns the search for processes that wait too long, if the node warns of them.
    pub fn wait_warnings(&self) -> Option<WaitWarnings> {
        let limit = self.shared.node().wait_warning?;
        self.shared.interface.as_ref()?;
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let period = limit.min(SEARCH_PERIOD).max(Duration::from_millis(10));
        Some(WaitWarnings { overdue: OverdueWaits::new(limit_ms), period, next: Instant::now() })
    }

    /// Logs a warning for each process that waits too long for another one, if a search is due.
    pub fn warn_of_long_waits(&self, warnings: &mut WaitWarnings, now: Instant) {
        if now < warnings.next {
            return;
        }
        warnings.next = now + warnings.period;
        let jobs = self.all_jobs();
        for (job, wait) in warnings.overdue.newly_overdue(&jobs) {
            tracing::warn!(
                job = job.job,
                waited_ms = wait.waited_ms,
                "{}",
                describe_wait(job, wait)
            );
        }
        let lock_waits = self.all_lock_waits();
        for wait in warnings.overdue.newly_overdue_locks(&lock_waits) {
            let path = &wait.path;
            let hint = format!("`pario status --file {path}` tells more");
            tracing::warn!(waited_ms = wait.waited_ms, "{wait}; {hint}");
        }
    }

    fn all_jobs(&self) -> Vec<JobStatus> {
        let now_ms = self.now_ms();
        let mut jobs = self.registry.jobs(now_ms);
        self.add_open_waits(&mut jobs, now_ms);
        jobs
    }

    fn all_lock_waits(&self) -> Vec<LockWait> {
        let Some(interface) = &self.shared.interface else { return Vec::new() };
        interface.locks.waits(&interface.open_files, &self.shared.sessions, self.now_ms())
    }

    /// The user whose jobs a client may see; `None` for all users.
    fn visible_uid(&self, session: &Session) -> Option<u32> {
        let is_administrator = self.shared.is_administrator(&session.identity);
        (!is_administrator).then_some(session.identity.uid)
    }
}

fn describe_wait(job: &JobStatus, wait: &pario_proto::WaitStatus) -> String {
    let away: Vec<u32> =
        wait.missing.iter().filter(|missing| !missing.is_here).map(|away| away.rank).collect();
    let away = match away.as_slice() {
        [] => String::new(),
        [_] => format!(" ({} is not here)", RankList(&away)),
        _ => format!(" ({} are not here)", RankList(&away)),
    };
    format!("{wait}{away}; `pario why {}` tells more", job.job)
}
