//! The processes of a job: starts them, passes on signals, waits for their end.
//!
//! Every rank leads its own process group, so that everything it has started ends with it. A rank
//! is
//! reaped only after its group is killed: until then the kernel cannot reuse its process id.

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

use super::output::{CapturedStreams, LineReaders, print_error};
use crate::rank;

/// The description of a job.
#[derive(Debug)]
pub struct JobSpec<'p> {
    /// The name of the job.
    pub job: &'p str,
    /// Number of processes.
    pub size: u32,
    /// The program and its arguments.
    pub program: &'p [OsString],
    /// Additional environment variables.
    pub environment: Vec<(&'static str, OsString)>,
    /// Whether lines begin with the rank.
    pub is_prefixed: bool,
    /// Whether the other processes continue when one fails.
    pub keeps_going: bool,
    /// Time that processes have to end before they are killed.
    pub grace: Duration,
}

/// The end of a job.
#[derive(Debug)]
pub struct JobReport {
    /// The end of every rank.
    pub ends: Vec<ProcessEnd>,
    /// The rank that failed first.
    pub first_failed: Option<usize>,
}

/// The end of a process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessEnd {
    /// Its process id.
    pub pid: u32,
    /// Its exit status.
    pub status: ExitStatus,
    /// How long it ran.
    pub took: Duration,
}

impl JobReport {
    /// Returns the exit code of the job: that of the first rank that failed.
    pub fn code(&self) -> u8 {
        self.first_failed.map_or(0, |rank| self.ends[rank].code())
    }
}

impl ProcessEnd {
    /// Returns the signal that killed it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Returns the exit code as shells define it.
    fn code(&self) -> u8 {
        let code = self.status.code().or(self.signal().map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::exit::FAILED)
    }

    fn describe(&self) -> String {
        match (self.status.code(), self.signal()) {
            (Some(code), _) => format!("failed with exit code {code}"),
            (None, Some(signal)) => {
                let name = signal_hook::low_level::signal_name(signal);
                let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
                format!("was killed by signal {signal}{name}")
            }
            (None, None) => "has ended with an unknown status".to_owned(),
        }
    }
}

/// Runs the processes until all have ended.
pub fn run(spec: &JobSpec<'_>) -> anyhow::Result<JobReport> {
    // Signals from now on are queued for the listener.
    let mut signals = Signals::new(watched_signals()).context("cannot watch for signals")?;
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
    let lines = LineReaders::new(spec.size, spec.is_prefixed);
    let ended = ranks
        .start(spec, &lines)
        .map(|()| ranks.wait(spec, &receive))
        .inspect_err(|_| ranks.kill_all());
    handle.close();
    drop(receive);
    // The panic hook has reported a panic of the listener.
    let _ = listener.join();
    let first_failed = ended?;
    lines.finish(Instant::now() + spec.grace);
    let ends = ranks.all.into_iter().filter_map(|rank| rank.end).collect();
    Ok(JobReport { ends, first_failed })
}

/// Returns the signals that are passed on, and SIGCHLD. SIGHUP is left out if this process was
/// started to ignore it (`nohup`), so that the ranks ignore it too.
fn watched_signals() -> Vec<i32> {
    let mut watched_signals = vec![SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGUSR2];
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !ignores(&status, SIGHUP) {
        watched_signals.push(SIGHUP);
    }
    watched_signals
}

/// Returns whether a process with this status ignores a signal.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

#[derive(Debug, Default)]
struct Ranks {
    all: Vec<RankProcess>,
    /// The rank that failed first.
    first_failed: Option<usize>,
    /// Whether the processes have been asked to end.
    is_asked: bool,
    /// When processes that still run are killed.
    deadline: Option<Instant>,
}

#[derive(Debug)]
struct RankProcess {
    child: Child,
    pid: Pid,
    began: Instant,
    end: Option<ProcessEnd>,
}

impl Ranks {
    fn start(&mut self, spec: &JobSpec<'_>, lines: &LineReaders) -> anyhow::Result<()> {
        let streams = CapturedStreams::of(spec.size, spec.is_prefixed, io::stdout().is_terminal());
        for number in 0..spec.size {
            let mut command = rank::command(spec.program).context("cannot find this program")?;
            command
                .envs(spec.environment.iter().map(|(name, value)| (name, value)))
                .env("PARIO_JOB", spec.job)
                .env("PARIO_SIZE", spec.size.to_string())
                .env("PARIO_RANK", number.to_string())
                .process_group(0);
            // A terminal belongs to one process group, and the ranks are in groups of their own.
            if number > 0 || io::stdin().is_terminal() {
                command.stdin(Stdio::null());
            }
            if streams.stdout {
                command.stdout(Stdio::piped());
            }
            if streams.stderr {
                command.stderr(Stdio::piped());
            }
            let of = |what: &str| format!("{what} rank {number} of {}", spec.size);
            let child = command.spawn().with_context(|| of("cannot start"))?;
            let (pid, began) = (Pid::from_child(&child), Instant::now());
            self.all.push(RankProcess { child, pid, began, end: None });
            if let Some(rank) = self.all.last_mut() {
                let read = lines.read(number, &mut rank.child);
                read.with_context(|| of("cannot read the output of"))?;
            }
        }
        Ok(())
    }

    /// Waits until all processes have ended, and passes on signals; returns the rank that failed
    /// first.
    fn wait(&mut self, spec: &JobSpec<'_>, signals: &Receiver<i32>) -> Option<usize> {
        loop {
            self.look(spec);
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
                Ok(signal) => self.pass_on(signal, spec),
                Err(RecvTimeoutError::Timeout) => {
                    self.deadline = None;
                    self.signal_groups(Signal::KILL);
                }
                // Without the listener, no process end would be noticed.
                Err(RecvTimeoutError::Disconnected) => self.kill_all(),
            }
        }
    }

    /// Collects ended processes, and ends the others if one has failed.
    fn look(&mut self, spec: &JobSpec<'_>) {
        for number in 0..self.all.len() {
            let Some(end) = self.all[number].look() else { continue };
            if end.status.success() {
                continue;
            }
            let is_first = self.first_failed.is_none();
            if is_first || spec.keeps_going {
                let others = match (self.running(), spec.keeps_going) {
                    (0, _) => "",
                    (_, true) => "; the others continue",
                    (_, false) => "; ending the others",
                };
                let how = end.describe();
                print_error(&format!("pario: rank {number} of job {} {how}{others}", spec.job));
            }
            if is_first {
                self.first_failed = Some(number);
                if !spec.keeps_going {
                    self.end(spec.grace);
                }
            }
        }
    }

    /// Passes a signal on; one that ends a process goes to its whole group, as from a terminal.
    fn pass_on(&mut self, signal: i32, spec: &JobSpec<'_>) {
        let ends = match signal {
            SIGINT => Signal::INT,
            SIGTERM => Signal::TERM,
            SIGHUP => Signal::HUP,
            signal => {
                let signal = if signal == SIGUSR1 { Signal::USR1 } else { Signal::USR2 };
                for rank in self.all.iter().filter(|rank| rank.end.is_none()) {
                    // The process may have just ended.
                    let _ = kill_process(rank.pid, signal);
                }
                return;
            }
        };
        if self.is_asked && self.deadline.is_none() {
            // A second request also starts the grace period.
            self.is_asked = false;
            self.end(spec.grace);
        }
        self.signal_groups(ends);
        self.is_asked = true;
    }

    /// Asks all processes to end; those that still run at the deadline are killed.
    fn end(&mut self, grace: Duration) {
        self.deadline.get_or_insert_with(|| Instant::now() + grace);
        // Processes that were asked before may be shutting down.
        if !self.is_asked {
            self.signal_groups(Signal::TERM);
        }
    }

    fn signal_groups(&self, signal: Signal) {
        for rank in self.all.iter().filter(|rank| rank.end.is_none()) {
            // The process may have just ended.
            let _ = kill_process_group(rank.pid, signal);
        }
    }

    fn kill_all(&mut self) {
        self.signal_groups(Signal::KILL);
        for rank in &mut self.all {
            rank.reap();
        }
    }

    fn running(&self) -> usize {
        self.all.iter().filter(|rank| rank.end.is_none()).count()
    }
}

impl RankProcess {
    /// Returns how the process has ended, if it has since the last call.
    fn look(&mut self) -> Option<ProcessEnd> {
        if self.end.is_some() {
            return None;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), options) {
            Ok(None) => None,
            Ok(Some(_)) | Err(_) => {
                // Ends the remaining processes of the group.
                let _ = kill_process_group(self.pid, Signal::KILL);
                self.reap();
                self.end
            }
        }
    }

    /// Waits for the end of the process.
    fn reap(&mut self) {
        if self.end.is_none() {
            let status = self.child.wait().unwrap_or(ExitStatus::from_raw(0xff00));
            let took = self.began.elapsed();
            self.end = Some(ProcessEnd { pid: self.child.id(), status, took });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_as_shells_do() {
        let end =
            |raw| ProcessEnd { pid: 1, status: ExitStatus::from_raw(raw), took: Duration::ZERO };
        assert_eq!((end(7 << 8).code(), end(9).code(), end(0).code()), (7, 137, 0));
        assert_eq!(end(7 << 8).describe(), "failed with exit code 7");
        assert_eq!(end(9).describe(), "was killed by signal 9 (SIGKILL)");
        let report = JobReport { ends: vec![end(0), end(3 << 8), end(9)], first_failed: Some(2) };
        assert_eq!(report.code(), 137);
    }

    #[test]
    fn what_is_ignored_is_seen() {
        let status = "Name:\tx\nSigIgn:\t0000000000000001\nSigCgt:\tffff\n";
        assert!(ignores(status, SIGHUP) && !ignores(status, SIGINT) && !ignores("", SIGHUP));
    }
}
