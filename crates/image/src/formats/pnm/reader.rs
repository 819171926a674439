//! Reads rows of PNM, PAM and PFM.

use std::io::{self, SeekFrom};

use super::super::byte_io::{self, ByteSource};
use super::super::raster::{Raster, RasterReader};
use super::super::{ByteOrder, FilePosition, FormatError, FormatOptions};
use super::ascii;
use super::header::{Coding, Header};
use crate::Sample;

/// Rows of the first picture of a PBM, PGM, PPM, PAM or PFM file.
#[derive(Debug)]
pub struct PnmRows<S> {
    raster: Raster,
    source: S,
    coding: Coding,
    /// Offset of the pixels.
    start: u64,
}

impl<S: ByteSource> PnmRows<S> {
    /// Reads the header.
    pub fn open(
        name: &str,
        mut source: S,
        options: &FormatOptions,
    ) -> Result<PnmRows<S>, FormatError> {
        let Header { size, pixel, coding } = Header::read(name, &mut source)?;
        let raster = Raster::new(name, size, pixel, options.memory_bytes)?;
        let failed = |error| FormatError::reading(name, FilePosition::Header, error);
        let start = source.stream_position().map_err(failed)?;
        if let Coding::Binary(_) | Coding::Floats(_) = coding {
            raster.check_length(start, byte_io::length(&mut source).map_err(failed)?)?;
        }
        Ok(PnmRows { raster, source, coding, start })
    }

    fn read(&mut self, number: u64, row: &mut [u8]) -> io::Result<()> {
        let source = &mut self.source;
        match self.coding {
            Coding::AsciiBits => {
                for pixel in row {
                    *pixel = if ascii::next_bit(source)? { 0 } else { 255 };
                }
            }
            Coding::Ascii(range) if range.sample() == Sample::U8 => {
                for sample in row {
                    *sample = ascii::next_sample(source, range)?.to_le_bytes()[0];
                }
            }
            Coding::Ascii(range) => {
                for sample in row.as_chunks_mut::<2>().0 {
                    *sample = ascii::next_sample(source, range)?.to_le_bytes();
                }
            }
            Coding::Bits => {
                for pixels in row.chunks_mut(8) {
                    let mut bits = [0];
                    source.read_exact(&mut bits)?;
                    for (i, pixel) in pixels.iter_mut().enumerate() {
                        *pixel = if bits[0] & (0x80 >> i) == 0 { 255 } else { 0 };
                    }
                }
            }
            Coding::Binary(range) => {
                source.read_exact(row)?;
                ByteOrder::Big.convert(row, range.sample());
                if !range.scale_all(row) {
                    let what = "a sample is more than the largest value";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            }
            Coding::Floats(order) => {
                let below = (self.raster.height - 1 - number) * row.len() as u64;
                source.seek(SeekFrom::Start(self.start + below))?;
                source.read_exact(row)?;
                order.convert(row, Sample::F32);
            }
        }
        Ok(())
    }
}

impl<S: ByteSource> RasterReader for PnmRows<S> {
    fn raster(&self) -> &Raster {
        &self.raster
    }

    fn raster_mut(&mut self) -> &mut Raster {
        &mut self.raster
    }

    fn read_row(&mut self, number: u64, row: &mut [u8]) -> Result<(), FormatError> {
        self.read(number, row).map_err(|error| self.raster.row_error(number, error))
    }
}
