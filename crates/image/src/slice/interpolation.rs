//! Values between voxels.

use serde::{Deserialize, Serialize};

/// How the value of a pixel is computed from the voxels around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Interpolation {
    /// The nearest voxel; halfway between two, the one with the larger position. A pixel whose
    /// nearest voxel does not exist is background.
    Nearest,
    /// The eight voxels around it, each with its weight, in steps of a 256th of a voxel. A pixel
    /// before the centre of the first voxel or after that of the last is background.
    Trilinear,
}
