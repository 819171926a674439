//! Reads a NRRD: the header, and the data in the same file or in another one.

use std::fs::File;
use std::io::{self, BufReader, SeekFrom};
use std::path::{Component, Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::super::byte_io::{self, ByteSource};
use super::super::numbers::Conversion;
use super::super::raw::RawRows;
use super::super::volume::VolumeSource;
use super::super::{FilePosition, FormatError, FormatOptions};
use super::fields::Fields;
use super::header::{Encoding, Header, Skip};

/// The location of a header, which is where its data file is looked up.
pub(in super::super) enum HeaderLocation<'a> {
    /// The header is not a file: there are no other files.
    InMemory,
    /// The header is the file with this path, and its data file is in the same directory.
    File(&'a Path),
}

/// Opens a NRRD whose header starts where the source does.
pub(in super::super) fn open<S: ByteSource + 'static>(
    name: &str,
    mut source: S,
    location: HeaderLocation<'_>,
    options: &FormatOptions,
) -> Result<VolumeSource, FormatError> {
    let fields = Fields::read(name, &mut source)?;
    let header = Header::new(name, &fields)?;
    match (&header.data_file, location) {
        (None, _) => data(name, source, &header, options),
        (Some(file), HeaderLocation::File(path)) => {
            let path = data_path(name, path, file, options)?;
            let data_name = path.display().to_string();
            let opened = File::open(&path).map_err(|source| FormatError::Io {
                name: data_name.clone(),
                action: "open the data file",
                source,
            })?;
            data(&data_name, BufReader::new(opened), &header, options)
        }
        (Some(file), HeaderLocation::InMemory) => {
            let what = format!("the data is in another file, {file:?}");
            Err(FormatError::unsupported(name, what, "open the header by its path"))
        }
    }
}

/// Returns the path of a data file. A header must not name files in other directories unless the
/// options allow it.
fn data_path(
    name: &str,
    header: &Path,
    file: &str,
    options: &FormatOptions,
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

/// Skips to the first pixel.
fn data<S: ByteSource + 'static>(
    name: &str,
    mut source: S,
    header: &Header,
    options: &FormatOptions,
) -> Result<VolumeSource, FormatError> {
    let raster = header.layout.raster(name, options.memory_bytes)?;
    let failed = |error| FormatError::reading(name, FilePosition::Header, error);
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
            byte_io::skip(&mut stream, bytes).map_err(failed)?;
        }
        return Ok(VolumeSource::new(
            RawRows::from_stream(raster, stream, conversion),
            size,
            spacing,
        ));
    }
    let end = byte_io::length(&mut source).map_err(failed)?;
    let start = match header.skip {
        Skip::Bytes(bytes) => source.stream_position().map_err(failed)?.saturating_add(bytes),
        Skip::ToEnd => end.saturating_sub(header.layout.data_bytes()),
    };
    header.layout.check_enough(name, start, end)?;
    source.seek(SeekFrom::Start(start)).map_err(failed)?;
    Ok(VolumeSource::new(RawRows::from_stream(raster, source, conversion), size, spacing))
}
