//! The processes of a job: how they start, what they are told, how they end.
//!
//! Every rank leads a process group of its own, so that what it has started ends with it. It is
//! not taken from the system's table before its group is gone: until then nobody else can have its
//! number.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::output::{Lines, Streams, print_error};
use crate::rank;

/// What is to be run.
#[derive(Debug)]
pub struct Plan<'p> {
    /// The name of the job.
    pub job: &'p str,
    /// How many processes.
    pub size: u32,
    /// The program and its arguments.
    pub program: &'p [OsString],
    /// What else the processes find in their environment.
    pub environment: Vec<(&'static str, OsString)>,
    /// Whether lines begin with ranks.
    pub is_prefixed: bool,
    /// Whether the others go on when one fails.
    pub keeps_going: bool,
    /// How long processes that are to end may take.
    pub grace: Duration,
}

/// How a job has ended.
#[derive(Debug)]
pub struct Report {
    /// Of every rank.
    pub ends: Vec<End>,
    /// The rank that was the first to fail.
    pub first_failed: Option<usize>,
}

/// How a process has ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Which process it was.
    pub pid: u32,
    /// What the system says.
    pub status: ExitStatus,
    /// How long it ran.
    pub took: Duration,
}

impl Report {
    /// The exit code of the job: the first bad one.
    pub fn code(&self) -> u8 {
        self.first_failed.map_or(0, |rank| self.ends[rank].code())
    }
}

impl End {
    /// The signal that has killed it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// As shells say it.
    fn code(&self) -> u8 {
        let code = self.status.code().or(self.signal().map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::exit::FAILED)
    }

    fn told(&self) -> String {
        match (self.status.code(), self.signal()) {
            (Some(code), _) => format!("failed with exit code {code}"),
            (None, Some(signal)) => {
                let name = signal_hook::low_level::signal_name(signal);
                let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
                format!("was ended by signal {signal}{name}")
            }
            (None, None) => "has ended, nobody knows how".to_owned(),
        }
    }
}

/// Runs the processes until all have ended.
pub fn run(plan: &Plan<'_>) -> anyhow::Result<Report> {
    // Signals that come from now on wait until somebody looks at them.
    let mut signals = Signals::new(watched()).context("cannot watch for signals")?;
    let handle = signals.handle();
    let (send, receive) = channel();
    let listener = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if send.send(signal).is_err() {
                break;
            }
        }
    })?;
    let mut ranks = Ranks::default();
    let lines = Lines::new(plan.size, plan.is_prefixed);
    let ended = ranks
        .start(plan, &lines)
        .map(|()| ranks.wait(plan, &receive))
        .inspect_err(|_| ranks.kill_all());
    handle.close();
    drop(receive);
    // A panic there was reported when it happened.
    let _ = listener.join();
    let first_failed = ended?;
    lines.finish(Instant::now() + plan.grace);
    let ends = ranks.all.into_iter().filter_map(|rank| rank.end).collect();
    Ok(Report { ends, first_failed })
}

/// The signals that are passed on, and the one that says that a process has ended. Who has started
/// this process so that it does not hear of the end of its terminal wants that of the others, too.
fn watched() -> Vec<i32> {
    let mut watched = vec![SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGUSR2];
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !ignores(&status, SIGHUP) {
        watched.push(SIGHUP);
    }
    watched
}

/// Whether a process with this status ignores a signal.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

#[derive(Debug, Default)]
struct Ranks {
    all: Vec<Rank>,
    /// The rank that was the first to fail.
    first_failed: Option<usize>,
    /// Whether somebody has told the processes to end.
    is_asked: bool,
    /// When those that are to end are killed.
    deadline: Option<Instant>,
}

#[derive(Debug)]
struct Rank {
    child: Child,
    pid: Pid,
    began: Instant,
    end: Option<End>,
}

impl Ranks {
    fn start(&mut self, plan: &Plan<'_>, lines: &Lines) -> anyhow::Result<()> {
        let streams = Streams::of(plan.size, plan.is_prefixed, io::stdout().is_terminal());
        for number in 0..plan.size {
            let mut command = rank::command(plan.program).context("cannot find this program")?;
            command
                .envs(plan.environment.iter().map(|(name, value)| (name, value)))
                .env("PARIO_JOB", plan.job)
                .env("PARIO_SIZE", plan.size.to_string())
                .env("PARIO_RANK", number.to_string())
                .process_group(0);
            // A terminal belongs to one group of processes, and they are in groups of their own.
            if number > 0 || io::stdin().is_terminal() {
                command.stdin(Stdio::null());
            }
            if streams.stdout {
                command.stdout(Stdio::piped());
            }
            if streams.stderr {
                command.stderr(Stdio::piped());
            }
            let of = |what: &str| format!("{what} rank {number} of {}", plan.size);
            let child = command.spawn().with_context(|| of("cannot start"))?;
            let (pid, began) = (Pid::from_child(&child), Instant::now());
            self.all.push(Rank { child, pid, began, end: None });
            if let Some(rank) = self.all.last_mut() {
                let read = lines.read(number, &mut rank.child);
                read.with_context(|| of("cannot read what is printed by"))?;
            }
        }
        Ok(())
    }

    /// Waits until all have ended, and passes on what is signalled meanwhile; gives the rank that
    /// was the first to fail.
    fn wait(&mut self, plan: &Plan<'_>, signals: &Receiver<i32>) -> Option<usize> {
        loop {
            self.look(plan);
            if self.all.iter().all(|rank| rank.end.is_some()) {
                return self.first_failed;
            }
            let signal = match self.deadline {
                None => signals.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(deadline) => {
                    signals.recv_timeout(deadline.saturating_duration_since(Instant::now()))
                }
            };
            match signal {
                Ok(SIGCHLD) => {}
                Ok(signal) => self.pass(signal, plan),
                Err(RecvTimeoutError::Timeout) => {
                    self.deadline = None;
                    self.signal_groups(Signal::KILL);
                }
                // Nobody will tell any more when a process ends.
                Err(RecvTimeoutError::Disconnected) => self.kill_all(),
            }
        }
    }

    /// Looks who has ended, and begins the end of the others if one has failed.
    fn look(&mut self, plan: &Plan<'_>) {
        for number in 0..self.all.len() {
            let Some(end) = self.all[number].look() else { continue };
            if end.status.success() {
                continue;
            }
            let is_first = self.first_failed.is_none();
            if is_first || plan.keeps_going {
                let others = match (self.running(), plan.keeps_going) {
                    (0, _) => "",
                    (_, true) => "; the others go on",
                    (_, false) => "; the others are ended",
                };
                let told = end.told();
                print_error(&format!("pario: rank {number} of job {} {told}{others}", plan.job));
            }
            if is_first {
                self.first_failed = Some(number);
                if !plan.keeps_going {
                    self.end(plan.grace);
                }
            }
        }
    }

    /// Passes a signal on: what ends a process to all that it has started, as a terminal does.
    fn pass(&mut self, signal: i32, plan: &Plan<'_>) {
        let ends = match signal {
            SIGINT => Signal::INT,
            SIGTERM => Signal::TERM,
            SIGHUP => Signal::HUP,
            signal => {
                let signal = if signal == SIGUSR1 { Signal::USR1 } else { Signal::USR2 };
                for rank in self.all.iter().filter(|rank| rank.end.is_none()) {
                    // Who has just ended needs no signal.
                    let _ = kill_process(rank.pid, signal);
                }
                return;
            }
        };
        if self.is_asked && self.deadline.is_none() {
            // Who asks twice wants it to end.
            self.is_asked = false;
            self.end(plan.grace);
        }
        self.signal_groups(ends);
        self.is_asked = true;
    }

    /// Begins the end: who does not go by then is killed.
    fn end(&mut self, grace: Duration) {
        self.deadline.get_or_insert_with(|| Instant::now() + grace);
        // Who was told already may be busy with ending in order.
        if !self.is_asked {
            self.signal_groups(Signal::TERM);
        }
    }

    fn signal_groups(&self, signal: Signal) {
        for rank in self.all.iter().filter(|rank| rank.end.is_none()) {
            // Who has just ended needs no signal.
            let _ = kill_process_group(rank.pid, signal);
        }
    }

    fn kill_all(&mut self) {
        self.signal_groups(Signal::KILL);
        for rank in &mut self.all {
            rank.bury();
        }
    }

    fn running(&self) -> usize {
        self.all.iter().filter(|rank| rank.end.is_none()).count()
    }
}

impl Rank {
    /// How it has ended, if it has since it was last looked at.
    fn look(&mut self) -> Option<End> {
        if self.end.is_some() {
            return None;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), options) {
            Ok(None) => None,
            Ok(Some(_)) | Err(_) => {
                // What it has left behind.
                let _ = kill_process_group(self.pid, Signal::KILL);
                self.bury();
                self.end
            }
        }
    }

    /// Waits for its end.
    fn bury(&mut self) {
        if self.end.is_none() {
            let status = self.child.wait().unwrap_or(ExitStatus::from_raw(0xff00));
            let took = self.began.elapsed();
            self.end = Some(End { pid: self.child.id(), status, took });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_as_shells_do() {
        let end = |raw| End { pid: 1, status: ExitStatus::from_raw(raw), took: Duration::ZERO };
        assert_eq!((end(7 << 8).code(), end(9).code(), end(0).code()), (7, 137, 0));
        assert_eq!(end(7 << 8).told(), "failed with exit code 7");
        assert_eq!(end(9).told(), "was ended by signal 9 (SIGKILL)");
        let report = Report { ends: vec![end(0), end(3 << 8), end(9)], first_failed: Some(2) };
        assert_eq!(report.code(), 137);
    }

    #[test]
    fn what_is_ignored_is_seen() {
        let status = "Name:\tx\nSigIgn:\t0000000000000001\nSigCgt:\tffff\n";
        assert!(ignores(status, SIGHUP) && !ignores(status, SIGINT) && !ignores("", SIGHUP));
    }
}
