//! What a pixel between voxels looks like.

use serde::{Deserialize, Serialize};

/// How the value of a pixel is made of the voxels around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Interpolation {
    /// The voxel that is nearest; halfway between two, the one with the larger position. A pixel
    /// whose nearest voxel does not exist is background.
    Nearest,
    /// The eight voxels around it, each with its weight, in steps of a 256th of a voxel. A pixel
    /// before the centre of the first voxel or behind that of the last is background.
    Trilinear,
}
