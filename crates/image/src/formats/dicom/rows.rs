//! The rows of a series, with one slice in memory at a time.

use std::fs;

use dicom_object::OpenFileOptions;

use super::super::numbers::{Conversion, Rescaling};
use super::super::raster::{Raster, RasterReader, copy_row, fitting};
use super::super::{ByteOrder, FileNumber, FilePosition, FormatError, FormatOptions};
use super::header::{PIXEL_DATA, SliceHeader, damaged};
use super::series::SliceStack;
use crate::{Pixel, Sample};

/// The library returns numbers of more than a byte in the byte order of the machine.
const NATIVE: ByteOrder =
    if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

/// The slices of a series, one below the other.
pub(super) struct DicomRows {
    raster: Raster,
    slices: Vec<SliceHeader>,
    to: Sample,
    notes: Vec<String>,
    memory_bytes: usize,
    /// The samples of the current slice.
    plane: Vec<u8>,
    /// Number of slices that were started.
    begun: usize,
}

impl DicomRows {
    /// Prepares to read slices. Reads their pixels only if the range of the values decides the
    /// sample type.
    pub fn new(
        name: &str,
        stacked: SliceStack,
        options: &FormatOptions,
    ) -> Result<DicomRows, FormatError> {
        let [width, height, depth] = stacked.size();
        let SliceStack { slices, mut notes, .. } = stacked;
        let memory_bytes = options.memory_bytes;
        let to = target(&slices, memory_bytes)?;
        let channels = slices.first().map_or(1, |slice| slice.pixel.stored().channels());
        let pixel = Pixel::new(to, u32::try_from(channels).unwrap_or(u32::MAX))
            .map_err(|error| FormatError::damaged(name, FilePosition::Header, error.to_string()))?;
        let raster = Raster::new(name, (width, height.saturating_mul(depth)), pixel, memory_bytes)?;
        let plane = height.saturating_mul(raster.row_bytes as u64);
        fitting(name, "a slice", plane, memory_bytes)?;
        notes.extend(slices.first().and_then(|slice| conversion(slice, to).note()));
        Ok(DicomRows { raster, slices, to, notes, memory_bytes, plane: Vec::new(), begun: 0 })
    }
}

impl RasterReader for DicomRows {
    fn raster(&self) -> &Raster {
        &self.raster
    }

    fn raster_mut(&mut self) -> &mut Raster {
        &mut self.raster
    }

    fn read_row(&mut self, number: u64, row: &mut [u8]) -> Result<(), FormatError> {
        let rows = self.slices[0].size.1;
        if number.is_multiple_of(rows) {
            let slice = &self.slices[self.begun];
            let mut numbers = numbers(slice, self.memory_bytes)?;
            conversion(slice, self.to).convert(&mut numbers, &mut self.plane);
            self.begun += 1;
        }
        copy_row(&self.plane, number % rows, row);
        Ok(())
    }

    fn conversion_notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

fn conversion(slice: &SliceHeader, to: Sample) -> Conversion {
    Conversion { from: slice.pixel.number(), order: NATIVE, scaling: slice.scaling, to }
}

/// Returns the sample type of all slices: that of the file without slope and intercept; otherwise
/// `i16` if all values fit, and `f32` if not.
fn target(slices: &[SliceHeader], memory_bytes: usize) -> Result<Sample, FormatError> {
    let stored = slices.first().map_or(Sample::U8, |slice| slice.pixel.number().sample());
    if slices.iter().all(|slice| slice.scaling == Rescaling::NONE) {
        return Ok(stored);
    }
    for slice in slices {
        if slice.scaling.fits_i16(slice.range()) {
            continue;
        }
        if !slice.scaling.is_whole() {
            return Ok(Sample::F32);
        }
        let mut range = [f64::INFINITY, f64::NEG_INFINITY];
        let mut numbers = numbers(slice, memory_bytes)?;
        conversion(slice, Sample::F32).widen(&mut numbers, &mut range);
        if !slice.scaling.fits_i16(range) {
            return Ok(Sample::F32);
        }
    }
    Ok(Sample::I16)
}

/// Reads the numbers of a slice in the byte order of the machine, with interleaved channels and
/// without unused bits.
fn numbers(slice: &SliceHeader, memory_bytes: usize) -> Result<Vec<u8>, FormatError> {
    let name = slice.name();
    let failed = |source| FormatError::Io { name: name.clone(), action: "open", source };
    let file_bytes = fs::metadata(&slice.path).map_err(failed)?.len();
    fitting(&name, "a slice", file_bytes, memory_bytes)?;
    let object =
        OpenFileOptions::new().open_file(&slice.path).map_err(|error| damaged(&name, &error))?;
    let Some(element) = object.get(PIXEL_DATA) else {
        return Err(FormatError::damaged(&name, FilePosition::Header, "it has no pixels"));
    };
    let mut bytes = element.to_bytes().map_err(|error| damaged(&name, &error))?.into_owned();
    let pixels = slice.size.0.saturating_mul(slice.size.1);
    let needed_bytes = pixels.saturating_mul(slice.pixel.bytes() as u64);
    if (bytes.len() as u64) < needed_bytes {
        let what = format!("it has {} bytes of pixels instead of {needed_bytes}", bytes.len());
        return Err(FormatError::damaged(&name, FilePosition::Header, what));
    }
    // DICOM pads an odd number of bytes.
    bytes.truncate(usize::try_from(needed_bytes).unwrap_or(usize::MAX));
    if slice.is_planar && slice.pixel.stored().channels() > 1 {
        bytes = interleaved(&bytes, slice.pixel.number().bytes(), slice.pixel.stored().channels());
    }
    cut_bits(&mut bytes, slice.pixel.number(), slice.bits_stored);
    Ok(bytes)
}

/// Interleaves channels that are stored plane by plane.
fn interleaved(bytes: &[u8], each: usize, channels: usize) -> Vec<u8> {
    let plane = bytes.len() / channels;
    let mut together = Vec::with_capacity(bytes.len());
    for at in (0..plane).step_by(each) {
        for channel in 0..channels {
            together.extend_from_slice(&bytes[channel * plane + at..][..each]);
        }
    }
    together
}

/// Clears the unused high bits, or fills them with the sign.
fn cut_bits(bytes: &mut [u8], number: FileNumber, bits: u32) {
    match number {
        FileNumber::U8 if bits < 8 => bytes.iter_mut().for_each(|byte| *byte &= (1 << bits) - 1),
        FileNumber::U16 if bits < 16 => {
            for sample in bytes.as_chunks_mut::<2>().0 {
                *sample = (u16::from_ne_bytes(*sample) & ((1 << bits) - 1)).to_ne_bytes();
            }
        }
        FileNumber::I16 if bits < 16 => {
            let unused = 16 - bits;
            for sample in bytes.as_chunks_mut::<2>().0 {
                *sample = (i16::from_ne_bytes(*sample) << unused >> unused).to_ne_bytes();
            }
        }
        _ => {}
    }
}
