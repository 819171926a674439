//! Atomic access from C, by processes that open a file each for itself, by jobs, and by both: with
//! the macros of the headers, and with the preload library.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pario_server::Node;
use rustix::process::{Pid, Signal, kill_process};

use crate::site::{Site, describe_output, new_job, prefix, source, wait};

/// Bytes of a record of the program.
const RECORD: usize = 100;

/// The time by which a process that is stopped may delay the open of another one.
const RECALL_LIMIT: Duration = Duration::from_secs(2);

/// The test program, as one process or rank after the other runs it.
struct Program<'s> {
    site: &'s Site,
    path: PathBuf,
    is_preloaded: bool,
    short_cut: &'static str,
}

impl<'s> Program<'s> {
    fn new(site: &'s Site, is_preloaded: bool, short_cut: &'static str) -> Self {
        let more: &[&str] = if is_preloaded { &["-DPARIO_NO_MACROS"] } else { &[] };
        let path = site.compile_with(&source("atomic.c"), &["--cflags", "--libs"], more);
        Self { site, path, is_preloaded, short_cut }
    }

    /// A rank of a job.
    fn rank(&self, (job, size, rank): (&str, u32, u32), arguments: &[&str]) -> Command {
        let mut command = self.site.rank(&self.path, job, size, rank);
        command.args(arguments).env("PARIO_SHORT_CUT", self.short_cut);
        if self.is_preloaded {
            command.env("LD_PRELOAD", prefix().join("lib/libpario_preload.so"));
        }
        command
    }

    /// A process that is a job of its own.
    fn alone(&self, arguments: &[&str]) -> Command {
        self.rank((&new_job(), 1, 0), arguments)
    }
}

/// Runs processes at the same time, which must succeed.
#[track_caller]
fn run_all(site: &Site, commands: Vec<Command>) {
    let size = u32::try_from(commands.len()).unwrap();
    let commands = std::cell::RefCell::new(commands);
    let outputs = site.run_ranks_with(size, |_| commands.borrow_mut().remove(0));
    for output in outputs {
        assert!(output.status.success(), "{}", describe_output(&output));
    }
}

/// Checks that a file has all records of these writers, each whole and in the order of its writer.
#[track_caller]
fn has_records(site: &Site, path: &str, writers: &[u8], count: u32) {
    let content = site.content(path);
    let mut next = vec![0; writers.len()];
    assert_eq!(content.len(), writers.len() * count as usize * RECORD);
    for line in content.chunks(RECORD) {
        let writer = writers.iter().position(|letter| *letter == line[0]).unwrap();
        let number: u32 = std::str::from_utf8(&line[1..6]).unwrap().parse().unwrap();
        assert_eq!(number, next[writer], "writer {writer}");
        next[writer] += 1;
        assert!(line[6..RECORD - 1].iter().all(|byte| *byte == line[0]), "{line:?} is torn");
        assert_eq!(line[RECORD - 1], b'\n');
    }
    assert_eq!(next, vec![count; writers.len()]);
}

/// With the headers and with the preload library, with and without the short cut.
fn with_each_program(test: impl Fn(&Site, &Program<'_>)) {
    for is_preloaded in [false, true] {
        for short_cut in ["1", "0"] {
            eprintln!("preload library: {is_preloaded}, short cut: {short_cut}");
            let site = Site::new();
            test(&site, &Program::new(&site, is_preloaded, short_cut));
        }
    }
}

#[test]
fn no_read_mixes_two_writers_that_opened_the_file_each_for_itself() {
    with_each_program(|site, program| {
        let writers = ["a", "b", "c"];
        let command = |writer| program.alone(&["overwrite", "/pfs/state", writer, "100"]);
        run_all(site, writers.map(command).into());
        let content = site.content("/pfs/state");
        assert_eq!(content, [content[0]].repeat(300_000));
    });
}

#[test]
fn no_append_of_four_processes_is_lost_or_torn() {
    with_each_program(|site, program| {
        let command = |writer| program.alone(&["append", "/pfs/log", writer, "500"]);
        run_all(site, ["a", "b", "c", "d"].map(command).into());
        has_records(site, "/pfs/log", b"abcd", 500);
    });
}

#[test]
fn streams_that_are_opened_for_each_record_lose_none() {
    for short_cut in ["1", "0"] {
        let site = Site::new();
        let program = Program::new(&site, true, short_cut);
        let command = |writer| program.alone(&["stream", "/pfs/log", writer, "60"]);
        run_all(&site, ["a", "b", "c"].map(command).into());
        has_records(&site, "/pfs/log", b"abc", 60);
    }
}

#[test]
fn jobs_and_single_processes_do_not_mix() {
    with_each_program(|site, program| {
        let (one, other) = (new_job(), new_job());
        let mut commands: Vec<Command> =
            [(&one, 0, "a"), (&one, 1, "b"), (&other, 0, "c"), (&other, 1, "d")]
                .map(|(job, rank, letter)| {
                    program.rank((job, 2, rank), &["together", "/pfs/state", letter, "12"])
                })
                .into();
        commands.push(program.alone(&["overwrite", "/pfs/state", "e", "12"]));
        run_all(site, commands);
        let mut commands: Vec<Command> =
            [(&one, 0, "a"), (&one, 1, "b"), (&other, 0, "c"), (&other, 1, "d")]
                .map(|(job, rank, letter)| {
                    program.rank((job, 2, rank), &["append together", "/pfs/log", letter, "100"])
                })
                .into();
        commands.push(program.alone(&["append", "/pfs/log", "e", "100"]));
        run_all(site, commands);
        has_records(site, "/pfs/log", b"abcde", 100);
    });
}

#[test]
fn a_change_of_the_mode_begins_and_ends_atomic_access() {
    let site = Site::new();
    let program = Program::new(&site, false, "1");
    let job = new_job();
    let mut commands: Vec<Command> = [(0, "a"), (1, "b")]
        .map(|(rank, letter)| program.rank((&job, 2, rank), &["modes", "/pfs/state", letter, "12"]))
        .into();
    commands.push(program.alone(&["overwrite", "/pfs/state", "c", "12"]));
    run_all(&site, commands);
}

/// The calls about atomic access that a node has answered.
fn atomic_calls(node: &Node) -> u64 {
    let requests = node.monitor().report().unwrap().requests;
    requests.iter().filter(|counts| counts.kind == "atomic access").map(|one| one.answered()).sum()
}

#[test]
fn a_process_that_is_alone_sends_no_message_for_an_access() {
    let site = Site::new();
    let program = Program::new(&site, false, "1");
    let began = Instant::now();
    run_all(&site, vec![program.alone(&["append", "/pfs/log", "a", "2000"])]);
    // Opening, closing, waiting for a recall; and a new lease from time to time.
    let calls = 4 + began.elapsed().as_secs();
    assert!(atomic_calls(site.node.as_ref().unwrap()) <= calls);
}

/// A process that has the file open, until it may go on.
fn holder(program: &Program<'_>) -> Child {
    let mut command = program.alone(&["hold", "/pfs/held", "h"]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut holder = piped.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "open\n");
    holder
}

fn signal(process: &Child, signal: Signal) {
    kill_process(Pid::from_child(process), signal).unwrap();
}

#[test]
fn a_holder_that_is_stopped_delays_an_open_by_the_stated_time_and_a_killed_one_does_not() {
    for short_cut in ["1", "0"] {
        let site = Site::new();
        let program = Program::new(&site, false, short_cut);
        let mut stopped = holder(&program);
        signal(&stopped, Signal::STOP);
        let cluster = site.cluster();
        let open = || cluster.options().read(true).write(true).atomic(true).open("/pfs/held");
        let began = Instant::now();
        let second = open().unwrap();
        let delay = began.elapsed();
        // The node may be busy for a while after that.
        assert!(delay < RECALL_LIMIT + Duration::from_secs(1), "{delay:?}");
        assert!(delay > Duration::from_secs(1), "{delay:?}: the holder cannot have answered");
        second.write_at(b"z", 0).unwrap();
        // The holder goes on, and asks before it writes.
        signal(&stopped, Signal::CONT);
        stopped.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
        let output = wait(stopped);
        assert!(output.status.success(), "{}", describe_output(&output));
        let mut byte = [0];
        second.read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(&byte, b"y");
        drop(second);

        let mut killed = holder(&program);
        signal(&killed, Signal::STOP);
        signal(&killed, Signal::KILL);
        killed.wait().unwrap();
        let began = Instant::now();
        drop(open().unwrap());
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
}
