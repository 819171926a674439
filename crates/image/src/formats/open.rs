//! Which format a file has.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::Path;

use super::nrrd::{self, Beside};
use super::source::Source;
use super::volume::VolumeSource;
use super::{FormatError, JpegRows, NiftiSink, NpySink, NrrdSink, OpenOptions, Output, Place};
use super::{
    PngRows, PngSink, PnmKind, PnmRows, PnmSink, RawSink, RowSink, Rows, TiffRows, TiffSink,
};
use super::{dicom, jpeg, nifti, npy, png, pnm, tiff};
use crate::Pixel;

/// So many bytes tell the format.
const HEAD_BYTES: usize = 8;

const READ_ADVICE: &str = "PNG, JPEG, TIFF, PNM, PAM, PFM, NRRD and npy can be read, and raw \
                           pixels whose size and pixel you name";
const WRITE_ADVICE: &str =
    "end the name with .png, .tif, .tiff, .pgm, .ppm, .pnm, .pam, .pfm, .nrrd or .raw";

const WRITE_VOLUME_ADVICE: &str = "end the name with .nrrd, .nii, .npy or .raw";

/// Opens a picture. Its format is seen from its content; if that tells nothing, the name serves to
/// say what was expected.
pub fn open_picture(path: &Path, options: &OpenOptions) -> Result<Box<dyn Rows>, FormatError> {
    let name = path.display().to_string();
    if dicom::is_dicom(path) {
        return plane(&name, dicom::open(&name, &[path.to_owned()], 0, options)?);
    }
    let mut source = buffered(path)?;
    if nrrd::is_nrrd(&head_of(&name, &mut source)?) {
        return plane(&name, nrrd::open(&name, source, Beside::Header(path), options)?);
    }
    read_picture(&name, source, options)
}

/// Reads a picture from bytes: what they are is seen from their beginning.
pub fn read_picture<S: Source + 'static>(
    name: &str,
    mut source: S,
    options: &OpenOptions,
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
        Box::new(npy::open(name, source, npy::Wanted::Picture, options)?.0)
    } else if pnm::is_pnm(&head) {
        Box::new(PnmRows::open(name, source, options)?)
    } else if nrrd::is_nrrd(&head) {
        return plane(name, nrrd::open(name, source, Beside::Nothing, options)?);
    } else if let Some(format) = extension_format(name) {
        let what = format!("it does not begin as {format} does");
        return Err(FormatError::damaged(name, Place::Byte(0), what));
    } else {
        return Err(FormatError::unsupported(name, "it is no picture that is known", READ_ADVICE));
    })
}

/// Makes a picture file; the format is that of the name's ending. What was there is replaced, unless
/// the format cannot hold such a picture.
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

/// Makes a volume file, NRRD, NIfTI, npy or raw by the name's ending, of which the rows are put plane after
/// plane. What was there is replaced, unless there can be no such volume.
pub fn create_volume(
    path: &Path,
    size: [u64; 3],
    spacing: [f64; 3],
    pixel: Pixel,
) -> Result<Box<dyn RowSink>, FormatError> {
    create_volume_as(path, &path.display().to_string(), size, spacing, pixel)
}

/// The same for a file that will have another name when it is whole: its ending and errors are those
/// of that name.
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

fn picture_sink<W: Output + 'static>(
    name: &str,
    output: W,
    size: (u64, u64),
    pixel: Pixel,
) -> Result<Box<dyn RowSink>, FormatError> {
    let kind = match extension(name).as_str() {
        "png" => return Ok(Box::new(PngSink::new(name, output, size, pixel)?)),
        "tif" | "tiff" => return Ok(Box::new(TiffSink::new(name, output, size, pixel)?)),
        "pgm" => PnmKind::Pgm,
        "ppm" => PnmKind::Ppm,
        "pam" => PnmKind::Pam,
        "pfm" => PnmKind::Pfm,
        "pnm" => PnmKind::of(pixel),
        _ => return plain_sink(name, output, [size.0, size.1, 1], [1.0; 3], pixel, WRITE_ADVICE),
    };
    Ok(Box::new(PnmSink::new(name, output, kind, size, pixel)?))
}

fn volume_sink<W: Output + 'static>(
    name: &str,
    output: W,
    size: [u64; 3],
    spacing: [f64; 3],
    pixel: Pixel,
) -> Result<Box<dyn RowSink>, FormatError> {
    match extension(name).as_str() {
        "nii" => Ok(Box::new(NiftiSink::new(name, output, size, spacing, pixel)?)),
        "npy" => Ok(Box::new(NpySink::new(name, output, size, pixel)?)),
        _ => plain_sink(name, output, size, spacing, pixel, WRITE_VOLUME_ADVICE),
    }
}

/// What can hold a picture as well as a volume.
fn plain_sink<W: Output + 'static>(
    name: &str,
    output: W,
    size: [u64; 3],
    spacing: [f64; 3],
    pixel: Pixel,
    advice: &'static str,
) -> Result<Box<dyn RowSink>, FormatError> {
    match extension(name).as_str() {
        "nrrd" => Ok(Box::new(NrrdSink::new(name, output, size, spacing, pixel)?)),
        "raw" => {
            let rows = size[1].saturating_mul(size[2]);
            Ok(Box::new(RawSink::new(name, output, (size[0], rows), pixel)?))
        }
        ending => {
            let what = format!("no format has names that end with {ending:?}");
            Err(FormatError::unsupported(name, what, advice))
        }
    }
}

/// A volume that is a picture.
fn plane(name: &str, volume: VolumeSource) -> Result<Box<dyn Rows>, FormatError> {
    match volume.size() {
        [_, _, 1] => Ok(volume.into_rows()),
        [width, height, depth] => {
            let what = format!("it is a volume of {width} x {height} x {depth}, not a picture");
            Err(FormatError::unsupported(name, what, "open it as a volume"))
        }
    }
}

/// The first bytes of a source, which stays at its beginning.
pub(super) fn head_of<S: Source>(name: &str, source: &mut S) -> Result<Vec<u8>, FormatError> {
    let mut head = [0; HEAD_BYTES];
    let failed = |error| FormatError::reading(name, Place::Byte(0), error);
    let mut bytes = 0;
    while bytes < HEAD_BYTES {
        match source.read(&mut head[bytes..]).map_err(failed)? {
            0 => break,
            more => bytes += more,
        }
    }
    source.rewind().map_err(failed)?;
    if bytes == 0 {
        return Err(FormatError::damaged(name, Place::Byte(0), "the file is empty"));
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

/// The ending of a name, in lower case.
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
