//! The resident node of a cluster.
#![forbid(unsafe_code)]

pub mod metadata;
pub mod namespace;
