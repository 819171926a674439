//! One page of the index: a sorted array of entries, each a key and a few words.
//!
//! All numbers are little-endian 64-bit words. Bytes 0 to 32 are the head (checksum, own number,
//! generation, level, kind, count), then come the entries. The number of words per entry follows
//! from kind and level, so a page says by itself how it is read.

use crate::checksum::checksum;

/// Size of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
const HEAD_BYTES: usize = 32;
const WORD: usize = 8;

/// The largest number of words behind a key.
pub(crate) const MAX_WORDS: usize = 3;

/// Which structure a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    /// Extent index to position, lengths and checksum.
    Extents = 1,
    /// Position of a free run to its length.
    FreeByPosition = 2,
    /// Free runs by length, then position; no words behind the key.
    FreeBySize = 3,
    /// Free pages of the index itself: runs of first page and count. The first entry links the
    /// next page of the list.
    FreePages = 4,
}

impl PageKind {
    /// The number of words of an entry, key included.
    fn entry_words(self, level: u8) -> usize {
        match (self, level) {
            (Self::FreePages | Self::FreeByPosition, 0) => 2,
            (Self::Extents, 0) => 1 + MAX_WORDS,
            (Self::FreeBySize, 0) => 1,
            // Inner pages: smallest key, page number and generation of the child.
            _ => 3,
        }
    }

    /// The number of entries that fit into a page.
    pub(crate) fn capacity(self, level: u8) -> usize {
        (PAGE_BYTES - HEAD_BYTES) / (WORD * self.entry_words(level))
    }
}

/// A reference to a page: its number, and the generation in which it was written. A page that was
/// replaced, or whose write was lost, has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLink {
    pub(crate) page: u64,
    pub(crate) generation: u64,
}

impl PageLink {
    /// No page.
    pub(crate) const NONE: Self = Self { page: 0, generation: 0 };

    pub(crate) fn is_none(self) -> bool {
        self.page == 0
    }
}

/// The bytes of a page, in memory.
#[derive(Clone)]
pub(crate) struct Page {
    bytes: Box<[u8; PAGE_BYTES]>,
}

impl Page {
    pub(crate) fn new(link: PageLink, kind: PageKind, level: u8) -> Self {
        let mut page = Self { bytes: Box::new([0; PAGE_BYTES]) };
        page.set_link(link);
        page.bytes[24] = level;
        page.bytes[25] = kind as u8;
        page
    }

    /// Decodes bytes from the disk; fails if they do not match the link.
    pub(crate) fn decode(
        bytes: Box<[u8; PAGE_BYTES]>,
        link: PageLink,
        kind: PageKind,
        level: u8,
    ) -> Result<Self, &'static str> {
        let page = Self { bytes };
        if checksum(&[&page.bytes[WORD..]]) != page.word(0) {
            return Err("its checksum is wrong");
        }
        if page.word(WORD) != link.page || page.generation() != link.generation {
            return Err("it is another page than expected");
        }
        if page.bytes[24] != level || page.bytes[25] != kind as u8 {
            return Err("it is of another kind than expected");
        }
        if page.len() > kind.capacity(level) {
            return Err("its number of entries is impossible");
        }
        Ok(page)
    }

    /// Appends the bytes of the page to a buffer, with their checksum.
    pub(crate) fn seal_into(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&checksum(&[&self.bytes[WORD..]]).to_le_bytes());
        bytes.extend_from_slice(&self.bytes[WORD..]);
    }

    pub(crate) fn set_link(&mut self, link: PageLink) {
        self.set_word(WORD, link.page);
        self.set_word(2 * WORD, link.generation);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.word(2 * WORD)
    }

    pub(crate) fn level(&self) -> u8 {
        self.bytes[24]
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[26], self.bytes[27]]))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }

    pub(crate) fn capacity(&self) -> usize {
        (PAGE_BYTES - HEAD_BYTES) / self.entry_bytes()
    }

    pub(crate) fn key(&self, slot: usize) -> u64 {
        self.word(HEAD_BYTES + slot * self.entry_bytes())
    }

    /// The words behind the key; words that the entry lacks are zero.
    pub(crate) fn value(&self, slot: usize) -> [u64; MAX_WORDS] {
        let (start, entry_bytes) = self.entry(slot);
        let mut value = [0; MAX_WORDS];
        for (i, word) in value.iter_mut().enumerate().take(entry_bytes / WORD - 1) {
            *word = self.word(start + (1 + i) * WORD);
        }
        value
    }

    /// The child in a slot of an inner page.
    pub(crate) fn child(&self, slot: usize) -> PageLink {
        let value = self.value(slot);
        PageLink { page: value[0], generation: value[1] }
    }

    /// The slot of a key, or the slot at which it would be inserted.
    pub(crate) fn find(&self, key: u64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.key(middle).cmp(&key) {
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// The slot of the child that holds a key. The first child holds all keys below the second.
    pub(crate) fn child_slot(&self, key: u64) -> usize {
        match self.find(key) {
            Ok(slot) => slot,
            Err(slot) => slot.saturating_sub(1),
        }
    }

    pub(crate) fn set_value(&mut self, slot: usize, value: [u64; MAX_WORDS]) {
        let (start, entry_bytes) = self.entry(slot);
        for (i, word) in value.iter().enumerate().take(entry_bytes / WORD - 1) {
            self.set_word(start + (1 + i) * WORD, *word);
        }
    }

    pub(crate) fn set_child(&mut self, slot: usize, link: PageLink) {
        self.set_value(slot, [link.page, link.generation, 0]);
    }

    /// Inserts an entry; the page must not be full.
    pub(crate) fn insert(&mut self, slot: usize, key: u64, value: [u64; MAX_WORDS]) {
        let len = self.len();
        assert!(len < self.capacity() && slot <= len, "the tree splits a page before it overflows");
        let (start, entry_bytes) = self.entry(slot);
        let end = HEAD_BYTES + len * entry_bytes;
        self.bytes.copy_within(start..end, start + entry_bytes);
        self.set_len(len + 1);
        self.set_word(start, key);
        self.set_value(slot, value);
    }

    pub(crate) fn remove(&mut self, slot: usize) {
        let len = self.len();
        assert!(slot < len, "the tree removes only existing entries");
        let (start, entry_bytes) = self.entry(slot);
        self.bytes.copy_within(start + entry_bytes..HEAD_BYTES + len * entry_bytes, start);
        self.set_len(len - 1);
    }

    /// Moves the entries from `slot` on to the end of `to`.
    pub(crate) fn move_tail(&mut self, slot: usize, to: &mut Self) {
        let (len, to_len) = (self.len(), to.len());
        let (start, entry_bytes) = self.entry(slot);
        let moved = &self.bytes[start..HEAD_BYTES + len * entry_bytes];
        let target = HEAD_BYTES + to_len * entry_bytes;
        to.bytes[target..target + moved.len()].copy_from_slice(moved);
        to.set_len(to_len + len - slot);
        self.set_len(slot);
    }

    fn entry_bytes(&self) -> usize {
        // Creation and decoding of the page have checked its kind.
        let words = match self.bytes[25] {
            1 => PageKind::Extents.entry_words(self.level()),
            2 => PageKind::FreeByPosition.entry_words(self.level()),
            3 => PageKind::FreeBySize.entry_words(self.level()),
            _ => PageKind::FreePages.entry_words(self.level()),
        };
        words * WORD
    }

    fn entry(&self, slot: usize) -> (usize, usize) {
        let entry_bytes = self.entry_bytes();
        (HEAD_BYTES + slot * entry_bytes, entry_bytes)
    }

    fn set_len(&mut self, len: usize) {
        let len = u16::try_from(len).expect("a page holds a few hundred entries");
        self.bytes[26..28].copy_from_slice(&len.to_le_bytes());
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + WORD].try_into().expect("a word has 8 bytes"))
    }

    fn set_word(&mut self, at: usize, word: u64) {
        self.bytes[at..at + WORD].copy_from_slice(&word.to_le_bytes());
    }
}
