//! NIfTI-1 in one file, plain or gzip. The crate `nifti` reads the header in either byte order;
//! this module reads the voxels row by row, because the crate's own volumes are whole in memory.
//!
//! Axes stay as they are stored: the reader does not apply the orientation in the header. Lengths
//! become millimetres.

use std::io::{self, BufRead, BufReader, Read, SeekFrom};

use flate2::bufread::MultiGzDecoder;
use nifti::{Endianness, NiftiHeader};

use super::byte_io::{self, ByteSource};
use super::numbers::{Conversion, Rescaling};
use super::raster::Raster;
use super::volume::VolumeSource;
use super::{
    ByteOrder, FileNumber, FilePixel, FilePosition, FormatError, FormatOptions, RawLayout, RawRows,
};
use crate::{Pixel, VoxelUnits};

/// The size of a header, which is also its first number.
const HEADER_BYTES: usize = 348;

/// The earliest start of the voxels: after the header and four bytes of extensions.
const DATA_BYTES: u64 = 352;

/// Returns whether a file starts like plain NIfTI or like any gzip stream.
pub(super) fn is_nifti(head: &[u8]) -> bool {
    is_gzip(head) || header_size(head).is_some()
}

fn is_gzip(head: &[u8]) -> bool {
    head.starts_with(&[0x1f, 0x8b])
}

/// Returns the size of the header that the file states, if it is one of the two possible sizes.
fn header_size(head: &[u8]) -> Option<u32> {
    let size = [*head.first()?, *head.get(1)?, *head.get(2)?, *head.get(3)?];
    let known = |size: &u32| matches!(size, 348 | 540);
    [u32::from_le_bytes(size), u32::from_be_bytes(size)].into_iter().find(known)
}

/// Opens a NIfTI file.
pub(super) fn open<S: ByteSource + 'static>(
    name: &str,
    mut source: S,
    head: &[u8],
    options: &FormatOptions,
) -> Result<VolumeSource, FormatError> {
    let is_packed = is_gzip(head);
    let mut bytes = [0; HEADER_BYTES];
    let failed = |error| FormatError::reading(name, FilePosition::Header, error);
    match is_packed {
        true => MultiGzDecoder::new(&mut source).read_exact(&mut bytes).map_err(failed)?,
        false => source.read_exact(&mut bytes).map_err(failed)?,
    }
    source.rewind().map_err(failed)?;
    let (layout, scaling, spacing) = decode_header(name, &bytes)?;
    let (number, order) = (layout.pixel.number(), layout.order);
    let mut conversion = Conversion::scaled(number, order, scaling, None);
    if !is_packed {
        let length = byte_io::length(&mut source).map_err(failed)?;
        layout.check_enough(name, layout.skip_bytes, length)?;
    }
    if conversion.depends_on_range() {
        let range = match is_packed {
            true => {
                let stream = BufReader::new(MultiGzDecoder::new(&mut source));
                range_of(stream, &layout, &conversion)
            }
            false => range_of(&mut source, &layout, &conversion),
        };
        let range = range.map_err(failed)?;
        conversion = Conversion::scaled(number, order, scaling, Some(range));
        source.rewind().map_err(failed)?;
    }
    let channels = u32::try_from(layout.pixel.stored().channels()).unwrap_or(u32::MAX);
    let pixel = Pixel::new(conversion.to, channels)
        .map_err(|error| FormatError::damaged(name, FilePosition::Header, error.to_string()))?;
    let [width, height, depth] = layout.size;
    let raster = Raster::new(name, (width, height * depth), pixel, options.memory_bytes)?;
    if is_packed {
        let mut stream = BufReader::new(MultiGzDecoder::new(source));
        byte_io::skip(&mut stream, layout.skip_bytes).map_err(failed)?;
        let rows = RawRows::from_stream(raster, stream, conversion);
        return Ok(
            VolumeSource::new(rows, layout.size, spacing).with_units(VoxelUnits::MILLIMETRES)
        );
    }
    source.seek(SeekFrom::Start(layout.skip_bytes)).map_err(failed)?;
    let rows = RawRows::from_stream(raster, source, conversion);
    Ok(VolumeSource::new(rows, layout.size, spacing).with_units(VoxelUnits::MILLIMETRES))
}

/// Decodes the header: the layout of the voxels, their rescaling and their spacing.
fn decode_header(
    name: &str,
    bytes: &[u8; HEADER_BYTES],
) -> Result<(RawLayout, Rescaling, [f64; 3]), FormatError> {
    let damaged = |what: String| FormatError::damaged(name, FilePosition::Header, what);
    if header_size(bytes) == Some(540) {
        let advice = "convert it to NIfTI-1";
        return Err(FormatError::unsupported(name, "NIfTI-2 cannot be read", advice));
    }
    let header = NiftiHeader::from_reader(&bytes[..])
        .map_err(|error| damaged(format!("this is not a NIfTI-1 header: {error}")))?;
    if &header.magic != b"n+1\0" {
        let what = "the voxels are in another file (.img)";
        return Err(FormatError::unsupported(name, what, "convert it to one file (.nii)"));
    }
    let axes = usize::from(header.dim[0]);
    let sides = header.dim.get(1..=axes).filter(|sides| !sides.is_empty());
    let sides = sides.ok_or_else(|| damaged(format!("there cannot be {axes} axes")))?;
    let side = |axis: usize| sides.get(axis).copied().map_or(1, u64::from);
    let size = [side(0), side(1), side(2)];
    if size.contains(&0) {
        return Err(damaged(format!("the size is {sides:?}, there are no voxels")));
    }
    if sides.iter().skip(3).any(|side| *side != 1) {
        let what = format!("its size is {sides:?}: it is not one volume but several");
        let advice = "cut out one of them, such as one time, and import that";
        return Err(FormatError::unsupported(name, what, advice));
    }
    let (number, channels) = match header.datatype {
        2 => (FileNumber::U8, 1),
        4 => (FileNumber::I16, 1),
        8 => (FileNumber::I32, 1),
        16 => (FileNumber::F32, 1),
        64 => (FileNumber::F64, 1),
        128 => (FileNumber::U8, 3),
        256 => (FileNumber::I8, 1),
        512 => (FileNumber::U16, 1),
        768 => (FileNumber::U32, 1),
        1024 => (FileNumber::I64, 1),
        1280 => (FileNumber::U64, 1),
        2304 => (FileNumber::U8, 4),
        other => {
            let what = format!("NIfTI with voxels of type {other} cannot be read");
            let advice = "convert it to whole or floating-point numbers, or to RGB";
            return Err(FormatError::unsupported(name, what, advice));
        }
    };
    let pixel = FilePixel::new(number, channels).map_err(|error| damaged(error.to_string()))?;
    let order = match header.endianness {
        Endianness::Little => ByteOrder::Little,
        Endianness::Big => ByteOrder::Big,
    };
    let offset = f64::from(header.vox_offset);
    if !(0.0..=1e9).contains(&offset) {
        return Err(damaged(format!("the voxels cannot begin at byte {offset}")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
    let skip_bytes = (offset as u64).max(DATA_BYTES);
    let layout = RawLayout { size, pixel, order, skip_bytes };
    let (slope, intercept) = (f64::from(header.scl_slope), f64::from(header.scl_inter));
    // A slope of 0 means that there is no rescaling.
    let scaling = match slope != 0.0 && slope.is_finite() && intercept.is_finite() {
        true if channels == 1 => Rescaling { slope, intercept },
        _ => Rescaling::NONE,
    };
    Ok((layout, scaling, spacing(&header)))
}

/// Returns the spacing in millimetres; 1 along axes for which the header does not state it.
fn spacing(header: &NiftiHeader) -> [f64; 3] {
    let unit = match header.xyzt_units & 7 {
        1 => 1_000.0,
        3 => 0.001,
        _ => 1.0,
    };
    [1, 2, 3].map(|axis| {
        let length = f64::from(header.pixdim[axis]).abs() * unit;
        if length.is_normal() { length } else { 1.0 }
    })
}

/// Returns the least and the greatest number of all voxels.
fn range_of(
    mut stream: impl BufRead,
    layout: &RawLayout,
    conversion: &Conversion,
) -> io::Result<[f64; 2]> {
    byte_io::skip(&mut stream, layout.skip_bytes)?;
    let mut range = [f64::INFINITY, f64::NEG_INFINITY];
    let mut left = layout.data_bytes();
    let mut numbers = vec![0; 1 << 16];
    while left > 0 {
        let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(numbers.len());
        stream.read_exact(&mut numbers[..bytes])?;
        conversion.widen(&mut numbers[..bytes], &mut range);
        left -= bytes as u64;
    }
    Ok(range)
}
