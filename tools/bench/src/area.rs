//! Areas, and the families of figures they consist of.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::plot::Plot;
use crate::report::Report;

/// How the benchmark was called.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Less data and fewer turns.
    pub quick: bool,
    /// A directory of our own on the disk to be measured.
    pub dir: PathBuf,
}

impl Setting {
    /// One of two values: for a full run, or for a quick one.
    pub fn choose<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A directory of its own for a figure.
    pub fn subdir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir(&dir).with_context(|| format!("making the directory {}", dir.display()))?;
        Ok(dir)
    }

    /// Free bytes of the file system that is measured.
    pub fn free_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.dir).context("measuring the free space")?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Has the file system finish what earlier work has left it to do.
    pub fn settle(&self) -> Result<()> {
        let dir = File::open(&self.dir).context("opening the directory")?;
        rustix::fs::syncfs(dir).context("syncing the file system")
    }

    /// Why figures that need so many bytes on the disk cannot be measured, if so.
    pub fn lacks_space(&self, needed_bytes: u64) -> Result<Option<String>> {
        let free_bytes = self.free_bytes()?;
        Ok((free_bytes < needed_bytes).then(|| {
            let (needed, free) = (needed_bytes >> 20, free_bytes >> 20);
            format!("needs {needed} MiB of free space, there are {free}")
        }))
    }
}

/// Figures that are measured together.
pub struct Family {
    /// How the names of its figures begin, behind the area.
    pub name: &'static str,
    /// What is measured, in a few words.
    pub what: &'static str,
    /// Measures and reports.
    pub run: fn(&Setting, &mut Report) -> Result<()>,
}

/// A part of pario whose figures belong together.
pub struct Area {
    /// How the names of all its figures begin.
    pub name: &'static str,
    /// Its figures, in the order they are measured.
    pub families: &'static [Family],
    /// Plots of what was measured.
    pub draw: fn(&Report) -> Vec<Plot>,
}

/// For areas that have no plots.
pub fn nothing(_: &Report) -> Vec<Plot> {
    Vec::new()
}

impl Area {
    /// The families whose names begin in one of these ways, with commas between them.
    pub fn beginning(&self, beginnings: &str) -> impl Iterator<Item = &'static Family> {
        let families = self.families.iter();
        families.filter(move |family| {
            beginnings.split(',').any(|beginning| family.name.starts_with(beginning))
        })
    }
}
