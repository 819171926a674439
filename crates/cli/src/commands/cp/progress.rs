//! A progress bar on stderr, shown only on a terminal.

use std::fmt::Write;
use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::amounts;

/// A transfer under way.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Starts a bar; `bytes` is `None` for a stream. `is_quiet` shows nothing.
    pub fn begin(name: &str, bytes: Option<u64>, is_quiet: bool) -> Self {
        if is_quiet || !stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        let (bar, template) = match bytes {
            Some(bytes) => {
                (ProgressBar::new(bytes), "{prefix}  {size}  {bar:20}  {rate}  {eta} left")
            }
            None => (ProgressBar::no_length(), "{prefix}  {moved}  {spinner}  {rate}"),
        };
        let bar = bar.with_style(style(template)).with_prefix(name.to_owned());
        bar.tick();
        Self { bar }
    }

    /// Adds moved bytes.
    pub fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Sets the bytes that are done, and their total, which may change.
    pub fn set(&self, bytes: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(bytes);
    }

    /// Ends the bar and leaves its last state on the screen.
    pub fn finish(&self) {
        self.bar.finish();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // An error reports an unfinished transfer; remove its bar.
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let size = |state: &ProgressState, out: &mut dyn Write| {
        let _ = out.write_str(&amounts::size(state.len().unwrap_or(0)));
    };
    let moved = |state: &ProgressState, out: &mut dyn Write| {
        let _ = out.write_str(&amounts::size(state.pos()));
    };
    let rate = |state: &ProgressState, out: &mut dyn Write| {
        let _ = out.write_str(&amounts::rate(amounts::per_second(state.pos(), state.elapsed())));
    };
    ProgressStyle::with_template(template)
        .expect("the templates are valid")
        .with_key("size", size)
        .with_key("moved", moved)
        .with_key("rate", rate)
        .progress_chars("██░")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_fine_and_nothing_is_shown_to_no_terminal() {
        let _ = style("{prefix}  {size}  {bar:20}  {rate}  {eta} left");
        let _ = style("{prefix}  {moved}  {spinner}  {rate}");
        let progress = Progress::begin("x", Some(10), true);
        progress.advance(10);
        progress.finish();
        assert!(progress.bar.is_hidden());
    }
}
