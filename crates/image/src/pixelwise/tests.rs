//! Pixel-wise operations and statistics of tiles against plain ones of whole images.

use proptest::prelude::*;

use super::*;
use crate::filter::Pixels;
use crate::filter::channel::SampleChannel;
use crate::filter::random::{cut_image, image, pixel, tiles};
use crate::{Pixel, Sample};

fn operation() -> impl Strategy<Value = Pixelwise> {
    let number = || prop_oneof![-2f64..2.0, -40_000f64..70_000.0];
    let matrix = (1usize..=4, 1usize..=4).prop_flat_map(move |(inputs, outputs)| {
        let weights = prop::collection::vec(-1f64..2.0, inputs * outputs);
        let offsets = prop::collection::vec(number(), outputs);
        (weights, offsets).prop_map(|(matrix, offsets)| Pixelwise::ChannelMix { matrix, offsets })
    });
    prop_oneof![
        (0.1f64..4.0).prop_map(|gamma| Pixelwise::Gamma { gamma }),
        (number(), number(), number()).prop_map(|(at, below, above)| Pixelwise::Threshold {
            at,
            below,
            above
        }),
        matrix,
        Just(Pixelwise::Invert),
        (number(), number()).prop_map(|(low, high)| Pixelwise::Levels { low, high }),
    ]
}

/// The samples of an image as numbers.
fn numbers(image: &Pixels) -> Vec<f64> {
    fn load<T: SampleChannel>(image: &Pixels) -> Vec<f64> {
        let mut values: Vec<T> = Vec::new();
        T::load(image.data(), &mut values);
        values.into_iter().map(T::real).collect()
    }
    match image.pixel().sample() {
        Sample::U8 => load::<u8>(image),
        Sample::U16 => load::<u16>(image),
        Sample::I8 => load::<i8>(image),
        Sample::I16 => load::<i16>(image),
        Sample::F32 => load::<f32>(image),
    }
}

/// The operation by its definition, before rounding.
fn plain(operation: &Pixelwise, pixel: &[f64], black: f64, white: f64) -> Vec<f64> {
    let each = |change: &dyn Fn(f64) -> f64| pixel.iter().map(|value| change(*value)).collect();
    match operation {
        Pixelwise::Gamma { gamma } => each(&|value| white * (value / white).max(0.0).powf(*gamma)),
        Pixelwise::Threshold { at, below, above } => {
            each(&|value| if value < *at { *below } else { *above })
        }
        Pixelwise::ChannelMix { matrix, offsets } => {
            let mixed = |out: usize| {
                let mut sum = offsets[out];
                for (channel, value) in pixel.iter().enumerate() {
                    sum += matrix[out * pixel.len() + channel] * value;
                }
                sum
            };
            (0..offsets.len()).map(mixed).collect()
        }
        Pixelwise::Invert => each(&|value| black + white - value),
        Pixelwise::Levels { low, high } => {
            each(&|value| ((value - low) / (high - low) * white).max(0.0).min(white))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn tiles_become_what_the_whole_becomes((image, grid) in cut_image(17), operation in operation()) {
        prop_assert_eq!(operation.validate(), Ok(()));
        let channels = image.pixel().channels();
        let Ok(output) = operation.output_pixel(image.pixel()) else {
            let Pixelwise::ChannelMix { matrix, offsets } = operation else {
                return Err(TestCaseError::fail("only a mix has a number of channels"));
            };
            prop_assert_ne!(matrix.len() / offsets.len(), channels);
            return Ok(());
        };
        let [black, white] = image.pixel().sample().range();
        let prepared = operation.prepare(image.pixel()).unwrap();
        prop_assert_eq!(prepared.output_pixel(), output);
        let whole = operation.apply(&image).unwrap();
        for (_, window) in tiles(&grid) {
            let tile = prepared.apply(&image.cut(window).unwrap()).unwrap();
            prop_assert_eq!(tile, whole.cut(window).unwrap());
        }
        let expected = numbers(&image);
        let expected = expected.chunks(channels).flat_map(|pixel| plain(&operation, pixel, black, white));
        for (value, expected) in numbers(&whole).into_iter().zip(expected) {
            match output.sample() {
                Sample::F32 => prop_assert!((value - expected).abs() <= 1e-6 * expected.abs().max(1e-6)),
                // A power that falls on a half may be rounded either way.
                _ if matches!(operation, Pixelwise::Gamma { .. }) => {
                    prop_assert!((value - expected).abs() <= 0.5 + 1e-6)
                }
                _ => prop_assert_eq!(value, expected.round().clamp(black, white)),
            }
        }
    }

    #[test]
    fn histograms_of_tiles_add_up((image, grid) in cut_image(17), few in 0u32..=16, bins in 1u32..50) {
        let bins = match image.pixel().sample() {
            Sample::U8 | Sample::I8 => Bins::Bytes,
            Sample::U16 | Sample::I16 => Bins::Words { bins: 1 << few },
            Sample::F32 => Bins::Reals { low: -1.0, high: 1.0, bins },
        };
        let mut sum = Histogram::new(image.pixel(), bins).unwrap();
        for (_, window) in tiles(&grid) {
            let mut part = Histogram::new(image.pixel(), bins).unwrap();
            part.count(&image.cut(window).unwrap()).unwrap();
            let stored = postcard::to_allocvec(&part).unwrap();
            sum.add(&postcard::from_bytes(&stored).unwrap()).unwrap();
        }
        let channels = image.pixel().channels();
        let mut expected = vec![vec![0; bins.count() as usize]; channels];
        let mut outside = vec![[0; 3]; channels];
        for (place, value) in numbers(&image).into_iter().enumerate() {
            let (low, high) = match bins {
                Bins::Bytes => (0.0, 256.0),
                Bins::Words { .. } => (0.0, 65_536.0),
                Bins::Reals { low, high, .. } => (f64::from(low), f64::from(high)),
            };
                        let zero = f64::from(crate::filter::channel::zero_key(image.pixel().sample()));
            let (low, high) = (low - zero, high - zero);
            let count = f64::from(bins.count());
            let edge = |bin: usize| low + (high - low) * f64::from(u32::try_from(bin).unwrap()) / count;
            match value {
                value if value < low => outside[place % channels][0] += 1,
                value if value > high => outside[place % channels][1] += 1,
                value => {
                    let bin = (0..bins.count() as usize).rev().find(|bin| edge(*bin) <= value);
                    expected[place % channels][bin.unwrap()] += 1;
                }
            }
        }
        for channel in 0..channels {
            prop_assert_eq!(sum.channel(channel), &expected[channel][..]);
            prop_assert_eq!(sum.outside(channel), outside[channel]);
        }
    }

    #[test]
    fn summaries_of_tiles_add_up((image, grid) in cut_image(17)) {
        let mut sum = Summary::new(image.pixel());
        for (_, window) in tiles(&grid) {
            let mut part = Summary::new(image.pixel());
            part.count(&image.cut(window).unwrap()).unwrap();
            let stored = postcard::to_allocvec(&part).unwrap();
            sum.add(&postcard::from_bytes(&stored).unwrap()).unwrap();
        }
        let channels = image.pixel().channels();
        for (channel, found) in sum.channels().iter().enumerate() {
            let values: Vec<f64> = numbers(&image).into_iter().skip(channel).step_by(channels).collect();
            prop_assert_eq!(found.count, values.len() as u64);
            prop_assert_eq!(found.minimum, values.iter().copied().fold(f64::INFINITY, f64::min));
            prop_assert_eq!(found.maximum, values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            let total: f64 = values.iter().sum();
            match found.total {
                Total::Whole(found) => prop_assert_eq!(found.to_string(), format!("{total:.0}")),
                Total::Signed(found) => prop_assert_eq!(found as f64, total),
                Total::Real(found) => {
                    let size: f64 = values.iter().map(|value| value.abs()).sum();
                    prop_assert!((found - total).abs() <= 1e-12 * size);
                }
            }
        }
    }

    #[test]
    fn foreign_bytes_make_no_histogram_that_breaks(bytes in prop::collection::vec(any::<u8>(), 0..600), pixel in pixel()) {
        if let Ok(mut found) = postcard::from_bytes::<Histogram>(&bytes) {
            let picture = image(2, 2, found.pixel(), 1);
            let _ = found.count(&picture);
            prop_assert_eq!(found.channel(0).len(), found.bins().count() as usize);
        }
        if let Ok(mut found) = postcard::from_bytes::<Summary>(&bytes) {
            let _ = found.add(&Summary::new(pixel));
            prop_assert_eq!(found.channels().len(), found.pixel().channels());
        }
    }
}

#[test]
fn invalid_histograms_are_refused() {
    let grey = Pixel::GREY;
    let deep = Pixel::new(Sample::U16, 2).unwrap();
    let real = Pixel::new(Sample::F32, 1).unwrap();
    let text = |pixel, bins| Histogram::new(pixel, bins).unwrap_err().to_string();
    assert_eq!(text(deep, Bins::Bytes), "bins of Bytes are not for 2 x u16");
    assert!(
        text(deep, Bins::Words { bins: 3 }).starts_with("bins of Words { bins: 3 }: there may be")
    );
    assert!(Histogram::new(deep, Bins::Words { bins: 131_072 }).is_err());
    for (low, high, bins) in [
        (0.0, 0.0, 1),
        (1.0, 0.0, 1),
        (f32::NAN, 1.0, 1),
        (0.0, f32::INFINITY, 1),
        (0.0, 1.0, 0),
        (0.0, 1.0, 65_537),
    ] {
        assert!(Histogram::new(real, Bins::Reals { low, high, bins }).is_err());
    }
    let refused = |counts: Vec<u64>, outside: Vec<[u64; 3]>| {
        let stored = postcard::to_allocvec(&(grey, Bins::Bytes, counts, outside)).unwrap();
        postcard::from_bytes::<Histogram>(&stored).is_err()
    };
    assert!(!refused(vec![1; 256], vec![[0; 3]]));
    assert!(refused(vec![1; 255], vec![[0; 3]]));
    assert!(refused(vec![1; 256], vec![[0; 3]; 2]));
    assert!(refused(vec![u64::MAX / 2; 256], vec![[0; 3]]));
    let mut bytes = Histogram::new(grey, Bins::Bytes).unwrap();
    assert!(bytes.add(&Histogram::new(deep, Bins::usual(Sample::U16)).unwrap()).is_err());
    assert!(bytes.count(&Pixels::blank(1, 1, deep).unwrap()).is_err());
}

#[test]
fn invalid_summaries_are_refused() {
    let accepted = |sample, count, minimum, maximum, total| {
        let channel = ChannelSummary { count, not_numbers: 0, minimum, maximum, total };
        let pixel = Pixel::new(sample, 1).unwrap();
        let stored = postcard::to_allocvec(&(pixel, vec![channel])).unwrap();
        postcard::from_bytes::<Summary>(&stored).is_ok()
    };
    assert!(accepted(Sample::U8, 2, 1.0, 5.0, Total::Whole(6)));
    assert!(accepted(Sample::F32, 2, -1.0, 5.5, Total::Real(4.5)));
    assert!(accepted(Sample::I16, 2, -1000.0, 5.0, Total::Signed(-995)));
    assert!(!accepted(Sample::I16, 2, -1000.0, 5.0, Total::Signed(-2001)));
    assert!(!accepted(Sample::I8, 2, -129.0, 5.0, Total::Signed(-124)));
    assert!(!accepted(Sample::I8, 2, -1.0, 5.0, Total::Whole(4)));
    assert!(!accepted(Sample::U8, 2, 1.0, 5.0, Total::Whole(11)));
    assert!(!accepted(Sample::U8, 2, 1.0, 5.0, Total::Whole(1)));
    assert!(!accepted(Sample::U8, 2, 1.0, 256.0, Total::Whole(6)));
    assert!(!accepted(Sample::U16, 2, 1.5, 2.0, Total::Whole(3)));
    assert!(!accepted(Sample::U16, 0, 1.0, 2.0, Total::Whole(0)));
    assert!(!accepted(Sample::U16, 2, 5.0, 1.0, Total::Whole(6)));
    assert!(!accepted(Sample::U8, 2, 1.0, 5.0, Total::Real(6.0)));
    assert!(!accepted(Sample::F32, 2, f64::NAN, 5.0, Total::Real(6.0)));
    assert!(!accepted(Sample::F32, 2, 6.0, 5.0, Total::Real(6.0)));
    let two = Summary::new(Pixel::new(Sample::U8, 2).unwrap());
    let stored = postcard::to_allocvec(&(Pixel::GREY, two.channels())).unwrap();
    assert!(postcard::from_bytes::<Summary>(&stored).is_err());
}

#[test]
fn invalid_operations_are_refused() {
    let mix = |weights, offsets| Pixelwise::ChannelMix {
        matrix: vec![1.0; weights],
        offsets: vec![0.0; offsets],
    };
    for (operation, text) in [
        (Pixelwise::Gamma { gamma: 0.0 }, "gamma is 0: it must be more than 0 and at most 1000"),
        (
            Pixelwise::Gamma { gamma: f64::NAN },
            "gamma is NaN: it must be more than 0 and at most 1000",
        ),
        (Pixelwise::Levels { low: 2.0, high: 2.0 }, "both levels are 2: they must be different"),
        (
            Pixelwise::Levels { low: f64::INFINITY, high: 2.0 },
            "the lower level is inf: it must be a finite number",
        ),
        (
            Pixelwise::Threshold { at: 1.0, below: f64::NAN, above: 2.0 },
            "the value below the threshold is NaN: it must be a finite number",
        ),
        (
            mix(3, 0),
            "a channel mix with 3 weights and 0 offsets: there must be 1 to 4 offsets, and for each 1 to 4 weights",
        ),
        (
            mix(5, 5),
            "a channel mix with 5 weights and 5 offsets: there must be 1 to 4 offsets, and for each 1 to 4 weights",
        ),
        (
            mix(5, 2),
            "a channel mix with 5 weights and 2 offsets: there must be 1 to 4 offsets, and for each 1 to 4 weights",
        ),
        (
            mix(0, 1),
            "a channel mix with 0 weights and 1 offsets: there must be 1 to 4 offsets, and for each 1 to 4 weights",
        ),
    ] {
        assert_eq!(operation.validate().unwrap_err().to_string(), text);
    }
    let error = mix(3, 1).apply(&Pixels::blank(1, 1, Pixel::GREY).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a channel mix with weights for 3 channels cannot be applied to 1 x u8"
    );
    let prepared = Pixelwise::Invert.prepare(Pixel::GREY).unwrap();
    assert!(prepared.apply(&Pixels::blank(1, 1, Pixel::RGB).unwrap()).is_err());
}
