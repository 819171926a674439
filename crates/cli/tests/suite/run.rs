//! `pario run`: the environment, output and end of the processes of a job; no process remains.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Sandbox, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

/// Runs a job of shells, on the cluster of the sandbox.
fn shells(sandbox: &Sandbox, options: &[&str], script: &str) -> Output {
    sandbox.run(&[&["run"], options, &["sh", "-c", script]].concat())
}

/// Returns the output lines in alphabetical order, since ranks print in any order.
fn sorted(output: &Output) -> Vec<&str> {
    let mut lines: Vec<_> = stdout(output).lines().collect();
    lines.sort_unstable();
    lines
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within a minute");
        std::thread::yield_now();
    }
}

fn is_there(pid: i32) -> bool {
    // A zombie has ended.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_dead = stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X']));
    test_kill_process(Pid::from_raw(pid).unwrap()).is_ok() && !is_dead
}

/// A running job, and the output of its ranks.
struct Job {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Job {
    fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, said }
    }

    /// Reads the next lines, and sorts them.
    fn lines(&mut self, count: usize) -> Vec<String> {
        let mut lines: Vec<_> = (0..count)
            .map(|_| {
                let mut line = String::new();
                self.said.read_line(&mut line).unwrap();
                line.trim_end().to_owned()
            })
            .collect();
        lines.sort();
        lines
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(mut self) -> (Option<i32>, String) {
        // Keep the pipe open: a rank that prints to a closed pipe would die.
        std::io::copy(&mut self.said, &mut std::io::sink()).unwrap();
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), stderr(&output).to_owned())
    }
}

#[test]
fn every_rank_knows_who_it_is() {
    let sandbox = Sandbox::empty();
    let script = "echo $PARIO_RANK of $PARIO_SIZE in $PARIO_JOB";
    let [one, other] = [(); 2].map(|()| shells(&sandbox, &["-n", "3"], script));
    assert_eq!(one.status.code(), Some(0), "{}", stderr(&one));
    assert_eq!(stderr(&one), "");
    let lines = sorted(&one);
    let job = lines[0].strip_prefix("0 of 3 in ").unwrap();
    assert_eq!(lines, [0, 1, 2].map(|rank| format!("{rank} of 3 in {job}")));
    assert!(!stdout(&other).contains(job), "the next one is another job");
}

/// The embedded node lives as long as the job; afterwards the directory is free.
#[test]
fn a_node_on_a_directory_lasts_as_long_as_the_job() {
    let sandbox = Sandbox::empty();
    let pario = env!("CARGO_BIN_EXE_pario");
    let script = format!("{pario} mkdir /of-$PARIO_RANK && {pario} status --json | grep -c pid");
    let output = shells(&sandbox, &["-n", "2"], &script);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "1\n1\n");
    assert_eq!(sandbox.ok(&["ls"]), "of-0/\nof-1/\n");
    assert!(!sandbox.file("pario-data").exists());
}

#[test]
fn where_no_cluster_runs_there_is_one_for_the_job() {
    let sandbox = Sandbox::empty();
    let pario = env!("CARGO_BIN_EXE_pario");
    let output = sandbox.pario(&["run", "-n", "1", pario, "mkdir", "/d"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let listed = sandbox.pario(&["--data", "pario-data", "ls"]).output().unwrap();
    assert_eq!(stdout(&listed), "d/\n", "{}", stderr(&listed));
}

#[test]
fn a_running_cluster_is_used() {
    let sandbox = Sandbox::served();
    let pario = env!("CARGO_BIN_EXE_pario");
    let script = format!("cd / && {pario} mkdir $0");
    let run = |options: &[&str], directory: &str| {
        let mut command = sandbox.pario(&["run", "-n", "1"]);
        command.args(options).args(["sh", "-c", &script, directory]);
        command
    };
    for mut command in [run(&[], "/found"), run(&["--cluster", "data"], "/named")] {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let output = run(&[], "/told").env("PARIO_CLUSTER", "data").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // A job with its own node does not hide the running one.
    let output = run(&["--data", "other"], "/elsewhere").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let listed = sandbox.pario(&["ls"]).output().unwrap();
    assert_eq!(stdout(&listed), "found/\nnamed/\ntold/\n", "{}", stderr(&listed));
    assert!(!sandbox.file("pario-data").exists());

    let output = sandbox.pario(&["run", "-n", "1", "--data", "data", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("data"), "{}", stderr(&output));
    let nowhere = ["run", "-n", "1", "--cluster", "unix:nowhere.sock", "true"];
    assert_eq!(sandbox.pario(&nowhere).output().unwrap().status.code(), Some(5));
}

#[test]
fn options_of_the_cluster_are_passed_on() {
    let sandbox = Sandbox::empty();
    let key = "0123456789abcdef".repeat(4);
    pario_net::write_private_file(&sandbox.file("lab.key"), key).unwrap();
    let options = ["-n", "1", "--no-short-cut", "--key", "lab.key"];
    let output = shells(&sandbox, &options, "echo $PARIO_SHORT_CUT $PARIO_KEY");
    let expected = format!("0 {}\n", sandbox.file("lab.key").display());
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
}

#[test]
fn lines_have_prefixes_if_wanted() {
    let sandbox = Sandbox::empty();
    let script = "echo one; echo two; printf three; echo wrong >&2";
    let output = shells(&sandbox, &["-n", "11", "--prefix"], script);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut expected: Vec<String> = (0..11)
        .flat_map(|rank| ["one", "three", "two"].map(|word| format!("{rank:>2}: {word}")))
        .collect();
    expected.sort();
    assert_eq!(sorted(&output), expected);
    assert_eq!(stderr(&output).lines().count(), 11);
    assert!(stderr(&output).contains("10: wrong\n"), "{}", stderr(&output));
    let output = shells(&sandbox, &["-n", "1"], script);
    assert_eq!((stdout(&output), stderr(&output)), ("one\ntwo\nthree", "wrong\n"));
}

#[test]
fn only_the_first_rank_has_the_input() {
    let sandbox = Sandbox::empty();
    let output = sandbox.run_with(b"hello\n", &["run", "-n", "3", "--prefix", "cat"]);
    assert_eq!(stdout(&output), "0: hello\n", "{}", stderr(&output));
}

#[test]
fn arguments_of_the_program_are_its_own() {
    let sandbox = Sandbox::empty();
    let output = sandbox.run(&["run", "-n", "1", "echo", "--json", "-n", "x", "--", "y"]);
    assert_eq!(stdout(&output), "--json -n x -- y\n", "{}", stderr(&output));
}

/// The first failure ends the other ranks, and its exit code is that of the job.
#[test]
fn the_first_bad_exit_code_counts() {
    let sandbox = Sandbox::empty();
    let script = "if test $PARIO_RANK = 1; then exit 7; fi; exec sleep 100";
    let output = shells(&sandbox, &["-n", "3"], script);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.starts_with("pario: rank 1 of job "), "{told}");
    assert!(told.ends_with(" failed with exit code 7; ending the others\n"), "{told}");

    let script = "if test $PARIO_RANK = 2; then kill -SEGV $$; fi; exec sleep 100";
    let output = shells(&sandbox, &["-n", "3"], script);
    assert_eq!(output.status.code(), Some(128 + 11), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains(" was killed by signal 11 (SIGSEGV); ending the others\n"), "{told}");
}

/// Rank 1 fails while rank 0 ignores SIGTERM.
#[test]
fn who_does_not_go_is_killed() {
    let sandbox = Sandbox::empty();
    let made = Command::new("mkfifo").arg(sandbox.file("ready")).status().unwrap();
    assert!(made.success());
    let script = "if test $PARIO_RANK = 1; then cat ready; exit 9; fi\n\
                  trap '' TERM; echo > ready; sleep 100";
    let began = Instant::now();
    let output = shells(&sandbox, &["--json", "-n", "2", "--grace", "0.3"], script);
    assert!(began.elapsed() >= Duration::from_millis(300), "it had its time");
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
    let (said, json) = stderr(&output).split_once('\n').unwrap();
    assert!(said.contains("rank 1 of job"), "{said}");
    let json: Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["exit_code"], 9);
    assert_eq!(json["first_failed"], 1);
    assert_eq!(json["ranks"][0]["signal"], 9);
    assert_eq!(json["ranks"][0]["exit_code"], Value::Null);
    assert_eq!(json["ranks"][1]["exit_code"], 9);
    assert_eq!(json["ranks"].as_array().unwrap().len(), 2);
}

#[test]
fn the_others_go_on_if_told_so() {
    let sandbox = Sandbox::empty();
    let made = Command::new("mkfifo").arg(sandbox.file("ready")).status().unwrap();
    assert!(made.success());
    // Rank 0 hears from rank 2 only after rank 1 has failed.
    let script = "case $PARIO_RANK in\n\
                  0) cat ready;;\n\
                  1) exit 3;;\n\
                  2) while test -e /proc/$(cat one 2>/dev/null || echo 1); do :; done\n\
                     echo on > ready; exit 4;;\n\
                  esac";
    let script = format!("test $PARIO_RANK = 1 && echo $$ > one\n{script}");
    let output = shells(&sandbox, &["-n", "3", "--keep-going"], &script);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(stdout(&output), "on\n");
    let told = stderr(&output);
    assert!(told.contains("failed with exit code 3; the others continue\n"), "{told}");
    assert!(told.contains("rank 2 of job"), "{told}");
}

#[test]
fn signals_are_passed_on() {
    let sandbox = Sandbox::empty();
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        let script = format!(
            "trap 'echo $PARIO_RANK has {name}; exit 0' {name}; sleep 100 & echo ready; wait"
        );
        let arguments = ["--data", "data", "run", "-n", "2", "sh", "-c", &script];
        let mut job = Job::start(sandbox.pario(&arguments));
        assert_eq!(job.lines(2), ["ready", "ready"]);
        job.signal(signal);
        let heard = [0, 1].map(|rank| format!("{rank} has {name}"));
        assert_eq!(job.lines(2), heard, "{name}");
        assert_eq!(job.end(), (Some(0), String::new()), "{name}");
    }
}

#[test]
fn who_dies_of_a_signal_gives_its_code_and_who_asks_twice_wants_the_end() {
    let sandbox = Sandbox::empty();
    let arguments = ["--data", "data", "run", "-n", "2", "sh", "-c", "echo ready; exec sleep 100"];
    let mut job = Job::start(sandbox.pario(&arguments));
    job.lines(2);
    job.signal(Signal::INT);
    let (code, told) = job.end();
    assert_eq!(code, Some(130), "{told}");
    assert!(told.contains("was killed by signal 2 (SIGINT)"), "{told}");

    // No rank fails or ends: the second signal starts the grace period.
    let script = "trap 'echo heard' INT TERM; echo ready; while :; do sleep 0.01; done";
    let arguments = ["--data", "data", "run", "-n", "1", "--grace", "0.2", "sh", "-c", script];
    let mut job = Job::start(sandbox.pario(&arguments));
    job.lines(1);
    job.signal(Signal::INT);
    assert_eq!(job.lines(1), ["heard"]);
    job.signal(Signal::INT);
    let (code, told) = job.end();
    assert_eq!(code, Some(128 + 9), "{told}");
}

#[test]
fn who_does_not_hear_of_the_end_of_the_terminal_keeps_it_from_the_others() {
    let sandbox = Sandbox::empty();
    let pario = env!("CARGO_BIN_EXE_pario");
    let script = format!(
        "trap '' HUP; exec {pario} --data data run -n 1 sh -c 'kill -HUP $PPID; kill -HUP $$; echo on'"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(sandbox.path()).stdin(Stdio::null());
    let output = command.env("XDG_RUNTIME_DIR", sandbox.path()).output().unwrap();
    assert_eq!(stdout(&output), "on\n", "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(0));
}

/// This includes the children of ranks.
#[test]
fn nothing_is_left_of_a_job_that_has_ended() {
    let sandbox = Sandbox::empty();
    for script in ["sleep 100 & echo $!", "sleep 100 & echo $!; exit 3"] {
        let output = shells(&sandbox, &["-n", "1"], script);
        let pid = stdout(&output).trim().parse().unwrap();
        until("what a rank has started has ended", || !is_there(pid));
    }
}

#[test]
fn nothing_is_left_of_a_job_that_was_killed() {
    let sandbox = Sandbox::empty();
    let arguments = ["--data", "data", "run", "-n", "4", "sh", "-c", "echo $$; exec sleep 100"];
    let mut job = Job::start(sandbox.pario(&arguments));
    let pids: Vec<i32> = job.lines(4).iter().map(|line| line.parse().unwrap()).collect();
    assert!(pids.iter().all(|pid| is_there(*pid)));
    job.signal(Signal::KILL);
    assert_eq!(job.end().0, None);
    until("all ranks have ended", || pids.iter().all(|pid| !is_there(*pid)));
    // The directory can be used again.
    assert_eq!(sandbox.ok(&["ls"]), "");
}

#[test]
fn what_cannot_be_run_is_told_before_anything_starts() {
    let sandbox = Sandbox::empty();
    std::fs::write(sandbox.file("plain"), "no program").unwrap();
    for (code, arguments, told) in [
        (3, &["-n", "2", "no-such-program"][..], "no-such-program in the directories of PATH"),
        (3, &["-n", "2", "./none"], "./none: there is no such program"),
        (4, &["-n", "2", "./plain"], "chmod +x"),
        (4, &["-n", "2", "./"], "it is a directory"),
        (2, &["-n", "0", "true"], "1 to 65536"),
        (2, &["-n", "65537", "true"], "1 to 65536"),
        (2, &["-n", "-1", "true"], "1 to 65536"),
        (2, &["-n", "2"], "PROGRAM"),
        (2, &["true"], "--processes"),
        (2, &["-n", "2", "--grace", "soon", "true"], "seconds"),
    ] {
        let output =
            sandbox.pario(&[&["run", "--data", "data"], arguments].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
    assert!(!Path::new(&sandbox.file("data")).exists());
}

/// `run` reports that the machine cannot start all processes, and leaves none behind.
#[test]
fn too_many_processes_are_told() {
    let sandbox = Sandbox::empty();
    let pario = env!("CARGO_BIN_EXE_pario");
    let script = format!("ulimit -n 64; exec {pario} --data data run --prefix -n 500 sleep 100");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(sandbox.path()).stdin(Stdio::null());
    let output = command.env("XDG_RUNTIME_DIR", sandbox.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot start rank "), "{}", stderr(&output));
}

/// Ranks print a line in parts, on both streams at once.
#[test]
fn lines_of_ranks_do_not_mix() {
    let sandbox = Sandbox::empty();
    let script = "i=0; while [ $i -lt 100 ]; do for to in 1 2; do \
                  printf 'rank %s, ' $PARIO_RANK >&$to; printf 'line %s' $i >&$to; \
                  echo ' ends' >&$to; done; i=$((i+1)); done";
    for options in [&["-n", "4"][..], &["-n", "4", "--prefix"]] {
        let output = shells(&sandbox, options, script);
        assert!(output.status.success(), "{}", stderr(&output));
        for text in [stdout(&output), stderr(&output)] {
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            let prefix = |rank| if options.len() > 2 { format!("{rank}: ") } else { String::new() };
            let line = |rank, number| format!("{}rank {rank}, line {number} ends", prefix(rank));
            let expected = (0..4).flat_map(|rank| (0..100).map(move |number| (rank, number)));
            let mut expected: Vec<_> = expected.map(|(rank, number)| line(rank, number)).collect();
            expected.sort_unstable();
            assert_eq!(lines, expected);
        }
    }
}
