//! NRRD, with the data in the same file or in another one.

mod fields;
mod header;
mod reader;
mod writer;

pub(super) use reader::{HeaderLocation, open};
pub use writer::nrrd_sink;

/// Returns whether a file starts like a NRRD.
pub(super) fn is_nrrd(head: &[u8]) -> bool {
    head.starts_with(b"NRRD000")
}
