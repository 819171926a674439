//! Reads rows of a TIFF.

use std::io;

use super::super::byte_io::ByteSource;
use super::super::numbers::{Conversion, RowConverter};
use super::super::raster::{Raster, RasterReader, fitting};
use super::super::{ByteOrder, FileNumber, FilePixel, FilePosition, FormatError, FormatOptions};
use super::chunk_decoder::{ChunkCompression, ChunkDecoder, INPUT_BYTES, STATE_BYTES};
use super::directory::TiffDirectory;
use super::predictor::Predictor;
use super::tag;
use crate::Pixel;

const CONVERT: &str = "convert it to plain, LZW or Deflate TIFF of whole numbers of 8, 16 or 32 \
                       bits or of floats, grey or RGB";

/// Rows of one page of a TIFF or BigTIFF.
pub struct TiffRows<S> {
    raster: Raster,
    chunks: ChunkReader<S>,
    converter: RowConverter,
}

/// Reads the strips or tiles of a page row by row.
struct ChunkReader<S> {
    source: S,
    order: ByteOrder,
    pixel: FilePixel,
    compression: ChunkCompression,
    predictor: Predictor,
    white_is_zero: bool,
    grid: ChunkGrid,
    /// The chunks that contain the next row, plane by plane.
    band: Vec<ChunkDecoder>,
    /// A row of a chunk, and a buffer of the same size for the predictor.
    chunk_row: Vec<u8>,
    scratch: Vec<u8>,
}

/// The strips or tiles of a picture.
struct ChunkGrid {
    /// Width and height of a chunk.
    chunk: (u64, u64),
    /// 1, or the number of channels if each has chunks of its own.
    planes: usize,
    /// Number of chunks side by side in a plane.
    across: usize,
    /// All chunks, plane by plane, each plane from the top.
    offsets: Vec<u64>,
    lengths: Vec<u64>,
}

impl<S: ByteSource> TiffRows<S> {
    /// Reads the directory of the first page of a TIFF.
    pub fn open(
        name: &str,
        source: S,
        options: &FormatOptions,
    ) -> Result<TiffRows<S>, FormatError> {
        TiffRows::page(name, source, None, options)
    }

    /// Reads the directory of the page at an offset.
    pub(in super::super) fn page(
        name: &str,
        mut source: S,
        offset: Option<u64>,
        options: &FormatOptions,
    ) -> Result<TiffRows<S>, FormatError> {
        let memory_bytes = options.memory_bytes;
        let directory = TiffDirectory::read(name, &mut source, offset)?;
        let width = directory.required(&mut source, tag::WIDTH)?;
        let height = directory.required(&mut source, tag::HEIGHT)?;
        let file_pixel = file_pixel(name, &directory, &mut source)?;
        let (number, pixel) = (file_pixel.number(), file_pixel.stored());
        let raster = Raster::new(name, (width, height), pixel, memory_bytes)?;
        let (compression, predictor) = coding(name, &directory, &mut source, number)?;
        let white_is_zero = white_is_zero(name, &directory, &mut source, number)?;
        let grid = ChunkGrid::read(&directory, &mut source, &raster, memory_bytes)?;

        let chunk_pixel = number.bytes() * grid.channels(pixel);
        let row_bytes = grid.chunk.0.saturating_mul(chunk_pixel as u64);
        let row_bytes = fitting(name, "a row of a tile", row_bytes, memory_bytes)?;
        let scratch_bytes = if predictor == Predictor::Floats { row_bytes } else { 0 };
        let chunks = ChunkReader {
            source,
            order: directory.order,
            pixel: file_pixel,
            compression,
            predictor,
            white_is_zero,
            grid,
            band: Vec::new(),
            chunk_row: vec![0; row_bytes],
            scratch: vec![0; scratch_bytes],
        };
        let converter = RowConverter::new(Conversion::plain(number, ByteOrder::Little));
        Ok(TiffRows { raster, chunks, converter })
    }

    /// Returns the source, to open another page.
    pub(super) fn into_source(self) -> S {
        self.chunks.source
    }
}

impl<S: ByteSource> ChunkReader<S> {
    /// Decodes the next row of every chunk of the band and assembles them.
    fn read(&mut self, number: u64, row: &mut [u8]) -> io::Result<()> {
        if number.is_multiple_of(self.grid.chunk.1) {
            // There are no more bands than chunks, which are listed in memory.
            #[allow(clippy::cast_possible_truncation)]
            let band = (number / self.grid.chunk.1) as usize;
            self.band = self.grid.band(band, self.compression);
        }
        let (pixel, number) = (self.pixel.stored(), self.pixel.number());
        let (sample_bytes, channels) = (number.bytes(), self.grid.channels(pixel));
        let chunk_bytes = self.chunk_row.len() / channels * pixel.channels();
        for (index, decoder) in self.band.iter_mut().enumerate() {
            decoder.decode(&mut self.source, &mut self.chunk_row)?;
            let coded = (number, self.order);
            self.predictor.restore(&mut self.chunk_row, &mut self.scratch, coded, channels);

            let (plane, column) = (index / self.grid.across, index % self.grid.across);
            let start = column * chunk_bytes;
            let end = (start + chunk_bytes).min(row.len());
            let part = &mut row[start..end];
            if self.grid.planes == 1 {
                part.copy_from_slice(&self.chunk_row[..part.len()]);
            } else {
                let samples = self.chunk_row.chunks_exact(sample_bytes);
                for (pixel, sample) in part.chunks_exact_mut(self.pixel.bytes()).zip(samples) {
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

impl<S: ByteSource> RasterReader for TiffRows<S> {
    fn raster(&self) -> &Raster {
        &self.raster
    }

    fn raster_mut(&mut self) -> &mut Raster {
        &mut self.raster
    }

    fn read_row(&mut self, number: u64, row: &mut [u8]) -> Result<(), FormatError> {
        let TiffRows { raster, chunks, converter } = self;
        converter
            .read(row, |numbers| chunks.read(number, numbers))
            .map_err(|error| raster.row_error(number, error))
    }

    fn conversion_notes(&self) -> Vec<String> {
        self.converter.notes()
    }
}

fn file_pixel<S: ByteSource>(
    name: &str,
    directory: &TiffDirectory,
    source: &mut S,
) -> Result<FilePixel, FormatError> {
    let channels = directory.number(source, tag::CHANNELS)?.unwrap_or(1);
    let bits = directory.number(source, tag::BITS)?.unwrap_or(1);
    let format = directory.number(source, tag::SAMPLE_FORMAT)?.unwrap_or(1);
    let same =
        directory.uniform(source, tag::BITS)? && directory.uniform(source, tag::SAMPLE_FORMAT)?;
    let number = match (bits, format) {
        (8, 1) => Some(FileNumber::U8),
        (16, 1) => Some(FileNumber::U16),
        (32, 1) => Some(FileNumber::U32),
        (8, 2) => Some(FileNumber::I8),
        (16, 2) => Some(FileNumber::I16),
        (32, 2) => Some(FileNumber::I32),
        (32, 3) => Some(FileNumber::F32),
        (64, 3) => Some(FileNumber::F64),
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

fn coding<S: ByteSource>(
    name: &str,
    directory: &TiffDirectory,
    source: &mut S,
    sample: FileNumber,
) -> Result<(ChunkCompression, Predictor), FormatError> {
    let unsupported = |what: String| Err(FormatError::unsupported(name, what, CONVERT));
    let number = directory.number(source, tag::COMPRESSION)?.unwrap_or(1);
    let Some(compression) = ChunkCompression::from_tag(number) else {
        return unsupported(format!("TIFF with compression {number} cannot be read"));
    };
    if directory.number(source, tag::FILL_ORDER)?.unwrap_or(1) != 1 {
        return unsupported("TIFF with the lowest bit first cannot be read".to_owned());
    }
    if matches!(compression, ChunkCompression::Plain | ChunkCompression::PackBits) {
        return Ok((compression, Predictor::None));
    }
    let number = directory.number(source, tag::PREDICTOR)?.unwrap_or(1);
    match Predictor::from_tag(number, sample) {
        Some(predictor) => Ok((compression, predictor)),
        None => unsupported(format!("TIFF of {sample} with predictor {number} cannot be read")),
    }
}

fn white_is_zero<S: ByteSource>(
    name: &str,
    directory: &TiffDirectory,
    source: &mut S,
    sample: FileNumber,
) -> Result<bool, FormatError> {
    match directory.required(source, tag::PHOTOMETRIC)? {
        0 if !matches!(sample, FileNumber::F32 | FileNumber::F64) => Ok(true),
        1 | 2 => Ok(false),
        number => {
            let what = format!("TIFF of {sample} with colours of kind {number} cannot be read");
            Err(FormatError::unsupported(name, what, CONVERT))
        }
    }
}

impl ChunkGrid {
    fn read<S: ByteSource>(
        directory: &TiffDirectory,
        source: &mut S,
        raster: &Raster,
        memory_bytes: usize,
    ) -> Result<ChunkGrid, FormatError> {
        let name = &raster.name;
        let tiled = directory.has(tag::TILE_OFFSETS);
        let chunk = if tiled {
            let width = directory.required(source, tag::TILE_WIDTH)?;
            (width, directory.required(source, tag::TILE_HEIGHT)?)
        } else {
            let rows = directory.number(source, tag::STRIP_ROWS)?.unwrap_or(raster.height);
            (raster.width, rows.min(raster.height))
        };
        if chunk.0 == 0 || chunk.1 == 0 {
            let what = format!("strips or tiles are {} x {} pixels", chunk.0, chunk.1);
            return Err(FormatError::damaged(name, FilePosition::Header, what));
        }
        let planes = match directory.number(source, tag::PLANAR)?.unwrap_or(1) {
            2 => raster.pixel.channels(),
            _ => 1,
        };
        let across = raster.width.div_ceil(chunk.0);
        let band = across * planes as u64;
        let band_bytes = band.saturating_mul((INPUT_BYTES + STATE_BYTES) as u64);
        if band > 1 {
            fitting(name, "a row of tiles", band_bytes, memory_bytes)?;
        }
        let count = band.saturating_mul(raster.height.div_ceil(chunk.1));
        fitting(name, "the list of strips or tiles", count.saturating_mul(16), memory_bytes)?;
        let across = fitting(name, "a row of tiles", across, memory_bytes)?;
        let (offsets, lengths) = match tiled {
            true => (tag::TILE_OFFSETS, tag::TILE_BYTES),
            false => (tag::STRIP_OFFSETS, tag::STRIP_BYTES),
        };
        Ok(ChunkGrid {
            chunk,
            planes,
            across,
            offsets: directory.numbers(source, offsets, count)?,
            lengths: directory.numbers(source, lengths, count)?,
        })
    }

    /// Returns the number of channels that a chunk holds.
    fn channels(&self, pixel: Pixel) -> usize {
        pixel.channels() / self.planes
    }

    /// Returns decoders for the chunks of a band: those of the first plane, then those of the next.
    fn band(&self, number: usize, compression: ChunkCompression) -> Vec<ChunkDecoder> {
        let plane_chunks = self.offsets.len() / self.planes;
        let starts = (0..self.planes).map(|plane| plane * plane_chunks + number * self.across);
        starts
            .flat_map(|start| start..start + self.across)
            .map(|chunk| ChunkDecoder::new(compression, self.offsets[chunk], self.lengths[chunk]))
            .collect()
    }
}
