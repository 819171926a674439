//! Several processes that read or write at the same time, on either side.
//!
//! Each process gets a job, opens its file and reports that it is ready; then all begin together.
//! The time runs from the signal to begin until the last process is done.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pario::Cluster;
use rustix::fs::{Advice, fadvise};

use super::content::Content;
use super::local::visit;
use super::measured_file::{Direction, MeasuredFile};
use super::node::connect_near;
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole, next_word};

/// A worker process.
pub const ROLE: PartnerRole = PartnerRole { name: "cluster-worker", run: serve };

/// The order in which a process visits its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceOrder {
    /// Ascending.
    Stream,
    /// Each piece once, at random.
    Random,
}

/// The job of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerJob {
    /// Whether the job is not measured: it creates a file, or checks its bytes.
    pub is_preparation: bool,
    /// The direction of the bytes.
    pub direction: Direction,
    /// The order of the pieces.
    pub order: PieceOrder,
    /// The bytes of a piece.
    pub piece_bytes: usize,
    /// The first piece of the file that belongs to the process.
    pub first: u64,
    /// The distance from one of its pieces to the next.
    pub step: u64,
    /// The number of pieces.
    pub count: u64,
    /// Whether the job ends with a sync.
    pub is_synced: bool,
    /// Whether a mounted file system first drops what it has cached for its users, as fio makes it
    /// do.
    pub is_forgotten: bool,
    /// The path of the file, from the root of the cluster or the directory of plain files.
    pub path: String,
}

impl fmt::Display for WorkerJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            PieceOrder::Stream => "stream",
            PieceOrder::Random => "random",
        };
        write!(
            f,
            "{} {} {order} {} {} {} {} {} {} {}",
            self.is_preparation,
            self.direction.name(),
            self.piece_bytes,
            self.first,
            self.step,
            self.count,
            self.is_synced,
            self.is_forgotten,
            self.path
        )
    }
}

impl FromStr for WorkerJob {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let words = &mut words;
        Ok(Self {
            is_preparation: next_word(words)?,
            direction: match next_word::<String>(words)?.as_str() {
                "read" => Direction::Read,
                "write" => Direction::Write,
                other => bail!("{other} is not a direction"),
            },
            order: match next_word::<String>(words)?.as_str() {
                "stream" => PieceOrder::Stream,
                "random" => PieceOrder::Random,
                other => bail!("{other} is not an order"),
            },
            piece_bytes: next_word(words)?,
            first: next_word(words)?,
            step: next_word(words)?,
            count: next_word(words)?,
            is_synced: next_word(words)?,
            is_forgotten: next_word(words)?,
            path: next_word(words)?,
        })
    }
}

impl WorkerJob {
    fn places(&self) -> Vec<u64> {
        let mut places: Vec<u64> =
            (0..self.count).map(|number| self.first + number * self.step).collect();
        if self.order == PieceOrder::Random {
            fastrand::Rng::with_seed(self.first + 9).shuffle(&mut places);
        }
        places
    }
}

/// The processes of one side.
#[derive(Debug)]
pub struct WorkerProcesses {
    workers: Vec<PartnerProcess>,
}

impl WorkerProcesses {
    /// Starts processes that use a cluster.
    pub fn of_cluster(address: &str, count: usize) -> Result<Self> {
        Self::start("ours", address, count)
    }

    /// Starts processes that use plain files in a directory.
    pub fn of_directory(dir: &Path, count: usize) -> Result<Self> {
        let dir = dir.to_str().context("the directory has a readable name")?;
        Self::start("plain", dir, count)
    }

    fn start(kind: &str, place: &str, count: usize) -> Result<Self> {
        let worker = |_| PartnerProcess::start(ROLE.name, &[kind, place]);
        Ok(Self { workers: (0..count).map(worker).collect::<Result<_>>()? })
    }

    /// Lets each process do its job, all at once, and returns the time.
    pub fn work(&mut self, jobs: &[WorkerJob]) -> Result<Duration> {
        ensure!(jobs.len() <= self.workers.len(), "there are not enough processes");
        let workers = &mut self.workers[..jobs.len()];
        for (worker, job) in workers.iter_mut().zip(jobs) {
            worker.send_line(job.to_string())?;
        }
        for worker in workers.iter_mut() {
            let said = worker.receive_line()?;
            ensure!(said == "ready", "a process sent the line {said:?}");
        }
        let start = Instant::now();
        for worker in workers.iter_mut() {
            worker.send_line("go")?;
        }
        for worker in workers.iter_mut() {
            let said = worker.receive_line()?;
            ensure!(said == "done", "a process sent the line {said:?}");
        }
        Ok(start.elapsed())
    }
}

/// The files of a process.
enum WorkerFiles {
    Ours(Cluster),
    Plain(PathBuf),
}

impl WorkerFiles {
    fn open(&self, job: &WorkerJob) -> Result<MeasuredFile> {
        let target = match self {
            Self::Ours(cluster) => MeasuredFile::open_ours(cluster, &job.path)?,
            Self::Plain(dir) => MeasuredFile::open_plain(&plain_path(dir, &job.path))?,
        };
        target.ensure_short_cut(true)?;
        if let MeasuredFile::Plain(file) = &target
            && job.is_forgotten
        {
            fadvise(file, 0, None, Advice::DontNeed)?;
        }
        Ok(target)
    }

    /// Creates a file with all pieces of a job, or checks them.
    fn prepare(&self, job: &WorkerJob, content: &Content) -> Result<()> {
        if job.direction == Direction::Read {
            return self.open(job)?.check(content, job.piece_bytes, job.count);
        }
        let target = match self {
            Self::Ours(cluster) => MeasuredFile::create_ours(cluster, &job.path)?,
            Self::Plain(dir) => MeasuredFile::create_plain(&plain_path(dir, &job.path))?,
        };
        target.fill(content, job.count * job.piece_bytes as u64)
    }
}

fn plain_path(dir: &Path, path: &str) -> PathBuf {
    dir.join(path.trim_start_matches('/'))
}

fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [kind, place] = words else {
        bail!("needs a kind and a place");
    };
    let place = match kind.as_str() {
        "ours" => WorkerFiles::Ours(connect_near(place, "worker")?),
        _ => WorkerFiles::Plain(place.into()),
    };
    loop {
        let job: WorkerJob = parent.receive_line()?.parse()?;
        let content = Content::new(job.piece_bytes);
        if job.is_preparation {
            parent.send_line("ready")?;
            parent.receive_line()?;
            place.prepare(&job, &content)?;
            parent.send_line("done")?;
            continue;
        }
        let target = place.open(&job)?;
        let mut memory = vec![1; job.piece_bytes];
        let places = job.places();
        parent.send_line("ready")?;
        parent.receive_line()?;
        visit(&target, job.direction, &places, &content, &mut memory)?;
        if job.is_synced {
            target.sync()?;
        }
        parent.send_line("done")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_told_in_a_line() {
        let job = WorkerJob {
            is_preparation: false,
            direction: Direction::Write,
            order: PieceOrder::Random,
            piece_bytes: 47_008,
            first: 3,
            step: 4,
            count: 100,
            is_synced: true,
            is_forgotten: false,
            path: "/file".to_owned(),
        };
        assert_eq!(job.to_string().parse::<WorkerJob>().unwrap(), job);
        let mut places = job.places();
        assert_ne!(places[..3], [3, 7, 11]);
        places.sort_unstable();
        assert_eq!((places.len(), &places[..3]), (100, &[3, 7, 11][..]));
    }
}
