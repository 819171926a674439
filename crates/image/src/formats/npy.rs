//! NumPy's `.npy`: one array after its type and shape.
//!
//! The last axis is the fastest. An array of two axes is a picture or one plane. An array of three
//! axes is a picture of 1 to 4 channels, or planes, rows and columns of a volume, depending on what
//! the caller opens. With four axes, the last axis is the channels of a volume.

use super::byte_io::ByteSource;
use super::{
    ByteOrder, FileNumber, FilePixel, FilePosition, FormatError, FormatOptions, RawLayout, RawRows,
};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Limit for a header; plain arrays have shorter ones.
const HEADER_LIMIT_BYTES: u64 = 1 << 20;

/// What the caller opens an array as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrayKind {
    Picture,
    Volume,
}

/// Returns whether a file starts like a NumPy array.
pub(super) fn is_npy(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// Opens an array: its rows, and width, height and depth.
pub(super) fn open<S: ByteSource>(
    name: &str,
    mut source: S,
    kind: ArrayKind,
    options: &FormatOptions,
) -> Result<(RawRows<S>, [u64; 3]), FormatError> {
    let (text, skip_bytes) = header(name, &mut source)?;
    let Some(header) = Header::parse(&text) else {
        let what = format!("the description {:?} is not one of a plain array", short(&text));
        return Err(FormatError::damaged(name, FilePosition::Byte(10), what));
    };
    let Some((number, order)) = number(&header.descr) else {
        let what = format!("an array of type {:?} cannot be read", header.descr);
        let advice = "convert it to whole or floating-point numbers, such as with \
                      array.astype('float32')";
        return Err(FormatError::unsupported(name, what, advice));
    };
    if header.is_fortran && header.shape.iter().filter(|side| **side > 1).count() > 1 {
        let what = "the array is stored with its first axis fastest (fortran_order)";
        let advice = "save it again with np.save(name, np.ascontiguousarray(array))";
        return Err(FormatError::unsupported(name, what, advice));
    }
    let (size, channels) = match (header.shape.as_slice(), kind) {
        (&[height, width], _) => ([width, height, 1], 1),
        (&[height, width, channels @ 1..=4], ArrayKind::Picture) => ([width, height, 1], channels),
        (&[1, height, width], ArrayKind::Picture) => ([width, height, 1], 1),
        (&[depth, height, width], ArrayKind::Volume) => ([width, height, depth], 1),
        (&[depth, height, width, channels @ 1..=4], ArrayKind::Volume) => {
            ([width, height, depth], channels)
        }
        (shape, kind) => {
            let what = format!("an array of shape {shape:?} is not a {}", kind.name());
            let advice = "a picture has the axes (y, x) or (y, x, channels), a volume (z, y, x) or \
                          (z, y, x, channels), with 1 to 4 channels";
            return Err(FormatError::unsupported(name, what, advice));
        }
    };
    if size.contains(&0) {
        let what = format!("an array of shape {:?} has no values", header.shape);
        return Err(FormatError::damaged(name, FilePosition::Header, what));
    }
    let channels = u32::try_from(channels).unwrap_or(u32::MAX);
    let pixel = FilePixel::new(number, channels)
        .map_err(|error| FormatError::damaged(name, FilePosition::Header, error.to_string()))?;
    let layout = RawLayout { size, pixel, order, skip_bytes };
    Ok((RawRows::open(name, source, &layout, options)?, size))
}

impl ArrayKind {
    fn name(self) -> &'static str {
        match self {
            ArrayKind::Picture => "picture",
            ArrayKind::Volume => "volume",
        }
    }
}

/// Reads the text of the header, and returns the offset of the values.
fn header<S: ByteSource>(name: &str, source: &mut S) -> Result<(String, u64), FormatError> {
    let failed = |error| FormatError::reading(name, FilePosition::Header, error);
    let mut start = [0; 8];
    source.read_exact(&mut start).map_err(failed)?;
    let (bytes, before) = match start[6] {
        1 => {
            let mut length = [0; 2];
            source.read_exact(&mut length).map_err(failed)?;
            (u64::from(u16::from_le_bytes(length)), 10)
        }
        2 | 3 => {
            let mut length = [0; 4];
            source.read_exact(&mut length).map_err(failed)?;
            (u64::from(u32::from_le_bytes(length)), 12)
        }
        other => {
            let what = format!("version {other} of the npy format is not known");
            let advice = "save the array again with np.save";
            return Err(FormatError::unsupported(name, what, advice));
        }
    };
    if bytes > HEADER_LIMIT_BYTES {
        let what = format!("the header would have {bytes} bytes");
        return Err(FormatError::damaged(name, FilePosition::Byte(8), what));
    }
    let mut text = vec![0; usize::try_from(bytes).unwrap_or(0)];
    source.read_exact(&mut text).map_err(failed)?;
    Ok((String::from_utf8_lossy(&text).into_owned(), before + bytes))
}

/// Returns the number type with a name such as `<i2`. Booleans are 0 or 1.
fn number(descr: &str) -> Option<(FileNumber, ByteOrder)> {
    let order = match descr.chars().next()? {
        '<' | '|' | '=' => ByteOrder::Little,
        '>' => ByteOrder::Big,
        _ => return None,
    };
    let number = match &descr[1..] {
        "u1" | "b1" => FileNumber::U8,
        "i1" => FileNumber::I8,
        "u2" => FileNumber::U16,
        "i2" => FileNumber::I16,
        "u4" => FileNumber::U32,
        "i4" => FileNumber::I32,
        "u8" => FileNumber::U64,
        "i8" => FileNumber::I64,
        "f4" => FileNumber::F32,
        "f8" => FileNumber::F64,
        _ => return None,
    };
    Some((number, order))
}

/// The dictionary of a header: `{'descr': '<i2', 'fortran_order': False, 'shape': (3, 4, 5), }`.
#[derive(Debug, PartialEq)]
struct Header {
    descr: String,
    is_fortran: bool,
    shape: Vec<u64>,
}

impl Header {
    fn parse(text: &str) -> Option<Header> {
        let mut rest = text.trim().strip_prefix('{')?.trim_start();
        let (mut descr, mut is_fortran, mut shape) = (None, None, None);
        while !rest.starts_with('}') {
            let (key, after) = quoted(rest)?;
            rest = after.trim_start().strip_prefix(':')?.trim_start();
            match key {
                "descr" => {
                    let (value, after) = quoted(rest)?;
                    (descr, rest) = (Some(value.to_owned()), after);
                }
                "fortran_order" => {
                    let (value, after) = match rest.strip_prefix("True") {
                        Some(after) => (true, after),
                        None => (false, rest.strip_prefix("False")?),
                    };
                    (is_fortran, rest) = (Some(value), after);
                }
                "shape" => {
                    let (inside, after) = rest.strip_prefix('(')?.split_once(')')?;
                    let sides = inside.split(',').map(str::trim).filter(|side| !side.is_empty());
                    let sides = sides.map(|side| side.trim_end_matches('L').parse().ok());
                    (shape, rest) = (Some(sides.collect::<Option<Vec<u64>>>()?), after);
                }
                _ => return None,
            }
            rest = rest.trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        Some(Header { descr: descr?, is_fortran: is_fortran?, shape: shape? })
    }
}

/// Returns a text in quotes, and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    text[1..].split_once(quote)
}

/// Returns the first 80 characters of a text, for a message.
fn short(text: &str) -> String {
    text.trim().chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_dictionaries_of_python() {
        let header = |text: &str| Header::parse(text);
        let expected = Header { descr: "<i2".to_owned(), is_fortran: false, shape: vec![3, 4, 5] };
        let text = "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 4, 5), }   \n";
        assert_eq!(header(text).as_ref(), Some(&expected));
        let text = "{\"shape\":(3,4L,5),\"fortran_order\":False,\"descr\":\"<i2\"}";
        assert_eq!(header(text).as_ref(), Some(&expected));
        let one = header("{'descr': '|u1', 'fortran_order': True, 'shape': (7,), }").unwrap();
        assert_eq!((one.is_fortran, one.shape), (true, vec![7]));
        for wrong in [
            "",
            "{",
            "{'descr': '<i2'}",
            "{'descr': [('x', '<i2')], 'fortran_order': False, 'shape': (3,), }",
            "{'descr': '<i2', 'fortran_order': Maybe, 'shape': (3,), }",
            "{'descr': '<i2', 'fortran_order': False, 'shape': (-3,), }",
            "{'descr': '<i2', 'fortran_order': False, 'shape': (3,",
            "{'other': 1}",
        ] {
            assert_eq!(header(wrong), None, "{wrong}");
        }
    }
}
