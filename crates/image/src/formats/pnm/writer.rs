//! Writes binary PGM and PPM, PAM and PFM.

use std::fmt;
use std::io::SeekFrom;

use super::super::raster::Raster;
use super::super::{ByteOrder, ByteSink, FormatError, RowSink};
use crate::{Pixel, Sample};

/// The format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PnmKind {
    /// P5: one channel of u8 or u16.
    Pgm,
    /// P6: three channels of u8 or u16.
    Ppm,
    /// P7: any number of channels of u8 or u16.
    Pam,
    /// Pf or PF: one or three channels of f32.
    Pfm,
}

/// Writes a PGM, PPM, PAM or PFM file.
#[derive(Debug)]
pub struct PnmSink<W> {
    raster: Raster,
    output: W,
    /// The offset of the pixels, if the lowest row comes first.
    upwards_from: Option<u64>,
    row: Vec<u8>,
}

impl PnmKind {
    /// Returns the simplest format for a pixel.
    pub fn of(pixel: Pixel) -> PnmKind {
        match (pixel.sample(), pixel.channels()) {
            (Sample::F32, _) => PnmKind::Pfm,
            (_, 1) => PnmKind::Pgm,
            (_, 3) => PnmKind::Ppm,
            _ => PnmKind::Pam,
        }
    }

    fn header(self, (width, height): (u64, u64), pixel: Pixel) -> Option<String> {
        let top = match pixel.sample() {
            Sample::U8 => Some(255),
            Sample::U16 => Some(65_535),
            Sample::F32 => None,
            Sample::I8 | Sample::I16 => return None,
        };
        Some(match (self, pixel.channels(), top) {
            (PnmKind::Pgm, 1, Some(top)) => format!("P5\n{width} {height}\n{top}\n"),
            (PnmKind::Ppm, 3, Some(top)) => format!("P6\n{width} {height}\n{top}\n"),
            (PnmKind::Pam, channels, Some(top)) => {
                let tuple = ["GRAYSCALE", "GRAYSCALE_ALPHA", "RGB", "RGB_ALPHA"][channels - 1];
                format!(
                    "P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH {channels}\nMAXVAL {top}\n\
                     TUPLTYPE {tuple}\nENDHDR\n"
                )
            }
            (PnmKind::Pfm, 1, None) => format!("Pf\n{width} {height}\n-1.0\n"),
            (PnmKind::Pfm, 3, None) => format!("PF\n{width} {height}\n-1.0\n"),
            _ => return None,
        })
    }
}

impl fmt::Display for PnmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PnmKind::Pgm => "PGM",
            PnmKind::Ppm => "PPM",
            PnmKind::Pam => "PAM",
            PnmKind::Pfm => "PFM",
        })
    }
}

impl<W: ByteSink> PnmSink<W> {
    /// Creates a picture of this format, size and pixel at the start of the output.
    pub fn new(
        name: &str,
        mut output: W,
        kind: PnmKind,
        size: (u64, u64),
        pixel: Pixel,
    ) -> Result<PnmSink<W>, FormatError> {
        let raster = Raster::to_write(name, size, pixel)?;
        let Some(header) = kind.header(size, pixel) else {
            let what = format!("{kind} has no pixels of {pixel}");
            let advice = "PGM has 1 and PPM 3 channels of u8 or u16, PAM 1 to 4 of these, PFM 1 or \
                          3 of f32; TIFF and NRRD have all";
            return Err(FormatError::unsupported(name, what, advice));
        };
        output.write_all(header.as_bytes()).map_err(|error| FormatError::writing(name, error))?;
        let upwards_from = (kind == PnmKind::Pfm).then_some(header.len() as u64);
        Ok(PnmSink { raster, output, upwards_from, row: Vec::new() })
    }
}

impl<W: ByteSink> RowSink for PnmSink<W> {
    fn put_row(&mut self, row: &[u8]) -> Result<(), FormatError> {
        let number = self.raster.count_row(row.len())?;
        let failed = |error| FormatError::writing(&self.raster.name, error);
        self.row.clear();
        self.row.extend_from_slice(row);
        match self.upwards_from {
            None => ByteOrder::Big.convert(&mut self.row, self.raster.pixel.sample()),
            Some(start) => {
                let below = (self.raster.height - 1 - number) * row.len() as u64;
                self.output.seek(SeekFrom::Start(start + below)).map_err(failed)?;
            }
        }
        self.output.write_all(&self.row).map_err(failed)
    }

    fn finish(mut self: Box<Self>) -> Result<(), FormatError> {
        self.raster.check_done()?;
        self.output.flush().map_err(|error| FormatError::writing(&self.raster.name, error))
    }
}
