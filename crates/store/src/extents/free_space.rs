//! The free granules of a data file.
//!
//! Invariants: free runs neither touch nor overlap, and none touches `end`; both trees hold exactly
//! the same runs. All granules from `end` on are free and belong to no run.

use super::block::GranuleRun;
use crate::index::{PageFault, PageLoad, Pages, Tree};

/// The data file of one subfile has at most this many granules.
pub(crate) const MAX_GRANULES: u64 = 1 << POSITION_BITS;

const POSITION_BITS: u32 = 40;
/// The length of longer runs in keys of `by_size`: every extent is shorter.
const MAX_SIZE_IN_KEY: u64 = (1 << (64 - POSITION_BITS)) - 1;

/// The free runs of a data file, stored in the pages of its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeSpace {
    by_position: Tree,
    by_size: Tree,
    end: u64,
}

impl FreeSpace {
    pub(crate) fn new(by_position: Tree, by_size: Tree, end: u64) -> Result<Self, PageFault> {
        if end > MAX_GRANULES {
            return Err(PageFault::Damaged(
                "the index names an impossible end of the data file".into(),
            ));
        }
        Ok(Self { by_position, by_size, end })
    }

    pub(crate) fn trees(&self) -> [Tree; 2] {
        [self.by_position, self.by_size]
    }

    /// One past the last granule in use.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Allocates from the smallest free run that is large enough, the first one of these.
    pub(crate) fn allocate(
        &mut self,
        pages: &mut Pages,
        granules: u64,
    ) -> Result<Option<GranuleRun>, PageFault> {
        let best = self.by_size.at_or_after(pages, size_key(granules, 0), PageLoad::Wait)?;
        let Some((key, _)) = best else { return Ok(None) };
        let position = key & (MAX_GRANULES - 1);
        self.cut(pages, position, position, granules)?;
        Ok(Some(GranuleRun { position, granules }))
    }

    /// Allocates like [`allocate`](Self::allocate), but fails with [`PageFault::Absent`] and changes
    /// nothing if a page is not in memory that the allocation reads.
    pub(crate) fn allocate_in_memory(
        &mut self,
        pages: &mut Pages,
        granules: u64,
    ) -> Result<Option<GranuleRun>, PageFault> {
        let best = self.by_size.at_or_after(pages, size_key(granules, 0), PageLoad::Refuse)?;
        let Some((key, _)) = best else { return Ok(None) };
        let position = key & (MAX_GRANULES - 1);
        self.by_size.check_in_memory(pages, key)?;
        self.by_position.check_in_memory(pages, position)?;
        if let Some(value) = self.by_position.get(pages, position, PageLoad::Refuse)? {
            let rest = GranuleRun {
                position: position + granules,
                granules: value[0].saturating_sub(granules),
            };
            self.by_size.check_in_memory(pages, size_key(rest.granules, rest.position))?;
            self.by_position.check_in_memory(pages, rest.position)?;
        }
        self.allocate(pages, granules)
    }

    /// Allocates new granules at the end. `None` if the data file would become too large.
    pub(crate) fn allocate_at_end(&mut self, granules: u64) -> Option<GranuleRun> {
        let position = self.end;
        let end = position.checked_add(granules).filter(|&end| end <= MAX_GRANULES)?;
        self.end = end;
        Some(GranuleRun { position, granules })
    }

    /// Allocates the first granules of the free run that starts at a position, if that run exists and
    /// is large enough.
    pub(crate) fn allocate_at(
        &mut self,
        pages: &mut Pages,
        position: u64,
        granules: u64,
    ) -> Result<Option<GranuleRun>, PageFault> {
        match self.by_position.get(pages, position, PageLoad::Wait)? {
            Some(value) if value[0] >= granules => {
                self.cut(pages, position, position, granules)?;
                Ok(Some(GranuleRun { position, granules }))
            }
            _ => Ok(None),
        }
    }

    /// Allocates exactly this run, which must be free.
    pub(crate) fn take(&mut self, pages: &mut Pages, run: GranuleRun) -> Result<(), PageFault> {
        if run.end() > MAX_GRANULES {
            return Err(contradiction(run));
        }
        if run.position >= self.end {
            let gap = GranuleRun { position: self.end, granules: run.position - self.end };
            self.end = run.end();
            if gap.granules > 0 {
                self.add(pages, gap)?;
            }
            return Ok(());
        }
        let within = self.by_position.before(pages, run.position + 1, PageLoad::Wait)?;
        match within {
            Some((start, value)) if start.saturating_add(value[0]) >= run.end() => {
                self.cut(pages, start, run.position, run.granules)
            }
            _ => Err(contradiction(run)),
        }
    }

    /// Frees a run and merges it with its free neighbours. A free run at the end lowers `end`
    /// instead.
    pub(crate) fn free(&mut self, pages: &mut Pages, run: GranuleRun) -> Result<(), PageFault> {
        let GranuleRun { mut position, mut granules } = run;
        if granules == 0 || run.end() > self.end {
            return Err(contradiction(run));
        }
        let after = self.by_position.at_or_after(pages, position, PageLoad::Wait)?;
        let before = self.by_position.before(pages, position, PageLoad::Wait)?;
        if let Some((start, value)) = after {
            if start < run.end() {
                return Err(contradiction(run));
            }
            if start == run.end() {
                self.remove(pages, GranuleRun { position: start, granules: value[0] })?;
                granules = granules.saturating_add(value[0]);
            }
        }
        if let Some((start, value)) = before {
            if start.saturating_add(value[0]) > position {
                return Err(contradiction(run));
            }
            if start.saturating_add(value[0]) == position {
                self.remove(pages, GranuleRun { position: start, granules: value[0] })?;
                position = start;
                granules = granules.saturating_add(value[0]);
            }
        }
        if position.saturating_add(granules) == self.end {
            self.end = position;
            Ok(())
        } else {
            self.add(pages, GranuleRun { position, granules })
        }
    }

    /// The first free run at or after a position.
    pub(crate) fn first_free(
        &self,
        pages: &mut Pages,
        position: u64,
    ) -> Result<Option<GranuleRun>, PageFault> {
        let found = self.by_position.at_or_after(pages, position, PageLoad::Wait)?;
        Ok(found.map(|(position, value)| GranuleRun { position, granules: value[0] }))
    }

    /// Calls `each` for all free runs, in the order of their positions.
    pub(crate) fn scan(
        &self,
        pages: &mut Pages,
        each: &mut dyn FnMut(GranuleRun),
    ) -> Result<(), PageFault> {
        self.by_position.scan(pages, 0, PageLoad::Wait, &mut |position, value| {
            each(GranuleRun { position, granules: value[0] });
            true
        })
    }

    /// Takes `granules` at `from` out of the free run at `start`.
    fn cut(
        &mut self,
        pages: &mut Pages,
        start: u64,
        from: u64,
        granules: u64,
    ) -> Result<(), PageFault> {
        let Some(value) = self.by_position.get(pages, start, PageLoad::Wait)? else {
            return Err(PageFault::Damaged("the two trees of free space differ".into()));
        };
        let whole = GranuleRun { position: start, granules: value[0] };
        let (before, end) = (from - start, from + granules);
        if end > whole.end() {
            return Err(PageFault::Damaged("the two trees of free space differ".into()));
        }
        self.remove(pages, whole)?;
        if before > 0 {
            self.add(pages, GranuleRun { position: start, granules: before })?;
        }
        if end < whole.end() {
            self.add(pages, GranuleRun { position: end, granules: whole.end() - end })?;
        }
        Ok(())
    }

    fn add(&mut self, pages: &mut Pages, run: GranuleRun) -> Result<(), PageFault> {
        self.by_position.insert(pages, run.position, [run.granules, 0, 0])?;
        self.by_size.insert(pages, size_key(run.granules, run.position), [0; 3])?;
        Ok(())
    }

    fn remove(&mut self, pages: &mut Pages, run: GranuleRun) -> Result<(), PageFault> {
        let by_position = self.by_position.remove(pages, run.position)?;
        let by_size = self.by_size.remove(pages, size_key(run.granules, run.position))?;
        if by_position.is_none() || by_size.is_none() {
            return Err(PageFault::Damaged("the two trees of free space differ".into()));
        }
        Ok(())
    }
}

fn size_key(granules: u64, position: u64) -> u64 {
    granules.min(MAX_SIZE_IN_KEY) << POSITION_BITS | position
}

fn contradiction(run: GranuleRun) -> PageFault {
    let GranuleRun { position, granules } = run;
    PageFault::Damaged(format!("{granules} granules at {position} are both free and in use"))
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::index::{PageKind, PageLink};
    use crate::medium::{Medium, MediumOpenMode, MemoryMedium};

    fn empty() -> (Pages, FreeSpace) {
        let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
        let file = MemoryMedium::untracked().open("index", mode).unwrap();
        let tree = |kind| Tree::new(kind, PageLink::NONE, 0).unwrap();
        let pages = Pages::new(Arc::clone(&file), 0, 0, 1 << 20);
        let by_size = tree(PageKind::FreeBySize);
        (pages, FreeSpace::new(tree(PageKind::FreeByPosition), by_size, 0).unwrap())
    }

    /// The free runs below the end of a plain array of granules.
    fn runs_of(used: &[bool]) -> Vec<GranuleRun> {
        let mut runs = Vec::new();
        let mut position = 0;
        for same in used.chunk_by(|a, b| a == b) {
            if !same[0] {
                runs.push(GranuleRun { position, granules: same.len() as u64 });
            }
            position += same.len() as u64;
        }
        runs
    }

    proptest! {
        #[test]
        fn free_space_is_an_array_of_granules(
            steps in prop::collection::vec((0..3u8, 1..40u64, any::<prop::sample::Index>()), 1..300),
        ) {
            let (mut pages, mut space) = empty();
            let mut used: Vec<bool> = Vec::new();
            let mut taken: Vec<GranuleRun> = Vec::new();
            for (what, granules, which) in steps {
                if what == 0 && !taken.is_empty() {
                    let run = taken.swap_remove(which.index(taken.len()));
                    space.free(&mut pages, run).unwrap();
                    let (from, to) = (run.position as usize, run.end() as usize);
                    used[from..to].fill(false);
                    while used.last() == Some(&false) {
                        used.pop();
                    }
                } else {
                    let free = space.allocate(&mut pages, granules).unwrap();
                    let run = free.or_else(|| space.allocate_at_end(granules)).unwrap();
                    // The best fit: the smallest run that is large enough, the first of these.
                    let fits = runs_of(&used).into_iter().filter(|run| run.granules >= granules);
                    let best = fits.min_by_key(|run| (run.granules, run.position));
                    let expected = best.map_or(used.len() as u64, |run| run.position);
                    prop_assert_eq!(run.position, expected);
                    let end = used.len().max(run.end() as usize);
                    used.resize(end, false);
                    used[run.position as usize..run.end() as usize].fill(true);
                    taken.push(run);
                }
                prop_assert_eq!(space.end(), used.len() as u64);
            }
            let mut runs = Vec::new();
            space.scan(&mut pages, &mut |run| runs.push(run)).unwrap();
            prop_assert_eq!(runs, runs_of(&used));
            // What is taken cannot be freed twice, nor taken again.
            if let Some(run) = taken.pop() {
                prop_assert!(space.take(&mut pages, run).is_err());
                space.free(&mut pages, run).unwrap();
                prop_assert!(space.free(&mut pages, run).is_err());
                space.take(&mut pages, run).unwrap();
            }
        }
    }
}
