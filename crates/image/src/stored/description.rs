//! What the file of an image or volume says of its pixels. How it is cut into tiles is in its layout.

use pario::{ExtentIndex, ExtentPlacement, File, Layout, SubfileIndex};
use pario_proto::{Shape, Tiles};
use serde::{Deserialize, Serialize};

use super::compression::Compression;
use super::statistics::VoxelStatistics;
use crate::error::ImageError;
use crate::pixel::Pixel;
use crate::slice::{Grid, GridError};
use crate::units::VoxelUnits;

/// Version 1 ends with the description; version 2 says behind it what values the voxels have, and may
/// say behind that what they are counted in.
const VERSION: u32 = 2;
const HEADER: &[u8] = b"pario image";

/// What the pixels of an image or volume are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The pixels, or voxels.
    pub pixel: Pixel,
    /// How far voxels are apart along each axis; 1 in images.
    pub spacing: [f64; 3],
    /// Along which axes a tile holds the first layer of the next, too.
    pub overlap: [bool; 3],
    /// How tiles are packed that are written from now on.
    pub compression: Compression,
}

impl Description {
    /// The tiles of a layout as boxes.
    pub(crate) fn grid(&self, tiles: &Tiles) -> Result<Grid, GridError> {
        Grid::new(tiles.image(), tiles.tile(), self.overlap)
    }

    /// Bytes of the pixels of a tile of a size.
    pub(crate) fn bytes_of(&self, size: Shape) -> usize {
        let along = |pixels: u64| usize::try_from(pixels).unwrap_or(usize::MAX);
        let pixels = along(size.x).saturating_mul(along(size.y)).saturating_mul(along(size.z));
        pixels.saturating_mul(self.pixel.bytes())
    }

    fn check(self) -> Result<Self, String> {
        let spacing = self.spacing;
        match spacing.iter().all(|side| side.is_finite() && *side > 0.0) {
            true => Ok(self),
            false => Err(format!("voxels cannot be {spacing:?} apart")),
        }
    }
}

/// The place of the description: behind those of all tiles.
fn place_of(tiles: &Tiles) -> ExtentPlacement {
    ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(tiles.extent_limit()) }
}

/// Writes the description of an image or volume.
pub fn write_description(
    file: &File,
    tiles: &Tiles,
    description: &Description,
    statistics: Option<VoxelStatistics>,
    units: VoxelUnits,
) -> Result<(), ImageError> {
    let body = postcard::to_allocvec(&(VERSION, description, statistics, units))
        .map_err(|error| ImageError::other(file.path(), error.to_string()))?;
    Ok(file.write_extent(place_of(tiles), HEADER, &body)?)
}

/// What the file of an image or volume says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelfDescription {
    /// Its pixels, and how they are stored.
    pub description: Description,
    /// What is known of its values.
    pub statistics: Option<VoxelStatistics>,
    /// What they are counted in.
    pub units: VoxelUnits,
}

/// The tiles of an image or volume, and what its file says of it.
pub fn read_description(file: &File) -> Result<(Tiles, SelfDescription), ImageError> {
    let not_one = |why: String| ImageError::NotAnImage { path: file.path().to_string(), why };
    let Some(Layout::Tiles(tiles)) = &file.record().layout else {
        return Err(not_one("its layout is not one of tiles".to_owned()));
    };
    let Some(extent) = file.read_extent(place_of(tiles))? else {
        return Err(not_one("it does not say what its pixels are".to_owned()));
    };
    if &extent.header[..] != HEADER {
        return Err(not_one("it says something else where its pixels should be described".into()));
    }
    Ok((tiles.clone(), decode(&extent.body).map_err(not_one)?))
}

/// The description in the bytes of an extent of any version up to this one.
fn decode(body: &[u8]) -> Result<SelfDescription, String> {
    let unreadable = |error| format!("its description cannot be read: {error}");
    let (version, rest): (u32, _) = postcard::take_from_bytes(body).map_err(unreadable)?;
    let mut units = VoxelUnits::default();
    let (description, statistics): (Description, Option<VoxelStatistics>) = match version {
        1 => (postcard::from_bytes(rest).map_err(unreadable)?, None),
        VERSION => {
            let (known, rest) = postcard::take_from_bytes(rest).map_err(unreadable)?;
            if !rest.is_empty() {
                units = postcard::from_bytes(rest).map_err(unreadable)?;
            }
            known
        }
        later => {
            return Err(format!(
                "its description has version {later}, this program reads up to {VERSION}: use a \
                 later one"
            ));
        }
    };
    // Statistics only choose what is shown first: impossible ones are left out.
    let statistics = statistics.filter(VoxelStatistics::is_possible);
    Ok(SelfDescription { description: description.check()?, statistics, units })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pixel::Sample;
    use crate::units::{LengthUnit, ValueUnit};

    const RGB: Description = Description {
        pixel: Pixel::RGB,
        spacing: [1.0, 2.0, 0.5],
        overlap: [false, false, true],
        compression: Compression::Lz4,
    };

    #[test]
    fn descriptions_of_version_1_are_read() {
        // Version, sample, channels, three lengths, three overlaps, compression.
        let mut golden = vec![1, 0, 3];
        golden.extend([1.0f64, 2.0, 0.5].map(f64::to_le_bytes).concat());
        golden.extend([0, 0, 1, 1]);
        let units = VoxelUnits::default();
        let expected = SelfDescription { description: RGB, statistics: None, units };
        assert_eq!(decode(&golden), Ok(expected));
        assert_eq!(postcard::to_allocvec(&(1u32, RGB)).unwrap(), golden);
    }

    #[test]
    fn descriptions_of_version_2_say_what_values_there_are() {
        let pixel = Pixel::new(Sample::I16, 1).unwrap();
        let description = Description { pixel, ..RGB };
        let known = VoxelStatistics {
            minimum: -1024.0,
            maximum: 3071.0,
            percentile_1: -1000.0,
            percentile_99: 900.0,
        };
        let encoded = |statistics: Option<VoxelStatistics>| {
            postcard::to_allocvec(&(VERSION, description, statistics)).unwrap()
        };
        assert_eq!(encoded(Some(known))[..3], [2, 4, 1]);
        let units = VoxelUnits::default();
        let expected = |statistics| Ok(SelfDescription { description, statistics, units });
        assert_eq!(decode(&encoded(Some(known))), expected(Some(known)));
        assert_eq!(decode(&encoded(None)), expected(None));
        let wrong = VoxelStatistics { minimum: f64::NAN, ..known };
        assert_eq!(decode(&encoded(Some(wrong))), expected(None));

        // What they are counted in may follow.
        let units = VoxelUnits { values: ValueUnit::Hounsfield, lengths: LengthUnit::Millimetre };
        let longer = [encoded(Some(known)), postcard::to_allocvec(&units).unwrap()].concat();
        assert_eq!(longer[longer.len() - 2..], [1, 1]);
        let expected = SelfDescription { description, statistics: Some(known), units };
        assert_eq!(decode(&longer), Ok(expected));
    }

    #[test]
    fn later_versions_and_other_bytes_are_refused() {
        let error = decode(&[3, 0, 0]).unwrap_err();
        assert!(error.contains("version 3"), "{error}");
        assert!(decode(&[]).is_err());
        assert!(decode(&[1, 9, 3]).is_err());
    }
}
