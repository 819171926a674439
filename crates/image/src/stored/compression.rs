//! The bytes of an extent: a header that says how its body is to be read, and the body.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How the pixels of tiles are packed. Every tile says by itself how it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// Fast.
    Lz4,
    /// Small.
    Zstd,
}

/// Why the bytes of an extent are no pixels.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoredError {
    /// The header is not one.
    #[error(
        "the header of the tile has {found} bytes instead of {HEADER_BYTES}, or is of a later version"
    )]
    Header {
        /// How many bytes it has.
        found: usize,
    },
    /// The pixels are not as many as they should be.
    #[error("the tile has {found} bytes of pixels instead of {expected}")]
    Length {
        /// So many there should be.
        expected: usize,
        /// So many there are.
        found: usize,
    },
    /// They cannot be unpacked.
    #[error("the pixels of the tile cannot be unpacked ({compression}): {why}")]
    Packed {
        /// How they were packed.
        compression: Compression,
        /// What is wrong.
        why: String,
    },
}

/// Version of the header, how the body is packed, and the length of what was packed.
const HEADER_BYTES: usize = 8;
const VERSION: u8 = 1;
/// Of 1 to 22: a good deal smaller than lz4, and fast enough for disks.
const ZSTD_LEVEL: i32 = 1;

impl Compression {
    /// All there are.
    pub const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

    /// Packs pixels: header and body of an extent. What does not get smaller is stored as it is.
    pub fn pack(self, pixels: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let packed = match self {
            Compression::None => None,
            Compression::Lz4 => Some(lz4_flex::block::compress(pixels)),
            Compression::Zstd => zstd::bulk::compress(pixels, ZSTD_LEVEL).ok(),
        };
        match packed.filter(|packed| packed.len() < pixels.len()) {
            Some(packed) => (self.header(pixels.len()), packed),
            None => (Compression::None.header(pixels.len()), pixels.to_vec()),
        }
    }

    fn header(self, len: usize) -> Vec<u8> {
        let mut header = vec![VERSION, self as u8, 0, 0];
        header.extend(u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
        header
    }

    /// The pixels of an extent; there are `expected` bytes of them. What was packed is unpacked into
    /// `room`.
    pub fn unpack<'a>(
        header: &[u8],
        body: &'a [u8],
        expected: usize,
        room: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], StoredError> {
        let (compression, len) = match *header {
            [VERSION, kind, 0, 0, a, b, c, d] => {
                let compression = Self::ALL.into_iter().find(|known| *known as u8 == kind);
                let wrong = StoredError::Header { found: header.len() };
                (compression.ok_or(wrong)?, u32::from_le_bytes([a, b, c, d]) as usize)
            }
            _ => return Err(StoredError::Header { found: header.len() }),
        };
        if len != expected {
            return Err(StoredError::Length { expected, found: len });
        }
        let packed = |why: String| StoredError::Packed { compression, why };
        let found = match compression {
            Compression::None => {
                return match body.len() == expected {
                    true => Ok(body),
                    false => Err(StoredError::Length { expected, found: body.len() }),
                };
            }
            Compression::Lz4 => {
                room.resize(expected, 0);
                lz4_flex::block::decompress_into(body, room)
                    .map_err(|error| packed(error.to_string()))?
            }
            Compression::Zstd => {
                room.resize(expected, 0);
                zstd::bulk::decompress_to_buffer(body, room.as_mut_slice())
                    .map_err(|error| packed(error.to_string()))?
            }
        };
        match found == expected {
            true => Ok(room),
            false => Err(StoredError::Length { expected, found }),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        })
    }
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|known| known.to_string() == text);
        known.ok_or_else(|| format!("{text:?} is no compression: there are none, lz4 and zstd"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(pixels in proptest::collection::vec(0u8..4, 0..5000), kind in 0usize..3) {
            let (header, body) = Compression::ALL[kind].pack(&pixels);
            let mut room = Vec::new();
            let found = Compression::unpack(&header, &body, pixels.len(), &mut room).unwrap();
            prop_assert_eq!(found, pixels.as_slice());
            prop_assert!(body.len() <= pixels.len());
        }

        #[test]
        fn foreign_bytes_are_errors(
            header in proptest::collection::vec(any::<u8>(), 0..12),
            body in proptest::collection::vec(any::<u8>(), 0..500),
            expected in 0usize..1000,
            kind in 0u8..4,
        ) {
            let mut room = Vec::new();
            let _ = Compression::unpack(&header, &body, expected, &mut room);
            let mut header = vec![VERSION, kind, 0, 0];
            header.extend(u32::try_from(expected).unwrap().to_le_bytes());
            if let Ok(pixels) = Compression::unpack(&header, &body, expected, &mut room) {
                prop_assert_eq!(pixels.len(), expected);
            }
        }
    }

    #[test]
    fn noise_is_stored_as_it_is() {
        let mut random = fastrand::Rng::with_seed(1);
        let noise: Vec<u8> = (0..1000).map(|_| random.u8(..)).collect();
        for compression in Compression::ALL {
            let (header, body) = compression.pack(&noise);
            assert_eq!((header[1], body.as_slice()), (0, noise.as_slice()));
        }
    }
}
