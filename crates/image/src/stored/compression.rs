//! The bytes of an extent: a header that says how to unpack the body, and the body.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How the pixels of tiles are compressed. The header of every tile says how that tile is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// LZ4: fast.
    Lz4,
    /// Zstandard: small.
    Zstd,
}

/// An error in the bytes of an extent that should be pixels.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoredError {
    /// The header is not valid.
    #[error(
        "the header of the tile has {found} bytes instead of {HEADER_BYTES}, or is of a later version"
    )]
    Header {
        /// Its length in bytes.
        found: usize,
    },
    /// The number of bytes of pixels is wrong.
    #[error("the tile has {found} bytes of pixels instead of {expected}")]
    Length {
        /// The expected number.
        expected: usize,
        /// The number found.
        found: usize,
    },
    /// The pixels cannot be decompressed.
    #[error("the pixels of the tile cannot be unpacked ({compression}): {why}")]
    Packed {
        /// The compression that the header names.
        compression: Compression,
        /// The reason.
        why: String,
    },
}

/// Version of the header, compression of the body, and the length of the pixels.
const HEADER_BYTES: usize = 8;
const VERSION: u8 = 1;
/// Of 1 to 22: considerably smaller than LZ4, and fast enough for disks.
const ZSTD_LEVEL: i32 = 1;

impl Compression {
    /// All compressions.
    pub const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

    /// Returns header and body of an extent with these pixels. Pixels that do not get smaller are
    /// stored without compression.
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

    /// Returns the pixels of an extent, which must be `expected` bytes. Decompresses them into
    /// `unpacked`.
    pub fn unpack<'a>(
        header: &[u8],
        body: &'a [u8],
        expected: usize,
        unpacked: &'a mut Vec<u8>,
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
                unpacked.resize(expected, 0);
                lz4_flex::block::decompress_into(body, unpacked)
                    .map_err(|error| packed(error.to_string()))?
            }
            Compression::Zstd => {
                unpacked.resize(expected, 0);
                zstd::bulk::decompress_to_buffer(body, unpacked.as_mut_slice())
                    .map_err(|error| packed(error.to_string()))?
            }
        };
        match found == expected {
            true => Ok(unpacked),
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
        known.ok_or_else(|| format!("{text:?} is not a compression: use none, lz4 or zstd"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_pixels_are_unpacked(pixels in proptest::collection::vec(0u8..4, 0..5000), kind in 0usize..3) {
            let (header, body) = Compression::ALL[kind].pack(&pixels);
            let mut unpacked = Vec::new();
            let found = Compression::unpack(&header, &body, pixels.len(), &mut unpacked).unwrap();
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
            let mut unpacked = Vec::new();
            let _ = Compression::unpack(&header, &body, expected, &mut unpacked);
            let mut header = vec![VERSION, kind, 0, 0];
            header.extend(u32::try_from(expected).unwrap().to_le_bytes());
            if let Ok(pixels) = Compression::unpack(&header, &body, expected, &mut unpacked) {
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
