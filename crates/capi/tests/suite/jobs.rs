//! The processes of a job and one file, from C: who opens it first, what was issued counts, started
//! accesses overlap, and a call that one process cannot make fails on all.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pario::status::{ShownRank, StorageThreadStatus};
use pario_server::config::Config;

use crate::site::{Site, describe_output, new_job, prefix, source, wait};

/// Runs a part of the program as the processes of a job: in shared memory, and by messages, each at
/// a site of its own.
#[track_caller]
fn run(new_site: impl Fn() -> Site, size: u32, arguments: &[&str]) -> Vec<Output> {
    let mut all = Vec::new();
    for short_cut in ["1", "0"] {
        let site = new_site();
        let (program, job) = (site.compile(&source("jobs.c")), new_job());
        all.extend(site.run_ranks_with(size, |rank| {
            let mut command = site.rank(&program, &job, size, rank);
            command.args(arguments).env("PARIO_SHORT_CUT", short_cut);
            command
        }));
    }
    all
}

#[track_caller]
fn run_ok(new_site: impl Fn() -> Site, size: u32, arguments: &[&str]) -> Vec<Output> {
    let outputs = run(new_site, size, arguments);
    let is_ok = outputs.iter().all(|output| output.status.success());
    assert!(is_ok, "{:?}", outputs.iter().map(describe_output).collect::<Vec<_>>());
    outputs
}

/// A site with four disks that take this long for each access.
fn slow_site(latency_ms: u32) -> Site {
    Site::with(|config| {
        let socket = config.nodes[0].socket.display().to_string();
        let data = socket.strip_suffix("/s").unwrap();
        let disk = |number: u32| {
            format!("{{ path = \"{data}/slow{number}\", latency_ms = {latency_ms} }}")
        };
        let disks: Vec<String> = (0..4).map(disk).collect();
        let text = format!(
            "[nodes.local]\ndata = \"{data}/data\"\nsocket = \"{socket}\"\ncache = 0\n\
             disks = [{}]\n",
            disks.join(", ")
        );
        *config = Config::parse(&text, "slow.toml").unwrap();
    })
}

#[test]
fn the_first_open_of_a_job_counts_until_its_last_close() {
    run_ok(Site::new, 3, &["first open"]);
}

#[test]
fn the_first_open_counts_with_the_preload_library() {
    let site = Site::new();
    let no_macros = ["-DPARIO_NO_MACROS"];
    let program = site.compile_with(&source("jobs.c"), &["--cflags", "--libs"], &no_macros);
    let job = new_job();
    let outputs = site.run_ranks_with(3, |rank| {
        let mut command = site.rank(&program, &job, 3, rank);
        command.arg("first open").env("LD_PRELOAD", prefix().join("lib/libpario_preload.so"));
        command
    });
    for output in outputs {
        assert!(output.status.success(), "{}", describe_output(&output));
    }
}

#[test]
fn what_a_process_has_issued_counts_for_its_later_calls() {
    run_ok(|| slow_site(100), 2, &["issued"]);
}

#[test]
fn started_accesses_overlap() {
    run_ok(|| slow_site(200), 1, &["overlap", "0.2"]);
    run_ok(|| slow_site(200), 2, &["overlap atomic", "0.2"]);
}

/// Four started reads keep four disks busy at the same time, in every mode. With one rank and with
/// two, in shared memory and by messages.
#[test]
fn started_reads_are_at_all_disks_at_once() {
    const UNIT: usize = 64 << 10;
    let site = slow_site(400);
    let program = site.compile(&source("jobs.c"));
    let cluster = site.cluster();
    // Eight units: two ranks read four records each.
    cluster.create_all("/pfs/units").unwrap().write_at(&vec![7; 8 * UNIT], 0).unwrap();
    let is_read = |thread: &&StorageThreadStatus| {
        thread.serves.as_ref().is_some_and(|serves| serves.starts_with("read on"))
    };
    for (mode, size, short_cut) in (0..6).flat_map(|mode| {
        [(1, "1"), (2, "1"), (2, "0")].map(|(size, short_cut)| (mode, size, short_cut))
    }) {
        let (job, is_over) = (new_job(), AtomicBool::new(false));
        let (outputs, at_once) = std::thread::scope(|scope| {
            let ranks = scope.spawn(|| {
                let outputs = site.run_ranks_with(size, |rank| {
                    let mut command = site.rank(&program, &job, size, rank);
                    command.args(["started reads", &mode.to_string()]);
                    command.env("PARIO_SHORT_CUT", short_cut);
                    command
                });
                is_over.store(true, Ordering::Relaxed);
                outputs
            });
            let mut at_once = 0;
            while !is_over.load(Ordering::Relaxed) {
                let (_, status) = cluster.status(Duration::from_secs(10)).remove(0);
                at_once = at_once.max(status.unwrap().threads.iter().filter(is_read).count());
            }
            (ranks.join().unwrap(), at_once)
        });
        for output in &outputs {
            assert!(output.status.success(), "{}", describe_output(output));
            print!("short cut {short_cut}, {}", String::from_utf8_lossy(&output.stdout));
        }
        assert_eq!(at_once, 4, "mode {mode}, {size} ranks, short cut {short_cut}");
    }
}

/// A process that says a line and then waits.
struct Talking {
    child: std::process::Child,
    said: BufReader<ChildStdout>,
    told: ChildStdin,
}

impl Talking {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn go_on(&mut self) {
        self.told.write_all(b"go on\n").unwrap();
    }
}

/// What `pfsdstat -v` prints: private pointers, and the ids of requests that were not waited for.
#[test]
fn pointers_and_started_requests_are_seen_from_outside() {
    let site = Site::new();
    let program = site.compile(&source("jobs.c"));
    // M_ASYNC, M_RECORD and M_LOG.
    for (mode, short_cut) in [("5", "1"), ("3", "1"), ("1", "1"), ("5", "0")] {
        let mut command = site.rank(&program, &new_job(), 1, 0);
        command.args(["shown", mode]).env("PARIO_SHORT_CUT", short_cut);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let told = child.stdin.take().unwrap();
        let mut process = Talking { child, said, told };
        let shown = || {
            let jobs = site.cluster().jobs().unwrap();
            let file = jobs.iter().flat_map(|job| &job.files).next().cloned();
            file.map(|file| file.shown)
        };
        let ids = process.line();
        let ids: Vec<u64> = ids.split(' ').map(|id| id.parse().unwrap()).collect();
        if short_cut == "0" {
            assert_eq!(shown(), Some(None), "only the process knows them");
            (0..4).for_each(|_| process.go_on());
            assert!(wait(process.child).status.success());
            continue;
        }
        let rank = |shown: Option<Option<Vec<ShownRank>>>| {
            let mut ranks = shown.unwrap().unwrap();
            assert_eq!((ranks.len(), ranks[0].rank), (1, 0));
            let ShownRank { pointer, requests, .. } = ranks.remove(0);
            let known: Vec<_> =
                requests.iter().map(|one| (one.id, one.is_write, one.len)).collect();
            (pointer, known)
        };
        let pointer = |at: u64| (mode != "1").then_some(at);
        let (write, read) = ((ids[0], true, 1000), (ids[1], false, 0));
        assert_eq!(rank(shown()), (pointer(1000), vec![write, read]), "mode {mode}");
        process.go_on();
        assert_eq!(process.line(), "one");
        assert_eq!(rank(shown()), (pointer(7), vec![write]), "mode {mode}");
        process.go_on();
        assert_eq!(process.line(), "none");
        assert_eq!(rank(shown()), (pointer(7), vec![]), "mode {mode}");
        process.go_on();
        assert_eq!(process.line(), "closed");
        assert_eq!(shown(), None);
        process.go_on();
        assert!(wait(process.child).status.success());
    }
}

#[test]
fn reads_of_records_past_the_end_leave_the_pointers_at_the_end() {
    run_ok(Site::new, 2, &["past end"]);
}

#[test]
fn a_call_that_one_process_cannot_make_fails_on_all() {
    let outputs = run_ok(Site::new, 3, &["bad arguments"]);
    for output in &outputs {
        let (told, said) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        let others = told.lines().filter(|line| line.ends_with("other")).count();
        assert!(others >= 20, "{told}");
        let errors: Vec<&str> = said
            .lines()
            .filter(|line| line.starts_with("PFS:") || line.starts_with("team:"))
            .collect();
        assert_eq!(errors.len(), others, "one error for each call of another process: {said}");
        // Some calls of a team exchange their errors by themselves, and say "process".
        let names_rank = |line: &&str| line.contains("rank") || line.contains("process ");
        assert!(errors.iter().all(names_rank), "{said}");
        let reasons = ["I/O mode 77 is unknown", "the buffer is NULL", "is not a position"];
        assert!(reasons.iter().any(|reason| said.contains(reason)), "the reason is told: {said}");
    }
}

#[test]
fn a_global_sum_that_one_process_cannot_make_ends_all_with_the_reason() {
    for (part, reason) in [("bad sum", "-1 numbers at"), ("bad operation", "\"unknown\"")] {
        for (number, output) in run(Site::new, 2, &[part]).iter().enumerate() {
            let said = describe_output(output);
            assert!(output.status.code().is_some() && !output.status.success(), "{said}");
            assert!(said.contains(reason), "{said}");
            assert!(number % 2 == 1 || said.contains("rank 1 could not make the call"), "{said}");
        }
    }
}
