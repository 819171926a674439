//! `pario why`: shows which ranks wait for which others.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use pario::Cluster;
use pario::status::{
    AtomicWait, BytesUse, BytesUser, BytesWait, JobStatus, LOCK_END, LockWait, MissingRank,
    RankList, ShownRank, StartedRequestStatus, WaitCause, WaitStatus, WaitTarget,
};
use serde_json::{Value, json};

use crate::amounts::{count, elapsed};
use crate::arguments::GlobalOptions;
use crate::exit::{AlreadyReported, NOT_FOUND};
use crate::owners::Owners;
use crate::table::{ColumnAlignment, TextTable};
use crate::{reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario why\n  pario why 4711-9f3c2a\n  \
                            pario why --json | jq '.jobs[].waits'";

/// The time limit for a node to say who waits there.
const NODE_WAIT: Duration = Duration::from_secs(2);

/// Most calls, and most missing ranks, that are listed one by one.
const LINES: usize = 8;

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The job [default: list all jobs, and all waits for locks and for atomic access]
    job: Option<String>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let cluster = reach::cluster(global)?;
    let mut jobs = cluster.jobs()?;
    let mut lock_waits = cluster.lock_waits()?;
    let mut atomic_waits = atomic_waits(&cluster);
    if let Some(wanted) = &options.job {
        lock_waits.clear();
        atomic_waits.clear();
        jobs.retain(|job| job.job == *wanted);
        if jobs.is_empty() {
            eprintln!(
                "pario: there is no job {wanted}: none of its processes has joined, or all have ended; \
                 `pario why` lists the jobs"
            );
            return Err(AlreadyReported(NOT_FOUND).into());
        }
    }
    if global.json {
        let jobs: Vec<_> = jobs.iter().map(job_json).collect();
        let lock_waits: Vec<_> = lock_waits.iter().map(lock_wait_json).collect();
        let atomic_waits: Vec<_> = atomic_waits.iter().map(atomic_wait_json).collect();
        let waits = json!({
            "jobs": jobs, "lock_waits": lock_waits, "atomic_waits": atomic_waits,
        });
        return terminal::print_json(&waits);
    }
    let mut out = terminal::output();
    if options.job.is_some() {
        for job in &jobs {
            print_job(&mut out, job)?;
        }
    } else if jobs.is_empty() {
        writeln!(out, "no jobs")?;
    } else {
        job_table(&jobs).print(&mut out)?;
    }
    print_lock_waits(&mut out, &lock_waits)?;
    print_atomic_waits(&mut out, &atomic_waits)?;
    Ok(out.flush()?)
}

/// Returns the waits for atomic access at all nodes that answer. Reports the others.
pub fn atomic_waits(cluster: &Cluster) -> Vec<AtomicWait> {
    let mut all = Vec::new();
    for (node, waits) in cluster.atomic_waits(NODE_WAIT) {
        match waits {
            Ok(waits) => all.extend(waits),
            Err(error) => eprintln!("pario: the waits at node {node} are unknown: {error}"),
        }
    }
    all.sort_by_key(|wait| std::cmp::Reverse(wait.waited_ms));
    all
}

/// Returns a table of jobs, one per line.
pub fn job_table(jobs: &[JobStatus]) -> TextTable<6> {
    let owners = Owners::new();
    let mut table = TextTable::new([
        ("job", ColumnAlignment::Left),
        ("user", ColumnAlignment::Left),
        ("ranks", ColumnAlignment::Right),
        ("here", ColumnAlignment::Right),
        ("open files", ColumnAlignment::Right),
        ("waiting", ColumnAlignment::Left),
    ]);
    for job in jobs {
        let waiting = job.waits.first().map_or_else(
            || "-".to_owned(),
            |wait| format!("{} for {}", waited(wait), WaitTarget(wait)),
        );
        table.push([
            job.job.clone(),
            owners.user(job.uid),
            job.size.to_string(),
            job.here.len().to_string(),
            job.files.len().to_string(),
            waiting,
        ]);
    }
    table
}

fn print_job(out: &mut impl Write, job: &JobStatus) -> io::Result<()> {
    let ranks = count(job.size.into(), "rank");
    match job.waits.first() {
        Some(wait) => writeln!(out, "job {}, {ranks}, waiting for {}", job.job, waited(wait))?,
        None => writeln!(out, "job {}, {ranks}, no rank waits", job.job)?,
    }
    let away: Vec<u32> = (0..job.size).filter(|rank| !job.here.contains(rank)).collect();
    if !away.is_empty() {
        writeln!(out, "  not here: {}", RankList(&away))?;
    }
    for wait in &job.waits {
        print_wait(out, wait)?;
    }
    for file in &job.files {
        if job.waits.iter().any(|wait| wait.opening == Some(file.opening)) {
            continue;
        }
        let at = file.position.map(|position| format!(", at byte {position}")).unwrap_or_default();
        writeln!(out, "  {}  {}{at}: no rank waits", file.path, file.mode)?;
    }
    Ok(())
}

/// Prints a round that has begun, or an access that has to wait, in several lines.
pub fn print_wait(out: &mut impl Write, wait: &WaitStatus) -> io::Result<()> {
    let since = waited(wait);
    let call = number(wait).map(|number| format!(", call {number}")).unwrap_or_default();
    match (&wait.path, &wait.mode) {
        (Some(path), Some(mode)) => writeln!(out, "  {path}  {mode}{call}, for {since}")?,
        _ => writeln!(out, "  the job{call}, for {since}")?,
    }
    match &wait.cause {
        WaitCause::Bytes(bytes) => return print_bytes(out, &wait.waiting(), bytes),
        WaitCause::Absence | WaitCause::Performance | WaitCause::Size => {}
    }
    let mut calls: Vec<(String, Vec<u32>)> = Vec::new();
    for (rank, call) in &wait.arrived {
        let call = call.to_string();
        match calls.iter_mut().find(|(known, _)| *known == call) {
            Some((_, ranks)) => ranks.push(*rank),
            None => calls.push((call, vec![*rank])),
        }
    }
    for (call, ranks) in calls.iter().take(LINES) {
        writeln!(out, "    in {call}: {}", RankList(ranks))?;
    }
    if calls.len() > LINES {
        let rest: Vec<u32> = calls[LINES..].iter().flat_map(|(_, ranks)| ranks.clone()).collect();
        writeln!(out, "    in other calls: {}", RankList(&rest))?;
    }
    match wait.cause {
        WaitCause::Performance => {
            return writeln!(out, "    {} does it for all", RankList(&wait.awaited()));
        }
        WaitCause::Size => {
            return writeln!(out, "    the home node is measuring the file");
        }
        WaitCause::Absence | WaitCause::Bytes(_) => {}
    }
    for missing in wait.missing.iter().take(LINES) {
        writeln!(out, "    missing: {}", told(missing))?;
    }
    if wait.missing.len() > LINES {
        let rest: Vec<u32> = wait.missing[LINES..].iter().map(|missing| missing.rank).collect();
        writeln!(out, "    missing: {}", RankList(&rest))?;
    }
    Ok(())
}

/// Returns the number of a collective call.
fn number(wait: &WaitStatus) -> Option<u64> {
    match wait.cause {
        WaitCause::Absence | WaitCause::Performance => Some(wait.number),
        WaitCause::Bytes(_) | WaitCause::Size => None,
    }
}

/// Prints a wait for bytes: the ranks that use them, and those that asked earlier.
fn print_bytes(out: &mut impl Write, waiting: &[u32], wait: &BytesWait) -> io::Result<()> {
    writeln!(out, "    in {}: {}", wait.wanted, RankList(waiting))?;
    for BytesUser { rank, bytes, has_them, for_ms } in wait.before.iter().take(LINES) {
        let since = elapsed(Duration::from_millis(*for_ms));
        let how = if *has_them { "has" } else { "wants too, and asked earlier" };
        writeln!(out, "    waits for bytes that rank {rank} {how}: for {since} in {bytes}")?;
    }
    let more = wait.before.len().saturating_sub(LINES) as u64 + u64::from(wait.more);
    if more > 0 {
        writeln!(out, "    waits for bytes of {} more", count(more, "rank"))?;
    }
    Ok(())
}

fn told(missing: &MissingRank) -> String {
    let rank = missing.rank;
    match &missing.last {
        Some(last) => {
            let ago = elapsed(Duration::from_millis(last.ago_ms));
            let gone = if missing.is_here { "" } else { "it has ended; " };
            format!("rank {rank}, {gone}{ago} ago it called {last}")
        }
        None if missing.is_here => format!("rank {rank}, which has called nothing yet"),
        None => format!("rank {rank}, which has not come yet"),
    }
}

/// Returns how long the ranks have waited.
pub fn waited(wait: &WaitStatus) -> String {
    elapsed(Duration::from_millis(wait.waited_ms))
}

/// Prints the waits for locks, one per line, after an empty line.
pub fn print_lock_waits(out: &mut impl Write, waits: &[LockWait]) -> io::Result<()> {
    if !waits.is_empty() {
        writeln!(out)?;
    }
    waits.iter().try_for_each(|wait| {
        writeln!(out, "for {}, {wait}", elapsed(Duration::from_millis(wait.waited_ms)))
    })
}

/// Prints the waits for atomic access, one per line, after an empty line.
pub fn print_atomic_waits(out: &mut impl Write, waits: &[AtomicWait]) -> io::Result<()> {
    if !waits.is_empty() {
        writeln!(out)?;
    }
    waits.iter().try_for_each(|wait| {
        writeln!(out, "for {}, {wait}", elapsed(Duration::from_millis(wait.waited_ms)))
    })
}

/// Returns a wait for atomic access as JSON.
pub fn atomic_wait_json(wait: &AtomicWait) -> Value {
    json!({
        "path": wait.path.to_string(),
        "uid": wait.uid,
        "client": wait.client,
        "bytes": wait.bytes.as_ref().map(bytes_json),
        "recall": wait.is_recall,
        "holders": wait.holders,
        "waited_ms": wait.waited_ms,
    })
}

/// Returns a wait for a lock as JSON.
pub fn lock_wait_json(wait: &LockWait) -> Value {
    json!({
        "path": wait.path.to_string(),
        "uid": wait.uid,
        "client": wait.client,
        "from": wait.range.from,
        "to": (wait.range.to != LOCK_END).then_some(wait.range.to),
        "kind": wait.kind.to_string(),
        "holders": wait.holders,
        "waited_ms": wait.waited_ms,
    })
}

/// Returns a job as JSON.
pub fn job_json(job: &JobStatus) -> Value {
    let files = job.files.iter().map(|file| {
        json!({
            "path": file.path.to_string(), "mode": file.mode.to_string(),
            "position": file.position, "end": file.end, "ranks": file.here,
            "file": file.file.to_string(), "shown": file.shown.as_deref().map(shown_json),
        })
    });
    json!({
        "job": job.job,
        "uid": job.uid,
        "size": job.size,
        "here": job.here,
        "files": files.collect::<Vec<_>>(),
        "waits": job.waits.iter().map(wait_json).collect::<Vec<_>>(),
    })
}

fn shown_json(shown: &[ShownRank]) -> Value {
    let request = |request: &StartedRequestStatus| {
        json!({
            "id": request.id, "access": access(request.is_write), "bytes": request.len,
            "ago_ms": request.ago_ms,
        })
    };
    let rank = |shown: &ShownRank| {
        let requests: Vec<_> = shown.requests.iter().map(request).collect();
        json!({ "rank": shown.rank, "pointer": shown.pointer, "requests": requests })
    };
    shown.iter().map(rank).collect()
}

/// The word for a read or a write.
pub fn access(is_write: bool) -> &'static str {
    if is_write { "write" } else { "read" }
}

fn wait_json(wait: &WaitStatus) -> Value {
    let arrived =
        wait.arrived.iter().map(|(rank, call)| json!({ "rank": rank, "call": call.to_string() }));
    let missing = wait.missing.iter().map(|missing| {
        let last = missing.last.as_ref();
        json!({
            "rank": missing.rank,
            "here": missing.is_here,
            "last_call": last.map(|last| last.call.to_string()),
            "last_path": last.and_then(|last| last.path.as_ref()).map(ToString::to_string),
            "last_ms": last.map(|last| last.ago_ms),
        })
    });
    let bytes = match &wait.cause {
        WaitCause::Bytes(BytesWait { wanted, before, more }) => {
            let before = before.iter().map(|BytesUser { rank, bytes, has_them, for_ms }| {
                json!({
                    "rank": rank, "bytes": bytes_json(bytes), "has_them": has_them,
                    "for_ms": for_ms,
                })
            });
            let before = before.collect::<Vec<_>>();
            Some(json!({ "wanted": bytes_json(wanted), "before": before, "more": more }))
        }
        WaitCause::Absence | WaitCause::Performance | WaitCause::Size => None,
    };
    json!({
        "path": wait.path.as_ref().map(ToString::to_string),
        "mode": wait.mode.map(|mode| mode.to_string()),
        "number": number(wait),
        "waited_ms": wait.waited_ms,
        "arrived": arrived.collect::<Vec<_>>(),
        "missing": missing.collect::<Vec<_>>(),
        "performed": wait.cause == WaitCause::Performance,
        "measured": wait.cause == WaitCause::Size,
        "bytes": bytes,
    })
}

fn bytes_json(bytes: &BytesUse) -> Value {
    json!({ "from": bytes.from, "to": bytes.to, "write": bytes.is_write })
}

#[cfg(test)]
pub mod tests {
    use pario::status::Seek;
    use pario::status::{
        Call, FileId, LastCall, SharedFileStatus, ShownRank, StartedRequestStatus,
    };
    use pario::{FilePath, Mode};

    use super::*;

    /// A job that waits for its rank 3 in a file, and for nothing else.
    pub fn job() -> JobStatus {
        let path = |text: &str| FilePath::new(text).unwrap();
        let last = LastCall {
            call: Call::Seek(Seek::Start(7)),
            path: Some(path("/runs/mesh")),
            ago_ms: 5_300,
        };
        let file = |number, name: &str, mode| SharedFileStatus {
            opening: number,
            path: path(name),
            mode,
            position: Some(4096),
            here: vec![0, 1, 2, 3],
            end: Some(8192),
            file: FileId(number.0.into()),
            shown: Some(vec![ShownRank {
                rank: 2,
                pointer: None,
                requests: vec![StartedRequestStatus {
                    id: 17,
                    is_write: false,
                    len: 65_536,
                    ago_ms: 2_100,
                }],
            }]),
        };
        let (first, second) = (pario::status::SharedFileId(1), pario::status::SharedFileId(2));
        let wait = WaitStatus {
            opening: Some(first),
            path: Some(path("/runs/result")),
            mode: Some(Mode::Sync),
            number: 41,
            arrived: vec![(0, Call::Close), (1, Call::Close), (2, Call::SetMode(Mode::Log))],
            missing: vec![MissingRank { rank: 3, is_here: true, last: Some(last) }],
            cause: WaitCause::Absence,
            waited_ms: 12_900,
        };
        JobStatus {
            job: "4711".to_owned(),
            uid: 0,
            size: 5,
            here: vec![0, 1, 2, 3],
            files: vec![
                file(first, "/runs/result", Mode::Sync),
                file(second, "/runs/log", Mode::Log),
            ],
            waits: vec![wait],
        }
    }

    #[test]
    fn a_job_is_told_in_lines() {
        let mut out = Vec::new();
        print_job(&mut out, &job()).unwrap();
        let expected = "\
job 4711, 5 ranks, waiting for 12 s
  not here: rank 4
  /runs/result  M_SYNC, call 41, for 12 s
    in close: ranks 0, 1
    in setiomode(M_LOG): rank 2
    missing: rank 3, 5 s ago it called seek to byte 7 on /runs/mesh
  /runs/log  M_LOG, at byte 4096: no rank waits
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    /// Rank 1 waits for bytes that some ranks use and others want.
    fn waiting_for_bytes(before: u32, more: u32) -> WaitStatus {
        let user = |rank: u32| BytesUser {
            rank,
            bytes: BytesUse::new(98_304, 65_536, rank == 2),
            has_them: rank == 2,
            for_ms: 13_000,
        };
        let mut wait = job().waits.remove(0);
        let wanted = BytesUse::new(131_072, 65_536, true);
        wait.mode = Some(Mode::Unix);
        wait.arrived = vec![(1, wanted.call())];
        let before = (2..2 + before).map(user).collect();
        wait.cause = WaitCause::Bytes(BytesWait { wanted, before, more });
        wait
    }

    #[test]
    fn a_wait_for_bytes_is_told_in_lines() {
        let mut out = Vec::new();
        print_wait(&mut out, &waiting_for_bytes(2, 0)).unwrap();
        let expected = "  /runs/result  M_UNIX, for 12 s
    in write of 65536 bytes at 131072: rank 1
    waits for bytes that rank 2 has: for 13 s in write of 65536 bytes at 98304
    waits for bytes that rank 3 wants too, and asked earlier: for 13 s in read of 65536 bytes at \
                        98304\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        print_wait(&mut out, &waiting_for_bytes(16, 5)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 2 + LINES + 1, "{text}");
        assert!(text.ends_with("\n    waits for bytes of 13 ranks more\n"), "{text}");
        let json = wait_json(&waiting_for_bytes(2, 5));
        assert_eq!((&json["number"], &json["performed"]), (&Value::Null, &false.into()));
        let bytes = &json["bytes"];
        assert_eq!(bytes["wanted"], json!({ "from": 131_072, "to": 196_608, "write": true }));
        assert_eq!((&bytes["before"][1]["rank"], &bytes["more"]), (&3.into(), &5.into()));
        assert_eq!(bytes["before"][0]["has_them"], true);
    }

    #[test]
    fn a_wait_for_the_size_is_told_in_lines() {
        let mut job = job();
        job.waits[0].cause = WaitCause::Size;
        job.waits[0].missing.clear();
        job.waits[0].arrived.truncate(1);
        let mut out = Vec::new();
        print_wait(&mut out, &job.waits[0]).unwrap();
        let expected = "  /runs/result  M_SYNC, for 12 s
    in close: rank 0
    the home node is measuring the file\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(wait_json(&job.waits[0])["measured"], true);
        let mut out = Vec::new();
        job_table(&[job]).print(&mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().ends_with("12 s for the size of the file\n"));
    }

    #[test]
    fn long_lists_are_cut() {
        let mut job = job();
        let wait = &mut job.waits[0];
        wait.arrived = (0..12).map(|rank| (rank, Call::Open(rank.to_string()))).collect();
        wait.missing =
            (12..30).map(|rank| MissingRank { rank, is_here: rank == 12, last: None }).collect();
        let mut out = Vec::new();
        print_wait(&mut out, wait).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1 + LINES + 1 + LINES + 1, "{text}");
        assert!(text.contains("    in other calls: ranks 8 to 11\n"), "{text}");
        assert!(text.contains("    missing: rank 12, which has called nothing yet\n"), "{text}");
        assert!(text.contains("    missing: rank 13, which has not come yet\n"), "{text}");
        assert!(text.ends_with("    missing: ranks 20 to 29\n"), "{text}");
    }

    #[test]
    fn jobs_are_listed_and_json_has_the_same_facts() {
        let mut out = Vec::new();
        job_table(&[job()]).print(&mut out).unwrap();
        let expected = "\
job   user  ranks  here  open files  waiting
4711  root      5     4           2  12 s for rank 3
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let json = job_json(&job());
        assert_eq!(json["waits"][0]["missing"][0]["last_path"], "/runs/mesh");
        assert_eq!(json["waits"][0]["arrived"][2]["call"], "setiomode(M_LOG)");
        assert_eq!(json["files"][1]["mode"], "M_LOG");
        assert_eq!(json["waits"][0]["waited_ms"], 12_900);
    }
}
