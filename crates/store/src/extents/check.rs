//! Checks of a whole extent subfile: consistency of the index, and checksums of all extents.

use super::block::{ExtentEntry, GranuleRun, MAX_EXTENT_INDEX};
use super::open_file::{ExtentFileState, OpenExtentFile};
use super::{Caching, ExtentFile};
use crate::error::StoreError;
use crate::index::PageLoad;

/// How much [`ExtentFile::check`] verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDepth {
    /// The index alone: every granule belongs to one extent, or is free, reserved or in limbo.
    Index,
    /// The index, and the checksum of every extent.
    Content,
}

impl ExtentFile {
    /// Returns the contradictions and damage that it finds; an empty list if there are none. It
    /// takes time and memory in proportion to the number of extents.
    pub fn check(&self, depth: CheckDepth) -> Result<Vec<StoreError>, StoreError> {
        let mut problems = self.inner.check_index_pages()?;
        if depth == CheckDepth::Content {
            for info in self.list(0..=MAX_EXTENT_INDEX) {
                match info.and_then(|info| self.read_with(info.index, Caching::Bypass)) {
                    Ok(_) => {}
                    Err(error) if error.is_damaged() => problems.push(error),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(problems)
    }
}

impl OpenExtentFile {
    fn check_index_pages(&self) -> Result<Vec<StoreError>, StoreError> {
        let mut state = self.state.lock();
        let mut runs: Vec<(GranuleRun, &'static str, Option<u64>)> = Vec::new();
        let (mut count, mut live_bytes) = (0, 0);
        let ExtentFileState { pages, extents, space, .. } = &mut *state;
        let mut extent = |index, value| {
            let entry = ExtentEntry::from_value(value);
            count += 1;
            live_bytes += entry.payload_bytes();
            runs.push((entry.run(self.granule_bytes), "an extent", Some(index)));
            true
        };
        let scanned = extents.scan(pages, 0, PageLoad::Wait, &mut extent);
        scanned.map_err(|fault| self.fault(fault, None))?;
        let mut free_runs = Vec::new();
        let scanned = space.scan(pages, &mut |run| free_runs.push(run));
        scanned.map_err(|fault| self.fault(fault, None))?;
        runs.extend(free_runs.into_iter().map(|run| (run, "free space", None)));
        runs.extend(state.limbo.iter().map(|(_, run)| (*run, "a replaced extent", None)));
        let reserved = state.reserved.iter();
        runs.extend(reserved.map(|(&position, &granules)| {
            (GranuleRun { position, granules }, "an extent being written", None)
        }));
        runs.sort_by_key(|(run, ..)| run.position);
        let mut problems = Vec::new();
        let mut problem = |extent, what: String| problems.push(self.context.damaged(extent, what));
        let mut expected = 0;
        for (run, what, extent) in runs {
            if run.position > expected {
                let lost = run.position - expected;
                problem(
                    None,
                    format!("{lost} granules at {expected} belong to no extent and are not free"),
                );
            } else if run.position < expected {
                problem(extent, format!("{what} at {} overlaps the run before it", run.position));
            }
            expected = expected.max(run.end());
        }
        let end = state.space.end();
        if expected != end {
            let what = format!("the data ends at granule {end}, and its last run at {expected}");
            problem(None, what);
        }
        if (count, live_bytes) != (state.count, state.live_bytes) {
            let (extents, bytes) = (state.count, state.live_bytes);
            let what = format!(
                "the superblock counts {extents} extents with {bytes} bytes, and the index has \
                 {count} with {live_bytes}"
            );
            problem(None, what);
        }
        Ok(problems)
    }
}
