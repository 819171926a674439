//! The header of one slice.

use std::error::Error;
use std::path::{Path, PathBuf};

use dicom_object::{DefaultDicomObject, OpenFileOptions, Tag};

use super::super::numbers::Rescaling;
use super::super::{FileNumber, FilePixel, FilePosition, FormatError};

/// The element that holds the pixels.
pub(super) const PIXEL_DATA: Tag = Tag(0x7FE0, 0x0010);

/// Transfer syntaxes without compression: implicit and explicit little-endian, and big-endian.
const PLAIN_SYNTAXES: [&str; 3] =
    ["1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2"];

const DECOMPRESS: &str = "decompress the series first, such as with `gdcmconv --raw IN OUT` or \
                          `dcmdjpeg IN OUT`";

/// One slice without its pixels.
#[derive(Clone, Debug)]
pub(super) struct SliceHeader {
    pub path: PathBuf,
    pub series: String,
    /// Modality and description of the series, for messages.
    pub about: String,
    /// Columns and rows.
    pub size: (u64, u64),
    pub pixel: FilePixel,
    pub bits_stored: u32,
    /// Whether each channel has a plane of its own.
    pub is_planar: bool,
    /// Whether small values are shown white.
    pub is_inverted: bool,
    pub position: Option<[f64; 3]>,
    /// The directions along a row and down a column.
    pub directions: Option<[[f64; 3]; 2]>,
    pub instance: Option<i64>,
    /// The distance of columns and of rows.
    pub spacing: [f64; 2],
    /// The distance to the next slice, as far as one slice states it.
    pub depth: Option<f64>,
    pub scaling: Rescaling,
    /// Whether its rescaled values are Hounsfield units.
    pub is_hounsfield: bool,
}

impl SliceHeader {
    /// Reads the header of a file; `None` if it has no pixels.
    pub fn read(path: &Path) -> Result<Option<SliceHeader>, FormatError> {
        let name = path.display().to_string();
        let object = OpenFileOptions::new()
            .read_until(PIXEL_DATA)
            .open_file(path)
            .map_err(|error| damaged(&name, &error))?;
        let fields = Fields { name: &name, object: &object };
        let (Some(rows), Some(columns)) =
            (fields.whole(0x0028, 0x0010)?, fields.whole(0x0028, 0x0011)?)
        else {
            return Ok(None);
        };
        let syntax = object.meta().transfer_syntax().trim_end_matches(['\0', ' ']);
        if !PLAIN_SYNTAXES.contains(&syntax) {
            let what = format!("its pixels are compressed (transfer syntax {syntax})");
            return Err(FormatError::unsupported(&name, what, DECOMPRESS));
        }
        if fields.whole(0x0028, 0x0008)?.unwrap_or(1) > 1 {
            let what = "it has several frames, not one slice";
            let advice = "convert it to one file for each slice, or to NIfTI with `dcm2niix`";
            return Err(FormatError::unsupported(&name, what, advice));
        }
        let (pixel, bits_stored) = fields.pixel()?;
        let photometric = fields.text(0x0028, 0x0004)?.unwrap_or_default();
        if !matches!(photometric.as_str(), "MONOCHROME1" | "MONOCHROME2" | "RGB") {
            let what = format!("its colours are {photometric:?}");
            let advice = "convert it to MONOCHROME2 or RGB";
            return Err(FormatError::unsupported(&name, what, advice));
        }
        let side = |side: i64| u64::try_from(side).unwrap_or(0);
        let modality = fields.text(0x0008, 0x0060)?;
        // The unit of the rescaled values. A CT without this field has Hounsfield units.
        let rescale_type = fields.text(0x0028, 0x1054)?;
        let is_hounsfield = modality.as_deref() == Some("CT")
            && photometric != "RGB"
            && rescale_type.is_none_or(|kind| kind == "HU");
        let about = [modality, fields.text(0x0008, 0x103E)?];
        let about: Vec<String> = about.into_iter().flatten().collect();
        let triple = |numbers: &[f64]| [numbers[0], numbers[1], numbers[2]];
        let directions = fields.numbers(0x0020, 0x0037, 6)?;
        let spacing = fields.numbers(0x0028, 0x0030, 2)?;
        let depth = match fields.number(0x0018, 0x0088)? {
            Some(depth) => Some(depth),
            None => fields.number(0x0018, 0x0050)?,
        };
        Ok(Some(SliceHeader {
            path: path.to_owned(),
            series: fields.text(0x0020, 0x000E)?.unwrap_or_default(),
            about: about.join(" "),
            size: (side(columns), side(rows)),
            pixel,
            bits_stored,
            is_planar: fields.whole(0x0028, 0x0006)? == Some(1),
            is_inverted: photometric == "MONOCHROME1",
            position: fields.numbers(0x0020, 0x0032, 3)?.map(|numbers| triple(&numbers)),
            directions: directions.map(|numbers| [triple(&numbers[..3]), triple(&numbers[3..])]),
            instance: fields.whole(0x0020, 0x0013)?,
            // The header states the distance of rows first.
            spacing: spacing.map_or([1.0; 2], |numbers| [length(numbers[1]), length(numbers[0])]),
            depth: depth.filter(|depth| depth.is_normal()).map(f64::abs),
            scaling: Rescaling {
                slope: fields.number(0x0028, 0x1053)?.unwrap_or(1.0),
                intercept: fields.number(0x0028, 0x1052)?.unwrap_or(0.0),
            },
            is_hounsfield,
        }))
    }

    /// Returns the path of its file.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns the name of its file without directories.
    pub fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().display().to_string()
    }

    /// Returns the range of values that its stored bits allow.
    pub fn range(&self) -> [f64; 2] {
        let bits = i32::try_from(self.bits_stored).unwrap_or(i32::MAX);
        match self.pixel.number() {
            FileNumber::I8 | FileNumber::I16 | FileNumber::I32 => {
                let half = 2f64.powi(bits - 1);
                [-half, half - 1.0]
            }
            _ => [0.0, 2f64.powi(bits) - 1.0],
        }
    }
}

/// Returns a length, or 1 if the header does not state a valid one.
fn length(length: f64) -> f64 {
    if length.is_normal() { length.abs() } else { 1.0 }
}

/// The fields of a header, by group and element.
struct Fields<'a> {
    name: &'a str,
    object: &'a DefaultDicomObject,
}

impl Fields<'_> {
    fn text(&self, group: u16, element: u16) -> Result<Option<String>, FormatError> {
        let Some(field) = self.object.get(Tag(group, element)) else { return Ok(None) };
        let text = field.to_str().map_err(|error| self.wrong((group, element), &error))?;
        let text = text.trim_matches(['\0', ' ']).to_owned();
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn whole(&self, group: u16, element: u16) -> Result<Option<i64>, FormatError> {
        // A field may be present without a value.
        if self.text(group, element)?.is_none() {
            return Ok(None);
        }
        let Some(field) = self.object.get(Tag(group, element)) else { return Ok(None) };
        field.to_int().map(Some).map_err(|error| self.wrong((group, element), &error))
    }

    fn number(&self, group: u16, element: u16) -> Result<Option<f64>, FormatError> {
        if self.text(group, element)?.is_none() {
            return Ok(None);
        }
        let Some(field) = self.object.get(Tag(group, element)) else { return Ok(None) };
        let number: Result<f64, _> = field.to_float64();
        let number = number.map_err(|error| self.wrong((group, element), &error))?;
        match number.is_finite() {
            true => Ok(Some(number)),
            false => Err(self.wrong((group, element), &"it is not finite")),
        }
    }

    fn numbers(
        &self,
        group: u16,
        element: u16,
        count: usize,
    ) -> Result<Option<Vec<f64>>, FormatError> {
        if self.text(group, element)?.is_none() {
            return Ok(None);
        }
        let Some(field) = self.object.get(Tag(group, element)) else { return Ok(None) };
        let numbers =
            field.to_multi_float64().map_err(|error| self.wrong((group, element), &error))?;
        match numbers.len() == count && numbers.iter().all(|number| number.is_finite()) {
            true => Ok(Some(numbers)),
            false => {
                let why = format!("{numbers:?} are not {count} numbers");
                Err(self.wrong((group, element), &why))
            }
        }
    }

    /// Returns the pixel of the file, and how many bits of each number count.
    fn pixel(&self) -> Result<(FilePixel, u32), FormatError> {
        let allocated = self.whole(0x0028, 0x0100)?.unwrap_or(16);
        let stored = self.whole(0x0028, 0x0101)?.unwrap_or(allocated);
        let high = self.whole(0x0028, 0x0102)?.unwrap_or(stored - 1);
        let is_signed = self.whole(0x0028, 0x0103)?.unwrap_or(0) == 1;
        let channels = self.whole(0x0028, 0x0002)?.unwrap_or(1);
        let number = match (allocated, is_signed) {
            (8, false) => Some(FileNumber::U8),
            (8, true) => Some(FileNumber::I8),
            (16, false) => Some(FileNumber::U16),
            (16, true) => Some(FileNumber::I16),
            (32, false) => Some(FileNumber::U32),
            (32, true) => Some(FileNumber::I32),
            _ => None,
        };
        let fits = (1..=allocated).contains(&stored) && high == stored - 1;
        let channels = u32::try_from(channels).unwrap_or(u32::MAX);
        let pixel =
            number.filter(|_| fits).and_then(|number| FilePixel::new(number, channels).ok());
        let pixel = pixel.ok_or_else(|| {
            let what = format!(
                "its pixels have {channels} channels of {allocated} bits, of which {stored} up to \
                 bit {high} count"
            );
            let advice = "convert it to 1 or 3 channels of 8, 16 or 32 bits, the lowest of which \
                          count";
            FormatError::unsupported(self.name, what, advice)
        })?;
        Ok((pixel, u32::try_from(stored).unwrap_or(0)))
    }

    fn wrong(
        &self,
        (group, element): (u16, u16),
        why: &(impl std::fmt::Display + ?Sized),
    ) -> FormatError {
        let what = format!("the field ({group:04X},{element:04X}) cannot be read: {why}");
        FormatError::damaged(self.name, FilePosition::Header, what)
    }
}

/// Returns the error of the library with its causes.
pub(super) fn damaged(name: &str, error: &dyn Error) -> FormatError {
    let mut what = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        what = format!("{what}: {error}");
        cause = error.source();
    }
    FormatError::damaged(name, FilePosition::Header, what)
}
