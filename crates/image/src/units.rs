//! What the numbers of a volume mean.

use serde::{Deserialize, Serialize};

/// What the values of voxels and the distances between them are counted in, as far as the file that
/// was imported says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoxelUnits {
    /// The values of voxels.
    pub values: ValueUnit,
    /// The spacing.
    pub lengths: LengthUnit,
}

/// What the values of voxels are counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueUnit {
    /// The file does not say it.
    #[default]
    Unknown,
    /// Hounsfield units: -1000 is air, 0 is water.
    Hounsfield,
}

/// What the spacing is counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LengthUnit {
    /// The file does not say it.
    #[default]
    Unknown,
    /// Millimetres.
    Millimetre,
}

impl VoxelUnits {
    /// Lengths in millimetres, and values of which nothing is known.
    pub const MILLIMETRES: VoxelUnits =
        VoxelUnits { values: ValueUnit::Unknown, lengths: LengthUnit::Millimetre };
}

impl ValueUnit {
    /// The symbol behind a value.
    pub const fn symbol(self) -> Option<&'static str> {
        match self {
            ValueUnit::Unknown => None,
            ValueUnit::Hounsfield => Some("HU"),
        }
    }
}

impl LengthUnit {
    /// The symbol behind a length.
    pub const fn symbol(self) -> Option<&'static str> {
        match self {
            LengthUnit::Unknown => None,
            LengthUnit::Millimetre => Some("mm"),
        }
    }
}
