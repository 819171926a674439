//! Slabs: the maximum and the mean of parallel slices.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::reference::{Volume, assert_same, grids, interpolations, mixture, pixels, planes, put};
use super::reference::{boxes, number};
use crate::slice::{Blend, Interpolation, Plane, Slab, SlabCut};

/// The slab, pixel by pixel.
fn reference(
    volume: &Volume,
    layers: &[Plane],
    blend: Blend,
    interpolation: Interpolation,
    background: &[u8],
) -> Vec<u8> {
    let (pixel, sample) = (volume.pixel, volume.pixel.sample());
    let mut data = Vec::new();
    let slices: Vec<Vec<u8>> =
        layers.iter().map(|plane| volume.slice(plane, interpolation, background)).collect();
    let mut pixel_at = 0;
    for j in 0..layers[0].height() {
        for i in 0..layers[0].width() {
            let inside: Vec<_> = (0..layers.len())
                .filter_map(|layer| {
                    let at = layers[layer].position(i, j);
                    Some((layer, mixture(volume.shape, at, interpolation)?))
                })
                .collect();
            if inside.is_empty() {
                data.extend_from_slice(background);
            }
            for channel in 0..if inside.is_empty() { 0 } else { pixel.channels() } {
                let of_slice = |layer: usize| {
                    let start = pixel_at + channel * sample.bytes();
                    number(sample, &slices[layer][start..start + sample.bytes()])
                };
                let value = match blend {
                    Blend::Maximum => {
                        inside.iter().map(|(layer, _)| of_slice(*layer)).fold(f64::MIN, f64::max)
                    }
                    Blend::Mean => {
                        let sums = inside.iter().map(|(_, mixture)| volume.mix(mixture)[channel]);
                        sums.sum::<f64>() / (16_777_216.0 * inside.len() as f64)
                    }
                };
                // The maximum of whole numbers is a whole number.
                put(sample, value, &mut data);
            }
            pixel_at += pixel.bytes();
        }
    }
    data
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_slab_is_the_same_however_the_volume_is_cut(
        grid in grids(),
        plane in planes(),
        step in [-2i64 << 32..2 << 32, -2i64 << 32..2 << 32, -2i64 << 32..2 << 32],
        depth in 1..6u32,
        blend in prop_oneof![Just(Blend::Maximum), Just(Blend::Mean)],
        pixel in pixels(),
        interpolation in interpolations(),
        seed: u64,
    ) {
        let volume = Volume::random(grid.volume(), pixel, seed);
        let background = vec![0xAB; pixel.bytes()];
        let Ok(slab) = Slab::new(plane, step, depth, blend) else { return Ok(()) };
        let layers: Vec<Plane> = (0..depth).map(|layer| plane.moved(step, layer)).collect();
        let cut = SlabCut::new(slab, grid, pixel, interpolation).unwrap();

        let met: BTreeSet<_> =
            layers.iter().flat_map(|plane| boxes(&grid, plane, interpolation)).collect();
        prop_assert_eq!(cut.boxes().into_iter().collect::<BTreeSet<_>>(), met);

        // Three threads, one of them in another process.
        let mut threads = [cut.blank(), cut.blank(), cut.blank()];
        let mut random = fastrand::Rng::with_seed(seed);
        for tile in cut.boxes() {
            let thread = &mut threads[random.usize(0..3)];
            cut.extract(tile, &volume.stored(&grid, tile), thread).unwrap();
        }
        let [mut whole, near, far] = threads;
        whole.merge(&near);
        let mut message = Vec::new();
        far.encode(&mut message);
        whole.merge_message(&message).unwrap();
        let ours = whole.finish(&background).unwrap().into_data().unwrap();
        assert_same(pixel, &ours, &reference(&volume, &layers, blend, interpolation, &background))?;
    }
}
