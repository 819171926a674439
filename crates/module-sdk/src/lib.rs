//! Operations on the extents of Pario files as WebAssembly modules, in Rust.
//!
//! The attribute [`operation`] makes a crate of the type `cdylib`, built for the target
//! `wasm32-unknown-unknown`, a module that `pario operation add` accepts. It stands before a
//! function that computes one output for each extent:
//!
//! ```
//! use pario_module_sdk::{Extent, operation};
//!
//! #[operation]
//! fn threshold(extent: &Extent<'_>, level: u8) -> Vec<u8> {
//!     extent.body.iter().map(|byte| if *byte > level { 255 } else { 0 }).collect()
//! }
//! # fn main() {
//! #     let extent = Extent { body: &[1, 90, 91], ..Extent::default() };
//! #     assert_eq!(threshold(&extent, 90), [0, 0, 255]);
//! # }
//! ```
//!
//! The arguments after the extent are parameters of the call, by their names. The function returns
//! bytes, an `Option` of them, an [`Output`], or a `Result` of one of these.
//!
//! An operation that keeps state, merges partial results, needs parts of other extents or processes
//! extents that do not exist implements [`Task`]; then the attribute stands before the
//! implementation. docs/operations.md explains when a node calls which function.
//!
//! This crate has no dependencies but its attribute. On other targets than WebAssembly the attribute
//! exports nothing, so that a program can test the functions.

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod export;
mod parameters;
mod task;

pub use parameters::Parameters;
pub use pario_module_macros::operation;
pub use task::{Extent, IntoOutput, Neighbour, Output, Placement, Task};
