//! Rows of PNM, PAM and PFM.

use std::io::{self, SeekFrom};

use super::super::frame::Frame;
use super::super::source::{self, Source};
use super::super::{ByteOrder, FormatError, OpenOptions, Place, Rows};
use super::ascii;
use super::header::{Coding, Header};
use crate::{Pixel, Sample};

/// Rows of a PBM, PGM, PPM, PAM or PFM file: of the first picture in it.
#[derive(Debug)]
pub struct PnmRows<S> {
    frame: Frame,
    source: S,
    coding: Coding,
    /// Where the pixels begin.
    start: u64,
}

impl<S: Source> PnmRows<S> {
    /// Reads the header.
    pub fn open(
        name: &str,
        mut source: S,
        options: &OpenOptions,
    ) -> Result<PnmRows<S>, FormatError> {
        let Header { size, pixel, coding } = Header::read(name, &mut source)?;
        let frame = Frame::new(name, size, pixel, options.memory_bytes)?;
        let failed = |error| FormatError::reading(name, Place::Header, error);
        let start = source.stream_position().map_err(failed)?;
        if let Coding::Binary(_) | Coding::Floats(_) = coding {
            frame.check_length(start, source::length(&mut source).map_err(failed)?)?;
        }
        Ok(PnmRows { frame, source, coding, start })
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
                if !range.stretch_all(row) {
                    let what = "a sample is more than the largest value";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            }
            Coding::Floats(order) => {
                let below = (self.frame.height - 1 - number) * row.len() as u64;
                source.seek(SeekFrom::Start(self.start + below))?;
                source.read_exact(row)?;
                order.convert(row, Sample::F32);
            }
        }
        Ok(())
    }
}

impl<S: Source> Rows for PnmRows<S> {
    fn size(&self) -> (u64, u64) {
        (self.frame.width, self.frame.height)
    }

    fn pixel(&self) -> Pixel {
        self.frame.pixel
    }

    fn next_row(&mut self, row: &mut [u8]) -> Result<(), FormatError> {
        let number = self.frame.count_row(row.len())?;
        self.read(number, row)
            .map_err(|error| FormatError::reading(&self.frame.name, Place::Row(number), error))
    }
}
