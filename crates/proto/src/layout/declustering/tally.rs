//! How many tiles of a growing window lie on each subfile.
//!
//! Invariants: `having[c]` is the number of subfiles with exactly `c` tiles, so it sums to the
//! number of subfiles; `least` and `most` are the smallest and largest `c` with `having[c] > 0`.
//! Adding a tile is O(1) and so is asking for the excess: that is what makes an exhaustive search
//! for offsets cheap.

/// The tiles per subfile of one window.
pub(super) struct Tally {
    counts: Vec<u16>,
    having: Vec<u32>,
    least: usize,
    most: usize,
    tiles: usize,
}

impl Tally {
    /// A tally of `subfiles` subfiles for windows of at most `tiles_max` tiles.
    pub(super) fn new(subfiles: usize, tiles_max: u16) -> Tally {
        let mut tally = Tally {
            counts: vec![0; subfiles],
            having: vec![0; usize::from(tiles_max) + 1],
            least: 0,
            most: 0,
            tiles: 0,
        };
        tally.clear();
        tally
    }

    /// Forgets all tiles.
    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        self.having[..=self.most].fill(0);
        self.having[0] = u32::try_from(self.counts.len()).unwrap_or(u32::MAX);
        self.least = 0;
        self.most = 0;
        self.tiles = 0;
    }

    /// Adds `tiles` tiles on consecutive subfiles, from `first` on and around the end.
    pub(super) fn add_run(&mut self, first: usize, tiles: usize) {
        self.tiles += tiles;
        let mut from = first;
        let mut left = tiles;
        while left > 0 {
            let step = left.min(self.counts.len() - from);
            for count in &mut self.counts[from..from + step] {
                let now = usize::from(*count) + 1;
                *count += 1;
                self.having[now - 1] -= 1;
                self.having[now] += 1;
                self.most = self.most.max(now);
            }
            left -= step;
            from = 0;
        }
        while self.having[self.least] == 0 {
            self.least += 1;
        }
    }

    /// By how much the fullest and the emptiest subfile differ beyond what the number of tiles
    /// forces: 0 is as even as possible.
    pub(super) fn excess(&self) -> u32 {
        let forced = usize::from(!self.tiles.is_multiple_of(self.counts.len()));
        u32::try_from(self.most - self.least - forced).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_wrap_around_and_excess_counts_beyond_the_forced_one() {
        let mut tally = Tally::new(3, 8);
        tally.add_run(2, 2);
        assert_eq!(tally.excess(), 0, "one tile on subfiles 2 and 0, none on 1");
        tally.add_run(2, 2);
        assert_eq!(tally.excess(), 1, "two tiles on subfiles 2 and 0, none on 1");
        tally.add_run(1, 2);
        assert_eq!(tally.excess(), 2, "2, 1 and 3 tiles where 2, 2 and 2 were possible");
        tally.clear();
        tally.add_run(0, 7);
        assert_eq!(tally.excess(), 0);
    }
}
