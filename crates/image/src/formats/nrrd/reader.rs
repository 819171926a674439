//! Opening a NRRD: the header, and the data wherever it is.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, SeekFrom};
use std::path::{Component, Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::super::numbers::Conversion;
use super::super::raw::RawRows;
use super::super::source::{self, Source};
use super::super::volume::VolumeSource;
use super::super::{FormatError, OpenOptions, Place};
use super::fields::Fields;
use super::header::{Encoding, Header, Skip};

/// Where a data file is looked for.
pub(in super::super) enum Beside<'a> {
    /// There are no files, only the bytes at hand.
    Nothing,
    /// In the directory of this header.
    Header(&'a Path),
}

/// Opens a NRRD whose header begins where the source does.
pub(in super::super) fn open<S: Source + 'static>(
    name: &str,
    mut source: S,
    beside: Beside<'_>,
    options: &OpenOptions,
) -> Result<VolumeSource, FormatError> {
    let fields = Fields::read(name, &mut source)?;
    let header = Header::new(name, &fields)?;
    match (&header.data_file, beside) {
        (None, _) => data(name, source, &header, options),
        (Some(file), Beside::Header(path)) => {
            let path = data_path(name, path, file, options)?;
            let data_name = path.display().to_string();
            let opened = File::open(&path).map_err(|source| FormatError::Io {
                name: data_name.clone(),
                action: "open the data file",
                source,
            })?;
            data(&data_name, BufReader::new(opened), &header, options)
        }
        (Some(file), Beside::Nothing) => {
            let what = format!("the data is in another file, {file:?}");
            Err(FormatError::unsupported(name, what, "open the header by its path"))
        }
    }
}

/// The path of a data file. A header must not reach into other directories by itself.
fn data_path(
    name: &str,
    header: &Path,
    file: &str,
    options: &OpenOptions,
) -> Result<PathBuf, FormatError> {
    if file.starts_with("LIST") || file.contains('%') {
        let what = format!("the data is in many files ({file:?})");
        return Err(FormatError::unsupported(name, what, "put it into one file"));
    }
    let path = Path::new(file);
    let inside =
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !inside && !options.data_anywhere {
        let what = format!("the data file {file:?} is not in the directory of the header");
        let advice = "move it there, or allow data files anywhere if you trust the header";
        return Err(FormatError::unsupported(name, what, advice));
    }
    Ok(header.parent().unwrap_or(Path::new("")).join(path))
}

/// Finds the first pixel after what is to be skipped.
fn data<S: Source + 'static>(
    name: &str,
    mut source: S,
    header: &Header,
    options: &OpenOptions,
) -> Result<VolumeSource, FormatError> {
    let frame = header.layout.frame(name, options.memory_bytes)?;
    let failed = |error| FormatError::reading(name, Place::Header, error);
    for _ in 0..header.skip_lines {
        if source.skip_until(b'\n').map_err(failed)? == 0 {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    let conversion = Conversion::plain(header.layout.pixel.number(), header.layout.order);
    let (size, spacing) = (header.layout.size, header.spacing);
    if header.encoding == Encoding::Gzip {
        let mut stream = BufReader::new(MultiGzDecoder::new(source));
        if let Skip::Bytes(bytes) = header.skip {
            skip(&mut stream, bytes).map_err(failed)?;
        }
        return Ok(VolumeSource::new(RawRows::over(frame, stream, conversion), size, spacing));
    }
    let end = source::length(&mut source).map_err(failed)?;
    let start = match header.skip {
        Skip::Bytes(bytes) => source.stream_position().map_err(failed)?.saturating_add(bytes),
        Skip::ToEnd => end.saturating_sub(header.layout.data_bytes()),
    };
    header.layout.check_enough(name, start, end)?;
    source.seek(SeekFrom::Start(start)).map_err(failed)?;
    Ok(VolumeSource::new(RawRows::over(frame, source, conversion), size, spacing))
}

fn skip<R: BufRead>(stream: &mut R, bytes: u64) -> io::Result<()> {
    match io::copy(&mut stream.take(bytes), &mut io::sink())? {
        skipped if skipped == bytes => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
