//! NRRD, with the data in the same file or in another one.

mod fields;
mod header;
mod reader;
mod writer;

pub(super) use reader::{Beside, open};
pub use writer::NrrdSink;

/// Whether a file begins like a NRRD.
pub(super) fn is_nrrd(head: &[u8]) -> bool {
    head.starts_with(b"NRRD000")
}
