//! The layout of an array: which rank has which element, and where. Pure arithmetic.

use crate::error::TeamError;

/// Bytes of a page, unless its elements are larger.
pub const PAGE_BYTES: usize = 64 << 10;
/// The largest element.
pub const ELEMENT_LIMIT: usize = 1 << 28;
/// Pages begin at a multiple of this, so that numbers in them are aligned.
const ALIGNMENT: usize = 8;

/// The distribution of elements: pages of elements, the first one at rank 0, the next one at rank
/// 1, and again from rank 0 on. An element never lies in two pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayLayout {
    len: u64,
    element: usize,
    ranks: u32,
    per_page: u64,
    page_bytes: usize,
}

/// Consecutive elements of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementRun {
    /// Their rank.
    pub rank: u32,
    /// The byte of its segment at which they begin.
    pub offset: usize,
    /// How many bytes they have.
    pub bytes: usize,
}

impl ArrayLayout {
    /// Lays out `len` elements of `element` bytes over `ranks` ranks.
    pub fn new(len: u64, element: usize, ranks: u32) -> Result<Self, TeamError> {
        if element == 0 || element > ELEMENT_LIMIT {
            return Err(TeamError::Invalid(format!(
                "an array of elements of {element} bytes is not possible: they have 1 to {ELEMENT_LIMIT}"
            )));
        }
        let per_page = (PAGE_BYTES / element).max(1);
        let page_bytes = (per_page * element).next_multiple_of(ALIGNMENT);
        let layout = Self { len, element, ranks, per_page: per_page as u64, page_bytes };
        let fits = layout.pages().checked_mul(page_bytes as u64).is_some_and(|all| all < 1 << 62);
        if !fits {
            return Err(TeamError::Invalid(format!(
                "an array of {len} elements of {element} bytes is more than any memory holds"
            )));
        }
        Ok(layout)
    }

    /// How many elements there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of an element.
    pub fn element(&self) -> usize {
        self.element
    }

    /// Elements of a page; the last page may have fewer.
    pub fn per_page(&self) -> u64 {
        self.per_page
    }

    /// How many pages there are.
    pub fn pages(&self) -> u64 {
        self.len.div_ceil(self.per_page)
    }

    /// Bytes of a rank's pages.
    pub fn bytes_of(&self, rank: u32) -> usize {
        let pages = self.pages();
        let ranks = u64::from(self.ranks);
        let own = pages / ranks + u64::from(pages % ranks > u64::from(rank));
        usize::try_from(own).unwrap_or(usize::MAX).saturating_mul(self.page_bytes)
    }

    /// The rank of a page, and the byte of its segment at which it begins.
    pub fn page(&self, page: u64) -> (u32, usize) {
        let ranks = u64::from(self.ranks);
        let rank = u32::try_from(page % ranks).unwrap_or(0);
        (rank, usize::try_from(page / ranks).unwrap_or(usize::MAX).saturating_mul(self.page_bytes))
    }

    /// Where an element is.
    pub fn place(&self, index: u64) -> ElementRun {
        let (rank, start) = self.page(index / self.per_page);
        let inside = usize::try_from(index % self.per_page).unwrap_or(0) * self.element;
        ElementRun { rank, offset: start + inside, bytes: self.element }
    }

    /// Consecutive elements, cut at the ends of pages.
    pub fn runs(&self, first: u64, count: u64) -> impl Iterator<Item = ElementRun> {
        let end = first + count;
        let mut next = first;
        std::iter::from_fn(move || {
            let here = (end - next).min(self.per_page - next % self.per_page);
            let run = (here > 0).then(|| {
                let bytes = usize::try_from(here).unwrap_or(0) * self.element;
                ElementRun { bytes, ..self.place(next) }
            });
            next += here;
            run
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_around_the_ranks() {
        let layout = ArrayLayout::new(100_000, 8, 3).unwrap();
        assert_eq!((layout.per_page(), layout.pages()), (8192, 13));
        let bytes: Vec<usize> = (0..3).map(|rank| layout.bytes_of(rank) / PAGE_BYTES).collect();
        assert_eq!(bytes, [5, 4, 4]);
        assert_eq!(layout.page(7), (1, 2 * PAGE_BYTES));
        let place = layout.place(8192 * 7 + 5);
        assert_eq!(place, ElementRun { rank: 1, offset: 2 * PAGE_BYTES + 40, bytes: 8 });
        let runs: Vec<ElementRun> = layout.runs(8190, 8195).collect();
        assert_eq!(
            runs,
            [
                ElementRun { rank: 0, offset: 8190 * 8, bytes: 16 },
                ElementRun { rank: 1, offset: 0, bytes: PAGE_BYTES },
                ElementRun { rank: 2, offset: 0, bytes: 8 },
            ]
        );
        assert_eq!(layout.runs(5, 0).count(), 0);
    }

    #[test]
    fn elements_of_any_size_do_not_lie_in_two_pages() {
        for element in [1, 3, 7, 24, 65_535, 65_536, 65_537, 200_000] {
            let layout = ArrayLayout::new(1000, element, 4).unwrap();
            let mut end = [0; 4];
            for index in 0..1000 {
                let place = layout.place(index);
                let rank = place.rank as usize;
                assert!(place.offset >= end[rank], "{element}: {index}");
                end[rank] = place.offset + element;
                assert!(end[rank] <= layout.bytes_of(place.rank));
                let page = layout.page_bytes;
                assert_eq!(place.offset / page, (end[rank] - 1) / page, "{element}: {index}");
            }
        }
    }

    #[test]
    fn what_no_memory_holds_is_refused() {
        assert!(ArrayLayout::new(1, 0, 1).unwrap_err().to_string().contains("0 bytes"));
        assert!(ArrayLayout::new(1, ELEMENT_LIMIT + 1, 1).is_err());
        let error = ArrayLayout::new(u64::MAX, 8, 1).unwrap_err().to_string();
        assert!(error.contains("18446744073709551615 elements"), "{error}");
        assert_eq!(ArrayLayout::new(0, 8, 2).unwrap().bytes_of(0), 0);
    }
}
