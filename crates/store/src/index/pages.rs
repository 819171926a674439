//! The pages of an index file: which are in memory, which are changed, which are free.
//!
//! Invariants:
//! - A page that a durable checkpoint refers to is never overwritten: a change makes a copy under
//!   a new number, and the old number is free only when the next checkpoint is durable.
//! - A page is in at most one of `dirty` (changed since the last freeze) and `writing` (frozen,
//!   on its way to the disk); everything else can be read again and sits in a bounded cache.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::Arc;

use quick_cache::UnitWeighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};

use super::page::{Link, MAX_WORDS, PAGE_BYTES, Page, PageKind};
use crate::medium::MediumFile;

type PageMap = HashMap<u64, Arc<Page>, BuildHasherDefault<PageHasher>>;

/// Page numbers are ours, so that one multiplication spreads them well enough.
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

/// Why a page cannot be had.
#[derive(Debug)]
pub(crate) enum PageFault {
    /// It is not in memory; read it, give it to [`Pages::supply`] and try again.
    Absent(PageWanted),
    /// It is damaged, or what leads to it is.
    Damaged(String),
    /// It cannot be read.
    Io(io::Error),
}

/// A page to be read from the index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageWanted {
    pub(crate) link: Link,
    pub(crate) kind: PageKind,
    pub(crate) level: u8,
}

impl PageWanted {
    /// Where it is in the index file.
    pub(crate) fn position(self) -> u64 {
        self.link.page * PAGE_BYTES as u64
    }
}

/// Whether to wait for a page that is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Read it, here and now.
    Wait,
    /// Answer [`PageFault::Absent`].
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
    /// Replaced since the last freeze: free when the next checkpoint is durable.
    replaced: Vec<u64>,
    /// Replaced before the last freeze: free when the checkpoint being written is durable.
    replaced_before_freeze: Vec<u64>,
    /// The pages of the durable list of free pages.
    list: Vec<u64>,
    list_before_freeze: Vec<u64>,
}

/// What a checkpoint writes.
pub(crate) struct Frozen {
    /// Pages by number.
    pub(crate) pages: Vec<(u64, Arc<Page>)>,
    /// The generation of the checkpoint.
    pub(crate) generation: u64,
    /// Where its list of free pages starts.
    pub(crate) free_list: Link,
    /// One past the last page.
    pub(crate) end: u64,
}

impl Pages {
    /// The pages of a new index, or of one whose superblock says `generation` and `end`.
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
    pub(crate) fn load_free_list(&mut self, mut link: Link) -> Result<(), PageFault> {
        while !link.is_none() {
            // A list longer than the file runs in a circle.
            if self.list.len() as u64 > self.end {
                return Err(PageFault::Damaged("the list of free pages has no end".into()));
            }
            let page = self.get(link, PageKind::FreePages, 0, Load::Wait)?;
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
                Link::NONE
            } else {
                Link { page: page.key(0), generation: page.value(0)[0] }
            };
        }
        Ok(())
    }

    /// A page, from memory or (if allowed) from the file.
    pub(crate) fn get(
        &mut self,
        link: Link,
        kind: PageKind,
        level: u8,
        load: Load,
    ) -> Result<Arc<Page>, PageFault> {
        let known = self.dirty.get(&link.page).or_else(|| self.writing.get(&link.page));
        // A page that was read while its number changed hands has another generation.
        let known = known.or_else(|| self.clean.get(&link.page));
        if let Some(page) = known.filter(|page| page.generation() == link.generation) {
            return Ok(page.clone());
        }
        if link.page < FIRST_PAGE || link.page >= self.end {
            return Err(PageFault::Damaged(format!("page {} cannot exist", link.page)));
        }
        let wanted = PageWanted { link, kind, level };
        match load {
            Load::Refuse => Err(PageFault::Absent(wanted)),
            Load::Wait => {
                let mut bytes = Box::new([0; PAGE_BYTES]);
                self.file.read_at(&mut bytes[..], wanted.position()).map_err(PageFault::Io)?;
                self.supply(wanted, bytes)
            }
        }
    }

    /// Takes a page that was read from the file.
    pub(crate) fn supply(
        &mut self,
        wanted: PageWanted,
        bytes: Box<[u8; PAGE_BYTES]>,
    ) -> Result<Arc<Page>, PageFault> {
        let PageWanted { link, kind, level } = wanted;
        let page = Page::decode(bytes, link, kind, level)
            .map_err(|why| PageFault::Damaged(format!("index page {}: {why}", link.page)))?;
        let page = Arc::new(page);
        self.clean.insert(link.page, page.clone());
        Ok(page)
    }

    /// A new, empty page.
    pub(crate) fn create(&mut self, kind: PageKind, level: u8) -> Link {
        let link = Link { page: self.take_number(), generation: self.generation };
        self.dirty.insert(link.page, Arc::new(Page::new(link, kind, level)));
        link
    }

    /// Makes a page that was just got changeable; the answer is its new link.
    pub(crate) fn own(&mut self, link: Link, page: Arc<Page>) -> Link {
        if self.dirty.contains_key(&link.page) {
            return link;
        }
        let new = Link { page: self.take_number(), generation: self.generation };
        let mut copy = Arc::unwrap_or_clone(page);
        copy.set_link(new);
        self.dirty.insert(new.page, Arc::new(copy));
        self.release(link);
        new
    }

    /// A page that was made or owned since the last freeze.
    pub(crate) fn owned(&mut self, link: Link) -> &mut Page {
        Arc::make_mut(self.dirty.get_mut(&link.page).expect("only owned pages are changed"))
    }

    /// Two different owned pages at once.
    pub(crate) fn owned_pair(&mut self, first: Link, second: Link) -> (&mut Page, &mut Page) {
        let [a, b] = self.dirty.get_disjoint_mut([&first.page, &second.page]);
        let unowned = "only owned pages are changed";
        (Arc::make_mut(a.expect(unowned)), Arc::make_mut(b.expect(unowned)))
    }

    /// Gives up a page.
    pub(crate) fn release(&mut self, link: Link) {
        if self.dirty.remove(&link.page).is_some() {
            self.free.insert(link.page, 1);
        } else {
            self.clean.remove(&link.page);
            self.replaced.push(link.page);
        }
    }

    /// Bytes of pages that cannot be dropped from memory.
    pub(crate) fn pinned_bytes(&self) -> usize {
        (self.dirty.len() + self.writing.len()) * PAGE_BYTES
    }

    /// Fixes the state that a checkpoint writes; later changes belong to the next one.
    pub(crate) fn freeze(&mut self) -> Frozen {
        assert!(self.writing.is_empty(), "one checkpoint at a time");
        self.writing = std::mem::take(&mut self.dirty);
        self.replaced_before_freeze = std::mem::take(&mut self.replaced);
        self.shrink_end();
        let free_list = self.write_free_list();
        let mut pages: Vec<_> = self.writing.iter().map(|(&no, page)| (no, page.clone())).collect();
        pages.sort_unstable_by_key(|(no, _)| *no);
        let frozen = Frozen { pages, generation: self.generation, free_list, end: self.end };
        self.generation += 1;
        frozen
    }

    /// The checkpoint that was frozen is durable.
    pub(crate) fn complete(&mut self) {
        for (no, page) in std::mem::take(&mut self.writing) {
            self.clean.insert(no, page);
        }
        for no in std::mem::take(&mut self.replaced_before_freeze) {
            self.free.insert(no, 1);
        }
        self.list = std::mem::take(&mut self.list_before_freeze);
    }

    /// The checkpoint that was frozen could not be written; the next one takes its changes too.
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

    /// Writes what will be free once the checkpoint is durable into fresh pages of the checkpoint.
    fn write_free_list(&mut self) -> Link {
        self.replaced_before_freeze.extend(&self.list);
        let mut runs = self.free.clone();
        for &no in &self.replaced_before_freeze {
            runs.insert(no, 1);
        }
        if runs.is_empty() {
            return Link::NONE;
        }
        let per_page = PageKind::FreePages.capacity(0) - 1;
        let generation = self.generation;
        // Each page of the list, taken out of a run, may cut it into two.
        let needed = runs.count().div_ceil(per_page - 1);
        let numbers: Vec<u64> = (0..needed).map(|_| self.take_number()).collect();
        for &no in &numbers {
            runs.remove_one(no);
        }
        self.list_before_freeze.clone_from(&numbers);
        let mut all = runs.iter().peekable();
        let mut next_numbers = numbers.iter().copied().skip(1);
        for &no in &numbers {
            let link = Link { page: no, generation };
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
        assert!(all.peek().is_none(), "the list was given enough pages");
        Link { page: numbers[0], generation }
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

    /// Adds a run; `false` if part of it is in the set already.
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
