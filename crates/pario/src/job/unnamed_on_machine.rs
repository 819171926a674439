//! Unnamed jobs without a cluster: processes of one machine that say only their rank and the size of
//! their job find each other in the private runtime directory of their user.
//!
//! The rules are those of a node. Of each size, at most one unnamed job is incomplete; a process joins
//! that job, or begins it. A rank is given once: a second process with the rank is refused, also after
//! the first one has ended, as long as any process of the incomplete job runs. A complete job takes no
//! further process.
//!
//! Invariants: a directory for each size holds one file for each rank that has joined. A process keeps
//! its file locked until it ends, so that others see whether it runs. A process changes the directory
//! only while it holds the lock of the directory. The process that completes the job removes the files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use pario_net::{PrivateListener, SpaceId};
use pario_proto::{Failure, ProcessName};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::cluster::this_process;
use crate::error::Error;
use crate::host;

/// The unnamed jobs of this process by size and rank, with the locked file of the rank.
static JOINED: Mutex<BTreeMap<(u32, u32), (String, File)>> = Mutex::new(BTreeMap::new());

/// Joins the unnamed job of this user, machine and size that is not complete yet, or begins one.
/// Returns its name. A process that joins again as the same rank gets the same job.
pub fn join(size: u32, rank: u32) -> Result<String, Error> {
    if rank >= size {
        return Err(Error::invalid(format!(
            "a job of {size} processes has no rank {rank}: ranks begin at 0"
        )));
    }
    let mut joined = JOINED.lock();
    if let Some((job, _)) = joined.get(&(size, rank)) {
        return Ok(job.clone());
    }
    let failed = |error: io::Error| {
        Error::other(format!(
            "the processes of a job without a name find each other in the runtime directory of \
             their user, which cannot be used: {error}; set PARIO_JOB to a name for the job"
        ))
    };
    let path = PrivateListener::rendezvous_path("unnamed", &format!("job of {size}"));
    let path = path.map_err(failed)?;
    let (job, file) = join_in(&path, (size, rank), &this_process()).map_err(failed)??;
    joined.insert((size, rank), (job.clone(), file));
    Ok(job)
}

/// Joins the incomplete job of a directory, or begins one. Returns its name, and the locked file of
/// the rank.
fn join_in(
    directory: &Path,
    (size, rank): (u32, u32),
    process: &ProcessName,
) -> io::Result<Result<(String, File), Failure>> {
    match std::fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let lock = File::open(directory)?;
    wait_for_lock(&lock)?;
    let mut members = members_in(directory)?;
    if !members.values().any(|member| member.is_running) {
        for rank in std::mem::take(&mut members).into_keys() {
            std::fs::remove_file(directory.join(rank.to_string()))?;
        }
    }
    if let Some(member) = members.remove(&rank) {
        return Ok(Err(Failure::RankInUse {
            rank,
            size,
            holder: Box::new(member.process),
            has_ended: !member.is_running,
            newcomer: Box::new(process.clone()),
        }));
    }
    let job = match members.values().next() {
        Some(member) => member.job.clone(),
        None => format!("unnamed {} on {}", SpaceId::random(), host::own_name()),
    };
    let path = directory.join(rank.to_string());
    let mut file = File::create_new(&path)?;
    wait_for_lock(&file)?;
    let ProcessName { pid, program, host } = process.clone().cleaned();
    file.write_all(format!("{job}\n{pid}\n{program}\n{host}\n").as_bytes())?;
    if members.len() + 1 == size as usize {
        for rank in members.into_keys().chain([rank]) {
            std::fs::remove_file(directory.join(rank.to_string()))?;
        }
    }
    Ok(Ok((job, file)))
}

/// A process that has joined a job.
struct MachineMember {
    job: String,
    process: ProcessName,
    is_running: bool,
}

/// The members of the incomplete job in a directory, by rank.
fn members_in(directory: &Path) -> io::Result<BTreeMap<u32, MachineMember>> {
    let mut members = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let Some(rank) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let mut file = File::open(entry.path())?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut lines = text.lines().map(str::to_owned);
        let mut line = || lines.next().unwrap_or_default();
        let (job, pid) = (line(), line().parse().unwrap_or(0));
        let process = ProcessName { pid, program: line(), host: line() };
        let is_running = matches!(
            flock(&file, FlockOperation::NonBlockingLockExclusive),
            Err(Errno::WOULDBLOCK)
        );
        members.insert(rank, MachineMember { job, process, is_running });
    }
    Ok(members)
}

/// Locks a file until it is closed.
fn wait_for_lock(file: &File) -> io::Result<()> {
    loop {
        match flock(file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins in a directory as a process with this id.
    fn join_as(
        directory: &Path,
        pid: u32,
        size: u32,
        rank: u32,
    ) -> Result<(String, File), Failure> {
        let process = ProcessName { pid, program: "solver".to_owned(), host: "sun".to_owned() };
        join_in(&directory.join("jobs"), (size, rank), &process).unwrap()
    }

    #[test]
    fn ranks_meet_until_the_job_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let (first, _held) = join_as(dir.path(), 1, 3, 0).unwrap();
        let (second, _held) = join_as(dir.path(), 2, 3, 2).unwrap();
        let told = join_as(dir.path(), 3, 3, 2).unwrap_err().to_string();
        for part in ["process 3 (solver) on host sun cannot be rank 2 of 3", "process 2 (solver)"] {
            assert!(told.contains(part), "{told}");
        }
        let (third, _held) = join_as(dir.path(), 4, 3, 1).unwrap();
        assert!(first == second && second == third);
        let (next, _held) = join_as(dir.path(), 5, 3, 1).unwrap();
        assert_ne!(next, first, "it is complete, so the next process begins a new job");
    }

    #[test]
    fn the_rank_of_an_ended_process_stays_taken_while_others_of_the_job_run() {
        let dir = tempfile::tempdir().unwrap();
        let (job, held) = join_as(dir.path(), 1, 3, 0).unwrap();
        drop(join_as(dir.path(), 2, 3, 1).unwrap());
        let told = join_as(dir.path(), 3, 3, 1).unwrap_err().to_string();
        assert!(told.contains("process 2 (solver) on host sun was that rank"), "{told}");
        drop(held);
        assert_ne!(join_as(dir.path(), 3, 3, 1).unwrap().0, job, "all are gone: a new job begins");
    }

    #[test]
    fn a_process_that_joins_again_gets_the_same_job() {
        // No other test has jobs of this size.
        let size = 1_000 + std::process::id();
        let job = join(size, 1).unwrap();
        assert_eq!(join(size, 1).unwrap(), job);
        assert_eq!(join(size, 0).unwrap(), job);
        assert!(join(2, 2).is_err());
    }
}
