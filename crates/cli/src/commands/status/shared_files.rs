//! The tables of shared files, of their ranks, and of storage threads that `pario status` prints on
//! request.

use std::io::{self, Write};
use std::time::Duration;

use pario::status::{FileId, JobStatus, RankList};

use super::NodeView;
use crate::amounts::elapsed;
use crate::commands::why;
use crate::owners::Owners;
use crate::table::{ColumnAlignment, TextTable};

/// Returns the table of the shared files of jobs: pointers, ends and ranks.
pub fn file_table(jobs: &[JobStatus]) -> TextTable<8> {
    let owners = Owners::new();
    let mut table = TextTable::new([
        ("file", ColumnAlignment::Left),
        ("job", ColumnAlignment::Left),
        ("user", ColumnAlignment::Left),
        ("mode", ColumnAlignment::Left),
        ("pointer", ColumnAlignment::Right),
        ("end", ColumnAlignment::Right),
        ("ranks", ColumnAlignment::Right),
        ("open", ColumnAlignment::Left),
    ]);
    for job in jobs {
        for file in &job.files {
            let pointer = file.position.map(|position| position.to_string());
            table.push([
                file.path.to_string(),
                job.job.clone(),
                owners.user(job.uid),
                file.mode.to_string(),
                // Each rank has its own.
                pointer.unwrap_or_else(|| "private".to_owned()),
                file.end.map_or_else(|| "-".to_owned(), |end| end.to_string()),
                job.size.to_string(),
                RankList(&file.here).to_string(),
            ]);
        }
    }
    table
}

/// Prints the private pointers and the started requests of the ranks, and where they are unknown.
pub fn print_ranks(out: &mut impl Write, jobs: &[JobStatus]) -> io::Result<()> {
    let mut table = TextTable::new([
        ("file", ColumnAlignment::Left),
        ("job", ColumnAlignment::Left),
        ("rank", ColumnAlignment::Right),
        ("pointer", ColumnAlignment::Right),
        ("request", ColumnAlignment::Right),
        ("access", ColumnAlignment::Left),
        ("bytes", ColumnAlignment::Right),
        ("for", ColumnAlignment::Right),
    ]);
    let none = || "-".to_owned();
    for (job, file) in jobs.iter().flat_map(|job| job.files.iter().map(move |file| (job, file))) {
        for shown in file.shown.iter().flatten() {
            let pointer = shown.pointer.map_or_else(none, |pointer| pointer.to_string());
            let mut row = |request: [String; 4]| {
                let [id, access, bytes, since] = request;
                let (path, rank) = (file.path.to_string(), shown.rank.to_string());
                table.push([
                    path,
                    job.job.clone(),
                    rank,
                    pointer.clone(),
                    id,
                    access,
                    bytes,
                    since,
                ]);
            };
            if shown.requests.is_empty() && shown.pointer.is_some() {
                row([none(), none(), none(), none()]);
            }
            for request in &shown.requests {
                row([
                    request.id.to_string(),
                    why::access(request.is_write).to_owned(),
                    request.len.to_string(),
                    elapsed(Duration::from_millis(request.ago_ms)),
                ]);
            }
        }
    }
    if !table.is_empty() {
        writeln!(out)?;
        table.print(out)?;
    }
    print_unknown_ranks(out, jobs)
}

/// Says whose private pointers and started requests no node knows.
fn print_unknown_ranks(out: &mut impl Write, jobs: &[JobStatus]) -> io::Result<()> {
    for job in jobs {
        let unknown = job.files.iter().filter(|file| file.shown.is_none());
        let paths: Vec<String> = unknown.map(|file| file.path.to_string()).collect();
        if !paths.is_empty() {
            writeln!(out)?;
            writeln!(
                out,
                "job {}: only its processes know their private pointers and started requests on {}: \
                 they do not share memory with the node (other machines, no short cut, or more than \
                 63 files)",
                job.job,
                paths.join(", ")
            )?;
        }
    }
    Ok(())
}

/// Prints the calls of jobs that wait, each with its number.
pub fn print_waits(out: &mut impl Write, jobs: &[JobStatus]) -> io::Result<()> {
    for job in jobs.iter().filter(|job| !job.waits.is_empty()) {
        writeln!(out)?;
        writeln!(out, "job {}", job.job)?;
        job.waits.iter().try_for_each(|wait| why::print_wait(out, wait))?;
    }
    Ok(())
}

/// The storage threads that a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadsShown {
    /// All.
    All,
    /// Those that have requests.
    Busy,
    /// Those that serve a file.
    Of(FileId),
}

/// Returns the table of storage threads. The files of the jobs are shown by their paths, other files
/// by their ids.
pub fn thread_table(nodes: &[NodeView], jobs: &[JobStatus], which: ThreadsShown) -> TextTable<6> {
    let name_of = |id: FileId| {
        let file = jobs.iter().flat_map(|job| &job.files).find(|file| file.file == id);
        file.map_or_else(|| id.to_string(), |file| file.path.to_string())
    };
    let mut table = TextTable::new([
        ("thread", ColumnAlignment::Left),
        ("serves", ColumnAlignment::Left),
        ("file", ColumnAlignment::Left),
        ("for", ColumnAlignment::Right),
        ("waiting", ColumnAlignment::Right),
        ("served", ColumnAlignment::Right),
    ]);
    for node in nodes {
        let threads = node.status.iter().flat_map(|status| &status.threads);
        for (number, thread) in threads.enumerate() {
            let is_shown = match which {
                ThreadsShown::All => true,
                ThreadsShown::Busy => thread.serves.is_some() || thread.waiting > 0,
                ThreadsShown::Of(file) => thread.file == Some(file),
            };
            if !is_shown {
                continue;
            }
            let since = thread.serves_ms.map(|ms| elapsed(Duration::from_millis(ms)));
            table.push([
                format!("{}/{number}", node.name),
                thread.serves.clone().unwrap_or_else(|| "-".to_owned()),
                thread.file.map_or_else(|| "-".to_owned(), name_of),
                since.unwrap_or_else(|| "-".to_owned()),
                thread.waiting.to_string(),
                thread.served.to_string(),
            ]);
        }
    }
    table
}
