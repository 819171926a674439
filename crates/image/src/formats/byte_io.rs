//! Sources and sinks of bytes.

use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};

/// A source of a picture: a buffered file, bytes in memory.
pub trait ByteSource: BufRead + Seek + Send {}

impl<S: BufRead + Seek + Send> ByteSource for S {}

/// A sink for a picture: a buffered file, bytes in memory.
pub trait ByteSink: Write + Seek + Send {}

impl<W: Write + Seek + Send> ByteSink for W {}

/// Returns the length of a source and keeps its position.
pub(super) fn length<S: Seek>(source: &mut S) -> io::Result<u64> {
    let here = source.stream_position()?;
    let end = source.seek(SeekFrom::End(0))?;
    source.seek(SeekFrom::Start(here))?;
    Ok(end)
}

/// Reads and drops `bytes` bytes. Fails if the stream ends before.
pub(super) fn skip(stream: &mut impl BufRead, bytes: u64) -> io::Result<()> {
    match io::copy(&mut stream.take(bytes), &mut io::sink())? {
        skipped if skipped == bytes => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
