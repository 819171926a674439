//! Snapshots: the status of a running program, and its texts.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The status of a running program at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramSnapshot {
    /// The program.
    pub program: String,
    /// Calls under way, made by the first process.
    pub calls: Vec<CallStatus>,
    /// The steps of all operations, summed over all threads.
    pub steps: Vec<StepStatus>,
    /// The threads of all processes.
    pub threads: Vec<ThreadStatus>,
    /// Tokens that wait for a free thread of a pool: pool, number of tokens.
    pub unassigned: Vec<(String, usize)>,
    /// Lost processes.
    pub lost: Vec<String>,
    /// Processes that did not answer in time.
    pub silent: Vec<String>,
    /// Processes that are attached to the program.
    pub attached: Vec<String>,
}

/// A call under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallStatus {
    /// Its number.
    pub number: u64,
    /// The operation that was called.
    pub operation: String,
    /// The time since its begin.
    pub age_ns: u64,
}

/// A step of an operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepStatus {
    /// The operation.
    pub operation: String,
    /// The step.
    pub step: String,
    /// Tokens that entered the step; for a split, tokens that it made.
    pub tokens_in: u64,
    /// Tokens that left the step; for a split, tokens reported as merged.
    pub tokens_out: u64,
    /// The time spent in the step, as a share of the time since the start; above 1 for a pool.
    pub busy_share: f64,
    /// For a split, the largest number of tokens under way at once.
    pub peak: u64,
    /// For a split, its window: `automatic`, `4`, `2 × 10`.
    pub window: Option<String>,
}

/// A thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadStatus {
    /// Its process.
    pub process: String,
    /// Its name.
    pub name: String,
    /// Messages in its queue.
    pub queued: u64,
    /// Messages that it has handled.
    pub handled: u64,
    /// Its busy time, as a share of the time since the start.
    pub busy_share: f64,
    /// The step that it runs now.
    pub doing: Option<CurrentStep>,
    /// Its splits under way.
    pub splits: Vec<SplitStatus>,
}

/// The step that a thread runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CurrentStep {
    /// The operation.
    pub operation: String,
    /// The step.
    pub step: String,
    /// The time since its begin.
    pub for_ns: u64,
}

/// A split under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SplitStatus {
    /// The call it belongs to.
    pub call: u64,
    /// The operation.
    pub operation: String,
    /// The step.
    pub step: String,
    /// Tokens split off so far.
    pub split: u64,
    /// Tokens reported as merged.
    pub merged: u64,
    /// The current window.
    pub window: u64,
    /// Whether the window holds the next token back.
    pub is_full: bool,
    /// The time since its begin.
    pub age_ns: u64,
}

/// The status of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProcessStatus {
    pub(crate) steps: Vec<StepStatus>,
    pub(crate) threads: Vec<ThreadStatus>,
    pub(crate) unassigned: Vec<(String, usize)>,
}

impl ProgramSnapshot {
    /// Describes what each call under way waits for.
    pub fn waits(&self) -> String {
        let mut text = String::new();
        for call in &self.calls {
            text += &format!(
                "call {} of {}: under way for {}\n",
                call.number,
                call.operation,
                seconds(call.age_ns)
            );
            for (thread, split) in self.splits_of(call.number) {
                let state = if split.is_full { "the window is full" } else { "room for more" };
                text += &format!(
                    "  {} {} on {}: {} split off, {} merged, {} of {} under way ({state})\n",
                    split.operation,
                    split.step,
                    thread.name,
                    split.split,
                    split.merged,
                    split.split - split.merged,
                    split.window,
                );
            }
        }
        let mut busy: Vec<_> = self
            .threads
            .iter()
            .filter_map(|thread| thread.doing.as_ref().map(|doing| (thread, doing)))
            .collect();
        busy.sort_by_key(|(_, doing)| std::cmp::Reverse(doing.for_ns));
        for (thread, doing) in busy {
            text += &format!(
                "thread {} ({}): in {} of {} for {}, {} waiting behind it\n",
                thread.name,
                thread.process,
                doing.step,
                doing.operation,
                seconds(doing.for_ns),
                thread.queued
            );
        }
        for (pool, tokens) in self.unassigned.iter().filter(|(_, tokens)| *tokens > 0) {
            text += &format!("pool {pool}: {tokens} tokens wait for a free thread\n");
        }
        for process in &self.lost {
            text += &format!("process {process} was lost\n");
        }
        for process in &self.silent {
            text += &format!("process {process} does not answer\n");
        }
        if !self.calls.is_empty() && self.threads.iter().all(|t| t.doing.is_none() && t.queued == 0)
        {
            let kept: u64 = self
                .steps
                .iter()
                .filter(|s| s.window.is_none())
                .map(|s| s.tokens_in - s.tokens_out.min(s.tokens_in))
                .sum();
            text += &format!("all threads are idle: asynchronous steps keep {kept} tokens\n");
            for step in &self.steps {
                if step.window.is_none() && step.tokens_in > step.tokens_out {
                    text += &format!(
                        "  {} of {} keeps {}\n",
                        step.step,
                        step.operation,
                        step.tokens_in - step.tokens_out
                    );
                }
            }
        }
        text
    }

    fn splits_of(&self, call: u64) -> impl Iterator<Item = (&ThreadStatus, &SplitStatus)> {
        self.threads
            .iter()
            .flat_map(|thread| thread.splits.iter().map(move |split| (thread, split)))
            .filter(move |(_, split)| split.call == call)
    }
}

impl fmt::Display for ProgramSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {}: {} calls under way", self.program, self.calls.len())?;
        if !self.attached.is_empty() {
            writeln!(f, "attached: {}", self.attached.join(", "))?;
        }
        writeln!(
            f,
            "{:<24} {:<20} {:>10} {:>10} {:>6} {:>10}",
            "operation", "step", "in", "out", "busy", "window"
        )?;
        for step in self.steps.iter().filter(|step| step.tokens_in > 0) {
            let window = match &step.window {
                Some(window) => format!("{window} ≤{}", step.peak),
                None => String::new(),
            };
            writeln!(
                f,
                "{:<24} {:<20} {:>10} {:>10} {:>5.0}% {:>10}",
                step.operation,
                step.step,
                step.tokens_in,
                step.tokens_out,
                step.busy_share * 100.0,
                window
            )?;
        }
        writeln!(
            f,
            "{:<24} {:<20} {:>10} {:>10} {:>6} doing",
            "thread", "process", "handled", "queued", "busy"
        )?;
        for thread in &self.threads {
            let doing = thread.doing.as_ref().map_or(String::new(), |doing| {
                format!("{} of {}, {}", doing.step, doing.operation, seconds(doing.for_ns))
            });
            writeln!(
                f,
                "{:<24} {:<20} {:>10} {:>10} {:>5.0}% {doing}",
                thread.name,
                thread.process,
                thread.handled,
                thread.queued,
                thread.busy_share * 100.0
            )?;
        }
        f.write_str(&self.waits())
    }
}

fn seconds(ns: u64) -> String {
    format!("{:.1?}", Duration::from_nanos(ns))
}
