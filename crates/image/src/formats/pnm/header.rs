//! Headers of PNM, PAM and PFM: words with comments between them.

use std::io::{self, BufRead};

use super::super::byte_io::ByteSource;
use super::super::samples::ValueRange;
use super::super::{ByteOrder, FilePosition, FormatError};
use crate::{Pixel, Sample};

/// Limit for the length of a header with its comments.
const HEADER_LIMIT_BYTES: u64 = 64 << 10;

/// The coding of the pixels.
#[derive(Clone, Copy, Debug)]
pub(super) enum Coding {
    /// Digits 0 and 1.
    AsciiBits,
    /// Decimal numbers.
    Ascii(ValueRange),
    /// Eight pixels in a byte.
    Bits,
    /// Big-endian numbers.
    Binary(ValueRange),
    /// Floats, the lowest row first.
    Floats(ByteOrder),
}

/// A decoded header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub size: (u64, u64),
    pub pixel: Pixel,
    pub coding: Coding,
}

impl Header {
    /// Reads a header and the one space after it.
    pub fn read<S: ByteSource>(name: &str, source: &mut S) -> Result<Header, FormatError> {
        let mut words = HeaderWords { name, source, at: 0 };
        let magic = words.next()?;
        let kind = match magic.as_bytes() {
            [b'P', kind] => *kind,
            _ => return Err(words.damaged("it does not begin with P1 to P7, Pf or PF")),
        };
        match kind {
            b'1' | b'4' => {
                let size = words.size()?;
                let coding = if kind == b'1' { Coding::AsciiBits } else { Coding::Bits };
                Ok(Header { size, pixel: Pixel::GREY, coding })
            }
            b'2' | b'3' | b'5' | b'6' => {
                let (size, range) = (words.size()?, words.range()?);
                let pixel =
                    words.pixel(range.sample(), if matches!(kind, b'2' | b'5') { 1 } else { 3 })?;
                let ascii = matches!(kind, b'2' | b'3');
                let coding = if ascii { Coding::Ascii(range) } else { Coding::Binary(range) };
                Ok(Header { size, pixel, coding })
            }
            b'f' | b'F' => {
                let size = words.size()?;
                let word = words.next()?;
                let scale = word.parse::<f32>().ok().filter(|scale| scale.is_normal());
                let Some(scale) = scale else {
                    return Err(words.damaged(&format!("the scale is {word:?}, not a number")));
                };
                let order = if scale < 0.0 { ByteOrder::Little } else { ByteOrder::Big };
                let pixel = words.pixel(Sample::F32, if kind == b'f' { 1 } else { 3 })?;
                Ok(Header { size, pixel, coding: Coding::Floats(order) })
            }
            b'7' => words.pam(),
            _ => Err(words.damaged("it does not begin with P1 to P7, Pf or PF")),
        }
    }
}

/// The words of a header.
struct HeaderWords<'a, S> {
    name: &'a str,
    source: &'a mut S,
    at: u64,
}

impl<S: ByteSource> HeaderWords<'_, S> {
    /// Reads the next word and the one byte that ends it.
    fn next(&mut self) -> Result<String, FormatError> {
        let mut word = String::new();
        loop {
            match self.byte()? {
                b'#' => {
                    while self.byte()? != b'\n' {}
                    if !word.is_empty() {
                        return Ok(word);
                    }
                }
                byte if byte.is_ascii_whitespace() => {
                    if !word.is_empty() {
                        return Ok(word);
                    }
                }
                byte if byte.is_ascii_graphic() => word.push(char::from(byte)),
                byte => return Err(self.damaged(&format!("byte {byte:#04x} is not text"))),
            }
        }
    }

    fn byte(&mut self) -> Result<u8, FormatError> {
        if self.at == HEADER_LIMIT_BYTES {
            return Err(self.damaged("the header does not end"));
        }
        let byte = next_byte(self.source)
            .map_err(|error| FormatError::reading(self.name, FilePosition::Byte(self.at), error))?;
        self.at += 1;
        Ok(byte)
    }

    fn number(&mut self, what: &str) -> Result<u64, FormatError> {
        let word = self.next()?;
        word.parse().map_err(|_| self.damaged(&format!("the {what} is {word:?}, not a number")))
    }

    fn size(&mut self) -> Result<(u64, u64), FormatError> {
        Ok((self.number("width")?, self.number("height")?))
    }

    fn range(&mut self) -> Result<ValueRange, FormatError> {
        match self.number("largest value")? {
            #[allow(clippy::cast_possible_truncation)]
            top @ 1..=65_535 => Ok(ValueRange::new(top as u16)),
            top => Err(self.damaged(&format!("the largest value is {top}, not 1 to 65535"))),
        }
    }

    fn pixel(&self, sample: Sample, channels: u64) -> Result<Pixel, FormatError> {
        let pixel = Pixel::new(sample, u32::try_from(channels).unwrap_or(u32::MAX));
        pixel.map_err(|error| {
            FormatError::unsupported(self.name, error.to_string(), "write fewer channels")
        })
    }

    /// Reads the header of a PAM: lines of names and values.
    fn pam(&mut self) -> Result<Header, FormatError> {
        let (mut width, mut height, mut depth, mut range) = (None, None, None, None);
        loop {
            match self.next()?.as_str() {
                "WIDTH" => width = Some(self.number("width")?),
                "HEIGHT" => height = Some(self.number("height")?),
                "DEPTH" => depth = Some(self.number("depth")?),
                "MAXVAL" => range = Some(self.range()?),
                "TUPLTYPE" => {
                    self.next()?;
                }
                "ENDHDR" => break,
                word => return Err(self.damaged(&format!("{word:?} is not a name of PAM"))),
            }
        }
        let (Some(width), Some(height), Some(depth), Some(range)) = (width, height, depth, range)
        else {
            return Err(self.damaged("one of WIDTH, HEIGHT, DEPTH and MAXVAL is missing"));
        };
        let pixel = self.pixel(range.sample(), depth)?;
        Ok(Header { size: (width, height), pixel, coding: Coding::Binary(range) })
    }

    fn damaged(&self, what: &str) -> FormatError {
        FormatError::damaged(self.name, FilePosition::Byte(self.at), what)
    }
}

/// Reads one byte of a buffered stream.
pub(super) fn next_byte<R: BufRead>(stream: &mut R) -> io::Result<u8> {
    let byte = *stream.fill_buf()?.first().ok_or(io::ErrorKind::UnexpectedEof)?;
    stream.consume(1);
    Ok(byte)
}
