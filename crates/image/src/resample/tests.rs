//! Assembled contributions of tiles against plain functions of whole images.

use proptest::prelude::*;

use super::*;
use crate::filter::channel::{SampleChannel, append_sample};
use crate::filter::random::{cut_image, image, tiles};
use crate::filter::{AXIS_LIMIT, ImageWindow, Pixels, TileGrid};
use crate::{Pixel, Sample};

fn position() -> impl Strategy<Value = i64> {
    prop_oneof![
        (-80i64..160).prop_map(|halves| halves * (ONE_PIXEL / 2)),
        -20 * ONE_PIXEL..60 * ONE_PIXEL,
    ]
}

fn step() -> impl Strategy<Value = i64> {
    prop_oneof![
        (-6i64..=6).prop_map(|halves| halves * (ONE_PIXEL / 2)),
        -3 * ONE_PIXEL..3 * ONE_PIXEL,
        Just(0),
        -3i64..3,
    ]
}

fn map() -> impl Strategy<Value = AffineMap> {
    let pair = |x, y| [x, y];
    let any = ((position(), position()), (step(), step()), (step(), step())).prop_map(
        move |(origin, right, down)| AffineMap {
            origin: pair(origin.0, origin.1),
            right: pair(right.0, right.1),
            down: pair(down.0, down.1),
        },
    );
    let turned = ((-5f64..30.0, -5f64..30.0), 0f64..360.0, 0.2f64..3.0).prop_map(
        |((x, y), degrees, step)| AffineMap::turned([x, y], degrees, step, 24, 24).unwrap(),
    );
    prop_oneof![any, turned]
}

fn resampling() -> impl Strategy<Value = Resampling> {
    let interpolation = prop_oneof![Just(Sampling::Nearest), Just(Sampling::Bilinear)];
    let mapped = (map(), 1u32..40, 1u32..40, interpolation).prop_map(
        |(map, width, height, interpolation)| Resampling::Mapped {
            map,
            width,
            height,
            interpolation,
        },
    );
    let window = (0u32..20, 0u32..20, 1u32..40, 1u32..40)
        .prop_map(|(x, y, width, height)| ImageWindow { x, y, width, height });
    let reduction =
        (window, 1u32..12).prop_map(|(window, factor)| Resampling::Reduction { window, factor });
    prop_oneof![2 => mapped, 1 => reduction]
}

/// An image as numbers.
struct Field<'a> {
    image: &'a Pixels,
    values: Vec<f64>,
}

impl Field<'_> {
    fn new(image: &Pixels) -> Field<'_> {
        fn load<T: SampleChannel>(image: &Pixels) -> Vec<f64> {
            let mut values: Vec<T> = Vec::new();
            T::load(image.data(), &mut values);
            values.into_iter().map(T::real).collect()
        }
        let values = match image.pixel().sample() {
            Sample::U8 => load::<u8>(image),
            Sample::U16 => load::<u16>(image),
            Sample::I8 => load::<i8>(image),
            Sample::I16 => load::<i16>(image),
            Sample::F32 => load::<f32>(image),
        };
        Field { image, values }
    }

    fn at(&self, x: i128, y: i128, channel: usize) -> Option<f64> {
        let inside = |at: i128, length: u32| (0..i128::from(length)).contains(&at);
        if !inside(x, self.image.width()) || !inside(y, self.image.height()) {
            return None;
        }
        let pixel = usize::try_from(y * i128::from(self.image.width()) + x).unwrap();
        Some(self.values[pixel * self.image.pixel().channels() + channel])
    }
}

/// The output by its definition, sample by sample.
fn plain(resampling: &Resampling, image: &Pixels, background: [f32; 4]) -> Vec<f64> {
    let field = Field::new(image);
    let (width, height) = resampling.size();
    let mut values = Vec::new();
    for j in 0..height {
        for i in 0..width {
            for (channel, beyond) in background.iter().enumerate().take(image.pixel().channels()) {
                let beyond = f64::from(*beyond);
                values.push(match resampling {
                    Resampling::Mapped { map, interpolation, .. } => {
                        mapped(&field, map, *interpolation, i, j, channel).unwrap_or(beyond)
                    }
                    Resampling::Reduction { window, factor } => {
                        reduced(&field, *window, *factor, i, j, channel, beyond)
                    }
                });
            }
        }
    }
    values
}

fn mapped(
    field: &Field<'_>,
    map: &AffineMap,
    interpolation: Sampling,
    i: u32,
    j: u32,
    channel: usize,
) -> Option<f64> {
    let one = i128::from(ONE_PIXEL);
    let position = |axis: usize| {
        i128::from(map.origin[axis])
            + i128::from(map.right[axis]) * i128::from(i)
            + i128::from(map.down[axis]) * i128::from(j)
    };
    let (x, y) = (position(0), position(1));
    let nearest = field.at(x.div_euclid(one), y.div_euclid(one), channel)?;
    if interpolation == Sampling::Nearest {
        return Some(nearest);
    }
    let (x, y) = (x - one / 2, y - one / 2);
    let weight = |at: i128| u32::try_from(at.rem_euclid(one) / (one / 256)).unwrap();
    let (right, below) = (f64::from(weight(x)), f64::from(weight(y)));
    let clamped = |at: i128, length: u32| at.clamp(0, i128::from(length) - 1);
    let at = |across: i128, down: i128| {
        let x = clamped(x.div_euclid(one) + across, field.image.width());
        field.at(x, clamped(y.div_euclid(one) + down, field.image.height()), channel).unwrap()
    };
    let upper = at(0, 0) * (256.0 - right) * (256.0 - below) + at(1, 0) * right * (256.0 - below);
    let lower = at(0, 1) * (256.0 - right) * below + at(1, 1) * right * below;
    Some((upper + lower) / 65_536.0)
}

fn reduced(
    field: &Field<'_>,
    window: ImageWindow,
    factor: u32,
    i: u32,
    j: u32,
    channel: usize,
    beyond: f64,
) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for y in j * factor..((j + 1) * factor).min(window.height) {
        for x in i * factor..((i + 1) * factor).min(window.width) {
            let value = field.at((window.x + x).into(), (window.y + y).into(), channel);
            sum += value.unwrap_or(beyond);
            count += 1.0;
        }
    }
    sum / count
}

/// Each tile contributes on its own; two nodes have every other tile.
fn in_tiles(
    resampling: Resampling,
    image: &Pixels,
    grid: &TileGrid,
    background: [f32; 4],
) -> Pixels {
    let mut nodes = [Contribution::new(), Contribution::new()];
    for (number, (_, window)) in tiles(grid).enumerate() {
        let tile = image.cut(window).unwrap();
        let mut contribution = Contribution::new();
        resampling.contribute(grid.image(), window, &tile, &mut contribution).unwrap();
        if !resampling.touches(grid.image(), window) {
            assert!(contribution.is_empty());
        }
        if !contribution.is_empty() {
            let source = resampling.source(grid.image()).unwrap();
            assert!(source.intersection(window).is_some());
        }
        nodes[number % 2].append(contribution);
    }
    let mut canvas = Canvas::new(resampling, image.pixel(), background).unwrap();
    for mut node in nodes {
        node.merge_shares();
        let stored = postcard::to_allocvec(&node).unwrap();
        canvas.add(&postcard::from_bytes(&stored).unwrap()).unwrap();
    }
    if matches!(resampling, Resampling::Mapped { .. }) {
        assert!(!canvas.is_open());
    }
    canvas.finish()
}

fn check(resampling: Resampling, image: &Pixels, grid: &TileGrid) -> Result<(), TestCaseError> {
    let background = [3.0, 0.0, 100.0, 17.0];
    let result = in_tiles(resampling, image, grid, background);
    let expected = plain(&resampling, image, background);
    if image.pixel().sample() == Sample::F32 {
        let found = Field::new(&result).values;
        for (found, expected) in found.iter().zip(&expected) {
            // Samples are up to 10^9 and may cancel out.
            let near = 1e-6 * expected.abs() + 1e-6;
            prop_assert!((found - expected).abs() <= near, "{} for {}", found, expected);
        }
        return Ok(());
    }
    let mut data = Vec::new();
    // Means of whole numbers are rounded with halves up.
    let whole = expected.iter().map(|value| (value + 0.5).floor());
    whole.for_each(|value| append_sample(image.pixel().sample(), value, &mut data));
    prop_assert_eq!(result.data(), &data[..]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn tiles_contribute_what_the_whole_has((image, grid) in cut_image(29), resampling in resampling()) {
        check(resampling, &image, &grid)?;
    }

    #[test]
    fn foreign_contributions_break_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200), resampling in resampling()) {
        if let Ok(contribution) = postcard::from_bytes::<Contribution>(&bytes) {
            let mut canvas = Canvas::new(resampling, Pixel::RGB, [0.0; 4]).unwrap();
            let _ = canvas.add(&contribution);
            canvas.finish();
        }
        if let Ok(resampling) = postcard::from_bytes::<Resampling>(&bytes)
            && resampling.validate().is_ok()
        {
            let picture = image(3, 2, Pixel::GREY, 5);
            let mut contribution = Contribution::new();
            let window = picture.window();
            if resampling.size().1 < 1_000 {
                resampling.contribute(window, window, &picture, &mut contribution).unwrap();
            }
        }
    }
}

#[test]
fn missing_shares_are_background() {
    let image = ImageWindow { x: 0, y: 0, width: 4, height: 2 };
    let resampling = Resampling::Reduction { window: image, factor: 4 };
    let tile = Pixels::new(2, 2, Pixel::GREY, vec![100; 4]).unwrap();
    let mut contribution = Contribution::new();
    let window = ImageWindow { width: 2, ..image };
    resampling.contribute(image, window, &tile, &mut contribution).unwrap();
    let mut canvas = Canvas::new(resampling, Pixel::GREY, [40.4; 4]).unwrap();
    canvas.add(&contribution).unwrap();
    assert!(canvas.is_open());
    assert_eq!(canvas.clone().finish().data(), [70]);
    canvas.add(&contribution).unwrap();
    assert!(!canvas.is_open());
    assert_eq!(canvas.finish().data(), [100]);
}

#[test]
fn invalid_contributions_are_refused() {
    let image = ImageWindow { x: 0, y: 0, width: 4, height: 4 };
    let resampling = Resampling::Reduction { window: image, factor: 2 };
    let canvas = Canvas::new(resampling, Pixel::GREY, [0.0; 4]).unwrap();
    let refused = |runs: &[PixelRun], pixels: usize, shares: &[PixelShare]| {
        let (runs, shares) = (runs.to_vec(), shares.to_vec());
        let contribution = Contribution { runs, pixels: vec![1; pixels], shares };
        canvas.clone().add(&contribution).map_err(|error| error.to_string())
    };
    let run = PixelRun { x: 1, y: 1, length: 1 };
    let share = PixelShare { x: 0, y: 1, weight: 3, sums: ChannelSums::Whole([765, 0, 0, 0]) };
    assert_eq!(refused(&[run], 1, &[share]), Ok(()));
    assert_eq!(refused(&[run], 2, &[]).unwrap_err(), "runs of pixels need 1 bytes, 2 were given");
    assert_eq!(
        refused(&[PixelRun { length: 2, ..run }], 2, &[]).unwrap_err(),
        "a run of 2 pixels from (1, 1) on leaves an output of 2 x 2"
    );
    assert!(refused(&[PixelRun { y: 2, ..run }], 1, &[]).is_err());
    assert!(refused(&[PixelRun { x: u32::MAX, ..run }], 1, &[]).is_err());
    let text = "a share of weight 3 for (0, 1) cannot be one of this output";
    assert_eq!(refused(&[], 0, &[share, share]).unwrap_err(), text);
    let large = PixelShare { sums: ChannelSums::Whole([766, 0, 0, 0]), ..share };
    assert_eq!(refused(&[], 0, &[large]).unwrap_err(), text);
    assert!(refused(&[], 0, &[PixelShare { sums: ChannelSums::Real([1.0; 4]), ..share }]).is_err());
    assert!(refused(&[], 0, &[PixelShare { weight: 5, ..share }]).is_err());
    assert!(refused(&[], 0, &[PixelShare { x: 2, ..share }]).is_err());
}

#[test]
fn invalid_resamplings_are_refused() {
    let window = ImageWindow { x: 0, y: 0, width: 100_000, height: 3 };
    let text = |resampling: Resampling| resampling.validate().unwrap_err().to_string();
    assert_eq!(
        text(Resampling::Reduction { window, factor: 1 }),
        "an output of 100000 x 3 pixels: there may be 65536 along an axis, and 2^28 in all"
    );
    assert!(Resampling::Reduction { window, factor: 0 }.validate().is_err());
    assert!(Resampling::Reduction { window, factor: 65_537 }.validate().is_err());
    let far = ImageWindow { x: u32::MAX, ..window };
    assert!(Resampling::Reduction { window: far, factor: 2 }.validate().is_err());
    let mapped = |origin, right, width| Resampling::Mapped {
        map: AffineMap { origin: [origin, 0], right: [right, 0], down: [0, 0] },
        width,
        height: 1,
        interpolation: Sampling::Bilinear,
    };
    assert_eq!(mapped(0, 1, 1).validate(), Ok(()));
    for (origin, right, width) in
        [(0, 1, 0), (i64::MAX, 0, 1), (i64::MIN, 0, 1), (0, i64::MIN, 1), (0, 1 << 61, 3)]
    {
        assert!(mapped(origin, right, width).validate().is_err());
    }
    assert!(AffineMap::turned([f64::NAN, 0.0], 0.0, 1.0, 1, 1).is_err());
    assert!(AffineMap::turned([0.0, 0.0], f64::INFINITY, 1.0, 1, 1).is_err());
    assert!(AffineMap::turned([0.0, 0.0], 45.0, f64::from(AXIS_LIMIT - 1), 9, 9).is_err());
    assert!(AffineMap::scaled(far, 10, 10).is_err());
    assert!(AffineMap::scaled(window, 0, 10).is_err());
    let picture = Pixels::blank(3, 3, Pixel::GREY).unwrap();
    let (mut contribution, whole) = (Contribution::new(), picture.window());
    let resampling = Resampling::Reduction { window: whole, factor: 1 };
    let outside = ImageWindow { x: 1, ..whole };
    assert!(resampling.contribute(whole, outside, &picture, &mut contribution).is_err());
}

#[test]
fn far_positions_do_not_overflow() {
    let far = (1 << 62) - 1;
    for (origin, right) in [(-far, far), (far, -far), (-far, 0), (far, 0)] {
        let resampling = Resampling::Mapped {
            map: AffineMap { origin: [origin, 0], right: [right, 0], down: [0, 0] },
            width: if right == 0 { 1 } else { 3 },
            height: 1,
            interpolation: Sampling::Bilinear,
        };
        let picture = image(3, 3, Pixel::GREY, 2);
        let grid = TileGrid::new(pario_proto::Shape::image(3, 3), pario_proto::Shape::image(2, 2))
            .unwrap();
        check(resampling, &picture, &grid).unwrap();
    }
}
