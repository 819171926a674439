//! How images and volumes are stored: what their file says of itself, and what an extent holds.

mod compression;
mod description;
mod place;

pub use compression::{Compression, StoredError};
pub use description::Description;
pub(crate) use description::{read_description, write_description};
pub(crate) use place::{Placed, here, spread};
