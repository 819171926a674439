//! The same body, whichever box is generated first.

use pario_proto::{PixelPosition, Shape};
use proptest::prelude::*;

use super::{Phantom, PhantomError};
use crate::{Pixel, Sample};

const VOLUME: Shape = Shape { x: 70, y: 40, z: 90 };
const SPACING: [f64; 3] = [1.0, 1.0, 2.0];

fn made(seed: u64, start: PixelPosition, size: Shape, pixel: Pixel) -> Vec<u8> {
    let phantom = Phantom::new(seed, VOLUME, SPACING).unwrap();
    let voxels = usize::try_from(size.x * size.y * size.z).unwrap();
    let mut out = vec![0xAB; voxels * pixel.bytes()];
    phantom.fill(start, size, pixel, &mut out);
    out
}

fn whole(seed: u64, pixel: Pixel) -> Vec<u8> {
    made(seed, PixelPosition::volume(0, 0, 0), VOLUME, pixel)
}

fn fingerprint(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, step)
}

/// Pixels of every type and number of channels.
fn all_pixels() -> impl Iterator<Item = Pixel> {
    Sample::ALL
        .into_iter()
        .flat_map(|sample| (1..=4).map(move |channels| Pixel::new(sample, channels).unwrap()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_box_is_a_part_of_the_whole(
        start in (0..70u64, 0..40u64, 0..90u64),
        size in (1..40u64, 1..40u64, 1..40u64),
    ) {
        static WHOLE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let whole = WHOLE.get_or_init(|| whole(5, Pixel::RGB));
        let start = PixelPosition::volume(start.0, start.1, start.2);
        let size = Shape::volume(
            size.0.min(VOLUME.x - start.x),
            size.1.min(VOLUME.y - start.y),
            size.2.min(VOLUME.z - start.z),
        );
        let part = made(5, start, size, Pixel::RGB);
        let mut rows = part.chunks_exact(usize::try_from(size.x).unwrap() * 3);
        for z in start.z..start.z + size.z {
            for y in start.y..start.y + size.y {
                let first = ((z * VOLUME.y + y) * VOLUME.x + start.x) * 3;
                let row = rows.next().unwrap();
                prop_assert_eq!(row, &whole[usize::try_from(first).unwrap()..][..row.len()]);
            }
        }
    }
}

#[test]
fn bodies_are_the_same_on_every_machine() {
    let real = Pixel::new(Sample::F32, 1).unwrap();
    let bodies = [whole(1, Pixel::RGB), whole(1, Pixel::GREY), whole(2, real)];
    let found = bodies.map(|body| fingerprint(&body));
    let expected = [0x1F0E_3998_63F3_6CF9, 0xBD24_36D3_51A3_BD8C, 0x7DC4_B2BB_DA2B_8200];
    assert_eq!(found, expected, "{found:#X?}");
}

#[test]
fn every_seed_has_a_body_of_its_own() {
    let bodies = [0, 1, 2, 1 << 32, u64::MAX].map(|seed| fingerprint(&whole(seed, Pixel::GREY)));
    for (at, body) in bodies.iter().enumerate() {
        assert!(!bodies[..at].contains(body));
    }
}

#[test]
fn all_pixels_show_the_same_body() {
    let number = |pixel: Pixel, bytes: &[u8]| match (pixel.sample(), bytes) {
        (Sample::U8, &[a]) => f32::from(a) / 255.0,
        (Sample::U16, &[a, b]) => f32::from(u16::from_le_bytes([a, b])) / 65_535.0,
        (Sample::I8, &[a]) => f32::from(a) / 127.0,
        (Sample::I16, &[a, b]) => f32::from(i16::from_le_bytes([a, b])) / 32_767.0,
        (_, bytes) => f32::from_le_bytes(bytes.try_into().unwrap()),
    };
    let [grey, colour] =
        [2, 4].map(|channels| whole(1, Pixel::new(Sample::F32, channels).unwrap()));
    for pixel in all_pixels() {
        let (reference, channels) = if pixel.channels() < 3 { (&grey, 2) } else { (&colour, 4) };
        let found = whole(1, pixel);
        let steps = if pixel.sample() == Sample::I8 { 127.0 } else { 255.0 };
        let pixels = found.chunks_exact(pixel.bytes()).zip(reference.chunks_exact(4 * channels));
        for (found, reference) in pixels {
            let found =
                found.chunks_exact(pixel.sample().bytes()).map(|bytes| number(pixel, bytes));
            let channels = reference.chunks_exact(4);
            for (found, reference) in found.zip(channels) {
                let reference = f32::from_le_bytes(reference.try_into().unwrap());
                assert!((0.0..=1.0).contains(&reference));
                assert!((found - reference).abs() <= 0.502 / steps, "{found} is not {reference}");
            }
        }
    }
}

#[test]
fn a_body_has_air_around_it_and_bones_and_lungs_in_it() {
    let body = whole(1, Pixel::GREY);
    let count = |range: std::ops::RangeInclusive<u8>| {
        body.iter().filter(|density| range.contains(density)).count() * 1000 / body.len()
    };
    let (air, lung, soft, bone) = (count(0..=0), count(20..=70), count(71..=180), count(181..=255));
    assert!((700..900).contains(&air), "{air} thousandths air");
    assert!((5..50).contains(&lung), "{lung} thousandths lungs");
    assert!((80..250).contains(&soft), "{soft} thousandths soft tissue");
    assert!((3..30).contains(&bone), "{bone} thousandths bone");
    // Nothing sticks out at the sides.
    let mut rows = body.chunks_exact(70);
    assert!(rows.all(|row| row[0] == 0 && row[69] == 0));
}

#[test]
fn volumes_of_all_sizes_show_something() {
    let sizes = [(1, 1, 1), (64, 64, 4), (300, 20, 20), (8, 8, 500), (20, 300, 20)];
    for (x, y, z) in sizes {
        let volume = Shape::volume(x, y, z);
        let phantom = Phantom::new(1, volume, [0.3, 0.3, 1.0]).unwrap();
        let mut out = vec![0; usize::try_from(x * y * z).unwrap()];
        phantom.fill(PixelPosition::volume(0, 0, 0), volume, Pixel::GREY, &mut out);
        assert!(out.iter().any(|density| *density > 0), "{volume}");
    }
    // Far outside there is no body, and no overflow.
    let phantom = Phantom::new(1, Shape::volume(64, 64, 64), [1.0; 3]).unwrap();
    let mut out = [1];
    let far = PixelPosition::volume(u64::MAX - 1, u64::MAX - 1, u64::MAX - 1);
    phantom.fill(far, Shape::volume(1, 1, 1), Pixel::GREY, &mut out);
    assert_eq!(out, [0]);
}

#[test]
fn volumes_without_size_are_refused() {
    let empty = Shape::volume(1, 0, 1);
    let error = Phantom::new(1, empty, [1.0; 3]).unwrap_err();
    assert_eq!(error, PhantomError::Empty { volume: empty });
    for spacing in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = Phantom::new(1, Shape::volume(1, 1, 1), [1.0, 1.0, spacing]).unwrap_err();
        assert!(matches!(error, PhantomError::Spacing { .. }));
    }
}

#[test]
#[should_panic(expected = "a box of 2 x 2 x 2 voxels of 3 x u8 does not have 23 bytes")]
fn the_buffer_must_fit() {
    let phantom = Phantom::new(1, VOLUME, SPACING).unwrap();
    let size = Shape::volume(2, 2, 2);
    phantom.fill(PixelPosition::volume(0, 0, 0), size, Pixel::RGB, &mut [0; 23]);
}
