//! The models: plain arithmetic and plain bytes, without the code under test.

mod contents;
mod pointers;

pub use contents::{Contents, Read};
pub use pointers::{Expected, Pointers};
