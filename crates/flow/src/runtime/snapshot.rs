//! How a running program is doing.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The state of a running program at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The program.
    pub program: String,
    /// Calls under way, made by the first process.
    pub calls: Vec<CallView>,
    /// What each step of each operation has done, over all threads.
    pub stages: Vec<StageView>,
    /// What each thread is doing.
    pub threads: Vec<ThreadView>,
    /// Tokens that wait for a free thread of a pool: pool and number.
    pub unassigned: Vec<(String, usize)>,
    /// Processes that are gone.
    pub lost: Vec<String>,
    /// Processes that did not answer in time.
    pub silent: Vec<String>,
}

/// A call under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallView {
    /// Its number.
    pub number: u64,
    /// The operation that was called.
    pub operation: String,
    /// How long ago it began.
    pub age_ns: u64,
}

/// A step of an operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageView {
    /// The operation.
    pub operation: String,
    /// The step.
    pub step: String,
    /// Tokens that entered it; for a split, tokens that it made.
    pub tokens_in: u64,
    /// Tokens that left it; for a split, tokens that it knows to be merged.
    pub tokens_out: u64,
    /// The time spent in it, as a share of the time since the start; a pool can have more than 1.
    pub busy_share: f64,
    /// For a split, the most tokens that were under way at once.
    pub peak: u64,
    /// For a split, its window: `automatic`, `4`, `2 × 10`.
    pub window: Option<String>,
}

/// A thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadView {
    /// The process it lives in.
    pub space: String,
    /// Its name.
    pub name: String,
    /// Messages in its queue.
    pub queued: u64,
    /// Messages it has dealt with.
    pub tokens: u64,
    /// The share of the time since the start that it was busy.
    pub busy_share: f64,
    /// What it is doing now.
    pub doing: Option<Doing>,
    /// The splits it has under way.
    pub splits: Vec<SplitView>,
}

/// A step that a thread is in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Doing {
    /// The operation.
    pub operation: String,
    /// The step.
    pub step: String,
    /// For how long.
    pub for_ns: u64,
}

/// A split under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SplitView {
    /// The call it belongs to.
    pub call: u64,
    /// The operation.
    pub operation: String,
    /// The step.
    pub step: String,
    /// Tokens split off so far.
    pub split: u64,
    /// Tokens known to be merged.
    pub merged: u64,
    /// How many may be under way now.
    pub window: u64,
    /// Whether the window keeps the next token back.
    pub is_full: bool,
    /// How long ago it began.
    pub age_ns: u64,
}

/// What one process knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SpaceView {
    pub(crate) stages: Vec<StageView>,
    pub(crate) threads: Vec<ThreadView>,
    pub(crate) unassigned: Vec<(String, usize)>,
}

impl Snapshot {
    /// Who waits for whom: what each call under way is waiting for, in words.
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
                thread.space,
                doing.step,
                doing.operation,
                seconds(doing.for_ns),
                thread.queued
            );
        }
        for (pool, tokens) in self.unassigned.iter().filter(|(_, tokens)| *tokens > 0) {
            text += &format!("pool {pool}: {tokens} tokens wait for a free thread\n");
        }
        for space in &self.lost {
            text += &format!("process {space} is gone\n");
        }
        for space in &self.silent {
            text += &format!("process {space} does not answer\n");
        }
        if !self.calls.is_empty() && self.threads.iter().all(|t| t.doing.is_none() && t.queued == 0)
        {
            let kept: u64 = self
                .stages
                .iter()
                .filter(|s| s.window.is_none())
                .map(|s| s.tokens_in - s.tokens_out.min(s.tokens_in))
                .sum();
            text += &format!(
                "no thread has anything to do: {kept} tokens are kept by asynchronous steps\n"
            );
            for stage in &self.stages {
                if stage.window.is_none() && stage.tokens_in > stage.tokens_out {
                    text += &format!(
                        "  {} of {} keeps {}\n",
                        stage.step,
                        stage.operation,
                        stage.tokens_in - stage.tokens_out
                    );
                }
            }
        }
        text
    }

    fn splits_of(&self, call: u64) -> impl Iterator<Item = (&ThreadView, &SplitView)> {
        self.threads
            .iter()
            .flat_map(|thread| thread.splits.iter().map(move |split| (thread, split)))
            .filter(move |(_, split)| split.call == call)
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {}: {} calls under way", self.program, self.calls.len())?;
        writeln!(
            f,
            "{:<24} {:<20} {:>10} {:>10} {:>6} {:>10}",
            "operation", "step", "in", "out", "busy", "window"
        )?;
        for stage in self.stages.iter().filter(|stage| stage.tokens_in > 0) {
            let window = match &stage.window {
                Some(window) => format!("{window} ≤{}", stage.peak),
                None => String::new(),
            };
            writeln!(
                f,
                "{:<24} {:<20} {:>10} {:>10} {:>5.0}% {:>10}",
                stage.operation,
                stage.step,
                stage.tokens_in,
                stage.tokens_out,
                stage.busy_share * 100.0,
                window
            )?;
        }
        writeln!(
            f,
            "{:<24} {:<20} {:>10} {:>10} {:>6} doing",
            "thread", "process", "dealt with", "queued", "busy"
        )?;
        for thread in &self.threads {
            let doing = thread.doing.as_ref().map_or(String::new(), |doing| {
                format!("{} of {}, {}", doing.step, doing.operation, seconds(doing.for_ns))
            });
            writeln!(
                f,
                "{:<24} {:<20} {:>10} {:>10} {:>5.0}% {doing}",
                thread.name,
                thread.space,
                thread.tokens,
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
