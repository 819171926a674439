//! Collects and prints the result of a copy, as text or JSON.

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::copy::CopiedFile;
use super::direction::Location;
use super::plan::{CopyFailure, CopyItem, SkipReason, Skipped};
use crate::amounts::{count, per_second, rate, size};
use crate::terminal;

/// Most files that the text report names one by one.
const NAMED_FILES: usize = 8;
/// Below this size a rate is meaningless.
const RATED_BYTES: u64 = 1 << 20;

/// The result of a copy so far.
pub struct CopyReport {
    began: Instant,
    is_json: bool,
    is_verbose: bool,
    is_verified: bool,
    /// Whether the content itself goes to stdout: then nothing else may.
    to_stdout: bool,
    copied: Vec<(Location, Location, CopiedFile)>,
    directories: usize,
    skipped: Vec<Skipped>,
    /// Files that were not copied.
    pub failures: Vec<CopyFailure>,
}

impl CopyReport {
    /// Creates an empty report.
    pub fn new(is_json: bool, is_verbose: bool, is_verified: bool, to_stdout: bool) -> Self {
        Self {
            began: Instant::now(),
            is_json,
            is_verbose,
            is_verified,
            to_stdout,
            copied: Vec::new(),
            directories: 0,
            skipped: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Counts a directory.
    pub fn note_directory(&mut self) {
        self.directories += 1;
    }

    /// Records files that were skipped on purpose.
    pub fn note_skipped(&mut self, skipped: Vec<Skipped>) -> anyhow::Result<()> {
        if self.says_each() {
            for Skipped { from, reason } in &skipped {
                self.say(&format!("{from}: {}", reason_words(*reason)))?;
            }
        }
        self.skipped = skipped;
        Ok(())
    }

    /// Records a copied file.
    pub fn note_copied(&mut self, item: &CopyItem, copied: CopiedFile) -> anyhow::Result<()> {
        if self.says_each() {
            self.say(&line(&item.from, &item.to, &copied))?;
        }
        self.copied.push((item.from.clone(), item.to.clone(), copied));
        Ok(())
    }

    /// Returns the number of copied files.
    pub fn copied(&self) -> usize {
        self.copied.len()
    }

    /// Prints the copied and skipped files; [`Self::print_failures`] prints the failures.
    pub fn print(&self, roots: &[(Location, Location)]) -> anyhow::Result<()> {
        if self.is_json {
            if !self.to_stdout {
                terminal::print_json(&self.as_json())?;
            }
            return Ok(());
        }
        if !self.to_stdout {
            for line in self.summary(roots) {
                self.say(&line)?;
            }
        }
        self.print_notices();
        Ok(())
    }

    /// Prints the failures on stderr.
    pub fn print_failures(&self) {
        let failed = self.failures.len();
        let all = failed + self.copied.len();
        eprintln!("pario: {failed} of {} not copied:", count(all as u64, "file"));
        for CopyFailure { from, error, .. } in &self.failures {
            let text = format!("{error:#}");
            let name = from.to_string();
            let bare = name.strip_prefix(crate::paths::PREFIX).unwrap_or(&name);
            match text.contains(bare) {
                true => eprintln!("  {text}"),
                false => eprintln!("  {name}: {text}"),
            }
        }
    }

    fn says_each(&self) -> bool {
        self.is_verbose && !self.is_json && !self.to_stdout
    }

    fn say(&self, line: &str) -> anyhow::Result<()> {
        let mut out = terminal::output();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }

    fn bytes(&self) -> u64 {
        self.copied.iter().map(|(_, _, copied)| copied.bytes).sum()
    }

    fn count_skipped(&self, reason: SkipReason) -> u64 {
        self.skipped.iter().filter(|skipped| skipped.reason == reason).count() as u64
    }

    fn summary(&self, roots: &[(Location, Location)]) -> Vec<String> {
        let mut lines = Vec::new();
        let is_short = self.copied.len() <= NAMED_FILES;
        if is_short && !self.is_verbose {
            lines.extend(self.copied.iter().map(|(from, to, copied)| line(from, to, copied)));
        }
        let is_tree = self.copied.is_empty() && self.directories > 0;
        if !is_short || is_tree {
            let mut what = count(self.copied.len() as u64, "file");
            if self.directories > 0 {
                what = format!("{what} in {}", directories(self.directories));
            }
            let speed = amount(self.bytes(), self.began.elapsed());
            let ways: Vec<_> = roots.iter().map(|(from, to)| format!("{from} -> {to}")).collect();
            let shown = match ways.len() {
                0..=NAMED_FILES => ways.join(", "),
                more => {
                    format!("{}, and {} more", ways[..NAMED_FILES].join(", "), more - NAMED_FILES)
                }
            };
            lines.push(format!("{shown}  {what}, {speed}"));
        }
        let unchanged = self.count_skipped(SkipReason::Unchanged);
        if unchanged > 0 {
            let verb = if unchanged == 1 { "is" } else { "are" };
            lines.push(format!("{} {verb} unchanged", count(unchanged, "file")));
        }
        let existing = self.count_skipped(SkipReason::Exists);
        if existing > 0 {
            let verb = if existing == 1 { "exists" } else { "exist" };
            lines.push(format!("{} {verb} already", count(existing, "file")));
        }
        lines
    }

    /// Prints on stderr what the user may not expect.
    fn print_notices(&self) {
        let links = self.count_skipped(SkipReason::Link);
        if links > 0 {
            let (verb, them) = if links == 1 { ("is", "it points") } else { ("are", "they point") };
            let links = count(links, "symbolic link");
            eprintln!("pario: {links} {verb} left out; -L copies what {them} to");
        }
        let unfinished = self.count_skipped(SkipReason::Unfinished);
        if unfinished > 0 {
            let verb = if unfinished == 1 { "copy is" } else { "copies are" };
            eprintln!(
                "pario: {unfinished} unfinished {verb} left out (names that end with .pario-part)"
            );
        }
    }

    fn as_json(&self) -> Value {
        let took = self.began.elapsed();
        let copied = self.copied.iter().map(|(from, to, copied)| {
            json!({
                "from": from.to_string(),
                "to": to.to_string(),
                "bytes": copied.bytes,
                "continued_at": copied.continued_at,
                "bytes_per_second": per_second(copied.bytes - copied.continued_at, copied.took),
                "verified": self.is_verified,
            })
        });
        let skipped = self.skipped.iter().map(|Skipped { from, reason }| {
            json!({ "from": from.to_string(), "reason": reason_name(*reason) })
        });
        let failed = self.failures.iter().map(|CopyFailure { from, to, error }| {
            json!({
                "from": from.to_string(),
                "to": to.as_ref().map(ToString::to_string),
                "error": format!("{error:#}"),
            })
        });
        json!({
            "copied": copied.collect::<Vec<_>>(),
            "skipped": skipped.collect::<Vec<_>>(),
            "failed": failed.collect::<Vec<_>>(),
            "files": self.copied.len(),
            "directories": self.directories,
            "bytes": self.bytes(),
            "seconds": took.as_secs_f64(),
            "bytes_per_second": per_second(self.bytes(), took),
        })
    }
}

fn directories(number: usize) -> String {
    if number == 1 { "1 directory".to_owned() } else { format!("{number} directories") }
}

/// `results.h5 -> pario:/runs/results.h5  1.9 GiB, 2.1 GiB/s`
fn line(from: &Location, to: &Location, copied: &CopiedFile) -> String {
    let moved = copied.bytes - copied.continued_at;
    let speed = match moved {
        RATED_BYTES.. => format!(", {}", rate(per_second(moved, copied.took))),
        _ => String::new(),
    };
    let continued = match copied.continued_at {
        0 => String::new(),
        at => format!(", continued at {}", size(at)),
    };
    format!("{from} -> {to}  {}{speed}{continued}", size(copied.bytes))
}

fn amount(bytes: u64, took: Duration) -> String {
    match bytes {
        RATED_BYTES.. => format!("{}, {}", size(bytes), rate(per_second(bytes, took))),
        _ => size(bytes),
    }
}

fn reason_words(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Link => "a symbolic link, left out",
        SkipReason::Exists => "exists already",
        SkipReason::Unchanged => "unchanged",
        SkipReason::Unfinished => "an unfinished copy, left out",
    }
}

fn reason_name(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Link => "link",
        SkipReason::Exists => "exists",
        SkipReason::Unchanged => "unchanged",
        SkipReason::Unfinished => "unfinished",
    }
}
