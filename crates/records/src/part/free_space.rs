//! The free space of a part: the bytes that neither the log nor a block uses.

use std::collections::BTreeMap;

use super::map::PartMap;
use super::superblock::{FIRST_SPACE, PAGE, PartSuperblock};

/// Allocations of at least this length begin at a multiple of it, because the page cache then uses
/// large folios for them, which are faster.
const LARGE: u64 = 1 << 20;

/// The free ranges of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// The lengths of the free ranges below `end`, by their offsets; none touches another or `end`.
    gaps: BTreeMap<u64, u64>,
    /// The end of the used space.
    end: u64,
}

impl FreeSpace {
    /// The space that the log and the blocks of a map leave free.
    pub fn of(superblock: &PartSuperblock, map: &PartMap) -> Self {
        let blocks = map.records.values().filter(|block| block.len > 0);
        let mut used: Vec<(u64, u64)> = blocks.map(|block| (block.offset, block.len)).collect();
        used.push((superblock.log_start, superblock.log_len));
        used.sort_unstable();
        let mut space = Self { gaps: BTreeMap::new(), end: FIRST_SPACE };
        for (start, len) in used {
            if start > space.end {
                space.gaps.insert(space.end, start - space.end);
            }
            space.end = space.end.max(start + whole_pages(len));
        }
        space
    }

    /// Allocates from the first gap that is long enough, otherwise at the end. `None` if the part
    /// would become too long.
    pub fn take(&mut self, len: u64) -> Option<u64> {
        if len == 0 {
            return Some(0);
        }
        let len = len.checked_next_multiple_of(PAGE)?;
        let multiple = if len >= LARGE { LARGE } else { PAGE };
        let in_gap = |(start, free): (&u64, &u64)| {
            let place = start.next_multiple_of(multiple);
            (place.checked_add(len)? <= start + free).then_some((*start, *free, place))
        };
        if let Some((start, free, place)) = self.gaps.iter().find_map(in_gap) {
            self.gaps.remove(&start);
            self.leave(start, place);
            self.leave(place + len, start + free);
            return Some(place);
        }
        let place = self.end.next_multiple_of(multiple);
        let end = place.checked_add(len).filter(|end| *end < 1 << 62)?;
        self.leave(self.end, place);
        self.end = end;
        Some(place)
    }

    /// Makes a range free that touches no other free range.
    fn leave(&mut self, start: u64, end: u64) {
        if start < end {
            self.gaps.insert(start, end - start);
        }
    }

    /// Frees an allocation.
    pub fn give_back(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut start, mut end) = (start, start + whole_pages(len));
        let before = self.gaps.range(..start).next_back().map(|(start, len)| (*start, *len));
        if let Some((gap, free)) = before.filter(|(gap, free)| gap + free == start) {
            self.gaps.remove(&gap);
            debug_assert_eq!(gap + free, start, "gaps touch only what is used");
            start = gap;
        }
        if let Some(free) = self.gaps.remove(&end) {
            end += free;
        }
        if end == self.end {
            self.end = start;
        } else {
            self.gaps.insert(start, end - start);
        }
    }

    /// The end of the used space.
    pub fn end(&self) -> u64 {
        self.end
    }
}

fn whole_pages(len: u64) -> u64 {
    len.next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new() -> FreeSpace {
        FreeSpace { gaps: BTreeMap::new(), end: FIRST_SPACE }
    }

    #[test]
    fn the_first_gap_that_is_long_enough_is_taken() {
        let mut space = new();
        let places: Vec<u64> = [1, 8000, 4096, 1].map(|len| space.take(len).unwrap()).to_vec();
        assert_eq!(places, [8192, 12288, 20480, 24576]);
        space.give_back(8192, 1);
        space.give_back(20480, 4096);
        assert_eq!(space.take(4097), Some(28672), "neither gap has two pages");
        assert_eq!(space.take(4096), Some(8192));
        space.give_back(12288, 8000);
        assert_eq!(space.take(12288), Some(12288), "gaps that touch are one");
        assert_eq!(space.take(u64::MAX), None);
        assert_eq!(space.take(0), Some(0));
    }

    #[test]
    fn what_is_long_begins_at_a_round_place_and_others_fill_the_gap() {
        let mut space = new();
        assert_eq!(space.take(LARGE + 1), Some(LARGE));
        assert_eq!(space.take(5), Some(8192), "before it");
        assert_eq!(space.take(LARGE), Some(3 * LARGE));
        space.give_back(LARGE, LARGE + 1);
        assert_eq!(space.take(2 * LARGE), Some(LARGE), "between them");
        space.give_back(3 * LARGE, LARGE);
        space.give_back(LARGE, 2 * LARGE);
        space.give_back(8192, 5);
        assert_eq!(space, new());
    }

    #[test]
    fn random_use_never_gives_a_place_twice_and_leaves_nothing_over() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut space = new();
        let mut used: Vec<(u64, u64)> = Vec::new();
        for _ in 0..20_000 {
            if random.bool() || used.is_empty() {
                let longest = if random.u8(..4) == 0 { 3 * LARGE } else { 30_000 };
                let len = random.u64(1..longest);
                let start = space.take(len).unwrap();
                let end = start + whole_pages(len);
                let is_free =
                    |(other, len): &(u64, u64)| end <= *other || start >= other + whole_pages(*len);
                assert!(used.iter().all(is_free));
                used.push((start, len));
            } else {
                let (start, len) = used.swap_remove(random.usize(..used.len()));
                space.give_back(start, len);
            }
            if used.len() > 60 {
                used.drain(..).for_each(|(start, len)| space.give_back(start, len));
                assert_eq!(space, new());
            }
        }
    }
}
