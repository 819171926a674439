//! Slices: their boxes, pixels and shares.

use pario_proto::Shape;
use proptest::prelude::*;

use super::reference::{self, Volume, assert_same, grids, interpolations, pixels, planes};
use crate::slice::{BoxGrid, Cut, Interpolation, Plane, SliceParts};
use crate::{Pixel, Sample};

/// The slice, assembled from the parts of all boxes in a random order, some of them in one message.
fn assembled(cut: &Cut, volume: &Volume, background: &[u8], seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut slice = cut.blank(background);
    let mut boxes = cut.boxes();
    random.shuffle(&mut boxes);
    let mut sent = SliceParts::new();
    for tile in boxes {
        let mut parts = SliceParts::new();
        cut.extract(tile, &volume.stored(cut.grid(), tile), &mut parts).unwrap();
        assert!(!parts.is_empty(), "{tile} has pixels of the slice");
        sent.append(&parts);
        if random.bool() {
            let mut message = Vec::new();
            sent.encode(&mut message);
            assert_eq!(message.len(), sent.len_bytes());
            slice.paste_message(&message).unwrap();
            sent.clear();
        }
    }
    slice.paste(&sent).unwrap();
    slice.into_data().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_slice_is_the_same_however_the_volume_is_cut(
        grid in grids(),
        plane in planes(),
        pixel in pixels(),
        interpolation in interpolations(),
        seed: u64,
    ) {
        let volume = Volume::random(grid.volume(), pixel, seed);
        let cut = Cut::new(plane, grid, pixel, interpolation).unwrap();
        let background = vec![0xAB; pixel.bytes()];
        let reference = volume.slice(&plane, interpolation, &background);
        let ours = assembled(&cut, &volume, &background, seed);
        match interpolation {
            Interpolation::Nearest => prop_assert_eq!(ours, reference),
            Interpolation::Trilinear => assert_same(pixel, &ours, &reference)?,
        }
    }

    #[test]
    fn boxes_are_met_if_they_have_pixels(
        grid in grids(),
        plane in planes(),
        interpolation in interpolations(),
    ) {
        let cut = Cut::new(plane, grid, Pixel::GREY, interpolation).unwrap();
        prop_assert_eq!(cut.boxes(), reference::boxes(&grid, &plane, interpolation));
    }

    #[test]
    fn other_boxes_have_none(
        grid in grids(),
        plane in planes(),
        interpolation in interpolations(),
    ) {
        let volume = Volume::random(grid.volume(), Pixel::GREY, 1);
        let cut = Cut::new(plane, grid, Pixel::GREY, interpolation).unwrap();
        let (met, per_axis) = (cut.boxes(), grid.boxes_per_axis());
        for z in 0..per_axis.z {
            for y in 0..per_axis.y {
                for x in 0..per_axis.x {
                    let tile = pario_proto::TilePosition { x, y, z };
                    let mut parts = SliceParts::new();
                    cut.extract(tile, &volume.stored(&grid, tile), &mut parts).unwrap();
                    prop_assert_eq!(met.contains(&tile), !parts.is_empty());
                }
            }
        }
    }
}

#[test]
fn a_large_oblique_slice_is_the_same() {
    let shape = Shape::volume(90, 80, 70);
    let plane = Plane::through([45.0, 40.0, 35.0 * 1.5])
        .normal([1.0, 1.0, 1.0])
        .size(150, 130)
        .zoom(1.1)
        .in_volume([1.0, 1.0, 1.5])
        .unwrap();
    for pixel in [Pixel::RGB, Pixel::new(Sample::U16, 1).unwrap()] {
        let volume = Volume::random(shape, pixel, 7);
        for interpolation in [Interpolation::Nearest, Interpolation::Trilinear] {
            let grid =
                BoxGrid::new(shape, Shape::volume(32, 32, 16), [false, false, true]).unwrap();
            let cut = Cut::new(plane, grid, pixel, interpolation).unwrap();
            let background = vec![9; pixel.bytes()];
            let reference = volume.slice(&plane, interpolation, &background);
            assert!(assembled(&cut, &volume, &background, 1) == reference);
        }
    }
}

#[test]
fn a_slice_on_whole_voxels_needs_no_neighbours() {
    let grid = BoxGrid::new(Shape::volume(8, 8, 8), Shape::volume(4, 4, 4), [false; 3]).unwrap();
    let last_layer_of_a_box = [0.0, 0.0, 3.0];
    let plane =
        Plane::in_voxels(last_layer_of_a_box, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], 8, 8).unwrap();
    let cut = Cut::new(plane, grid, Pixel::GREY, Interpolation::Trilinear).unwrap();
    assert!(cut.boxes().iter().all(|tile| tile.z == 0));
    let mut parts = SliceParts::new();
    cut.extract(cut.boxes()[0], &[1; 64], &mut parts).unwrap();
    assert!(parts.shares.is_empty());
}

#[test]
fn infinity_counts_only_where_it_has_weight() {
    let pixel = Pixel::new(Sample::F32, 1).unwrap();
    let mut voxels = Vec::new();
    for x in [1.0, f32::INFINITY, 2.0, f32::NAN] {
        voxels.extend(f32::to_le_bytes(x));
    }
    let volume = Volume { shape: Shape::volume(4, 1, 1), pixel, voxels };
    let plane = Plane::in_voxels([0.0; 3], [0.5, 0.0, 0.0], [0.0, 1.0, 0.0], 7, 1).unwrap();
    for core in 1..5 {
        for overlap in [false, true] {
            let core = Shape::volume(core, 1, 1);
            let grid = BoxGrid::new(volume.shape, core, [overlap; 3]).unwrap();
            let cut = Cut::new(plane, grid, pixel, Interpolation::Trilinear).unwrap();
            let data = assembled(&cut, &volume, &[0; 4], 1);
            let found: Vec<f64> =
                data.chunks_exact(4).map(|bytes| Sample::F32.value(bytes)).collect();
            let infinity = f64::INFINITY;
            assert_eq!(found[..5], [1.0, infinity, infinity, infinity, 2.0]);
            assert!(found[5].is_nan() && found[6].is_nan());
        }
    }
}
