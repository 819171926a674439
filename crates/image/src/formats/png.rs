//! PNG, by the crate of that name.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use png::{BitDepth, ColorType, Decoder, DecodingError, Encoder, EncodingError, StreamWriter};
use png::{Limits, Reader, Transformations};

use super::byte_io::ByteSource;
use super::raster::{Raster, RasterReader, copy_row, fitting};
use super::{ByteOrder, FilePosition, FormatError, FormatOptions, RowSink};
use crate::{Pixel, Sample};

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// Size of the buffer for compressed data, which becomes a chunk.
const CHUNK_BYTES: usize = 64 << 10;

/// Rows of a PNG file. Palettes and samples of 1, 2 and 4 bits become u8, transparent colours
/// become alpha.
pub struct PngRows<S: ByteSource> {
    raster: Raster,
    reader: Reader<S>,
    /// An interlaced picture, decoded as a whole.
    whole: Option<Vec<u8>>,
}

/// Returns whether a file starts like a PNG.
pub(super) fn is_png(head: &[u8]) -> bool {
    head.starts_with(&SIGNATURE)
}

impl<S: ByteSource> PngRows<S> {
    /// Reads the header of a PNG.
    pub fn open(name: &str, source: S, options: &FormatOptions) -> Result<PngRows<S>, FormatError> {
        let failed = |error| decoding(name, FilePosition::Header, options.memory_bytes, error);
        let mut decoder = Decoder::new_with_limits(source, Limits { bytes: options.memory_bytes });
        decoder.set_transformations(Transformations::EXPAND);
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let (width, height) = decoder.read_header_info().map_err(failed)?.size();
        let size = (width.into(), height.into());
        // Palettes and transparent colours, which follow later in the file, can make rows longer.
        Raster::new(name, size, Pixel::GREY, options.memory_bytes)?;
        let mut reader = decoder.read_info().map_err(failed)?;
        let raster = Raster::new(name, size, pixel(&reader), options.memory_bytes)?;
        let whole = match reader.info().interlaced {
            false => None,
            true => {
                let what = "an interlaced picture, which is read as a whole,";
                let bytes = fitting(name, what, raster.data_bytes, options.memory_bytes)?;
                let mut whole = vec![0; bytes];
                reader.next_frame(&mut whole).map_err(failed)?;
                Some(whole)
            }
        };
        Ok(PngRows { raster, reader, whole })
    }

    fn read(&mut self, number: u64, row: &mut [u8]) -> Result<(), DecodingError> {
        match &self.whole {
            Some(whole) => copy_row(whole, number, row),
            None => {
                self.reader.read_row(row)?;
            }
        }
        if self.raster.is_done() {
            // The chunks after the pixels tell whether the file is complete.
            self.reader.finish()?;
        }
        Ok(())
    }
}

fn pixel<S: ByteSource>(reader: &Reader<S>) -> Pixel {
    let (colour, depth) = reader.output_color_type();
    let sample = if depth == BitDepth::Sixteen { Sample::U16 } else { Sample::U8 };
    let channels = match colour {
        ColorType::Grayscale | ColorType::Indexed => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb => 3,
        ColorType::Rgba => 4,
    };
    Pixel::new(sample, channels).expect("PNG has 1 to 4 channels")
}

impl<S: ByteSource> RasterReader for PngRows<S> {
    fn raster(&self) -> &Raster {
        &self.raster
    }

    fn raster_mut(&mut self) -> &mut Raster {
        &mut self.raster
    }

    fn read_row(&mut self, number: u64, row: &mut [u8]) -> Result<(), FormatError> {
        self.read(number, row).map_err(|error| {
            let position = FilePosition::Row(number);
            decoding(&self.raster.name, position, self.raster.row_bytes, error)
        })?;
        ByteOrder::Big.convert(row, self.raster.pixel.sample());
        Ok(())
    }
}

fn decoding(
    name: &str,
    position: FilePosition,
    memory_bytes: usize,
    error: DecodingError,
) -> FormatError {
    match error {
        DecodingError::IoError(error) => FormatError::reading(name, position, error),
        DecodingError::LimitsExceeded => FormatError::TooLarge {
            name: name.to_owned(),
            what: "what comes before the pixels",
            needed_bytes: (memory_bytes as u64).saturating_add(1),
            limit_bytes: memory_bytes as u64,
        },
        error => FormatError::damaged(name, position, error.to_string()),
    }
}

/// Writes a PNG of u8 or u16.
pub struct PngSink<W: Write + Send + 'static> {
    raster: Raster,
    stream: StreamWriter<'static, ErrorRecorder<W>>,
    output: ErrorRecorder<W>,
    row: Vec<u8>,
}

impl<W: Write + Send + 'static> PngSink<W> {
    /// Creates a picture of this size and pixel.
    pub fn new(
        name: &str,
        output: W,
        size: (u64, u64),
        pixel: Pixel,
    ) -> Result<PngSink<W>, FormatError> {
        let raster = Raster::to_write(name, size, pixel)?;
        let depth = match pixel.sample() {
            Sample::U8 => BitDepth::Eight,
            Sample::U16 => BitDepth::Sixteen,
            sample @ (Sample::F32 | Sample::I8 | Sample::I16) => {
                let what = format!("PNG has no pixels of {sample}");
                let advice = match sample {
                    Sample::F32 => "choose TIFF, PFM or NRRD, or convert the pixels to u8 or u16",
                    _ => "choose TIFF or NRRD, or show a window of values in 256 steps",
                };
                return Err(FormatError::unsupported(name, what, advice));
            }
        };
        let colour =
            [ColorType::Grayscale, ColorType::GrayscaleAlpha, ColorType::Rgb, ColorType::Rgba]
                [pixel.channels() - 1];
        let side = |pixels: u64| u32::try_from(pixels).ok().filter(|side| side >> 31 == 0);
        let (Some(width), Some(height)) = (side(size.0), side(size.1)) else {
            let what = format!("PNG has no pictures of {} x {} pixels", size.0, size.1);
            return Err(FormatError::unsupported(name, what, "choose TIFF, NRRD or raw"));
        };
        let output = ErrorRecorder::new(output);
        let mut encoder = Encoder::new(output.clone(), width, height);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        let stream = encoder
            .write_header()
            .and_then(|writer| writer.into_stream_writer_with_size(CHUNK_BYTES))
            .map_err(|error| encoding(name, error))?;
        Ok(PngSink { raster, stream, output, row: Vec::new() })
    }
}

impl<W: Write + Send + 'static> RowSink for PngSink<W> {
    fn put_row(&mut self, row: &[u8]) -> Result<(), FormatError> {
        self.raster.count_row(row.len())?;
        self.row.clear();
        self.row.extend_from_slice(row);
        ByteOrder::Big.convert(&mut self.row, self.raster.pixel.sample());
        let written = self.stream.write_all(&self.row);
        written.map_err(|error| FormatError::writing(&self.raster.name, error))
    }

    fn finish(self: Box<Self>) -> Result<(), FormatError> {
        self.raster.check_done()?;
        self.stream.finish().map_err(|error| encoding(&self.raster.name, error))?;
        self.output.finish().map_err(|error| FormatError::writing(&self.raster.name, error))
    }
}

fn encoding(name: &str, error: EncodingError) -> FormatError {
    let error = match error {
        EncodingError::IoError(error) => error,
        error => io::Error::other(error),
    };
    FormatError::writing(name, error)
}

/// Records the first error of an output: the encoder writes the last chunk when it is dropped, and
/// then it cannot return an error.
struct ErrorRecorder<W> {
    shared: Arc<Mutex<(W, Option<io::Error>)>>,
}

impl<W: Write> ErrorRecorder<W> {
    fn new(output: W) -> ErrorRecorder<W> {
        ErrorRecorder { shared: Arc::new(Mutex::new((output, None))) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let (output, failure) = &mut *shared;
        act(output).inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                failure.get_or_insert_with(|| io::Error::new(error.kind(), error.to_string()));
            }
        })
    }

    fn finish(self) -> io::Result<()> {
        self.with(W::flush)?;
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.1.take().map_or(Ok(()), Err)
    }
}

impl<W> Clone for ErrorRecorder<W> {
    fn clone(&self) -> ErrorRecorder<W> {
        ErrorRecorder { shared: Arc::clone(&self.shared) }
    }
}

impl<W: Write> Write for ErrorRecorder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|output| output.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(W::flush)
    }
}
