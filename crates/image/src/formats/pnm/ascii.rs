//! Samples in decimal digits.

use std::io::{self, BufRead};

use super::super::samples::ValueRange;
use super::header::next_byte;

/// Reads the next digit 0 or 1, with or without space before it.
pub(super) fn next_bit<R: BufRead>(stream: &mut R) -> io::Result<bool> {
    loop {
        match next_byte(stream)? {
            b'0' => return Ok(false),
            b'1' => return Ok(true),
            b'#' => skip_comment(stream)?,
            byte if byte.is_ascii_whitespace() => {}
            byte => return Err(damaged(format!("byte {byte:#04x} is neither 0 nor 1"))),
        }
    }
}

/// Reads the next number, scaled to the range of its type. At the end of the stream it needs no
/// space after it.
pub(super) fn next_sample<R: BufRead>(stream: &mut R, range: ValueRange) -> io::Result<u16> {
    let mut number: Option<u32> = None;
    loop {
        let byte = match next_byte(stream) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && number.is_some() => b' ',
            byte => byte?,
        };
        match (byte, number) {
            (b'0'..=b'9', _) => {
                let value = number.unwrap_or(0) * 10 + u32::from(byte - b'0');
                if value > 65_535 {
                    return Err(damaged(format!("{value} is more than the largest value")));
                }
                number = Some(value);
            }
            (b'#', None) => skip_comment(stream)?,
            (byte, None) if byte.is_ascii_whitespace() => {}
            (byte, Some(value)) if byte.is_ascii_whitespace() => {
                let scaled = u16::try_from(value).ok().and_then(|value| range.scale(value));
                let what = || damaged(format!("{value} is more than the largest value"));
                return scaled.ok_or_else(what);
            }
            _ => return Err(damaged(format!("byte {byte:#04x} is not a digit"))),
        }
    }
}

fn skip_comment<R: BufRead>(stream: &mut R) -> io::Result<()> {
    while next_byte(stream)? != b'\n' {}
    Ok(())
}

fn damaged(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
