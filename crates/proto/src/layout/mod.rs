//! Layouts: which disk, and where on it.
//!
//! `encoding` names the kinds and writes them down; `striped`, `tiles` and `extents` are the kinds, `disks`,
//! `range`, `geometry` and `declustering` what they are made of. Invariant: a layout is a value that
//! was checked when it was made, so asking it about anything inside its file cannot fail.

pub mod declustering;
pub mod disks;
pub mod encoding;
pub mod extents;
pub mod geometry;
pub mod range;
pub mod striped;
pub mod tiles;
