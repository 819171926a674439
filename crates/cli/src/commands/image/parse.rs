//! Parses sizes, windows and pixel layouts.

use pario_image::formats::{ByteOrder, FileNumber, FilePixel, RawLayout};
use pario_image::{Compression, ImageWindow};

/// Parses a width and a height: `1920x1080`.
pub fn size<T: std::str::FromStr + PartialOrd + Default>(text: &str) -> Result<[T; 2], String> {
    let sides = text.split_once('x').and_then(|(width, height)| {
        let positive = |side: &str| side.parse().ok().filter(|side| *side > T::default());
        Some([positive(width)?, positive(height)?])
    });
    sides.ok_or_else(|| "it must be a width and a height, such as 256x256".to_owned())
}

/// Parses a window: `X,Y,WIDTH,HEIGHT`.
pub fn window(text: &str) -> Result<ImageWindow, String> {
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[x, y, width, height]) if width > 0 && height > 0 => {
            Ok(ImageWindow { x, y, width, height })
        }
        _ => Err("it must be X,Y,WIDTH,HEIGHT, such as 100,50,640,480".to_owned()),
    }
}

/// Parses the compression of tiles.
pub fn compression(text: &str) -> Result<Compression, String> {
    text.parse()
}

/// Parses the layout of pixels without a header: `WIDTHxHEIGHTxCHANNELS:TYPE`.
pub fn raw(text: &str) -> Result<RawLayout, String> {
    let wrong = "it must be WIDTHxHEIGHTxCHANNELS:TYPE with the type u8, i8, u16, i16, u32, i32, \
                 u64, i64, f32 or f64, such as 1920x1080x3:u8";
    let (sides, kind) = text.split_once(':').ok_or(wrong)?;
    let sides: Result<Vec<u64>, _> = sides.split('x').map(str::parse).collect();
    let number =
        FileNumber::ALL.into_iter().find(|number| number.to_string() == kind).ok_or(wrong)?;
    let Ok(&[width, height, channels]) = sides.as_deref() else { return Err(wrong.to_owned()) };
    let channels = u32::try_from(channels).unwrap_or(u32::MAX);
    let pixel = FilePixel::new(number, channels).map_err(|error| error.to_string())?;
    Ok(RawLayout { size: [width, height, 1], pixel, order: ByteOrder::Little, skip_bytes: 0 })
}

/// Parses one value per channel, or one for all.
pub fn values(text: &str) -> Result<[f32; 4], String> {
    let values: Result<Vec<f32>, _> = text.split(',').map(str::parse).collect();
    let values = values.ok().filter(|values| values.iter().all(|value| value.is_finite()));
    match values.as_deref() {
        Some(&[all]) => Ok([all; 4]),
        Some(some @ [_, _] | some @ [_, _, _] | some @ [_, _, _, _]) => {
            Ok(std::array::from_fn(|channel| some.get(channel).copied().unwrap_or(0.0)))
        }
        _ => Err("it must be one value or one per channel, such as 0 or 255,255,255".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_meant() {
        assert_eq!(size("640x480"), Ok([640_u64, 480]));
        let expected = ImageWindow { x: 1, y: 2, width: 3, height: 4 };
        assert_eq!(window("1,2,3,4"), Ok(expected));
        let layout = raw("7x5x3:u16").unwrap();
        assert_eq!((layout.size, layout.pixel.bytes()), ([7, 5, 1], 6));
        assert_eq!(values("2"), Ok([2.0; 4]));
        assert_eq!(values("1,2,3"), Ok([1.0, 2.0, 3.0, 0.0]));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in ["", "640", "0x5", "5x0", "-1x5", "1x2x3", "x"] {
            assert!(size::<u64>(text).is_err(), "{text}");
        }
        for text in ["", "1,2,3", "1,2,0,4", "1,2,3,4,5", "a,b,c,d", "-1,2,3,4"] {
            assert!(window(text).is_err(), "{text}");
        }
        for text in ["", "7x5x3", "7x5:u8", "7x5x5:u8", "7x5x3:u128", "7xx3:u8"] {
            assert!(raw(text).is_err(), "{text}");
        }
        for text in ["", "nan", "1,2,3,4,5", "1,,2"] {
            assert!(values(text).is_err(), "{text}");
        }
    }
}
