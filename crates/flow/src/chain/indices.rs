//! Index ranges: the index combinations of an indexed split.

use std::ops::Range;

/// The ranges of an indexed split: one range, or a pair or a triple of ranges. The last index
/// varies fastest.
pub trait IndexRanges: 'static {
    /// One combination of indices: a number, a pair or a triple.
    type Index: Copy;
    /// The number of indices.
    const COUNT: usize;

    /// Returns the first combination; `None` if a range is empty.
    fn first(&self) -> Option<Self::Index>;
    /// Returns the combination after `at`; `None` after the last.
    fn after(&self, at: Self::Index) -> Option<Self::Index>;
    /// Returns the indices as a list, outermost first.
    fn list(at: Self::Index) -> Vec<u64>;
    /// Returns the combination of a list.
    ///
    /// # Panics
    /// If [`list`](Self::list) did not make the list.
    fn of(list: &[u64]) -> Self::Index;
}

impl IndexRanges for Range<u64> {
    type Index = u64;
    const COUNT: usize = 1;

    fn first(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.start)
    }

    fn after(&self, at: u64) -> Option<u64> {
        Some(at + 1).filter(|next| *next < self.end)
    }

    fn list(at: u64) -> Vec<u64> {
        vec![at]
    }

    fn of(list: &[u64]) -> u64 {
        list[0]
    }
}

type IndexPair = (Range<u64>, Range<u64>);
type Triple = (Range<u64>, Range<u64>, Range<u64>);

impl IndexRanges for IndexPair {
    type Index = (u64, u64);
    const COUNT: usize = 2;

    fn first(&self) -> Option<(u64, u64)> {
        self.0.first().zip(self.1.first())
    }

    fn after(&self, (a, b): (u64, u64)) -> Option<(u64, u64)> {
        match self.1.after(b) {
            Some(next) => Some((a, next)),
            None => Some((self.0.after(a)?, self.1.start)),
        }
    }

    fn list((a, b): (u64, u64)) -> Vec<u64> {
        vec![a, b]
    }

    fn of(list: &[u64]) -> (u64, u64) {
        (list[0], list[1])
    }
}

impl IndexRanges for Triple {
    type Index = (u64, u64, u64);
    const COUNT: usize = 3;

    fn first(&self) -> Option<(u64, u64, u64)> {
        Some((self.0.first()?, self.1.first()?, self.2.first()?))
    }

    fn after(&self, (a, b, c): (u64, u64, u64)) -> Option<(u64, u64, u64)> {
        if let Some(next) = self.2.after(c) {
            return Some((a, b, next));
        }
        if let Some(next) = self.1.after(b) {
            return Some((a, next, self.2.start));
        }
        Some((self.0.after(a)?, self.1.start, self.2.start))
    }

    fn list((a, b, c): (u64, u64, u64)) -> Vec<u64> {
        vec![a, b, c]
    }

    fn of(list: &[u64]) -> (u64, u64, u64) {
        (list[0], list[1], list[2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all<R: IndexRanges>(ranges: R) -> Vec<Vec<u64>> {
        let mut list = Vec::new();
        let mut next = ranges.first();
        while let Some(at) = next {
            assert_eq!(R::list(R::of(&R::list(at))), R::list(at));
            list.push(R::list(at));
            next = ranges.after(at);
        }
        list
    }

    #[test]
    fn all_combinations_come_in_order() {
        let mut triples = Vec::new();
        for a in 2..4 {
            for b in 0..3 {
                for c in 5..7 {
                    triples.push(vec![a, b, c]);
                }
            }
        }
        assert_eq!(all((2..4, 0..3, 5..7)), triples);
        let pairs: Vec<_> = (1..3).flat_map(|a| (0..2).map(move |b| vec![a, b])).collect();
        assert_eq!(all((1..3, 0..2)), pairs);
        assert_eq!(all(3..6), [[3], [4], [5]]);
    }

    #[test]
    fn an_empty_range_has_no_combination() {
        assert!(all(3..3).is_empty());
        assert!(all((0..3, 1..1)).is_empty());
        assert!(all((0..3, 2..2, 0..1)).is_empty());
        assert!(all((0..0, 0..3)).is_empty());
    }
}
