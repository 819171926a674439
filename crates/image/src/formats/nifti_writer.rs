//! Writes a volume as plain NIfTI-1 in one file.

use std::io::Write;

use super::{FormatError, RawSink};
use crate::{Pixel, Sample};

/// The start of the voxels: after the header and four bytes that state that there are no
/// extensions.
const DATA_BYTES: usize = 352;

/// Returns a sink that writes a volume as NIfTI-1, plane after plane. Spacing is in millimetres.
pub fn nifti_sink<W: Write + Send>(
    name: &str,
    mut output: W,
    size: [u64; 3],
    spacing: [f64; 3],
    pixel: Pixel,
) -> Result<RawSink<W>, FormatError> {
    let header = header(name, size, spacing, pixel)?;
    output.write_all(&header).map_err(|error| FormatError::writing(name, error))?;
    let rows = (size[0], size[1].saturating_mul(size[2]));
    RawSink::new(name, output, rows, pixel)
}

fn header(
    name: &str,
    size: [u64; 3],
    spacing: [f64; 3],
    pixel: Pixel,
) -> Result<[u8; DATA_BYTES], FormatError> {
    let kind: i16 = match (pixel.sample(), pixel.channels()) {
        (Sample::U8, 1) => 2,
        (Sample::I16, 1) => 4,
        (Sample::F32, 1) => 16,
        (Sample::U8, 3) => 128,
        (Sample::I8, 1) => 256,
        (Sample::U16, 1) => 512,
        (Sample::U8, 4) => 2304,
        _ => {
            let what = format!("NIfTI has no voxels of {pixel}");
            return Err(FormatError::unsupported(name, what, "write .nrrd or .npy"));
        }
    };
    let mut sides = [0_i16; 3];
    for (side, length) in sides.iter_mut().zip(size) {
        let too_long = |_| {
            let what = format!("no axis of NIfTI-1 has {length} voxels; the limit is {}", i16::MAX);
            FormatError::unsupported(name, what, "write .nrrd or .npy")
        };
        *side = i16::try_from(length).map_err(too_long)?;
    }
    let bits = i16::try_from(pixel.bytes() * 8).unwrap_or(i16::MAX);
    let mut bytes = [0; DATA_BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &348_i32.to_le_bytes());
    put(38, b"r");
    let dimensions = [3, sides[0], sides[1], sides[2], 1, 1, 1, 1];
    for (axis, side) in dimensions.into_iter().enumerate() {
        put(40 + 2 * axis, &side.to_le_bytes());
    }
    put(70, &kind.to_le_bytes());
    put(72, &bits.to_le_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "the format has no longer numbers")]
    let distances = [1.0, spacing[0] as f32, spacing[1] as f32, spacing[2] as f32];
    for (axis, distance) in distances.into_iter().enumerate() {
        put(76 + 4 * axis, &distance.to_le_bytes());
    }
    put(108, &352_f32.to_le_bytes());
    put(112, &1_f32.to_le_bytes());
    // Lengths are in millimetres.
    put(123, &[2]);
    put(344, b"n+1\0");
    Ok(bytes)
}
