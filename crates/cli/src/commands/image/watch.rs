//! How far something has come: a bar, and an end if somebody asks for it.

use std::ops::ControlFlow;

use pario::Report;
use pario_image::{Image, ImageError};

use crate::commands::cp::progress::Progress;
use crate::interrupt::Interrupt;

/// Shows how far the pixels of an image have come.
pub struct Watch {
    progress: Progress,
    interrupt: Interrupt,
    /// Bytes of all pixels, and of those that are done.
    total: u64,
    done: u64,
}

impl Watch {
    /// So many bytes of pixels begin to move.
    pub fn begin(name: &str, bytes: u64, is_quiet: bool) -> anyhow::Result<Self> {
        let progress = Progress::begin(name, Some(bytes), is_quiet);
        Ok(Self { progress, interrupt: Interrupt::watch()?, total: bytes, done: 0 })
    }

    /// So many of all rows, or tiles, are done.
    pub fn see(&mut self, part: u64, whole: u64) -> ControlFlow<()> {
        let done = crate::amounts::share(part, whole, self.total);
        self.progress.advance(done.saturating_sub(self.done));
        self.done = self.done.max(done);
        match self.interrupt.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// The tiles of a report are done.
    pub fn report(&mut self, report: &Report) -> ControlFlow<()> {
        self.see(report.progress.done, report.progress.total)
    }

    /// It is over. If it was ended by somebody, that is the reason.
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

/// Bytes of all pixels of an image.
pub fn bytes(image: &Image) -> u64 {
    image.window().area() * image.pixel().bytes() as u64
}
