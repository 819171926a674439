//! A bar on the terminal while a phase runs; nothing where stderr is something else.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

use super::report::Phase;

/// The progress of one phase. The bar goes when this value does.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A phase that begins, with the bytes that it will go through.
    pub fn of_bytes(phase: Phase, bytes: u64) -> Self {
        let template = "{prefix} {wide_bar} {percent:>3} %  {decimal_bytes_per_sec:>11}  \
                        {eta:>3} left";
        Self::begin(phase, bytes, template)
    }

    /// A phase that begins, and tells no more than when it is done with a disk.
    pub fn of_disks(phase: Phase, disks: u64) -> Self {
        let template = "{prefix} {spinner} {pos} of {len} disks done, {elapsed}";
        Self::begin(phase, disks, template)
    }

    /// So many bytes or disks more are done.
    pub fn advance(&self, done: u64) {
        self.bar.inc(done);
    }

    /// It goes on, even if nothing more is done.
    pub fn show_life(&self) {
        self.bar.tick();
    }

    fn begin(phase: Phase, length: u64, template: &str) -> Self {
        if !stderr().is_terminal() {
            let bar = ProgressBar::hidden();
            return Self { bar };
        }
        let style = ProgressStyle::with_template(template)
            .expect("the templates are fixed")
            .progress_chars("██░");
        let prefix = format!("{}/{} {phase:<17}", phase as usize + 1, Phase::COUNT);
        let bar = ProgressBar::new(length).with_style(style).with_prefix(prefix);
        bar.tick();
        Self { bar }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
