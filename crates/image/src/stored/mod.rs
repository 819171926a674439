//! How images and volumes are stored: what their file says of itself, and what an extent holds.

mod compression;
#[cfg(feature = "cluster")]
mod description;
#[cfg(feature = "cluster")]
mod place;
#[cfg(feature = "cluster")]
mod statistics;

pub use compression::{Compression, StoredError};
#[cfg(feature = "cluster")]
pub use description::Description;
#[cfg(feature = "cluster")]
pub(crate) use description::{SelfDescription, read_description, write_description};
#[cfg(feature = "cluster")]
pub(crate) use place::{Placed, here, spread};
#[cfg(feature = "cluster")]
pub use statistics::VoxelStatistics;
