//! TIFF and BigTIFF.
//!
//! The reader decompresses chunks (strips or tiles) row by row, so a file that is one strip takes
//! no more memory than one of many.
//!
//! The tests compare with the crate `tiff` (0.11). It cannot replace this code without losing rows
//! or limits; the head of each file says why for its part:
//! - pixels: it decodes a whole strip or tile per call, so memory would grow with the strip, up to
//!   the whole file (`chunk_decoder.rs`, `predictor.rs`, `reader.rs`);
//! - directories: it interprets the first page and allocates for its tags before a limit can be set
//!   (`directory.rs`, `pages.rs`);
//! - writing: it needs an output that can seek, and has no type for some pixels (`writer.rs`).
//!
//! The compressions themselves come from libraries: `flate2` for Deflate and `weezl` for LZW.

mod chunk_decoder;
mod directory;
mod pages;
mod predictor;
mod reader;
mod writer;

pub use pages::TiffPages;
pub(super) use pages::pages;
pub use reader::TiffRows;
pub use writer::tiff_sink;

/// Returns whether a file starts like a TIFF.
pub(super) fn is_tiff(head: &[u8]) -> bool {
    [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"].iter().any(|magic| head.starts_with(&magic[..]))
}

/// The tags that the reader and the writer use.
mod tag {
    pub const SUBFILE_TYPE: u16 = 254;
    pub const WIDTH: u16 = 256;
    pub const HEIGHT: u16 = 257;
    pub const BITS: u16 = 258;
    pub const COMPRESSION: u16 = 259;
    pub const PHOTOMETRIC: u16 = 262;
    pub const FILL_ORDER: u16 = 266;
    pub const STRIP_OFFSETS: u16 = 273;
    pub const CHANNELS: u16 = 277;
    pub const STRIP_ROWS: u16 = 278;
    pub const STRIP_BYTES: u16 = 279;
    pub const PLANAR: u16 = 284;
    pub const PREDICTOR: u16 = 317;
    pub const TILE_WIDTH: u16 = 322;
    pub const TILE_HEIGHT: u16 = 323;
    pub const TILE_OFFSETS: u16 = 324;
    pub const TILE_BYTES: u16 = 325;
    pub const EXTRA_SAMPLES: u16 = 338;
    pub const SAMPLE_FORMAT: u16 = 339;
}

/// The value types that the reader and the writer use.
mod kind {
    pub const BYTE: u16 = 1;
    pub const SHORT: u16 = 3;
    pub const LONG: u16 = 4;
    pub const LONG8: u16 = 16;
}
