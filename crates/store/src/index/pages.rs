//! The pages of an index file: those in memory, the changed ones, and the free ones.
//!
//! Invariants:
//! - The store never overwrites a page that a durable checkpoint refers to: a change makes a copy
//!   under a new number, and the old number becomes free when the next checkpoint is durable.
//! - A page is in at most one of `dirty` (changed since the last freeze) and `writing` (frozen, not
//!   yet durable). All other pages can be read again and are in a bounded cache.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::Arc;

use quick_cache::UnitWeighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};

use super::page::{MAX_WORDS, PAGE_BYTES, Page, PageKind, PageLink};
use crate::medium::MediumFile;

type PageMap = HashMap<u64, Arc<Page>, BuildHasherDefault<PageHasher>>;

/// A hash of one multiplication: page numbers are not chosen by an attacker.
#[derive(Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

/// Pages before this one hold the two superblocks.
pub(crate) const FIRST_PAGE: u64 = 2;

/// Why a page is not available.
#[derive(Debug)]
pub(crate) enum PageFault {
    /// It is not in memory: the caller reads it, passes it to [`Pages::supply`] and tries again.
    Absent(MissingPage),
    /// It is damaged, or a page that refers to it is.
    Damaged(String),
    /// The file system cannot read it.
    Io(io::Error),
}

/// A page that is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MissingPage {
    pub(crate) link: PageLink,
    pub(crate) kind: PageKind,
    pub(crate) level: u8,
}

impl MissingPage {
    /// Its position in the index file.
    pub(crate) fn position(self) -> u64 {
        self.link.page * PAGE_BYTES as u64
    }
}

/// What to do about a page that is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageLoad {
    /// Read it and wait.
    Wait,
    /// Fail with [`PageFault::Absent`].
    Refuse,
}

/// The pages of one index file.
pub(crate) struct Pages {
    file: Arc<dyn MediumFile>,
    generation: u64,
    /// One past the last page in use.
    end: u64,
    clean: Cache<u64, Arc<Page>, UnitWeighter, BuildHasherDefault<PageHasher>>,
    dirty: PageMap,
    writing: PageMap,
    free: PageRuns,
    /// Pages replaced since the last freeze. They become free when the next checkpoint is durable.
    replaced: Vec<u64>,
    /// Pages replaced before the last freeze. They become free when the frozen checkpoint is durable.
    replaced_before_freeze: Vec<u64>,
    /// The pages of the durable list of free pages.
    list: Vec<u64>,
    list_before_freeze: Vec<u64>,
}

/// The pages that a checkpoint writes.
pub(crate) struct FrozenPages {
    /// Pages by number.
    pub(crate) pages: Vec<(u64, Arc<Page>)>,
    /// The generation of the checkpoint.
    pub(crate) generation: u64,
    /// The first page of its list of free pages.
    pub(crate) free_list: PageLink,
    /// One past the last page.
    pub(crate) end: u64,
}

impl Pages {
    /// The pages of an index whose superblock has `generation` and `end`; zero in a new index.
    pub(crate) fn new(
        file: Arc<dyn MediumFile>,
        generation: u64,
        end: u64,
        cache_bytes: usize,
    ) -> Self {
        Self {
            file,
            generation: generation + 1,
            end: end.max(FIRST_PAGE),
            clean: clean_cache((cache_bytes / PAGE_BYTES).max(64)),
            dirty: PageMap::default(),
            writing: PageMap::default(),
            free: PageRuns::default(),
            replaced: Vec::new(),
            replaced_before_freeze: Vec::new(),
            list: Vec::new(),
            list_before_freeze: Vec::new(),
        }
    }

    /// Reads the list of free pages that a superblock refers to.
    pub(crate) fn load_free_list(&mut self, mut link: PageLink) -> Result<(), PageFault> {
        while !link.is_none() {
            // A list that is longer than the file has a cycle.
            if self.list.len() as u64 > self.end {
                return Err(PageFault::Damaged("the list of free pages has a cycle".into()));
            }
            let page = self.get(link, PageKind::FreePages, 0, PageLoad::Wait)?;
            self.list.push(link.page);
            for slot in 1..page.len() {
                let (first, count) = (page.key(slot), page.value(slot)[0]);
                let fits = first >= FIRST_PAGE
                    && count > 0
                    && first.checked_add(count).is_some_and(|end| end <= self.end);
                if !fits || !self.free.insert(first, count) {
                    return Err(PageFault::Damaged(
                        "the list of free pages contradicts itself".into(),
                    ));
                }
            }
            link = if page.len() == 0 {
                PageLink::NONE
            } else {
                PageLink { page: page.key(0), generation: page.value(0)[0] }
            };
        }
        Ok(())
    }

    /// A page from memory, or from the file if `load` allows it.
    pub(crate) fn get(
        &mut self,
        link: PageLink,
        kind: PageKind,
        level: u8,
        load: PageLoad,
    ) -> Result<Arc<Page>, PageFault> {
        let known = self.dirty.get(&link.page).or_else(|| self.writing.get(&link.page));
        // A page that was read while its number was reused has another generation.
        let known = known.or_else(|| self.clean.get(&link.page));
        if let Some(page) = known.filter(|page| page.generation() == link.generation) {
            return Ok(page.clone());
        }
        if link.page < FIRST_PAGE || link.page >= self.end {
            return Err(PageFault::Damaged(format!(
                "the index refers to page {}, which cannot exist",
                link.page
            )));
        }
        let wanted = MissingPage { link, kind, level };
        match load {
            PageLoad::Refuse => Err(PageFault::Absent(wanted)),
            PageLoad::Wait => {
                let mut bytes = Box::new([0; PAGE_BYTES]);
                self.file.read_at(&mut bytes[..], wanted.position()).map_err(PageFault::Io)?;
                self.supply(wanted, bytes)
            }
        }
    }

    /// Adds a page that the caller has read from the file.
    pub(crate) fn supply(
        &mut self,
        wanted: MissingPage,
        bytes: Box<[u8; PAGE_BYTES]>,
    ) -> Result<Arc<Page>, PageFault> {
        let MissingPage { link, kind, level } = wanted;
        let page = Page::decode(bytes, link, kind, level)
            .map_err(|why| PageFault::Damaged(format!("index page {}: {why}", link.page)))?;
        let page = Arc::new(page);
        self.clean.insert(link.page, page.clone());
        Ok(page)
    }

    /// A new, empty page.
    pub(crate) fn create(&mut self, kind: PageKind, level: u8) -> PageLink {
        let link = PageLink { page: self.take_number(), generation: self.generation };
        self.dirty.insert(link.page, Arc::new(Page::new(link, kind, level)));
        link
    }

    /// Makes a page of [`Pages::get`] mutable, as a copy under a new number if a checkpoint refers to
    /// it; returns its link.
    pub(crate) fn own(&mut self, link: PageLink, page: Arc<Page>) -> PageLink {
        if self.dirty.contains_key(&link.page) {
            return link;
        }
        let new = PageLink { page: self.take_number(), generation: self.generation };
        let mut copy = Arc::unwrap_or_clone(page);
        copy.set_link(new);
        self.dirty.insert(new.page, Arc::new(copy));
        self.release(link);
        new
    }

    /// A page that was created or owned since the last freeze.
    pub(crate) fn owned(&mut self, link: PageLink) -> &mut Page {
        Arc::make_mut(self.dirty.get_mut(&link.page).expect("only owned pages change"))
    }

    /// Two different owned pages at once.
    pub(crate) fn owned_pair(
        &mut self,
        first: PageLink,
        second: PageLink,
    ) -> (&mut Page, &mut Page) {
        let [a, b] = self.dirty.get_disjoint_mut([&first.page, &second.page]);
        let unowned = "only owned pages change";
        (Arc::make_mut(a.expect(unowned)), Arc::make_mut(b.expect(unowned)))
    }

    /// Releases a page that the index does not need any more.
    pub(crate) fn release(&mut self, link: PageLink) {
        if self.dirty.remove(&link.page).is_some() {
            self.free.insert(link.page, 1);
        } else {
            self.clean.remove(&link.page);
            self.replaced.push(link.page);
        }
    }

    /// The bytes of pages that must stay in memory: dirty and frozen ones.
    pub(crate) fn pinned_bytes(&self) -> usize {
        (self.dirty.len() + self.writing.len()) * PAGE_BYTES
    }

    /// Freezes the pages for a checkpoint; later changes belong to the next one.
    pub(crate) fn freeze(&mut self) -> FrozenPages {
        assert!(self.writing.is_empty(), "one checkpoint at a time");
        self.writing = std::mem::take(&mut self.dirty);
        self.replaced_before_freeze = std::mem::take(&mut self.replaced);
        self.shrink_end();
        let free_list = self.write_free_list();
        let mut pages: Vec<_> = self.writing.iter().map(|(&no, page)| (no, page.clone())).collect();
        pages.sort_unstable_by_key(|(no, _)| *no);
        let frozen = FrozenPages { pages, generation: self.generation, free_list, end: self.end };
        self.generation += 1;
        frozen
    }

    /// Ends the frozen checkpoint, which is durable.
    pub(crate) fn complete(&mut self) {
        for (no, page) in std::mem::take(&mut self.writing) {
            self.clean.insert(no, page);
        }
        for no in std::mem::take(&mut self.replaced_before_freeze) {
            self.free.insert(no, 1);
        }
        self.list = std::mem::take(&mut self.list_before_freeze);
    }

    /// Abandons the frozen checkpoint, which could not be written. The next one includes its changes.
    pub(crate) fn abandon(&mut self) {
        for no in std::mem::take(&mut self.list_before_freeze) {
            self.writing.remove(&no);
            self.free.insert(no, 1);
        }
        for no in &self.replaced {
            self.writing.remove(no);
        }
        self.dirty.extend(std::mem::take(&mut self.writing));
        // The durable list of free pages stays in use.
        let mut replaced = std::mem::take(&mut self.replaced_before_freeze);
        replaced.retain(|no| !self.list.contains(no));
        self.replaced.append(&mut replaced);
    }

    fn take_number(&mut self) -> u64 {
        self.free.take_first().unwrap_or_else(|| {
            let no = self.end;
            self.end += 1;
            no
        })
    }

    /// Writes the list of the pages that are free once the checkpoint is durable into new pages of
    /// the checkpoint.
    fn write_free_list(&mut self) -> PageLink {
        self.replaced_before_freeze.extend(&self.list);
        let mut runs = self.free.clone();
        for &no in &self.replaced_before_freeze {
            runs.insert(no, 1);
        }
        if runs.is_empty() {
            return PageLink::NONE;
        }
        let per_page = PageKind::FreePages.capacity(0) - 1;
        let generation = self.generation;
        // Each page of the list comes out of a run and may cut that run into two.
        let needed = runs.count().div_ceil(per_page - 1);
        let numbers: Vec<u64> = (0..needed).map(|_| self.take_number()).collect();
        for &no in &numbers {
            runs.remove_one(no);
        }
        self.list_before_freeze.clone_from(&numbers);
        let mut all = runs.iter().peekable();
        let mut next_numbers = numbers.iter().copied().skip(1);
        for &no in &numbers {
            let link = PageLink { page: no, generation };
            let mut page = Page::new(link, PageKind::FreePages, 0);
            let next = next_numbers.next().unwrap_or(0);
            page.insert(0, next, [generation, 0, 0]);
            for slot in 1..=per_page {
                let Some((first, count)) = all.next() else {
                    break;
                };
                let mut value = [0; MAX_WORDS];
                value[0] = count;
                page.insert(slot, first, value);
            }
            self.writing.insert(no, Arc::new(page));
        }
        assert!(all.peek().is_none(), "the list has enough pages");
        PageLink { page: numbers[0], generation }
    }

    fn shrink_end(&mut self) {
        if let Some(first) = self.free.take_run_ending_at(self.end) {
            self.end = first;
        }
    }
}

fn clean_cache(
    pages: usize,
) -> Cache<u64, Arc<Page>, UnitWeighter, BuildHasherDefault<PageHasher>> {
    let capacity = pages as u64;
    Cache::with(
        pages,
        capacity,
        UnitWeighter,
        BuildHasherDefault::default(),
        DefaultLifecycle::default(),
    )
}

/// A set of page numbers as runs.
#[derive(Clone, Debug, Default)]
struct PageRuns {
    /// First page to count; runs neither touch nor overlap.
    runs: BTreeMap<u64, u64>,
}

impl PageRuns {
    fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn count(&self) -> usize {
        self.runs.len()
    }

    fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|(&first, &count)| (first, count))
    }

    /// Adds a run; returns `false` if part of it is in the set already.
    fn insert(&mut self, mut first: u64, mut count: u64) -> bool {
        if self.runs.range(..first + count).next_back().is_some_and(|(&f, &c)| f + c > first) {
            return false;
        }
        if let Some((&before, &before_count)) = self.runs.range(..first).next_back()
            && before + before_count == first
        {
            self.runs.remove(&before);
            first = before;
            count += before_count;
        }
        if let Some(after_count) = self.runs.remove(&(first + count)) {
            count += after_count;
        }
        self.runs.insert(first, count);
        true
    }

    fn remove_one(&mut self, no: u64) {
        let Some((&first, &count)) = self.runs.range(..=no).next_back() else {
            return;
        };
        if no >= first + count {
            return;
        }
        self.runs.remove(&first);
        if no > first {
            self.runs.insert(first, no - first);
        }
        if no + 1 < first + count {
            self.runs.insert(no + 1, first + count - no - 1);
        }
    }

    fn take_first(&mut self) -> Option<u64> {
        let (&first, &count) = self.runs.first_key_value()?;
        self.runs.remove(&first);
        if count > 1 {
            self.runs.insert(first + 1, count - 1);
        }
        Some(first)
    }

    fn take_run_ending_at(&mut self, end: u64) -> Option<u64> {
        let (&first, &count) = self.runs.last_key_value()?;
        (first + count == end).then(|| {
            self.runs.remove(&first);
            first
        })
    }
}
