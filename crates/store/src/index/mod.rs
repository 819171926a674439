//! The index of an extent subfile: B+trees in copy-on-write pages, and the superblock that names the
//! pages of the current checkpoint.

mod page;
mod pages;
mod superblock;
mod tree;

pub(crate) use page::{PAGE_BYTES, PageKind, PageLink};
pub(crate) use pages::{FrozenPages, MissingPage, PageFault, PageLoad, Pages};
pub(crate) use superblock::{BadSuperblock, INDEX_VERSION, Superblock};
pub(crate) use tree::{Tree, TreeValue};

#[cfg(test)]
mod tests;
