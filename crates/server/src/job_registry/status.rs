//! The status of jobs: their shared files, and which rank waits for which.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Values;

use pario_net::SpaceId;
use pario_proto::{
    BytesUse, Call, FilePath, JobStatus, LastCall, MissingRank, Mode, RANKS_SHOWN, SharedCall,
    SharedFileId, SharedFileStatus, ShownRank, WaitStatus,
};

use super::{Job, JobKey, JobRegistry, RegisteredFile, State};
use crate::coordination::RankWait;

/// The last call of each rank, its time, and its file if that is not known otherwise.
pub(super) type LastCalls = HashMap<u32, (Call, u64, Option<FilePath>)>;

impl<J, T> JobRegistry<J, T> {
    /// Returns the status of all jobs, in the order of their names.
    pub fn jobs(&self, now_ms: u64) -> Vec<JobStatus> {
        let state = self.state.lock();
        let room = Cell::new(RANKS_SHOWN);
        let jobs = state.jobs.iter().map(|(key, job)| state.job_status(key, job, now_ms, &room));
        let mut jobs: Vec<_> = jobs.collect();
        jobs.sort_by(|one, other| (&one.job, one.uid).cmp(&(&other.job, other.uid)));
        jobs
    }
}

impl<J, T> State<J, T> {
    /// Returns the status of a job. `room` is the number of missing ranks that the reply can still
    /// name.
    fn job_status(
        &self,
        (uid, name): &JobKey,
        job: &Job<J>,
        now_ms: u64,
        room: &Cell<usize>,
    ) -> JobStatus {
        let files = self.files.iter().filter(|(_, file)| {
            file.job == (*uid, name.clone())
                && file.ranks.keys().any(|space| job.ranks.contains_key(space))
        });
        let mut files: Vec<_> = files.collect();
        files.sort_by_key(|(id, _)| **id);
        let here = sorted(job.ranks.values());
        let missing = |rank: u32| {
            let of_job = job.last.get(&rank).cloned();
            let in_table = job.memory.as_ref().and_then(|memory| {
                let recorded = memory.job_table().last_call(rank, now_ms)?;
                let path = recorded.path.and_then(|path| FilePath::new(&path).ok());
                Some((recorded.call, recorded.at_ms, path))
            });
            let of_files = files.iter().filter_map(|(_, file)| {
                let (call, at_ms) = file.last_call(rank, now_ms)?;
                Some((call, at_ms, Some(file.path.clone())))
            });
            let last = of_job.into_iter().chain(in_table).chain(of_files);
            let last = last.max_by_key(|(_, at_ms, _)| *at_ms).map(|(call, at_ms, path)| {
                LastCall { call, path, ago_ms: now_ms.saturating_sub(at_ms) }
            });
            MissingRank { rank, is_here: here.binary_search(&rank).is_ok(), last }
        };
        let shown = |mut ranks: Vec<u32>| {
            // Each wait names at least one rank.
            ranks.truncate(room.get().max(1));
            room.set(room.get().saturating_sub(ranks.len()));
            ranks
        };
        let describe =
            |wait: RankWait, file: Option<(&SharedFileId, &RegisteredFile<T>)>| WaitStatus {
                opening: file.map(|(id, _)| *id),
                path: file.map(|(_, file)| file.path.clone()),
                mode: file.map(|(_, file)| file.position().0),
                number: wait.number,
                arrived: wait.arrived,
                missing: shown(wait.missing).into_iter().map(missing).collect(),
                cause: wait.cause,
                waited_ms: now_ms.saturating_sub(wait.since_ms),
            };
        let in_table = job.memory.iter().flat_map(|memory| memory.job_table().waits(now_ms));
        let of_job = job.rounds.waits().into_iter().chain(in_table);
        let of_job = of_job.map(|wait| describe(wait, None));
        let of_files = files.iter().flat_map(|(id, file)| {
            file.waits(now_ms).into_iter().map(|wait| describe(wait, Some((*id, *file))))
        });
        let mut waits: Vec<_> = of_job.chain(of_files).collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.waited_ms));
        let files = files.iter().map(|(id, file)| SharedFileStatus {
            opening: **id,
            path: file.path.clone(),
            mode: file.position().0,
            position: file.position().1,
            here: sorted(file.ranks.values()),
            end: file.known_end(),
            file: file.opened.record.id,
            shown: file.shown_ranks(room),
        });
        let files = files.collect();
        let (job, uid, size) = (name.clone(), *uid, job.rounds.size());
        JobStatus { job, uid, size, here, files, waits }
    }
}

impl<T> RegisteredFile<T> {
    fn waits(&self, now_ms: u64) -> Vec<RankWait> {
        match &self.table {
            Some((_, table)) => table.waits(now_ms),
            None => self.coordinator.waits(now_ms),
        }
    }

    /// Returns the last call of a rank and its time: sent to the node, or recorded in the table.
    fn last_call(&self, rank: u32, now_ms: u64) -> Option<(Call, u64)> {
        let sent = self.last.get(&rank).map(|(call, at_ms, _)| (call.clone(), *at_ms));
        let recorded = self.table.as_ref().and_then(|(_, table)| table.last_call(rank, now_ms));
        let recorded = recorded.map(|recorded| (recorded.call, recorded.at_ms));
        sent.into_iter().chain(recorded).max_by_key(|(_, at_ms)| *at_ms)
    }

    /// Returns what the ranks show of themselves at the table, if there is one. `room` is the number
    /// of ranks and requests that the reply can still name.
    fn shown_ranks(&self, room: &Cell<usize>) -> Option<Vec<ShownRank>> {
        let (_, table) = self.table.as_ref()?;
        let shown = |rank: u32| {
            let mut shown = table.shown_rank(rank)?;
            shown.requests.truncate(room.get());
            room.set(room.get().saturating_sub(1 + shown.requests.len()));
            Some(shown)
        };
        Some(sorted(self.ranks.values()).into_iter().take(room.get()).filter_map(shown).collect())
    }

    /// Returns the mode, and the shared pointer if the mode has one.
    fn position(&self) -> (Mode, Option<u64>) {
        match &self.table {
            Some((_, table)) => table.position(),
            None => (self.coordinator.mode(), self.coordinator.position()),
        }
    }

    /// Returns the end of the file, if its coordination knows it.
    fn known_end(&self) -> Option<u64> {
        match &self.table {
            Some((_, table)) => table.known_end(),
            None => self.coordinator.known_end(),
        }
    }
}

/// Returns the call to show as the last call of a rank; `None` if it is not worth showing.
pub(super) fn call_of(call: &SharedCall) -> Option<Call> {
    match call {
        SharedCall::Collective { call, .. } => Some(call.clone()),
        SharedCall::Transfer(transfer) => Some(Call::Transfer(*transfer)),
        SharedCall::Seek(seek) => Some(Call::Seek(*seek)),
        SharedCall::Close | SharedCall::CloseForAll | SharedCall::Leave => Some(Call::Close),
        SharedCall::Lock { from, len, is_write, .. } => {
            Some(BytesUse::new(*from, *len, *is_write).call())
        }
        SharedCall::Tell | SharedCall::Unlock { .. } | SharedCall::Performed { .. } => None,
    }
}

fn sorted(ranks: Values<'_, SpaceId, u32>) -> Vec<u32> {
    let mut ranks: Vec<u32> = ranks.copied().collect();
    ranks.sort_unstable();
    ranks
}
