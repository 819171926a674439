//! Which rank reads and writes which part of the backing file in an open or a flush.

use std::ops::Range;

use pario_team::Team;

use super::source::CachedFileSource;

/// Pages that are read or written with one call: 4 MiB.
pub const CHUNK_PAGES: u64 = 64;

/// The share of one of the few ranks that read or write for all: its number, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoShare {
    number: u64,
    of: u64,
}

impl IoShare {
    /// The share of this rank, if it has one. The ranks with shares are far apart, since they may
    /// run on several machines; those of a plain file run on the machine of rank 0.
    pub fn of_team(team: &Team, source: &CachedFileSource, shares: u32) -> Option<Self> {
        let can_access = |rank: &u32| can_access(team, source, *rank);
        let before = (0..team.rank()).filter(can_access).count();
        let all = (0..team.size()).filter(can_access).count();
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        can_access(&team.rank()).then(|| Self::of_rank(number(before), number(all), shares))?
    }

    /// The share of a rank, among `size` ranks that can access the file.
    pub fn of_rank(rank: u32, size: u32, shares: u32) -> Option<Self> {
        let shares = shares.clamp(1, size);
        let (rank, size, of) = (u64::from(rank), u64::from(size), u64::from(shares));
        let number = (rank * of).div_ceil(size);
        (number < of && number * size / of == rank).then_some(Self { number, of })
    }

    /// The chunks of the pages `first..end` that belong to the share.
    pub fn chunks(self, first: u64, end: u64) -> impl Iterator<Item = Range<u64>> {
        let mine = first / CHUNK_PAGES..end.div_ceil(CHUNK_PAGES);
        mine.filter(move |chunk| chunk % self.of == self.number).map(move |chunk| {
            (chunk * CHUNK_PAGES).max(first)..((chunk + 1) * CHUNK_PAGES).min(end)
        })
    }

    /// Whether a page belongs to the share.
    pub fn has(self, page: u64) -> bool {
        page / CHUNK_PAGES % self.of == self.number
    }
}

/// Whether a rank can open the file itself.
pub fn can_access(team: &Team, source: &CachedFileSource, rank: u32) -> bool {
    match source {
        CachedFileSource::Plain(_) => team.machine_of(rank) == team.machine_of(0),
        CachedFileSource::Cluster(..) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_belongs_to_one_rank() {
        for (size, shares) in [(1, 4), (3, 2), (4, 4), (64, 4), (7, 5), (5, 100)] {
            let all: Vec<IoShare> =
                (0..size).filter_map(|rank| IoShare::of_rank(rank, size, shares)).collect();
            assert_eq!(all.len(), size.min(shares) as usize, "{size}, {shares}");
            assert_eq!(all[0], IoShare::of_rank(0, size, shares).unwrap());
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
