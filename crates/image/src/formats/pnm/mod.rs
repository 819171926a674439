//! The formats of netpbm: PBM, PGM and PPM (P1 to P6), PAM (P7), and PFM for floats.
//!
//! Samples whose largest value is not 255 or 65,535 are scaled to the full range of their type.
//! Ones in bitmaps are black.

mod ascii;
mod header;
mod reader;
mod writer;

pub use reader::PnmRows;
pub use writer::{PnmKind, PnmSink};

/// Returns whether a file starts like one of these formats.
pub(super) fn is_pnm(head: &[u8]) -> bool {
    match head {
        [b'P', b'1'..=b'7' | b'f' | b'F', rest, ..] => rest.is_ascii_whitespace() || *rest == b'#',
        _ => false,
    }
}
