//! Detects and chooses the format of a file.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::Path;

use super::byte_io::ByteSource;
use super::nrrd::{self, HeaderLocation};
use super::volume::VolumeSource;
use super::{
    ByteSink, FilePosition, FormatError, FormatOptions, JpegRows, nifti_sink, npy_sink, nrrd_sink,
};
use super::{
    PngRows, PngSink, PnmKind, PnmRows, PnmSink, RawSink, RowSink, Rows, TiffRows, tiff_sink,
};
use super::{dicom, jpeg, nifti, npy, png, pnm, tiff};
use crate::Pixel;

/// Bytes that identify the format.
const HEAD_BYTES: usize = 8;

const READ_ADVICE: &str = "PNG, JPEG, TIFF, PNM, PAM, PFM, NRRD and npy can be read; raw \
                           pixels need a description (`--raw`)";
const WRITE_ADVICE: &str =
    "end the name with .png, .tif, .tiff, .pgm, .ppm, .pnm, .pam, .pfm, .nrrd or .raw";

const WRITE_VOLUME_ADVICE: &str = "end the name with .nrrd, .nii, .npy or .raw";

/// Opens a picture. Its content identifies the format; if it does not, the error names the format
/// that the file name suggests.
pub fn open_picture(path: &Path, options: &FormatOptions) -> Result<Box<dyn Rows>, FormatError> {
    let name = path.display().to_string();
    if dicom::is_dicom(path) {
        return plane(&name, dicom::open(&name, &[path.to_owned()], 0, options)?);
    }
    let mut source = buffered(path)?;
    if nrrd::is_nrrd(&head_of(&name, &mut source)?) {
        return plane(&name, nrrd::open(&name, source, HeaderLocation::File(path), options)?);
    }
    read_picture(&name, source, options)
}

/// Opens a picture from a source of bytes, whose start identifies the format.
pub fn read_picture<S: ByteSource + 'static>(
    name: &str,
    mut source: S,
    options: &FormatOptions,
) -> Result<Box<dyn Rows>, FormatError> {
    let head = head_of(name, &mut source)?;
    Ok(if png::is_png(&head) {
        Box::new(PngRows::open(name, source, options)?)
    } else if tiff::is_tiff(&head) {
        let places = tiff::pages(name, &mut source)?;
        if places.len() > 1 {
            let what = format!("it is a TIFF of {} pages, not a picture", places.len());
            let advice = "import it as a volume with `pario volume import`, or split it into one \
                          file for each page";
            return Err(FormatError::unsupported(name, what, advice));
        }
        let place = places.first().copied();
        Box::new(TiffRows::page(name, source, place, options)?)
    } else if jpeg::is_jpeg(&head) {
        Box::new(JpegRows::open(name, source, options)?)
    } else if nifti::is_nifti(&head) {
        return plane(name, nifti::open(name, source, &head, options)?);
    } else if npy::is_npy(&head) {
        Box::new(npy::open(name, source, npy::ArrayKind::Picture, options)?.0)
    } else if pnm::is_pnm(&head) {
        Box::new(PnmRows::open(name, source, options)?)
    } else if nrrd::is_nrrd(&head) {
        return plane(name, nrrd::open(name, source, HeaderLocation::InMemory, options)?);
    } else if let Some(format) = extension_format(name) {
        let what = format!("it does not begin as {format} does");
        return Err(FormatError::damaged(name, FilePosition::Byte(0), what));
    } else {
        return Err(FormatError::unsupported(name, "its format is not known", READ_ADVICE));
    })
}

/// Creates a picture file in the format of its extension. Replaces an existing file, unless the
/// format cannot hold the picture.
pub fn create_picture(
    path: &Path,
    width: u64,
    height: u64,
    pixel: Pixel,
) -> Result<Box<dyn RowSink>, FormatError> {
    let (name, size) = (path.display().to_string(), (width, height));
    picture_sink(&name, io::empty(), size, pixel)?;
    picture_sink(&name, created(path)?, size, pixel)
}

/// Creates a volume file, NRRD, NIfTI, npy or raw by its extension. The caller writes rows plane
/// after plane. Replaces an existing file, unless the format cannot hold the volume.
pub fn create_volume(
    path: &Path,
    size: [u64; 3],
    spacing: [f64; 3],
    pixel: Pixel,
) -> Result<Box<dyn RowSink>, FormatError> {
    create_volume_as(path, &path.display().to_string(), size, spacing, pixel)
}

/// Creates a volume file that gets the name `name` later: extension and errors are those of that
/// name.
pub fn create_volume_as(
    path: &Path,
    name: &str,
    size: [u64; 3],
    spacing: [f64; 3],
    pixel: Pixel,
) -> Result<Box<dyn RowSink>, FormatError> {
    volume_sink(name, io::empty(), size, spacing, pixel)?;
    volume_sink(name, created(path)?, size, spacing, pixel)
}

fn picture_sink<W: ByteSink + 'static>(
    name: &str,
    output: W,
    size: (u64, u64),
    pixel: Pixel,
) -> Result<Box<dyn RowSink>, FormatError> {
    let kind = match extension(name).as_str() {
        "png" => return Ok(Box::new(PngSink::new(name, output, size, pixel)?)),
        "tif" | "tiff" => return Ok(Box::new(tiff_sink(name, output, size, pixel)?)),
        "pgm" => PnmKind::Pgm,
        "ppm" => PnmKind::Ppm,
        "pam" => PnmKind::Pam,
        "pfm" => PnmKind::Pfm,
        "pnm" => PnmKind::of(pixel),
        _ => return plain_sink(name, output, [size.0, size.1, 1], [1.0; 3], pixel, WRITE_ADVICE),
    };
    Ok(Box::new(PnmSink::new(name, output, kind, size, pixel)?))
}

fn volume_sink<W: ByteSink + 'static>(
    name: &str,
    output: W,
    size: [u64; 3],
    spacing: [f64; 3],
    pixel: Pixel,
) -> Result<Box<dyn RowSink>, FormatError> {
    match extension(name).as_str() {
        "nii" => Ok(Box::new(nifti_sink(name, output, size, spacing, pixel)?)),
        "npy" => Ok(Box::new(npy_sink(name, output, size, pixel)?)),
        _ => plain_sink(name, output, size, spacing, pixel, WRITE_VOLUME_ADVICE),
    }
}

/// Creates a sink of a format for pictures and volumes.
fn plain_sink<W: ByteSink + 'static>(
    name: &str,
    output: W,
    size: [u64; 3],
    spacing: [f64; 3],
    pixel: Pixel,
    advice: &'static str,
) -> Result<Box<dyn RowSink>, FormatError> {
    match extension(name).as_str() {
        "nrrd" => Ok(Box::new(nrrd_sink(name, output, size, spacing, pixel)?)),
        "raw" => {
            let rows = size[1].saturating_mul(size[2]);
            Ok(Box::new(RawSink::new(name, output, (size[0], rows), pixel)?))
        }
        ending => {
            let what = format!("no format has the extension {ending:?}");
            Err(FormatError::unsupported(name, what, advice))
        }
    }
}

/// Returns the rows of a volume that has one plane.
fn plane(name: &str, volume: VolumeSource) -> Result<Box<dyn Rows>, FormatError> {
    match volume.size() {
        [_, _, 1] => Ok(volume.into_rows()),
        [width, height, depth] => {
            let what = format!("it is a volume of {width} x {height} x {depth}, not a picture");
            Err(FormatError::unsupported(name, what, "open it as a volume"))
        }
    }
}

/// Reads the first bytes of a source and rewinds it.
pub(super) fn head_of<S: ByteSource>(name: &str, source: &mut S) -> Result<Vec<u8>, FormatError> {
    let mut head = [0; HEAD_BYTES];
    let failed = |error| FormatError::reading(name, FilePosition::Byte(0), error);
    let mut bytes = 0;
    while bytes < HEAD_BYTES {
        match source.read(&mut head[bytes..]).map_err(failed)? {
            0 => break,
            more => bytes += more,
        }
    }
    source.rewind().map_err(failed)?;
    if bytes == 0 {
        return Err(FormatError::damaged(name, FilePosition::Byte(0), "the file is empty"));
    }
    Ok(head[..bytes].to_vec())
}

pub(super) fn buffered(path: &Path) -> Result<BufReader<File>, FormatError> {
    let failed =
        |source| FormatError::Io { name: path.display().to_string(), action: "open", source };
    File::open(path).map(BufReader::new).map_err(failed)
}

fn created(path: &Path) -> Result<BufWriter<File>, FormatError> {
    let failed =
        |source| FormatError::Io { name: path.display().to_string(), action: "create", source };
    File::create(path).map(BufWriter::new).map_err(failed)
}

/// Returns the extension of a name in lower case.
fn extension(name: &str) -> String {
    let ending = Path::new(name).extension().unwrap_or_default();
    ending.to_string_lossy().to_lowercase()
}

fn extension_format(name: &str) -> Option<&'static str> {
    match extension(name).as_str() {
        "png" => Some("PNG"),
        "tif" | "tiff" => Some("TIFF"),
        "pbm" | "pgm" | "ppm" | "pnm" | "pam" | "pfm" => Some("PNM, PAM or PFM"),
        "nrrd" | "nhdr" => Some("NRRD"),
        "jpg" | "jpeg" => Some("JPEG"),
        "nii" => Some("NIfTI"),
        "dcm" => Some("DICOM"),
        "npy" => Some("an array of NumPy"),
        _ => None,
    }
}
