//! The extent in which the file of an image or volume describes its pixels. The layout of the file
//! says how it is cut into tiles.

use pario::{ExtentIndex, ExtentPlacement, File, Layout, SubfileIndex};
use pario_proto::{Shape, Tiles};
use serde::{Deserialize, Serialize};

use super::compression::Compression;
use super::statistics::VoxelStatistics;
use crate::error::ImageError;
use crate::pixel::Pixel;
use crate::slice::{BoxGrid, BoxGridError};
use crate::units::VoxelUnits;

/// Version 1 ends with the description. Version 2 continues with the statistics of the voxels, and
/// may continue with their units.
const VERSION: u32 = 2;
const HEADER: &[u8] = b"pario image";

/// The pixels of an image or volume, and how they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageDescription {
    /// The pixel, or voxel.
    pub pixel: Pixel,
    /// Distance of neighbouring voxels along each axis; 1 for images.
    pub spacing: [f64; 3],
    /// Axes along which a tile also stores the first layer of the next tile.
    pub overlap: [bool; 3],
    /// Compression of tiles that are written from now on.
    pub compression: Compression,
}

impl ImageDescription {
    /// Returns the tiles of a layout as boxes.
    pub(crate) fn grid(&self, tiles: &Tiles) -> Result<BoxGrid, BoxGridError> {
        BoxGrid::new(tiles.image(), tiles.tile(), self.overlap)
    }

    /// Returns the bytes of the pixels of a tile of a size.
    pub(crate) fn bytes_of(&self, size: Shape) -> usize {
        let along = |pixels: u64| usize::try_from(pixels).unwrap_or(usize::MAX);
        let pixels = along(size.x).saturating_mul(along(size.y)).saturating_mul(along(size.z));
        pixels.saturating_mul(self.pixel.bytes())
    }

    fn check(self) -> Result<Self, String> {
        let spacing = self.spacing;
        match spacing.iter().all(|side| side.is_finite() && *side > 0.0) {
            true => Ok(self),
            false => Err(format!("the spacing {spacing:?} is not valid")),
        }
    }
}

/// Returns the placement of the description, which follows all tiles.
fn place_of(tiles: &Tiles) -> ExtentPlacement {
    ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(tiles.extent_limit()) }
}

/// Writes the description of an image or volume.
pub fn write_description(
    file: &File,
    tiles: &Tiles,
    description: &ImageDescription,
    statistics: Option<VoxelStatistics>,
    units: VoxelUnits,
) -> Result<(), ImageError> {
    let body = postcard::to_allocvec(&(VERSION, description, statistics, units))
        .map_err(|error| ImageError::other(file.path(), error.to_string()))?;
    Ok(file.write_extent(HEADER, &body, place_of(tiles))?)
}

/// All that the file of an image or volume says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredDescription {
    /// Its pixels, and how they are stored.
    pub description: ImageDescription,
    /// The statistics of its values, if they were computed.
    pub statistics: Option<VoxelStatistics>,
    /// The units of its values and its spacing.
    pub units: VoxelUnits,
}

/// Reads the description of an image or volume, and returns its tiles with it.
pub fn read_description(file: &File) -> Result<(Tiles, StoredDescription), ImageError> {
    let not_one = |why: String| ImageError::NotAnImage { path: file.path().to_string(), why };
    let Some(Layout::Tiles(tiles)) = &file.record().layout else {
        return Err(not_one("its layout has no tiles".to_owned()));
    };
    let Some(extent) = file.read_extent(place_of(tiles))? else {
        return Err(not_one("it has no description of its pixels".to_owned()));
    };
    if &extent.header[..] != HEADER {
        return Err(not_one("the extent after its tiles is not a description".into()));
    }
    Ok((tiles.clone(), decode(&extent.body).map_err(not_one)?))
}

/// Decodes a description of any version up to this one.
fn decode(body: &[u8]) -> Result<StoredDescription, String> {
    let unreadable = |error| format!("its description cannot be read: {error}");
    let (version, rest): (u32, _) = postcard::take_from_bytes(body).map_err(unreadable)?;
    let mut units = VoxelUnits::default();
    let (description, statistics): (ImageDescription, Option<VoxelStatistics>) = match version {
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
                "its description has version {later}, this release reads up to {VERSION}: use \
                 a later release"
            ));
        }
    };
    // Statistics only choose the default grey window: drop impossible ones.
    let statistics = statistics.filter(VoxelStatistics::is_possible);
    Ok(StoredDescription { description: description.check()?, statistics, units })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pixel::Sample;
    use crate::units::{LengthUnit, ValueUnit};

    const RGB: ImageDescription = ImageDescription {
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
        let expected = StoredDescription { description: RGB, statistics: None, units };
        assert_eq!(decode(&golden), Ok(expected));
        assert_eq!(postcard::to_allocvec(&(1u32, RGB)).unwrap(), golden);
    }

    #[test]
    fn descriptions_of_version_2_say_what_values_there_are() {
        let pixel = Pixel::new(Sample::I16, 1).unwrap();
        let description = ImageDescription { pixel, ..RGB };
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
        let expected = |statistics| Ok(StoredDescription { description, statistics, units });
        assert_eq!(decode(&encoded(Some(known))), expected(Some(known)));
        assert_eq!(decode(&encoded(None)), expected(None));
        let wrong = VoxelStatistics { minimum: f64::NAN, ..known };
        assert_eq!(decode(&encoded(Some(wrong))), expected(None));

        // The units may follow.
        let units = VoxelUnits { values: ValueUnit::Hounsfield, lengths: LengthUnit::Millimetre };
        let longer = [encoded(Some(known)), postcard::to_allocvec(&units).unwrap()].concat();
        assert_eq!(longer[longer.len() - 2..], [1, 1]);
        let expected = StoredDescription { description, statistics: Some(known), units };
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
