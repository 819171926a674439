//! Several processes that read or write at once, on either side.
//!
//! Each is told what to do, opens its file and says when it is ready; then all begin together. The
//! time is from the word to begin until the last one is done.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pario::Cluster;
use rustix::fs::{Advice, fadvise};

use super::content::Content;
use super::local::visit;
use super::node::connect_near;
use super::target::{Direction, Target};
use crate::partner::{Partner, Role, Starter, next_word};

/// A process that works.
pub const ROLE: Role = Role { name: "cluster-worker", run: serve };

/// In which order a process visits its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ascending.
    Stream,
    /// Each piece once, at random.
    Random,
}

/// What a process is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Whether this is not measured: a file is made, or its bytes are checked.
    pub is_preparation: bool,
    /// Which way the bytes go.
    pub direction: Direction,
    /// In which order.
    pub order: Order,
    /// How many at a time.
    pub piece_bytes: usize,
    /// The first piece of the file that belongs to the process.
    pub first: u64,
    /// From there on every so manieth.
    pub step: u64,
    /// How many pieces.
    pub count: u64,
    /// Whether it is made durable at the end.
    pub is_synced: bool,
    /// Whether a mounted file system forgets first what it has cached for its users, as fio has it
    /// done before it begins.
    pub is_forgotten: bool,
    /// The file, seen from the root of the cluster or the directory of plain files.
    pub path: String,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            Order::Stream => "stream",
            Order::Random => "random",
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

impl FromStr for Job {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let words = &mut words;
        Ok(Self {
            is_preparation: next_word(words)?,
            direction: match next_word::<String>(words)?.as_str() {
                "read" => Direction::Read,
                "write" => Direction::Write,
                other => bail!("there is no direction {other}"),
            },
            order: match next_word::<String>(words)?.as_str() {
                "stream" => Order::Stream,
                "random" => Order::Random,
                other => bail!("there is no order {other}"),
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

impl Job {
    fn places(&self) -> Vec<u64> {
        let mut places: Vec<u64> =
            (0..self.count).map(|number| self.first + number * self.step).collect();
        if self.order == Order::Random {
            fastrand::Rng::with_seed(self.first + 9).shuffle(&mut places);
        }
        places
    }
}

/// The processes of one side.
#[derive(Debug)]
pub struct Workers {
    workers: Vec<Partner>,
}

impl Workers {
    /// Processes that use a cluster.
    pub fn of_cluster(address: &str, count: usize) -> Result<Self> {
        Self::start("ours", address, count)
    }

    /// Processes that use plain files in a directory.
    pub fn of_directory(dir: &Path, count: usize) -> Result<Self> {
        let dir = dir.to_str().context("the directory has a readable name")?;
        Self::start("plain", dir, count)
    }

    fn start(kind: &str, place: &str, count: usize) -> Result<Self> {
        let worker = |_| Partner::start(ROLE.name, &[kind, place]);
        Ok(Self { workers: (0..count).map(worker).collect::<Result<_>>()? })
    }

    /// Has each process do something, all at once.
    pub fn work(&mut self, jobs: &[Job]) -> Result<Duration> {
        ensure!(jobs.len() <= self.workers.len(), "there are not enough processes");
        let workers = &mut self.workers[..jobs.len()];
        for (worker, job) in workers.iter_mut().zip(jobs) {
            worker.tell(job.to_string())?;
        }
        for worker in workers.iter_mut() {
            let said = worker.hear()?;
            ensure!(said == "ready", "a process said {said:?}");
        }
        let start = Instant::now();
        for worker in workers.iter_mut() {
            worker.tell("go")?;
        }
        for worker in workers.iter_mut() {
            let said = worker.hear()?;
            ensure!(said == "done", "a process said {said:?}");
        }
        Ok(start.elapsed())
    }
}

/// Where the files of a process are.
enum Place {
    Ours(Cluster),
    Plain(PathBuf),
}

impl Place {
    fn open(&self, job: &Job) -> Result<Target> {
        let target = match self {
            Self::Ours(cluster) => Target::open_ours(cluster, &job.path)?,
            Self::Plain(dir) => Target::open_plain(&plain_path(dir, &job.path))?,
        };
        target.ensure_short_cut(true)?;
        if let Target::Plain(file) = &target
            && job.is_forgotten
        {
            fadvise(file, 0, None, Advice::DontNeed)?;
        }
        Ok(target)
    }

    /// Makes a file that has all the pieces of a job, or looks at them.
    fn prepare(&self, job: &Job, content: &Content) -> Result<()> {
        if job.direction == Direction::Read {
            return self.open(job)?.check(content, job.piece_bytes, job.count);
        }
        let target = match self {
            Self::Ours(cluster) => Target::create_ours(cluster, &job.path)?,
            Self::Plain(dir) => Target::create_plain(&plain_path(dir, &job.path))?,
        };
        target.fill(content, job.count * job.piece_bytes as u64)
    }
}

fn plain_path(dir: &Path, path: &str) -> PathBuf {
    dir.join(path.trim_start_matches('/'))
}

fn serve(words: &[String]) -> Result<()> {
    let starter = Starter::listen();
    let [kind, place] = words else {
        bail!("needs a kind and a place");
    };
    let place = match kind.as_str() {
        "ours" => Place::Ours(connect_near(place, "worker")?),
        _ => Place::Plain(place.into()),
    };
    loop {
        let job: Job = starter.hear()?.parse()?;
        let content = Content::new(job.piece_bytes);
        if job.is_preparation {
            starter.say("ready")?;
            starter.hear()?;
            place.prepare(&job, &content)?;
            starter.say("done")?;
            continue;
        }
        let target = place.open(&job)?;
        let mut memory = vec![1; job.piece_bytes];
        let places = job.places();
        starter.say("ready")?;
        starter.hear()?;
        visit(&target, job.direction, &places, &content, &mut memory)?;
        if job.is_synced {
            target.sync()?;
        }
        starter.say("done")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_told_in_a_line() {
        let job = Job {
            is_preparation: false,
            direction: Direction::Write,
            order: Order::Random,
            piece_bytes: 47_008,
            first: 3,
            step: 4,
            count: 100,
            is_synced: true,
            is_forgotten: false,
            path: "/file".to_owned(),
        };
        assert_eq!(job.to_string().parse::<Job>().unwrap(), job);
        let mut places = job.places();
        assert_ne!(places[..3], [3, 7, 11]);
        places.sort_unstable();
        assert_eq!((places.len(), &places[..3]), (100, &[3, 7, 11][..]));
    }
}
