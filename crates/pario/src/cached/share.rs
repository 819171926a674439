//! Who reads and writes which part of a file when all do it together.

use std::ops::Range;

use pario_team::Team;

use super::place::Place;

/// Pages that are read or written with one call: some MiB.
pub const CHUNK_PAGES: u64 = 64;

/// One of the few ranks that read or write for all: which one, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    number: u64,
    of: u64,
}

impl Share {
    /// The share of this rank, if there are so many shares. Those who have one are far apart, since
    /// they may be on several machines; but a plain file is on the machine of rank 0.
    pub fn of(team: &Team, place: &Place, shares: u32) -> Option<Self> {
        let sees = |rank: &u32| sees(team, place, *rank);
        let before = (0..team.rank()).filter(sees).count();
        let all = (0..team.size()).filter(sees).count();
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        sees(&team.rank()).then(|| Self::of_rank(number(before), number(all), shares))?
    }

    /// The share of a rank of those who may have one.
    pub fn of_rank(rank: u32, size: u32, shares: u32) -> Option<Self> {
        let shares = shares.clamp(1, size);
        let (rank, size, of) = (u64::from(rank), u64::from(size), u64::from(shares));
        let number = (rank * of).div_ceil(size);
        (number < of && number * size / of == rank).then_some(Self { number, of })
    }

    /// Chunks of pages that belong to it, of those from one to another.
    pub fn chunks(self, first: u64, end: u64) -> impl Iterator<Item = Range<u64>> {
        let mine = first / CHUNK_PAGES..end.div_ceil(CHUNK_PAGES);
        mine.filter(move |chunk| chunk % self.of == self.number).map(move |chunk| {
            (chunk * CHUNK_PAGES).max(first)..((chunk + 1) * CHUNK_PAGES).min(end)
        })
    }

    /// Whether a page belongs to it.
    pub fn has(self, page: u64) -> bool {
        page / CHUNK_PAGES % self.of == self.number
    }
}

/// Whether a rank can use the file itself.
pub fn sees(team: &Team, place: &Place, rank: u32) -> bool {
    match place {
        Place::Plain(_) => team.machine_of(rank) == team.machine_of(0),
        Place::Cluster(..) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_one_ranks() {
        for (size, shares) in [(1, 4), (3, 2), (4, 4), (64, 4), (7, 5), (5, 100)] {
            let all: Vec<Share> =
                (0..size).filter_map(|rank| Share::of_rank(rank, size, shares)).collect();
            assert_eq!(all.len(), size.min(shares) as usize, "{size}, {shares}");
            assert_eq!(all[0], Share::of_rank(0, size, shares).unwrap());
            let mut pages: Vec<u64> =
                all.iter().flat_map(|share| share.chunks(70, 1000)).flatten().collect();
            pages.sort_unstable();
            assert!(pages.into_iter().eq(70..1000));
            for page in 0..1000 {
                assert_eq!(all.iter().filter(|share| share.has(page)).count(), 1);
            }
        }
    }
}
