//! Where the bytes of a file come from and where they go.

use std::io::{self, BufRead, Seek, SeekFrom, Write};

/// What a picture can be read from: a buffered file, bytes in memory.
pub trait Source: BufRead + Seek + Send {}

impl<S: BufRead + Seek + Send> Source for S {}

/// What a picture can be written to: a buffered file, bytes in memory.
pub trait Output: Write + Seek + Send {}

impl<W: Write + Seek + Send> Output for W {}

/// The length of a source, which stays where it is.
pub(super) fn length<S: Seek>(source: &mut S) -> io::Result<u64> {
    let here = source.stream_position()?;
    let end = source.seek(SeekFrom::End(0))?;
    source.seek(SeekFrom::Start(here))?;
    Ok(end)
}
