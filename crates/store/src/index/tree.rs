//! A B+tree of pages: 64-bit keys with a few words behind each.
//!
//! Invariants:
//! - All leaves are at level 0. An inner page holds for each child a key that is not larger than
//!   any key below it and larger than any key below its left neighbour. The first child also holds
//!   all smaller keys.
//! - Only an empty root is an empty page.
//! - A change first reads every page of its path into memory, then owns them from the root down: it
//!   fails before its first change or not at all.

use std::sync::Arc;

use super::page::{MAX_WORDS, Page, PageKind, PageLink};
use super::pages::{PageFault, PageLoad, Pages};

/// The words behind a key.
pub(crate) type TreeValue = [u64; MAX_WORDS];

/// 2^48 keys need fewer levels than this with half-empty pages.
const MAX_HEIGHT: usize = 16;

/// A tree whose pages live in a [`Pages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    kind: PageKind,
    root: PageLink,
    /// Levels; 0 for an empty tree.
    height: u8,
}

#[derive(Clone)]
struct PathStep {
    link: PageLink,
    page: Arc<Page>,
    /// The slot of the child taken, or of the key in a leaf.
    slot: usize,
}

impl Tree {
    /// The tree with the root and height of a superblock: no root and height 0 for an empty tree.
    pub(crate) fn new(kind: PageKind, root: PageLink, height: u8) -> Result<Self, PageFault> {
        if usize::from(height) > MAX_HEIGHT || root.is_none() != (height == 0) {
            return Err(PageFault::Damaged("a tree of the index has an impossible height".into()));
        }
        Ok(Self { kind, root, height })
    }

    pub(crate) fn root(&self) -> (PageLink, u8) {
        (self.root, self.height)
    }

    /// The value of a key.
    pub(crate) fn get(
        &self,
        pages: &mut Pages,
        key: u64,
        load: PageLoad,
    ) -> Result<Option<TreeValue>, PageFault> {
        let mut link = self.root;
        for level in (0..self.height).rev() {
            let page = pages.get(link, self.kind, level, load)?;
            if level == 0 {
                return Ok(page.find(key).ok().map(|slot| page.value(slot)));
            }
            link = page.child(page.child_slot(key));
        }
        Ok(None)
    }

    /// The first entry with at least this key.
    pub(crate) fn at_or_after(
        &self,
        pages: &mut Pages,
        key: u64,
        load: PageLoad,
    ) -> Result<Option<(u64, TreeValue)>, PageFault> {
        let mut found = None;
        self.scan(pages, key, load, &mut |key, value| {
            found = Some((key, value));
            false
        })?;
        Ok(found)
    }

    /// Calls `each` for the entries from `key` on, in order, until it returns `false`.
    pub(crate) fn scan(
        &self,
        pages: &mut Pages,
        key: u64,
        load: PageLoad,
        each: &mut dyn FnMut(u64, TreeValue) -> bool,
    ) -> Result<(), PageFault> {
        let mut path = self.descend(pages, key, load)?;
        let Some(leaf) = path.last() else {
            return Ok(());
        };
        let mut slot = leaf.page.find(key).unwrap_or_else(|slot| slot);
        let mut last = None;
        loop {
            let leaf = path.last().expect("a path ends in a leaf");
            while slot < leaf.page.len() {
                let key = leaf.page.key(slot);
                // A cycle of pages would make this loop endless.
                if last.is_some_and(|last| last >= key) {
                    return Err(PageFault::Damaged("keys of the index are out of order".into()));
                }
                last = Some(key);
                if !each(key, leaf.page.value(slot)) {
                    return Ok(());
                }
                slot += 1;
            }
            if !self.next_leaf(pages, &mut path, load)? {
                return Ok(());
            }
            slot = 0;
        }
    }

    /// The last entry with a smaller key.
    pub(crate) fn before(
        &self,
        pages: &mut Pages,
        key: u64,
        load: PageLoad,
    ) -> Result<Option<(u64, TreeValue)>, PageFault> {
        let path = self.descend(pages, key, load)?;
        let Some(leaf) = path.last() else {
            return Ok(None);
        };
        let slot = leaf.page.find(key).unwrap_or_else(|slot| slot);
        if slot > 0 {
            return Ok(Some((leaf.page.key(slot - 1), leaf.page.value(slot - 1))));
        }
        // The last entry of the subtree left of the path, if there is one.
        let Some(turn) = path.iter().rev().skip(1).find(|step| step.slot > 0) else {
            return Ok(None);
        };
        let mut link = turn.page.child(turn.slot - 1);
        for level in (0..turn.page.level()).rev() {
            let page = pages.get(link, self.kind, level, load)?;
            let Some(last) = page.len().checked_sub(1) else {
                return Err(empty_page(link));
            };
            if level == 0 {
                return Ok(Some((page.key(last), page.value(last))));
            }
            link = page.child(last);
        }
        Ok(None)
    }

    /// Sets the value of a key; returns the previous value.
    pub(crate) fn insert(
        &mut self,
        pages: &mut Pages,
        key: u64,
        value: TreeValue,
    ) -> Result<Option<TreeValue>, PageFault> {
        if self.height == 0 {
            self.root = pages.create(self.kind, 0);
            self.height = 1;
            pages.owned(self.root).insert(0, key, value);
            return Ok(None);
        }
        let path = self.descend(pages, key, PageLoad::Wait)?;
        let mut owned = self.own_path(pages, path);
        let (leaf, found) = owned.pop().expect("a path ends in a leaf");
        let page = pages.owned(leaf);
        if let Ok(slot) = page.find(key) {
            let old = page.value(slot);
            page.set_value(slot, value);
            return Ok(Some(old));
        }
        let mut split = insert_or_split(pages, self.kind, leaf, found, key, value);
        while let Some((key, right)) = split {
            let value = [right.page, right.generation, 0];
            split = match owned.pop() {
                Some((link, slot)) => insert_or_split(pages, self.kind, link, slot + 1, key, value),
                None => {
                    self.grow(pages, key, right);
                    None
                }
            };
        }
        Ok(None)
    }

    /// Removes a key; returns its value.
    pub(crate) fn remove(
        &mut self,
        pages: &mut Pages,
        key: u64,
    ) -> Result<Option<TreeValue>, PageFault> {
        let path = self.descend(pages, key, PageLoad::Wait)?;
        let Some(leaf) = path.last() else {
            return Ok(None);
        };
        let Ok(slot) = leaf.page.find(key) else {
            return Ok(None);
        };
        let old = leaf.page.value(slot);
        let neighbours = self.load_neighbours(pages, &path, PageLoad::Wait)?;
        let owned = self.own_path(pages, path);
        let (mut link, mut slot) = owned[owned.len() - 1];
        pages.owned(link).remove(slot);
        for depth in (1..owned.len()).rev() {
            (link, slot) = owned[depth - 1];
            let (child, _) = owned[depth];
            let len = pages.owned(child).len();
            if len == 0 {
                pages.release(child);
                pages.owned(link).remove(slot);
            } else if len < pages.owned(child).capacity() / 4 {
                match neighbours[depth].clone() {
                    Some(neighbour) => merge(pages, link, slot, child, neighbour),
                    None => break,
                }
            } else {
                break;
            }
        }
        self.lower(pages)?;
        Ok(Some(old))
    }

    /// Fails with [`PageFault::Absent`] if a page is not in memory that the insertion or the removal
    /// of a key reads.
    pub(crate) fn check_in_memory(&self, pages: &mut Pages, key: u64) -> Result<(), PageFault> {
        let path = self.descend(pages, key, PageLoad::Refuse)?;
        self.load_neighbours(pages, &path, PageLoad::Refuse).map(|_| ())
    }

    /// The path from the root to the leaf of a key.
    fn descend(
        &self,
        pages: &mut Pages,
        key: u64,
        load: PageLoad,
    ) -> Result<Vec<PathStep>, PageFault> {
        let mut path = Vec::with_capacity(usize::from(self.height));
        let mut link = self.root;
        for level in (0..self.height).rev() {
            let page = pages.get(link, self.kind, level, load)?;
            let slot = if level == 0 {
                page.find(key).unwrap_or_else(|slot| slot)
            } else if page.len() == 0 {
                return Err(empty_page(link));
            } else {
                page.child_slot(key)
            };
            let next = if level == 0 { PageLink::NONE } else { page.child(slot) };
            path.push(PathStep { link, page, slot });
            link = next;
        }
        Ok(path)
    }

    fn next_leaf(
        &self,
        pages: &mut Pages,
        path: &mut Vec<PathStep>,
        load: PageLoad,
    ) -> Result<bool, PageFault> {
        path.pop();
        while let Some(step) = path.last_mut() {
            step.slot += 1;
            if step.slot < step.page.len() {
                break;
            }
            path.pop();
        }
        let Some(turn) = path.last() else {
            return Ok(false);
        };
        let mut link = turn.page.child(turn.slot);
        for level in (0..turn.page.level()).rev() {
            let page = pages.get(link, self.kind, level, load)?;
            if page.len() == 0 {
                return Err(empty_page(link));
            }
            let next = page.child(0);
            path.push(PathStep { link, page, slot: 0 });
            link = next;
        }
        Ok(true)
    }

    /// Owns the pages of a path, and makes each parent refer to the owned child.
    fn own_path(&mut self, pages: &mut Pages, path: Vec<PathStep>) -> Vec<(PageLink, usize)> {
        let mut owned: Vec<(PageLink, usize)> = Vec::with_capacity(path.len());
        for PathStep { link, page, slot } in path {
            let new = pages.own(link, page);
            if new != link {
                match owned.last() {
                    Some(&(parent, at)) => pages.owned(parent).set_child(at, new),
                    None => self.root = new,
                }
            }
            owned.push((new, slot));
        }
        owned
    }

    /// For each page of a path below the root, a neighbour to merge with if the page becomes too
    /// small: the right one, or the left one of a last child.
    fn load_neighbours(
        &self,
        pages: &mut Pages,
        path: &[PathStep],
        load: PageLoad,
    ) -> Result<Vec<Option<Neighbour>>, PageFault> {
        let mut neighbours = vec![None; path.len()];
        for depth in (1..path.len()).rev() {
            let (parent, page) = (&path[depth - 1], &path[depth].page);
            if page.len() > page.capacity() / 4 || parent.page.len() < 2 {
                break;
            }
            let is_right = parent.slot + 1 < parent.page.len();
            let slot = if is_right { parent.slot + 1 } else { parent.slot - 1 };
            let link = parent.page.child(slot);
            let page = pages.get(link, self.kind, page.level(), load)?;
            neighbours[depth] = Some(Neighbour { link, page, is_right });
        }
        Ok(neighbours)
    }

    fn grow(&mut self, pages: &mut Pages, key: u64, right: PageLink) {
        let left = self.root;
        self.root = pages.create(self.kind, self.height);
        self.height += 1;
        let root = pages.owned(self.root);
        // The first child holds all smaller keys; its own key has no meaning.
        root.insert(0, 0, [left.page, left.generation, 0]);
        root.insert(1, key, [right.page, right.generation, 0]);
    }

    /// Removes roots without children and roots with a single child.
    fn lower(&mut self, pages: &mut Pages) -> Result<(), PageFault> {
        while self.height > 0 {
            let root = pages.get(self.root, self.kind, self.height - 1, PageLoad::Wait)?;
            let next = match root.len() {
                0 => PageLink::NONE,
                1 if self.height > 1 => root.child(0),
                _ => break,
            };
            pages.release(self.root);
            self.root = next;
            self.height = if next.is_none() { 0 } else { self.height - 1 };
        }
        Ok(())
    }
}

#[derive(Clone)]
struct Neighbour {
    link: PageLink,
    page: Arc<Page>,
    is_right: bool,
}

fn empty_page(link: PageLink) -> PageFault {
    PageFault::Damaged(format!("index page {} is empty", link.page))
}

/// Inserts an entry into an owned page. If the page was full, splits it and returns the new right
/// neighbour with its smallest key.
fn insert_or_split(
    pages: &mut Pages,
    kind: PageKind,
    link: PageLink,
    slot: usize,
    key: u64,
    value: TreeValue,
) -> Option<(u64, PageLink)> {
    let page = pages.owned(link);
    if !page.is_full() {
        page.insert(slot, key, value);
        return None;
    }
    let (len, level) = (page.len(), page.level());
    // Ascending insertions leave full pages behind.
    let cut = if slot == len { len } else { len / 2 };
    let right_link = pages.create(kind, level);
    let (left, right) = pages.owned_pair(link, right_link);
    left.move_tail(cut, right);
    if slot < cut || (slot == cut && cut < len) {
        left.insert(slot, key, value);
    } else {
        right.insert(slot - cut, key, value);
    }
    let first = right.key(0);
    Some((first, right_link))
}

/// Merges a small owned child with its neighbour, if the merged page has space to grow.
fn merge(pages: &mut Pages, parent: PageLink, slot: usize, child: PageLink, neighbour: Neighbour) {
    let together = pages.owned(child).len() + neighbour.page.len();
    if together > pages.owned(child).capacity() * 3 / 4 {
        return;
    }
    let other = pages.own(neighbour.link, neighbour.page);
    let (left, right, right_slot) =
        if neighbour.is_right { (child, other, slot + 1) } else { (other, child, slot) };
    let (left_page, right_page) = pages.owned_pair(left, right);
    right_page.move_tail(0, left_page);
    let parent = pages.owned(parent);
    parent.set_child(right_slot - 1, left);
    parent.remove(right_slot);
    pages.release(right);
}
