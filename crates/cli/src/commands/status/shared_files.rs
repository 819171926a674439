//! The tables of shared files and of storage threads that `pario status` prints on request.

use std::io::{self, Write};
use std::time::Duration;

use pario::status::{JobStatus, RankList};

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
                // Each rank has its own, which only the rank knows.
                pointer.unwrap_or_else(|| "private".to_owned()),
                file.end.map_or_else(|| "-".to_owned(), |end| end.to_string()),
                job.size.to_string(),
                RankList(&file.here).to_string(),
            ]);
        }
    }
    table
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

/// Returns the table of storage threads: those that have requests, or all.
pub fn thread_table(nodes: &[NodeView], is_all: bool) -> TextTable<5> {
    let mut table = TextTable::new([
        ("thread", ColumnAlignment::Left),
        ("serves", ColumnAlignment::Left),
        ("for", ColumnAlignment::Right),
        ("waiting", ColumnAlignment::Right),
        ("served", ColumnAlignment::Right),
    ]);
    for node in nodes {
        let threads = node.status.iter().flat_map(|status| &status.threads);
        for (number, thread) in threads.enumerate() {
            if !is_all && thread.serves.is_none() && thread.waiting == 0 {
                continue;
            }
            let since = thread.serves_ms.map(|ms| elapsed(Duration::from_millis(ms)));
            table.push([
                format!("{}/{number}", node.name),
                thread.serves.clone().unwrap_or_else(|| "-".to_owned()),
                since.unwrap_or_else(|| "-".to_owned()),
                thread.waiting.to_string(),
                thread.served.to_string(),
            ]);
        }
    }
    table
}
