//! Writes a TIFF: plain strips after a directory that is computed in advance, so that the writer
//! keeps nothing in memory and need not seek back.
//!
//! The encoder of the crate `tiff` writes the directory behind the pixels and needs an output that
//! can seek. It keeps the list of all strips in memory, and has no type for grey with alpha or for
//! signed colours.

use std::io::{self, Write};

use super::super::raster::Raster;
use super::super::{FormatError, RawSink};
use super::{kind, tag};
use crate::{Pixel, Sample};

/// Approximate bytes of a strip.
const STRIP_BYTES: usize = 256 << 10;

/// Returns a sink that writes a TIFF of any pixel, or a BigTIFF from 4 GiB on.
pub fn tiff_sink<W: Write + Send>(
    name: &str,
    mut output: W,
    size: (u64, u64),
    pixel: Pixel,
) -> Result<RawSink<W>, FormatError> {
    let raster = Raster::to_write(name, size, pixel)?;
    let (Ok(width), Ok(height)) = (u32::try_from(size.0), u32::try_from(size.1)) else {
        let what = format!("TIFF has no pictures of {} x {} pixels", size.0, size.1);
        return Err(FormatError::unsupported(name, what, "choose NRRD or raw"));
    };
    let head = TiffHead::new(&raster, false);
    let head = if head.end() >> 32 == 0 { head } else { TiffHead::new(&raster, true) };
    head.write(&mut output, (width, height), pixel)
        .map_err(|error| FormatError::writing(name, error))?;
    RawSink::new(name, output, size, pixel)
}

/// Everything before the pixels: the header, the directory, and values that do not fit into it.
struct TiffHead {
    big: bool,
    channels: u64,
    strip_rows: u64,
    strip_bytes: u64,
    strips: u64,
    data_bytes: u64,
}

/// A tag with its values.
struct Field {
    tag: u16,
    kind: u16,
    count: u64,
    /// The value, or the offset of the values.
    value: u64,
}

impl TiffHead {
    fn new(raster: &Raster, big: bool) -> TiffHead {
        let strip_rows = (STRIP_BYTES / raster.row_bytes).max(1) as u64;
        let strip_rows = strip_rows.min(raster.height);
        TiffHead {
            big,
            channels: raster.pixel.channels() as u64,
            strip_rows,
            strip_bytes: strip_rows * raster.row_bytes as u64,
            strips: raster.height.div_ceil(strip_rows),
            data_bytes: raster.data_bytes,
        }
    }

    /// Returns whether the last channel is not a colour: with two and four channels.
    fn has_alpha(&self) -> bool {
        self.channels.is_multiple_of(2)
    }

    fn field_count(&self) -> u64 {
        11 + u64::from(self.has_alpha())
    }

    /// Returns the bytes of an offset.
    fn word(&self) -> u64 {
        if self.big { 8 } else { 4 }
    }

    /// Returns the offset of the values with one number per channel.
    fn channel_values(&self) -> u64 {
        let fields = self.field_count();
        if self.big { 16 + 8 + fields * 20 + 8 } else { 8 + 2 + fields * 12 + 4 }
    }

    /// Returns the offset of the list of strips.
    fn strip_values(&self) -> u64 {
        (self.channel_values() + 2 * self.channels * 2).next_multiple_of(8)
    }

    /// Returns the offset of the pixels.
    fn data(&self) -> u64 {
        (self.strip_values() + 2 * self.strips * self.word()).next_multiple_of(16)
    }

    /// Returns the length of the file.
    fn end(&self) -> u64 {
        self.data().saturating_add(self.data_bytes)
    }

    /// Returns the length of a strip; the last may be shorter.
    fn length(&self, strip: u64) -> u64 {
        self.strip_bytes.min(self.data_bytes - strip * self.strip_bytes)
    }

    fn write(
        &self,
        output: &mut impl Write,
        (width, height): (u32, u32),
        pixel: Pixel,
    ) -> io::Result<()> {
        let mut at = CountingWriter { output, bytes: 0 };
        if self.big {
            at.write_all(b"II+\0\x08\0\0\0")?;
            at.word(16, 8)?;
            at.word(self.field_count(), 8)?;
        } else {
            at.write_all(b"II*\0")?;
            at.word(8, 4)?;
            at.word(self.field_count(), 2)?;
        }
        let (bits, format) = match pixel.sample() {
            Sample::U8 => (8u16, 1u16),
            Sample::U16 => (16, 1),
            Sample::I8 => (8, 2),
            Sample::I16 => (16, 2),
            Sample::F32 => (32, 3),
        };
        for field in self.fields(width, height, bits, format) {
            at.word(field.tag.into(), 2)?;
            at.word(field.kind.into(), 2)?;
            at.word(field.count, self.word())?;
            at.word(field.value, self.word())?;
        }
        at.word(0, self.word())?;
        for value in [bits, format] {
            for _ in 0..self.channels {
                at.word(value.into(), 2)?;
            }
        }
        at.fill_to(self.strip_values())?;
        for strip in 0..self.strips {
            at.word(self.data() + strip * self.strip_bytes, self.word())?;
        }
        for strip in 0..self.strips {
            at.word(self.length(strip), self.word())?;
        }
        at.fill_to(self.data())
    }

    /// Returns all tags, in order.
    fn fields(&self, width: u32, height: u32, bits: u16, format: u16) -> Vec<Field> {
        let short = |tag, value| Field { tag, kind: kind::SHORT, count: 1, value };
        let long = |tag, value| Field { tag, kind: kind::LONG, count: 1, value };
        let per_channel = |tag, value: u16, place| {
            let value = match self.channels * 2 <= self.word() {
                true => (0..self.channels).fold(0, |all, i| all | u64::from(value) << (16 * i)),
                false => self.channel_values() + place * self.channels * 2,
            };
            Field { tag, kind: kind::SHORT, count: self.channels, value }
        };
        let per_strip = |tag, single, place| {
            let kind = if self.big { kind::LONG8 } else { kind::LONG };
            let value = match self.strips {
                1 => single,
                _ => self.strip_values() + place * self.strips * self.word(),
            };
            Field { tag, kind, count: self.strips, value }
        };
        let colours = if self.channels < 3 { 1 } else { 2 };
        let mut fields = vec![
            long(tag::WIDTH, width.into()),
            long(tag::HEIGHT, height.into()),
            per_channel(tag::BITS, bits, 0),
            short(tag::COMPRESSION, 1),
            short(tag::PHOTOMETRIC, colours),
            per_strip(tag::STRIP_OFFSETS, self.data(), 0),
            short(tag::CHANNELS, self.channels),
            long(tag::STRIP_ROWS, self.strip_rows),
            per_strip(tag::STRIP_BYTES, self.length(0), 1),
            short(tag::PLANAR, 1),
        ];
        if self.has_alpha() {
            fields.push(short(tag::EXTRA_SAMPLES, 2));
        }
        fields.push(per_channel(tag::SAMPLE_FORMAT, format, 1));
        fields
    }
}

/// An output that counts the bytes written.
struct CountingWriter<'a, W> {
    output: &'a mut W,
    bytes: u64,
}

impl<W: Write> CountingWriter<'_, W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.output.write_all(bytes)
    }

    /// Writes the low bytes of a number.
    fn word(&mut self, value: u64, bytes: u64) -> io::Result<()> {
        let word = value.to_le_bytes();
        self.write_all(if bytes == 2 {
            &word[..2]
        } else if bytes == 4 {
            &word[..4]
        } else {
            &word
        })
    }

    fn fill_to(&mut self, place: u64) -> io::Result<()> {
        while self.bytes < place {
            self.write_all(&[0])?;
        }
        Ok(())
    }
}
