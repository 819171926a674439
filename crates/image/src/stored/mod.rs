//! The stored form of images and volumes: the description in their file, and the content of an
//! extent.

mod compression;
#[cfg(feature = "cluster")]
mod description;
#[cfg(feature = "cluster")]
mod image_layout;
#[cfg(feature = "cluster")]
mod statistics;

pub use compression::{Compression, StoredError};
#[cfg(feature = "cluster")]
pub use description::ImageDescription;
#[cfg(feature = "cluster")]
pub(crate) use description::{StoredDescription, read_description, write_description};
#[cfg(feature = "cluster")]
pub(crate) use image_layout::{ImageLayout, choose_disks, tiles_at_node};
#[cfg(feature = "cluster")]
pub use statistics::VoxelStatistics;
