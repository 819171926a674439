//! Units of the numbers of a volume.

use serde::{Deserialize, Serialize};

/// Units of voxel values and of the spacing, as far as the imported file states them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoxelUnits {
    /// Unit of the voxel values.
    pub values: ValueUnit,
    /// Unit of the spacing.
    pub lengths: LengthUnit,
}

/// Unit of voxel values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueUnit {
    /// The file does not state it.
    #[default]
    Unknown,
    /// Hounsfield units: -1000 is air, 0 is water.
    Hounsfield,
}

/// Unit of the spacing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LengthUnit {
    /// The file does not state it.
    #[default]
    Unknown,
    /// Millimetres.
    Millimetre,
}

impl VoxelUnits {
    /// Lengths in millimetres, values in an unknown unit.
    pub const MILLIMETRES: VoxelUnits =
        VoxelUnits { values: ValueUnit::Unknown, lengths: LengthUnit::Millimetre };
}

impl ValueUnit {
    /// Returns the symbol to print after a value.
    pub const fn symbol(self) -> Option<&'static str> {
        match self {
            ValueUnit::Unknown => None,
            ValueUnit::Hounsfield => Some("HU"),
        }
    }
}

impl LengthUnit {
    /// Returns the symbol to print after a length.
    pub const fn symbol(self) -> Option<&'static str> {
        match self {
            LengthUnit::Unknown => None,
            LengthUnit::Millimetre => Some("mm"),
        }
    }
}
