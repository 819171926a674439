//! The meaning of the fields of a NRRD header.

use super::super::{ByteOrder, FileNumber, FilePixel, FormatError, RawLayout};
use super::fields::Fields;

/// The encoding of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Raw,
    Gzip,
}

/// The start of the pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    /// After this number of bytes.
    Bytes(u64),
    /// So that the pixels end with the file.
    ToEnd,
}

/// A decoded header.
#[derive(Debug)]
pub(super) struct Header {
    /// Size, pixel and byte order; its `skip_bytes` is 0.
    pub layout: RawLayout,
    pub spacing: [f64; 3],
    pub encoding: Encoding,
    /// Lines of the data file before the data.
    pub skip_lines: u64,
    /// Bytes after these lines, after decompression.
    pub skip: Skip,
    pub data_file: Option<String>,
}

impl Header {
    pub fn new(name: &str, fields: &Fields) -> Result<Header, FormatError> {
        let number = number(name, fields)?;
        let axes = NrrdAxes::new(name, fields, number)?;
        let order = match (number, fields.get("endian")) {
            (FileNumber::U8 | FileNumber::I8, _) | (_, Some("little")) => ByteOrder::Little,
            (_, Some("big")) => ByteOrder::Big,
            (_, None) => return Err(fields.damaged("the field \"endian\" is missing".to_owned())),
            (_, Some(other)) => {
                let what = format!("the field \"endian\" is {other:?}, not little or big");
                return Err(fields.damaged(what));
            }
        };
        let encoding = match fields.required("encoding")? {
            "raw" => Encoding::Raw,
            "gzip" | "gz" => Encoding::Gzip,
            other => {
                let what = format!("NRRD with encoding {other:?} cannot be read");
                return Err(FormatError::unsupported(name, what, "convert it to raw or gzip"));
            }
        };
        let line_skip = u64::try_from(fields.number("lineskip", 0)?);
        let skip_lines = line_skip
            .map_err(|_| fields.damaged("the field \"line skip\" is less than 0".to_owned()))?;
        let skip = match (u64::try_from(fields.number("byteskip", 0)?), encoding) {
            (Ok(bytes), _) => Skip::Bytes(bytes),
            (Err(_), Encoding::Raw) => Skip::ToEnd,
            (Err(_), Encoding::Gzip) => {
                let what = "the field \"byte skip\" is less than 0, which gzip does not allow";
                return Err(fields.damaged(what.to_owned()));
            }
        };
        Ok(Header {
            layout: RawLayout { size: axes.size, pixel: axes.pixel, order, skip_bytes: 0 },
            spacing: axes.spacing,
            encoding,
            skip_lines,
            skip,
            data_file: fields.get("datafile").map(str::to_owned),
        })
    }
}

fn number(name: &str, fields: &Fields) -> Result<FileNumber, FormatError> {
    Ok(match fields.required("type")? {
        "uchar" | "unsigned char" | "uint8" | "uint8_t" => FileNumber::U8,
        "signed char" | "int8" | "int8_t" => FileNumber::I8,
        "ushort" | "unsigned short" | "unsigned short int" | "uint16" | "uint16_t" => {
            FileNumber::U16
        }
        "short" | "short int" | "signed short" | "signed short int" | "int16" | "int16_t" => {
            FileNumber::I16
        }
        "uint" | "unsigned int" | "uint32" | "uint32_t" => FileNumber::U32,
        "int" | "signed int" | "int32" | "int32_t" => FileNumber::I32,
        "ulonglong" | "unsigned long long" | "unsigned long long int" | "uint64" | "uint64_t" => {
            FileNumber::U64
        }
        "longlong"
        | "long long"
        | "long long int"
        | "signed long long"
        | "signed long long int"
        | "int64"
        | "int64_t" => FileNumber::I64,
        "float" => FileNumber::F32,
        "double" => FileNumber::F64,
        other => {
            let what = format!("NRRD with samples of type {other:?} cannot be read");
            let advice = "convert it to whole numbers of 8 to 64 bits, float or double";
            return Err(FormatError::unsupported(name, what, advice));
        }
    })
}

/// Size, spacing and pixel, decoded from the axes.
struct NrrdAxes {
    size: [u64; 3],
    spacing: [f64; 3],
    pixel: FilePixel,
}

impl NrrdAxes {
    fn new(name: &str, fields: &Fields, number: FileNumber) -> Result<NrrdAxes, FormatError> {
        let count = match fields.number("dimension", 0)? {
            2 => 2,
            3 => 3,
            4 => 4,
            other => {
                let what = format!("NRRD with {other} axes cannot be read");
                let advice = "2 axes are a picture, 3 a volume, one more in front the channels";
                return Err(FormatError::unsupported(name, what, advice));
            }
        };
        let Some(words) = fields.words("sizes", count)? else {
            return Err(fields.damaged("the field \"sizes\" is missing".to_owned()));
        };
        let mut sizes = Vec::with_capacity(count);
        for word in &words {
            let what = || fields.damaged(format!("the size {word:?} is not a number"));
            sizes.push(word.parse::<u64>().map_err(|_| what())?);
        }
        let mut spacing = spacings(fields, count)?;
        let channels = match has_channels(fields, &sizes, &spacing)? {
            false => 1,
            true => {
                spacing.remove(0);
                sizes.remove(0)
            }
        };
        let pixel = FilePixel::new(number, u32::try_from(channels).unwrap_or(u32::MAX));
        let pixel = pixel.map_err(|error| {
            let advice = "cut the first axis, which is the channels, to 1 to 4";
            FormatError::unsupported(name, error.to_string(), advice)
        })?;
        let mut axes = NrrdAxes { size: [1; 3], spacing: [1.0; 3], pixel };
        for (axis, (size, spacing)) in sizes.into_iter().zip(spacing).enumerate() {
            axes.size[axis] = size;
            axes.spacing[axis] = spacing.unwrap_or(1.0);
        }
        Ok(axes)
    }
}

/// Returns whether the first axis is the channels. With four axes it is. With three it is if the
/// header says so, or if it has at most four entries and the header does not call it a spatial
/// axis.
fn has_channels(
    fields: &Fields,
    sizes: &[u64],
    spacing: &[Option<f64>],
) -> Result<bool, FormatError> {
    if sizes.len() != 3 {
        return Ok(sizes.len() == 4);
    }
    if let Some(kinds) = fields.words("kinds", sizes.len())? {
        match kinds[0].as_str() {
            "domain" | "space" => return Ok(false),
            "???" | "none" => {}
            _ => return Ok(true),
        }
    }
    Ok(match (spacing[0], spacing[1]) {
        (None, Some(_)) => true,
        (Some(_), _) if fields.get("spacedirections").is_some() => false,
        _ => sizes[0] <= 4,
    })
}

/// Returns the distance of neighbours on each axis, if the header states it.
fn spacings(fields: &Fields, count: usize) -> Result<Vec<Option<f64>>, FormatError> {
    let (words, field) = match fields.words("spacedirections", count)? {
        Some(words) => (words, "space directions"),
        None => match fields.words("spacings", count)? {
            Some(words) => (words, "spacings"),
            None => return Ok(vec![None; count]),
        },
    };
    words
        .iter()
        .map(|word| {
            if word == "none" || word.eq_ignore_ascii_case("nan") {
                return Ok(None);
            }
            let length = match word.strip_prefix('(').and_then(|word| word.strip_suffix(')')) {
                None => word.parse::<f64>().ok(),
                Some(vector) => vector
                    .split(',')
                    .try_fold(0.0, |sum, part| Some(sum + part.parse::<f64>().ok()?.powi(2)))
                    .map(f64::sqrt),
            };
            let length = length.map(f64::abs).filter(|length| length.is_normal());
            let what =
                || fields.damaged(format!("{word:?} in the field {field:?} is not a length"));
            length.map(Some).ok_or_else(what)
        })
        .collect()
}
