//! A layout as bytes, the same on every machine; each subfile carries them to describe itself.
//!
//! All numbers are little-endian; `n` is the number of disks.
//!
//! ```text
//! offset  bytes  striped                      offset  bytes  tiles
//!      0      2  version, 1                        0      2  version, 1
//!      2      2  kind, 1                           2      2  kind, 2
//!      4      4  n                                 4      4  n
//!      8      8  unit in bytes                     8   3x 8  image size x, y, z in pixels
//!     16   nx 4  disk ids                         32   3x 8  tile size x, y, z in pixels
//!                                                 56      4  row offset
//!                                                 60      4  plane offset
//!                                                 64   nx 4  disk ids
//!
//! offset  bytes  extents
//!      0      2  version, 1
//!      2      2  kind, 3
//!      4      4  n
//!      8   nx 4  disk ids
//! ```
//!
//! Invariants: every layout has exactly one encoding, and decoding accepts nothing else: a decoded
//! layout encodes to the same bytes. No bytes make decoding panic, or allocate more than their own
//! length calls for. A new kind gets a new number; a changed one a new version.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use super::declustering::{Declustering, DeclusteringError};
use super::disks::{Disks, DisksError};
use super::extents::Extents;
use super::geometry::Shape;
use super::striped::{Striped, StripedError};
use super::tiles::{Tiles, TilesError};
use crate::ids::DiskId;

const VERSION: u16 = 1;
const KIND_STRIPED: u16 = 1;
const KIND_TILES: u16 = 2;
const KIND_EXTENTS: u16 = 3;

/// The layout of a file: which disk holds which part, and where.
///
/// ```
/// use pario_proto::{DiskId, Disks, Layout, Striped};
///
/// let layout = Layout::from(Striped::new(65_536, Disks::new([DiskId(0), DiskId(1)])?)?);
/// let bytes = layout.encode();
/// assert_eq!(Layout::decode(&bytes)?, layout);
/// assert!(Layout::decode(&bytes[..10]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Bytes in units of fixed size.
    Striped(Striped),
    /// Tiles of an image or a volume.
    Tiles(Tiles),
    /// Extents dealt out one by one.
    Extents(Extents),
}

/// Why bytes are no layout.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutDecodeError {
    /// The bytes end too early.
    #[error("the layout is cut off: {given} bytes, at least {needed} are needed")]
    CutOff {
        /// The number of bytes given.
        given: usize,
        /// The number of bytes needed to read on.
        needed: usize,
    },
    /// There are bytes behind the layout.
    #[error("the layout is followed by {extra} bytes that do not belong to it")]
    TrailingBytes {
        /// The number of bytes.
        extra: usize,
    },
    /// A version this program does not know.
    #[error(
        "the layout has format version {version}, this program reads version {VERSION}: use a newer \
         program"
    )]
    UnknownVersion {
        /// The version found.
        version: u16,
    },
    /// A kind of layout this program does not know.
    #[error("the layout is of kind {kind}, which this program does not know: use a newer program")]
    UnknownKind {
        /// The kind found.
        kind: u16,
    },
    /// The list of disks is not possible.
    #[error("the layout is damaged: {0}")]
    Disks(#[from] DisksError),
    /// The striping is not possible.
    #[error("the layout is damaged: {0}")]
    Striped(#[from] StripedError),
    /// The offsets are not possible.
    #[error("the layout is damaged: {0}")]
    Declustering(#[from] DeclusteringError),
    /// The tiles are not possible.
    #[error("the layout is damaged: {0}")]
    Tiles(#[from] TilesError),
}

impl Layout {
    /// The disks of the subfiles.
    pub fn disks(&self) -> &Disks {
        match self {
            Layout::Striped(striped) => striped.disks(),
            Layout::Tiles(tiles) => tiles.disks(),
            Layout::Extents(extents) => extents.disks(),
        }
    }

    /// The bytes of the layout: 16 for striping, 64 for tiles and 8 for extents, plus 4 for each
    /// disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(VERSION.to_le_bytes());
        match self {
            Layout::Striped(striped) => {
                bytes.extend(KIND_STRIPED.to_le_bytes());
                bytes.extend(striped.disks().count().to_le_bytes());
                bytes.extend(striped.unit_bytes().to_le_bytes());
            }
            Layout::Tiles(tiles) => {
                bytes.extend(KIND_TILES.to_le_bytes());
                bytes.extend(tiles.disks().count().to_le_bytes());
                for size in [tiles.image(), tiles.tile()] {
                    for axis in [size.x, size.y, size.z] {
                        bytes.extend(axis.to_le_bytes());
                    }
                }
                bytes.extend(tiles.declustering().row_offset().to_le_bytes());
                bytes.extend(tiles.declustering().plane_offset().to_le_bytes());
            }
            Layout::Extents(extents) => {
                bytes.extend(KIND_EXTENTS.to_le_bytes());
                bytes.extend(extents.disks().count().to_le_bytes());
            }
        }
        for disk in self.disks().as_slice() {
            bytes.extend(disk.0.to_le_bytes());
        }
        bytes
    }

    /// The layout that [`encode`](Layout::encode) made these bytes from.
    pub fn decode(bytes: &[u8]) -> Result<Layout, LayoutDecodeError> {
        let mut reader = LayoutReader { bytes, position: 0 };
        let version = u16::from_le_bytes(reader.take()?);
        if version != VERSION {
            return Err(LayoutDecodeError::UnknownVersion { version });
        }
        let layout = match u16::from_le_bytes(reader.take()?) {
            KIND_STRIPED => {
                let count = reader.number()?;
                let unit_bytes = reader.size()?;
                Layout::Striped(Striped::new(unit_bytes, reader.disks(count)?)?)
            }
            KIND_TILES => {
                let count = reader.number()?;
                let (image, tile) = (reader.shape()?, reader.shape()?);
                let (row_offset, plane_offset) = (reader.number()?, reader.number()?);
                let disks = reader.disks(count)?;
                let declustering = Declustering::new(disks.count(), row_offset, plane_offset)?;
                Layout::Tiles(Tiles::with_declustering(image, tile, disks, declustering)?)
            }
            KIND_EXTENTS => {
                let count = reader.number()?;
                Layout::Extents(Extents::new(reader.disks(count)?))
            }
            kind => return Err(LayoutDecodeError::UnknownKind { kind }),
        };
        match bytes.len() - reader.position {
            0 => Ok(layout),
            extra => Err(LayoutDecodeError::TrailingBytes { extra }),
        }
    }
}

impl From<Striped> for Layout {
    fn from(striped: Striped) -> Layout {
        Layout::Striped(striped)
    }
}

impl From<Tiles> for Layout {
    fn from(tiles: Tiles) -> Layout {
        Layout::Tiles(tiles)
    }
}

impl From<Extents> for Layout {
    fn from(extents: Extents) -> Layout {
        Layout::Extents(extents)
    }
}

/// Travels and is stored as its own encoding, so that there is one.
impl Serialize for Layout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.encode().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Layout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Layout, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        Layout::decode(&bytes).map_err(serde::de::Error::custom)
    }
}

/// Reads bytes from the front; `position` never exceeds their number.
struct LayoutReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl LayoutReader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], LayoutDecodeError> {
        let Some(taken) = self.bytes[self.position..].first_chunk() else {
            return Err(self.cut_off(N));
        };
        self.position += N;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u32, LayoutDecodeError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn size(&mut self) -> Result<u64, LayoutDecodeError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn shape(&mut self) -> Result<Shape, LayoutDecodeError> {
        Ok(Shape { x: self.size()?, y: self.size()?, z: self.size()? })
    }

    fn disks(&mut self, count: u32) -> Result<Disks, LayoutDecodeError> {
        let len = (count as usize).saturating_mul(4);
        let Some(ids) = self.bytes[self.position..].get(..len) else {
            return Err(self.cut_off(len));
        };
        self.position += len;
        let (ids, _) = ids.as_chunks();
        Ok(Disks::new(ids.iter().map(|&id| DiskId(u32::from_le_bytes(id))))?)
    }

    fn cut_off(&self, wanted: usize) -> LayoutDecodeError {
        let needed = self.position.saturating_add(wanted);
        LayoutDecodeError::CutOff { given: self.bytes.len(), needed }
    }
}
