//! Progress of an image operation: a bar, and a stop on Ctrl-C.

use std::ops::ControlFlow;

use pario::ProcessReport;
use pario_image::{Image, ImageError};

use crate::commands::cp::progress::Progress;
use crate::interrupt::Interrupt;

/// The progress of an operation on the pixels of an image.
pub struct OperationProgress {
    progress: Progress,
    interrupt: Interrupt,
    /// Bytes of all pixels, and of those that are done.
    total: u64,
    done: u64,
}

impl OperationProgress {
    /// Starts the progress bar.
    pub fn begin(name: &str, bytes: u64, is_quiet: bool) -> anyhow::Result<Self> {
        let progress = Progress::begin(name, Some(bytes), is_quiet);
        Ok(Self { progress, interrupt: Interrupt::watch()?, total: bytes, done: 0 })
    }

    /// Advances to `part` of `whole` rows or tiles.
    pub fn advance_to(&mut self, part: u64, whole: u64) -> ControlFlow<()> {
        let done = crate::amounts::share(part, whole, self.total);
        self.progress.advance(done.saturating_sub(self.done));
        self.done = self.done.max(done);
        match self.interrupt.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Advances to the tiles of a report.
    pub fn report(&mut self, report: &ProcessReport) -> ControlFlow<()> {
        self.advance_to(report.progress.done, report.progress.total)
    }

    /// Ends the bar. Returns `Interrupted` if the user stopped the operation.
    pub fn end<T>(self, result: Result<T, ImageError>) -> anyhow::Result<T> {
        match result {
            Ok(done) => {
                self.progress.finish();
                Ok(done)
            }
            Err(error) => {
                self.interrupt.check()?;
                Err(error.into())
            }
        }
    }
}

/// Returns the bytes of all pixels of an image.
pub fn bytes(image: &Image) -> u64 {
    image.window().area() * image.pixel().bytes() as u64
}
