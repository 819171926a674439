//! Checking a whole extent subfile: does everything fit together, is everything readable?

use super::block::{Entry, MAX_EXTENT_INDEX, Run};
use super::shared::{Shared, State};
use super::{Caching, ExtentFile};
use crate::error::StoreError;
use crate::index::Load;

/// How thoroughly [`ExtentFile::check`] looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDepth {
    /// The index alone: every granule belongs to one extent, or is free, or waits.
    Index,
    /// The index, and every extent is read and its checksum verified.
    Content,
}

impl ExtentFile {
    /// Looks for contradictions and damage; the answer lists them, and is empty if all is well.
    /// It takes time and memory in proportion to the number of extents.
    pub fn check(&self, depth: CheckDepth) -> Result<Vec<StoreError>, StoreError> {
        let mut problems = self.shared.check_index_pages()?;
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

impl Shared {
    fn check_index_pages(&self) -> Result<Vec<StoreError>, StoreError> {
        let mut state = self.state.lock();
        let mut runs: Vec<(Run, &'static str, Option<u64>)> = Vec::new();
        let (mut count, mut live_bytes) = (0, 0);
        let State { pages, extents, space, .. } = &mut *state;
        let mut extent = |index, value| {
            let entry = Entry::from_value(value);
            count += 1;
            live_bytes += entry.payload_bytes();
            runs.push((entry.run(self.granule_bytes), "an extent", Some(index)));
            true
        };
        let scanned = extents.scan(pages, 0, Load::Wait, &mut extent);
        scanned.map_err(|fault| self.fault(fault, None))?;
        let mut free_runs = Vec::new();
        let scanned = space.scan(pages, &mut |run| free_runs.push(run));
        scanned.map_err(|fault| self.fault(fault, None))?;
        runs.extend(free_runs.into_iter().map(|run| (run, "free space", None)));
        runs.extend(state.limbo.iter().map(|(_, run)| (*run, "a replaced extent", None)));
        let reserved = state.reserved.iter();
        runs.extend(reserved.map(|(&position, &granules)| {
            (Run { position, granules }, "an extent being written", None)
        }));
        runs.sort_by_key(|(run, ..)| run.position);
        let mut problems = Vec::new();
        let mut problem = |extent, what: String| problems.push(self.place.damaged(extent, what));
        let mut expected = 0;
        for (run, what, extent) in runs {
            if run.position > expected {
                let lost = run.position - expected;
                problem(None, format!("{lost} granules at {expected} belong to nothing"));
            } else if run.position < expected {
                problem(extent, format!("{what} at {} overlaps what is before it", run.position));
            }
            expected = expected.max(run.end());
        }
        let end = state.space.end();
        if expected != end {
            problem(None, format!("the data ends at {end}, its parts at {expected}"));
        }
        if (count, live_bytes) != (state.count, state.live_bytes) {
            problem(None, "the number of extents or of their bytes is wrong".into());
        }
        Ok(problems)
    }
}
