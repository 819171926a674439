//! What the extents contain: for each index and generation something else, cheap to make and to
//! compare, so that a figure shows the store and not the check of its answers.
//!
//! A body is a cut from one block of random bytes; index and generation say where it begins. The
//! header names both.

use std::fmt;

/// Bytes of every header.
pub const HEADER_LEN: usize = 24;

/// The longest body there can be.
pub const MAX_BODY_LEN: usize = 96 << 10;

/// Bodies begin at one of so many places.
const STARTS: usize = 1 << 20;

/// One state of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// How often it was rewritten.
    pub generation: u32,
    /// Bytes of the body.
    pub body_len: u32,
}

impl Version {
    /// Header and body.
    pub fn bytes(self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.body_len)
    }
}

/// The contents of all extents.
#[derive(Debug)]
pub struct Content {
    seed: u64,
    random: Vec<u8>,
}

/// How an extent differs from what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// It has another header.
    Header,
    /// Its body has another length.
    Length {
        /// Bytes found.
        found: usize,
        /// Bytes written.
        written: usize,
    },
    /// Its body has another byte here, and maybe more behind it.
    Byte(usize),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => write!(f, "its header is another one"),
            Self::Length { found, written } => {
                write!(f, "its body has {found} bytes instead of {written}")
            }
            Self::Byte(position) => write!(f, "byte {position} of its body is another one"),
        }
    }
}

impl Content {
    /// The contents that belong to a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = vec![0; STARTS + MAX_BODY_LEN];
        fastrand::Rng::with_seed(seed).fill(&mut random);
        Self { seed, random }
    }

    /// The header of an extent.
    pub fn header(&self, extent: u64, version: Version) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        let words = [self.seed, extent, u64::from(version.generation)];
        for (place, word) in header.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        header
    }

    /// The body of an extent.
    pub fn body(&self, extent: u64, version: Version) -> &[u8] {
        let generation = u64::from(version.generation) << 56;
        let start = fastrand::Rng::with_seed(extent ^ generation).usize(..STARTS);
        &self.random[start..start + version.body_len as usize]
    }

    /// Compares what was read with what was written.
    pub fn check(
        &self,
        extent: u64,
        version: Version,
        header: &[u8],
        body: &[u8],
    ) -> Result<(), Difference> {
        let written = self.body(extent, version);
        if header != self.header(extent, version) {
            Err(Difference::Header)
        } else if body.len() != written.len() {
            Err(Difference::Length { found: body.len(), written: written.len() })
        } else if body != written {
            let same = body.iter().zip(written).take_while(|(a, b)| a == b).count();
            Err(Difference::Byte(same))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: Version = Version { generation: 0, body_len: 1000 };

    #[test]
    fn content_fits_to_itself_and_to_nothing_else() {
        let content = Content::new(1);
        let (header, body) = (content.header(7, VERSION), content.body(7, VERSION));
        assert_eq!(content.check(7, VERSION, &header, body), Ok(()));

        let other_extent = content.check(8, VERSION, &header, body);
        assert_eq!(other_extent, Err(Difference::Header));
        let newer = Version { generation: 1, ..VERSION };
        let header_of_newer = content.header(7, newer);
        let older_body = content.check(7, newer, &header_of_newer, body);
        assert!(matches!(older_body, Err(Difference::Byte(_))));
        let short = content.check(7, VERSION, &header, &body[..999]);
        assert!(matches!(short, Err(Difference::Length { found: 999, .. })));
        let other_seed = Content::new(2).check(7, VERSION, &header, body);
        assert_eq!(other_seed, Err(Difference::Header));
    }

    #[test]
    fn a_changed_byte_is_named() {
        let content = Content::new(1);
        let mut body = content.body(7, VERSION).to_vec();
        body[412] ^= 1;
        let found = content.check(7, VERSION, &content.header(7, VERSION), &body);
        assert_eq!(found, Err(Difference::Byte(412)));
    }
}
