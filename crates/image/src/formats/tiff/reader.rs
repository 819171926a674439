//! Rows of a TIFF.

use std::io;

use super::super::frame::{Frame, fitting};
use super::super::numbers::Conversion;
use super::super::source::Source;
use super::super::{ByteOrder, FilePixel, FormatError, Number, OpenOptions, Place, Rows};
use super::directory::Directory;
use super::rebuild::Predictor;
use super::tag;
use super::unpacker::{Compression, INPUT_BYTES, STATE_BYTES, Unpacker};
use crate::Pixel;

const CONVERT: &str = "convert it to plain, LZW or Deflate TIFF of whole numbers of 8, 16 or 32 \
                       bits or of floats, grey or RGB";

/// Rows of one page of a TIFF or BigTIFF.
pub struct TiffRows<S> {
    frame: Frame,
    source: S,
    order: ByteOrder,
    file_pixel: FilePixel,
    conversion: Conversion,
    compression: Compression,
    predictor: Predictor,
    white_is_zero: bool,
    grid: Grid,
    /// The chunks that the next row runs through, plane by plane.
    band: Vec<Unpacker>,
    /// A row of a chunk, and room for as much.
    chunk_row: Vec<u8>,
    scratch: Vec<u8>,
    /// A row as it is in the file, and as samples, if they differ.
    numbers: Vec<u8>,
    samples: Vec<u8>,
}

/// How a picture is cut into strips or tiles.
struct Grid {
    /// Width and height of a chunk.
    chunk: (u64, u64),
    /// 1, or as many as channels if each has chunks of its own.
    planes: usize,
    /// Chunks side by side in a plane.
    across: usize,
    /// All chunks, plane by plane, in each from the top.
    offsets: Vec<u64>,
    lengths: Vec<u64>,
}

impl<S: Source> TiffRows<S> {
    /// Reads the directory of the first page of a TIFF.
    pub fn open(name: &str, source: S, options: &OpenOptions) -> Result<TiffRows<S>, FormatError> {
        TiffRows::page(name, source, None, options)
    }

    /// Reads the directory of the page at a place.
    pub(in super::super) fn page(
        name: &str,
        mut source: S,
        place: Option<u64>,
        options: &OpenOptions,
    ) -> Result<TiffRows<S>, FormatError> {
        let memory_bytes = options.memory_bytes;
        let directory = Directory::read(name, &mut source, place)?;
        let width = directory.required(&mut source, tag::WIDTH)?;
        let height = directory.required(&mut source, tag::HEIGHT)?;
        let file_pixel = file_pixel(name, &directory, &mut source)?;
        let (number, pixel) = (file_pixel.number(), file_pixel.stored());
        let frame = Frame::new(name, (width, height), pixel, memory_bytes)?;
        let (compression, predictor) = coding(name, &directory, &mut source, number)?;
        let white_is_zero = white_is_zero(name, &directory, &mut source, number)?;
        let grid = Grid::read(&directory, &mut source, &frame, memory_bytes)?;

        let chunk_pixel = number.bytes() * grid.channels(pixel);
        let row_bytes = grid.chunk.0.saturating_mul(chunk_pixel as u64);
        let row_bytes = fitting(name, "a row of a tile", row_bytes, memory_bytes)?;
        let scratch_bytes = if predictor == Predictor::Floats { row_bytes } else { 0 };
        Ok(TiffRows {
            frame,
            source,
            order: directory.order,
            file_pixel,
            conversion: Conversion::plain(number, ByteOrder::Little),
            compression,
            predictor,
            white_is_zero,
            grid,
            band: Vec::new(),
            chunk_row: vec![0; row_bytes],
            scratch: vec![0; scratch_bytes],
            numbers: Vec::new(),
            samples: Vec::new(),
        })
    }

    /// The source, for another page.
    pub(super) fn into_source(self) -> S {
        self.source
    }

    /// Goes to the next row of every chunk and puts what they hold together.
    fn read(&mut self, number: u64, row: &mut [u8]) -> io::Result<()> {
        if number.is_multiple_of(self.grid.chunk.1) {
            // There are no more bands than chunks, which are in memory.
            #[allow(clippy::cast_possible_truncation)]
            let band = (number / self.grid.chunk.1) as usize;
            self.band = self.grid.band(band, self.compression);
        }
        let pixel = self.frame.pixel;
        let number = self.file_pixel.number();
        let (sample_bytes, channels) = (number.bytes(), self.grid.channels(pixel));
        let chunk_bytes = self.chunk_row.len() / channels * pixel.channels();
        for (index, unpacker) in self.band.iter_mut().enumerate() {
            unpacker.unpack(&mut self.source, &mut self.chunk_row)?;
            let coded = (number, self.order);
            self.predictor.rebuild(&mut self.chunk_row, &mut self.scratch, coded, channels);

            let (plane, column) = (index / self.grid.across, index % self.grid.across);
            let start = column * chunk_bytes;
            let end = (start + chunk_bytes).min(row.len());
            let part = &mut row[start..end];
            if self.grid.planes == 1 {
                part.copy_from_slice(&self.chunk_row[..part.len()]);
            } else {
                let samples = self.chunk_row.chunks_exact(sample_bytes);
                for (pixel, sample) in part.chunks_exact_mut(self.file_pixel.bytes()).zip(samples) {
                    pixel[plane * sample_bytes..][..sample_bytes].copy_from_slice(sample);
                }
            }
        }
        if self.white_is_zero {
            // The largest value minus the sample; for signed samples the least plus the largest.
            row.iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(())
    }
}

impl<S: Source> Rows for TiffRows<S> {
    fn size(&self) -> (u64, u64) {
        (self.frame.width, self.frame.height)
    }

    fn pixel(&self) -> Pixel {
        self.frame.pixel
    }

    fn next_row(&mut self, row: &mut [u8]) -> Result<(), FormatError> {
        let number = self.frame.count_row(row.len())?;
        if self.conversion.keeps_bytes() {
            return self.read(number, row).map_err(|error| {
                FormatError::reading(&self.frame.name, Place::Row(number), error)
            });
        }
        let pixels = row.len() / self.frame.pixel.bytes();
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.resize(pixels * self.file_pixel.bytes(), 0);
        self.read(number, &mut numbers)
            .map_err(|error| FormatError::reading(&self.frame.name, Place::Row(number), error))?;
        self.conversion.convert(&mut numbers, &mut self.samples);
        row.copy_from_slice(&self.samples);
        self.numbers = numbers;
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        self.conversion.note().into_iter().collect()
    }
}

fn file_pixel<S: Source>(
    name: &str,
    directory: &Directory,
    source: &mut S,
) -> Result<FilePixel, FormatError> {
    let channels = directory.number(source, tag::CHANNELS)?.unwrap_or(1);
    let bits = directory.number(source, tag::BITS)?.unwrap_or(1);
    let format = directory.number(source, tag::SAMPLE_FORMAT)?.unwrap_or(1);
    let same =
        directory.uniform(source, tag::BITS)? && directory.uniform(source, tag::SAMPLE_FORMAT)?;
    let number = match (bits, format) {
        (8, 1) => Some(Number::U8),
        (16, 1) => Some(Number::U16),
        (32, 1) => Some(Number::U32),
        (8, 2) => Some(Number::I8),
        (16, 2) => Some(Number::I16),
        (32, 2) => Some(Number::I32),
        (32, 3) => Some(Number::F32),
        (64, 3) => Some(Number::F64),
        _ => None,
    };
    let pixel = u32::try_from(channels)
        .ok()
        .and_then(|channels| FilePixel::new(number.filter(|_| same)?, channels).ok());
    pixel.ok_or_else(|| {
        let what = format!(
            "TIFF with {channels} channels of {bits} bits of sample format {format} cannot be read"
        );
        FormatError::unsupported(name, what, CONVERT)
    })
}

fn coding<S: Source>(
    name: &str,
    directory: &Directory,
    source: &mut S,
    sample: Number,
) -> Result<(Compression, Predictor), FormatError> {
    let unsupported = |what: String| Err(FormatError::unsupported(name, what, CONVERT));
    let number = directory.number(source, tag::COMPRESSION)?.unwrap_or(1);
    let Some(compression) = Compression::from_tag(number) else {
        return unsupported(format!("TIFF with compression {number} cannot be read"));
    };
    if directory.number(source, tag::FILL_ORDER)?.unwrap_or(1) != 1 {
        return unsupported("TIFF with the lowest bit first cannot be read".to_owned());
    }
    if matches!(compression, Compression::Plain | Compression::PackBits) {
        return Ok((compression, Predictor::None));
    }
    let number = directory.number(source, tag::PREDICTOR)?.unwrap_or(1);
    match Predictor::from_tag(number, sample) {
        Some(predictor) => Ok((compression, predictor)),
        None => unsupported(format!("TIFF of {sample} with predictor {number} cannot be read")),
    }
}

fn white_is_zero<S: Source>(
    name: &str,
    directory: &Directory,
    source: &mut S,
    sample: Number,
) -> Result<bool, FormatError> {
    match directory.required(source, tag::PHOTOMETRIC)? {
        0 if !matches!(sample, Number::F32 | Number::F64) => Ok(true),
        1 | 2 => Ok(false),
        number => {
            let what = format!("TIFF of {sample} with colours of kind {number} cannot be read");
            Err(FormatError::unsupported(name, what, CONVERT))
        }
    }
}

impl Grid {
    fn read<S: Source>(
        directory: &Directory,
        source: &mut S,
        frame: &Frame,
        memory_bytes: usize,
    ) -> Result<Grid, FormatError> {
        let name = &frame.name;
        let tiled = directory.has(tag::TILE_OFFSETS);
        let chunk = if tiled {
            let width = directory.required(source, tag::TILE_WIDTH)?;
            (width, directory.required(source, tag::TILE_HEIGHT)?)
        } else {
            let rows = directory.number(source, tag::STRIP_ROWS)?.unwrap_or(frame.height);
            (frame.width, rows.min(frame.height))
        };
        if chunk.0 == 0 || chunk.1 == 0 {
            let what = format!("strips or tiles are {} x {} pixels", chunk.0, chunk.1);
            return Err(FormatError::damaged(name, Place::Header, what));
        }
        let planes = match directory.number(source, tag::PLANAR)?.unwrap_or(1) {
            2 => frame.pixel.channels(),
            _ => 1,
        };
        let across = frame.width.div_ceil(chunk.0);
        let band = across * planes as u64;
        let band_bytes = band.saturating_mul((INPUT_BYTES + STATE_BYTES) as u64);
        if band > 1 {
            fitting(name, "a row of tiles", band_bytes, memory_bytes)?;
        }
        let count = band.saturating_mul(frame.height.div_ceil(chunk.1));
        fitting(name, "the list of strips or tiles", count.saturating_mul(16), memory_bytes)?;
        let across = fitting(name, "a row of tiles", across, memory_bytes)?;
        let (offsets, lengths) = match tiled {
            true => (tag::TILE_OFFSETS, tag::TILE_BYTES),
            false => (tag::STRIP_OFFSETS, tag::STRIP_BYTES),
        };
        Ok(Grid {
            chunk,
            planes,
            across,
            offsets: directory.numbers(source, offsets, count)?,
            lengths: directory.numbers(source, lengths, count)?,
        })
    }

    /// The channels that a chunk holds.
    fn channels(&self, pixel: Pixel) -> usize {
        pixel.channels() / self.planes
    }

    /// The chunks of a band: all of the first plane, then those of the next.
    fn band(&self, number: usize, compression: Compression) -> Vec<Unpacker> {
        let plane_chunks = self.offsets.len() / self.planes;
        let starts = (0..self.planes).map(|plane| plane * plane_chunks + number * self.across);
        starts
            .flat_map(|start| start..start + self.across)
            .map(|chunk| Unpacker::new(compression, self.offsets[chunk], self.lengths[chunk]))
            .collect()
    }
}
