//! Areas, and the families of figures that they consist of.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::plot::Plot;
use crate::report::Report;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Less data and fewer turns.
    pub quick: bool,
    /// The scratch directory, on the disk that is measured.
    pub dir: PathBuf,
}

impl RunSettings {
    /// Returns one of two values: for a full run, or for a quick one.
    pub fn choose<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Creates a directory for a figure.
    pub fn subdir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir(&dir)
            .with_context(|| format!("creating the directory {}", dir.display()))?;
        Ok(dir)
    }

    /// Free bytes of the file system that is measured.
    pub fn free_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.dir).context("measuring the free space")?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Makes the file system finish earlier work, so that it does not count in the next turn.
    pub fn flush_file_system(&self) -> Result<()> {
        let dir = File::open(&self.dir).context("opening the directory")?;
        rustix::fs::syncfs(dir).context("syncing the file system")
    }

    /// Returns why figures that need this many bytes on the disk cannot be measured; `None` if they
    /// can.
    pub fn lacks_space(&self, needed_bytes: u64) -> Result<Option<String>> {
        let free_bytes = self.free_bytes()?;
        Ok((free_bytes < needed_bytes).then(|| {
            let (needed, free) = (needed_bytes >> 20, free_bytes >> 20);
            format!("needs {needed} MiB of free space, there are {free}")
        }))
    }
}

/// Figures that are measured together.
pub struct FigureFamily {
    /// The beginning of the names of its figures, behind the area.
    pub name: &'static str,
    /// A description in a few words.
    pub description: &'static str,
    /// Measures the figures and reports them.
    pub run: fn(&RunSettings, &mut Report) -> Result<()>,
}

/// A part of Pario whose figures belong together.
pub struct BenchArea {
    /// The beginning of the names of all its figures.
    pub name: &'static str,
    /// Its figures, in the order in which they are measured.
    pub families: &'static [FigureFamily],
    /// Draws plots of the measured figures.
    pub draw: fn(&Report) -> Vec<Plot>,
}

/// Draws nothing, for areas without plots.
pub fn nothing(_: &Report) -> Vec<Plot> {
    Vec::new()
}

impl BenchArea {
    /// The families whose names begin with one of these texts, which are separated by commas.
    pub fn beginning(&self, beginnings: &str) -> impl Iterator<Item = &'static FigureFamily> {
        let families = self.families.iter();
        families.filter(move |family| {
            beginnings.split(',').any(|beginning| family.name.starts_with(beginning))
        })
    }
}
