//! Writes a NRRD with raw data in the same file.

use std::fmt::Write as _;
use std::io::Write;

use super::super::{FormatError, RawSink};
use crate::{Pixel, Sample};

/// Returns a sink that writes a picture (depth 1) or a volume as NRRD, plane after plane.
pub fn nrrd_sink<W: Write + Send>(
    name: &str,
    mut output: W,
    size: [u64; 3],
    spacing: [f64; 3],
    pixel: Pixel,
) -> Result<RawSink<W>, FormatError> {
    if !spacing.iter().all(|length| length.is_normal() && *length > 0.0) {
        let what = format!("the distances {spacing:?} of pixels are not all more than 0");
        return Err(FormatError::misuse(name, what));
    }
    let [width, height, depth] = size;
    let Some(rows) = height.checked_mul(depth) else {
        let what = format!("a volume of {width} x {height} x {depth} is too large");
        return Err(FormatError::misuse(name, what));
    };
    output
        .write_all(header(size, spacing, pixel).as_bytes())
        .map_err(|error| FormatError::writing(name, error))?;
    RawSink::new(name, output, (width, rows), pixel)
}

fn header(size: [u64; 3], spacing: [f64; 3], pixel: Pixel) -> String {
    let kind = match pixel.sample() {
        Sample::U8 => "uint8",
        Sample::U16 => "uint16",
        Sample::I8 => "int8",
        Sample::I16 => "int16",
        Sample::F32 => "float",
    };
    let axes = if size[2] > 1 { 3 } else { 2 };
    let mut text = format!("NRRD0004\ntype: {kind}\ndimension: {}\nsizes:", axes + 1);
    write!(text, " {}", pixel.channels()).expect("writing to a String cannot fail");
    size[..axes]
        .iter()
        .for_each(|size| write!(text, " {size}").expect("writing to a String cannot fail"));
    text.push_str("\nspacings: nan");
    spacing[..axes].iter().for_each(|length| {
        write!(text, " {length}").expect("writing to a String cannot fail");
    });
    let space = ["", " space space", " space space space"][axes - 1];
    writeln!(text, "\nkinds: vector{space}").expect("writing to a String cannot fail");
    text.push_str("endian: little\nencoding: raw\n\n");
    text
}
