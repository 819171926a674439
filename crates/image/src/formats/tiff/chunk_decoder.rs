//! Decompresses one chunk as its bytes are requested.
//!
//! The crate `tiff` keeps its decoders of streams private: `Decoder::read_chunk` and
//! `read_coding_unit_bytes` fill a buffer for the whole strip or tile.

use std::io::{self, SeekFrom};

use flate2::{Decompress, FlushDecompress, Status};
use weezl::{BitOrder, LzwStatus, decode};

use super::super::byte_io::ByteSource;

/// Bytes of a chunk that are read at a time.
pub(super) const INPUT_BYTES: usize = 16 << 10;

/// Memory of a decoder besides its input, at most.
pub(super) const STATE_BYTES: usize = 56 << 10;

/// The compression of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkCompression {
    Plain,
    PackBits,
    Lzw,
    Deflate,
}

impl ChunkCompression {
    /// Returns the compression with a number in the file.
    pub fn from_tag(number: u64) -> Option<ChunkCompression> {
        match number {
            1 => Some(ChunkCompression::Plain),
            5 => Some(ChunkCompression::Lzw),
            8 | 32_946 => Some(ChunkCompression::Deflate),
            32_773 => Some(ChunkCompression::PackBits),
            _ => None,
        }
    }
}

/// A chunk in a file, and the state of its decompression.
pub(super) struct ChunkDecoder {
    at: u64,
    left: u64,
    input: Vec<u8>,
    used: usize,
    method: Method,
}

enum Method {
    /// A chunk with offset 0 and length 0 is all zeros.
    Zeros,
    Plain,
    PackBits(PackBitsState),
    Lzw(Box<Lzw>),
    Deflate(Box<Decompress>),
}

impl ChunkDecoder {
    /// Creates a decoder for the chunk of `bytes` compressed bytes at an offset.
    pub fn new(compression: ChunkCompression, at: u64, bytes: u64) -> ChunkDecoder {
        let method = match compression {
            _ if at == 0 && bytes == 0 => Method::Zeros,
            ChunkCompression::Plain => Method::Plain,
            ChunkCompression::PackBits => Method::PackBits(PackBitsState::Head),
            ChunkCompression::Lzw => Method::Lzw(Box::new(Lzw::new())),
            ChunkCompression::Deflate => Method::Deflate(Box::new(Decompress::new(true))),
        };
        ChunkDecoder { at, left: bytes, input: Vec::new(), used: 0, method }
    }

    /// Decodes the next bytes of the chunk.
    pub fn decode<S: ByteSource>(&mut self, source: &mut S, mut out: &mut [u8]) -> io::Result<()> {
        while !out.is_empty() {
            if self.used == self.input.len() && !matches!(self.method, Method::Zeros) {
                self.refill(source)?;
            }
            let input = &self.input[self.used..];
            let (taken, made) = step(&mut self.method, input, out)?;
            if taken == 0 && made == 0 && (!input.is_empty() || self.left == 0) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.used += taken;
            out = &mut out[made..];
        }
        Ok(())
    }

    /// Reads more input, if there is any. A decompressor may still hold output when there is not.
    fn refill<S: ByteSource>(&mut self, source: &mut S) -> io::Result<()> {
        let bytes = usize::try_from(self.left).unwrap_or(usize::MAX).min(INPUT_BYTES);
        self.input.resize(bytes, 0);
        self.used = 0;
        source.seek(SeekFrom::Start(self.at))?;
        source.read_exact(&mut self.input)?;
        self.at += bytes as u64;
        self.left -= bytes as u64;
        Ok(())
    }
}

/// Decodes as far as input and output allow. Returns the numbers of bytes consumed and produced.
fn step(method: &mut Method, input: &[u8], out: &mut [u8]) -> io::Result<(usize, usize)> {
    let damaged = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    match method {
        Method::Zeros => {
            out.fill(0);
            Ok((0, out.len()))
        }
        Method::Plain => {
            let bytes = input.len().min(out.len());
            out[..bytes].copy_from_slice(&input[..bytes]);
            Ok((bytes, bytes))
        }
        Method::PackBits(run) => Ok(unpack_bits(run, input, out)),
        Method::Lzw(lzw) => lzw.step(input, out).map_err(damaged),
        Method::Deflate(decoder) => {
            let (taken, made) = (decoder.total_in(), decoder.total_out());
            let status = decoder
                .decompress(input, out, FlushDecompress::None)
                .map_err(|error| damaged(error.to_string()))?;
            // At most the lengths of the two slices.
            #[allow(clippy::cast_possible_truncation)]
            let (taken, made) =
                ((decoder.total_in() - taken) as usize, (decoder.total_out() - made) as usize);
            if status == Status::StreamEnd && made < out.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Ok((taken, made))
        }
    }
}

/// An LZW decoder and its output. It does not write to the rows themselves: with space for only a
/// byte or two at a time it stops before the end of the data.
struct Lzw {
    decoder: decode::Decoder,
    made: Vec<u8>,
    given: usize,
    ended: bool,
}

/// Twice the longest word of the code.
const LZW_BYTES: usize = 8 << 10;

impl Lzw {
    fn new() -> Lzw {
        let decoder = decode::Decoder::with_tiff_size_switch(BitOrder::Msb, 8);
        Lzw { decoder, made: Vec::new(), given: 0, ended: false }
    }

    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize), String> {
        let mut taken = 0;
        if self.given == self.made.len() && !self.ended {
            self.made.resize(LZW_BYTES, 0);
            let result = self.decoder.decode_bytes(input, &mut self.made);
            self.made.truncate(result.consumed_out);
            self.given = 0;
            taken = result.consumed_in;
            match result.status {
                Ok(status) => self.ended = matches!(status, LzwStatus::Done),
                // The output so far is valid. Some programs write no end code.
                Err(_) if result.consumed_out > 0 => self.ended = true,
                Err(error) => return Err(error.to_string()),
            }
        }
        let bytes = (self.made.len() - self.given).min(out.len());
        out[..bytes].copy_from_slice(&self.made[self.given..self.given + bytes]);
        self.given += bytes;
        Ok((taken, bytes))
    }
}

/// The state of a PackBits stream.
enum PackBitsState {
    /// Before the length of a run.
    Head,
    /// This number of literal bytes follows.
    Literal(usize),
    /// The next byte is repeated this number of times.
    RepeatNext(usize),
    /// This byte is repeated this number of times.
    Repeat(usize, u8),
}

fn unpack_bits(run: &mut PackBitsState, input: &[u8], out: &mut [u8]) -> (usize, usize) {
    let (mut taken, mut made) = (0, 0);
    while made < out.len() {
        match *run {
            PackBitsState::Repeat(times, byte) => {
                let bytes = times.min(out.len() - made);
                out[made..made + bytes].fill(byte);
                made += bytes;
                *run = if bytes == times {
                    PackBitsState::Head
                } else {
                    PackBitsState::Repeat(times - bytes, byte)
                };
                continue;
            }
            _ if taken == input.len() => break,
            PackBitsState::Literal(left) => {
                let bytes = left.min(out.len() - made).min(input.len() - taken);
                out[made..made + bytes].copy_from_slice(&input[taken..taken + bytes]);
                made += bytes;
                taken += bytes;
                *run = if bytes == left {
                    PackBitsState::Head
                } else {
                    PackBitsState::Literal(left - bytes)
                };
                continue;
            }
            PackBitsState::RepeatNext(times) => *run = PackBitsState::Repeat(times, input[taken]),
            PackBitsState::Head => {
                *run = match usize::from(input[taken]) {
                    head @ 0..=127 => PackBitsState::Literal(head + 1),
                    128 => PackBitsState::Head,
                    head => PackBitsState::RepeatNext(257 - head),
                }
            }
        }
        taken += 1;
    }
    (taken, made)
}
