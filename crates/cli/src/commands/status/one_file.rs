//! `pario status --file`: shows the jobs that share a file, and which ranks wait for which others.

use std::ffi::OsStr;
use std::io::{self, Write};

use pario::FilePath;
use pario::status::{JobStatus, LockWait};
use serde_json::json;

use super::shared_files::{self, ThreadsShown};
use super::{ANSWER_LIMIT, NodeView, Options};
use crate::amounts::count;
use crate::arguments::GlobalOptions;
use crate::commands::why;
use crate::{paths, reach, terminal};

/// Runs the command.
pub fn run(global: &GlobalOptions, file: &OsStr, options: &Options) -> anyhow::Result<()> {
    let path = paths::in_cluster(file)?;
    let cluster = reach::cluster(global)?;
    let jobs: Vec<JobStatus> =
        cluster.jobs()?.into_iter().filter_map(|job| about(job, &path)).collect();
    let mut lock_waits = cluster.lock_waits()?;
    lock_waits.retain(|wait| wait.path == path);
    let mut atomic_waits = why::atomic_waits(&cluster);
    atomic_waits.retain(|wait| wait.path == path);
    // Do not read the metadata of an open file: an unresponsive node may be the reason for the
    // wait.
    if jobs.is_empty() && lock_waits.is_empty() && atomic_waits.is_empty() {
        cluster.metadata(&path.to_string())?;
    }
    if global.json {
        let jobs: Vec<_> = jobs.iter().map(why::job_json).collect();
        let lock_waits: Vec<_> = lock_waits.iter().map(why::lock_wait_json).collect();
        let atomic_waits: Vec<_> = atomic_waits.iter().map(why::atomic_wait_json).collect();
        let waits = json!({
            "path": path.to_string(), "jobs": jobs, "lock_waits": lock_waits,
            "atomic_waits": atomic_waits,
        });
        return terminal::print_json(&waits);
    }
    let mut out = terminal::output();
    print(&mut out, &path, &jobs, &lock_waits)?;
    why::print_atomic_waits(&mut out, &atomic_waits)?;
    if options.threads {
        let of_jobs = jobs.iter().flat_map(|job| &job.files).map(|file| file.file).next();
        let file = of_jobs.or_else(|| Some(cluster.record(&path.to_string()).ok()?.id));
        let which = match (options.all, file) {
            (false, Some(file)) => ThreadsShown::Of(file),
            _ => ThreadsShown::All,
        };
        writeln!(out)?;
        let nodes = NodeView::of(&cluster, ANSWER_LIMIT);
        shared_files::thread_table(&nodes, &jobs, which).print(&mut out)?;
    }
    Ok(out.flush()?)
}

/// Returns the part of a job's status that concerns one file, if any.
fn about(mut job: JobStatus, path: &FilePath) -> Option<JobStatus> {
    job.files.retain(|file| file.path == *path);
    job.waits.retain(|wait| wait.path.as_ref() == Some(path));
    (!job.files.is_empty()).then_some(job)
}

fn print(
    out: &mut impl Write,
    path: &FilePath,
    jobs: &[JobStatus],
    lock_waits: &[LockWait],
) -> io::Result<()> {
    print_jobs(out, path, jobs)?;
    why::print_lock_waits(out, lock_waits)
}

fn print_jobs(out: &mut impl Write, path: &FilePath, jobs: &[JobStatus]) -> io::Result<()> {
    if jobs.is_empty() {
        return writeln!(out, "{path}: no job has it open");
    }
    writeln!(out, "{path}: {} it open", has(jobs.len()))?;
    writeln!(out)?;
    shared_files::file_table(jobs).print(out)?;
    shared_files::print_ranks(out, jobs)?;
    shared_files::print_waits(out, jobs)
}

fn has(jobs: usize) -> String {
    let verb = if jobs == 1 { "has" } else { "have" };
    format!("{} {verb}", count(jobs as u64, "job"))
}

#[cfg(test)]
mod tests {
    use pario::LockKind;
    use pario::status::LockRange;

    use super::*;

    fn lock_wait() -> LockWait {
        LockWait {
            path: FilePath::new("/runs/result").unwrap(),
            uid: 0,
            client: "count (12)".to_owned(),
            range: LockRange { from: 8, to: 16 },
            kind: LockKind::Exclusive,
            holders: vec!["count (13)".to_owned()],
            waited_ms: 12_900,
        }
    }

    #[test]
    fn a_file_is_told_with_its_jobs_and_waits() {
        let path = FilePath::new("/runs/result").unwrap();
        let job = about(why::tests::job(), &path).unwrap();
        let mut out = Vec::new();
        print(&mut out, &path, &[job], &[lock_wait()]).unwrap();
        let expected = "\
/runs/result: 1 job has it open

file          job   user  mode    pointer   end  ranks  open
/runs/result  4711  root  M_SYNC     4096  8192      5  ranks 0 to 3

file          job   rank  pointer  request  access  bytes  for
/runs/result  4711     2        -       17  read    65536  2 s

job 4711
  /runs/result  M_SYNC, call 41, for 12 s
    in close: ranks 0, 1
    in setiomode(M_LOG): rank 2
    missing: rank 3, 5 s ago it called seek to byte 7 on /runs/mesh

for 12 s, count (12) waits for bytes 8 to 15 of /runs/result (exclusive), locked by count (13)
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let other = FilePath::new("/runs/other").unwrap();
        assert!(about(why::tests::job(), &other).is_none());
        let mut out = Vec::new();
        print(&mut out, &other, &[], &[]).unwrap();
        assert_eq!(out, b"/runs/other: no job has it open\n");
    }
}
