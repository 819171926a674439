//! The index of an extent subfile: B+trees in copied-on-write pages, and the superblock that says
//! which pages are the current checkpoint.

mod page;
mod pages;
mod superblock;
mod tree;

pub(crate) use page::{Link, PAGE_BYTES, PageKind};
pub(crate) use pages::{Frozen, Load, PageFault, PageWanted, Pages};
pub(crate) use superblock::{BadSuperblock, INDEX_VERSION, Superblock};
pub(crate) use tree::{Tree, Value};

#[cfg(test)]
mod tests;
