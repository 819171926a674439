//! Whole files of extents, among them images and volumes: copies inside a cluster, and archives,
//! which hold such a file in one self-contained local file.
//!
//! An archive holds every extent byte for byte, with its header. This includes the description of
//! an image or volume and its statistics. Extents have numbers that do not depend on the disks, so
//! that a cluster with other disks can read the archive. All integers are little-endian.
//!
//! ```text
//! bytes  content
//!    16  89 "parioextents" 0D 0A 1A
//!     4  version, 1
//!     4  length of the layout
//!        the layout, as subfiles store it
//!        for each extent:
//!     1    1
//!     8    number: x + (y + z * tiles along y) * tiles along x for a tile, the number of all tiles
//!          for the description; n of a file of plain extents
//!     4    length of the header
//!     4    length of the body
//!          header and body
//!     1  0
//!     8  number of extents
//!    32  BLAKE3 of everything before
//! ```

mod copying;
mod extent_numbers;
mod reading;
mod writing;

pub use copying::{copy_file, digest};
pub use reading::{ArchivePlacement, read_archive};
pub use writing::write_archive;

use blake3::Hasher;

use extent_numbers::ExtentNumbers;

/// The first bytes of every archive.
const MAGIC: [u8; 16] = *b"\x89parioextents\r\n\x1a";

const VERSION: u32 = 1;
const EXTENT_FOLLOWS: u8 = 1;
const END: u8 = 0;

/// Extents that are read or written at the same time.
const UNDER_WAY: usize = 8;

/// Bytes of a file that [`is_archive`] needs.
pub const ARCHIVE_HEAD_BYTES: usize = MAGIC.len();

/// Returns whether a file with these first bytes is an archive of extents.
pub fn is_archive(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// The digest of all extents of a file. Two files that hold the same extents under the same numbers
/// have equal digests, whatever their disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtentDigest {
    /// Number of extents.
    pub extents: u64,
    /// Bytes of all headers and bodies.
    pub bytes: u64,
    /// The hashes of all extents, combined independently of their order.
    hash: [u8; 32],
}

impl ExtentDigest {
    fn add(&mut self, number: u64, header: &[u8], body: &[u8]) {
        let mut hasher = Hasher::new();
        hasher.update(&number.to_le_bytes());
        hasher.update(&(header.len() as u64).to_le_bytes());
        hasher.update(header);
        hasher.update(body);
        let hash = hasher.finalize();
        for (combined, byte) in self.hash.iter_mut().zip(hash.as_bytes()) {
            *combined ^= byte;
        }
        self.extents += 1;
        self.bytes += (header.len() + body.len()) as u64;
    }
}
