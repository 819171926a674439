//! The formats of netpbm: PBM, PGM and PPM (P1 to P6), PAM (P7), and their kin for floats, PFM.
//!
//! Samples whose largest value is not 255 or 65,535 are stretched to the whole range of their type;
//! the ones of bitmaps are black, as they are in print.

mod ascii;
mod header;
mod reader;
mod writer;

pub use reader::PnmRows;
pub use writer::{PnmKind, PnmSink};

/// Whether a file begins like one of these.
pub(super) fn is_pnm(head: &[u8]) -> bool {
    match head {
        [b'P', b'1'..=b'7' | b'f' | b'F', rest, ..] => rest.is_ascii_whitespace() || *rest == b'#',
        _ => false,
    }
}
