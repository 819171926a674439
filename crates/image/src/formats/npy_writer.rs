//! Writes a volume as a NumPy array: planes, rows, columns, and channels if there are several.

use std::io::Write;

use super::{FormatError, RawSink};
use crate::{Pixel, Sample};

/// The values start at a multiple of this.
const ALIGNMENT_BYTES: usize = 64;

/// Returns a sink that writes a volume as `.npy`, plane after plane.
pub fn npy_sink<W: Write + Send>(
    name: &str,
    mut output: W,
    size: [u64; 3],
    pixel: Pixel,
) -> Result<RawSink<W>, FormatError> {
    output.write_all(&header(size, pixel)).map_err(|error| FormatError::writing(name, error))?;
    let rows = (size[0], size[1].saturating_mul(size[2]));
    RawSink::new(name, output, rows, pixel)
}

fn header([width, height, depth]: [u64; 3], pixel: Pixel) -> Vec<u8> {
    let kind = match pixel.sample() {
        Sample::U8 => "|u1",
        Sample::I8 => "|i1",
        Sample::U16 => "<u2",
        Sample::I16 => "<i2",
        Sample::F32 => "<f4",
    };
    let channels = match pixel.channels() {
        1 => String::new(),
        channels => format!(", {channels}"),
    };
    let mut text = format!(
        "{{'descr': '{kind}', 'fortran_order': False, 'shape': ({depth}, {height}, \
         {width}{channels}), }}"
    );
    let before = b"\x93NUMPY\x01\x00".len() + 2;
    while !(before + text.len() + 1).is_multiple_of(ALIGNMENT_BYTES) {
        text.push(' ');
    }
    text.push('\n');
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    [b"\x93NUMPY\x01\x00", &length.to_le_bytes()[..], text.as_bytes()].concat()
}
