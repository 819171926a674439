//! The store of one disk.
