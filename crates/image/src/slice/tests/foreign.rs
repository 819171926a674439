//! Bytes and values from other processes: accepted or rejected, never a panic, never outside.

use pario_proto::{Shape, TilePosition};
use proptest::prelude::*;

use super::reference::{Volume, grids, pixels, planes};
use crate::slice::{
    Blend, BoxGrid, BoxGridError, Cut, ExtractError, Interpolation, PartsError, Plane, Slab,
    SlabCut, Slice, SliceParts,
};
use crate::{Pixel, Sample};

fn pixel(seed: u8) -> Pixel {
    let sample = Sample::ALL[usize::from(seed) % Sample::ALL.len()];
    Pixel::new(sample, 1 + u32::from(seed / 5 % 4)).unwrap()
}

proptest! {
    #[test]
    fn any_bytes_can_be_pasted(bytes: Vec<u8>, kind: u8, width in 1..300u32, height in 1..300u32) {
        let mut slice = Slice::blank(width, height, pixel(kind), &[]);
        let _ = slice.paste_message(&bytes);
        // The same with a header that fits.
        for runs in [0, bytes.len() / 2, bytes.len()] {
            let lens = [runs, 0].map(|len| u32::try_from(len).unwrap().to_le_bytes());
            let _ = slice.paste_message(&[lens.as_flattened(), &bytes[..]].concat());
            let lens = [0, runs].map(|len| u32::try_from(len).unwrap().to_le_bytes());
            let _ = slice.paste_message(&[lens.as_flattened(), &bytes[..]].concat());
        }
        let size = width as usize * height as usize * slice.pixel().bytes();
        prop_assert_eq!(slice.data().len(), size);
    }

    #[test]
    fn any_bytes_can_be_merged(bytes: Vec<u8>, kind: u8, is_mean: bool) {
        let grid = BoxGrid::new(Shape::volume(4, 4, 4), Shape::volume(4, 4, 4), [false; 3]).unwrap();
        let plane = Plane::axial([1.0; 3]).size(300, 200);
        let blend = if is_mean { Blend::Mean } else { Blend::Maximum };
        let slab = plane.slab_in_volume([1.0; 3], 3, 1.0, blend).unwrap();
        let cut = SlabCut::new(slab, grid, pixel(kind), Interpolation::Trilinear).unwrap();
        for rows in [0, bytes.len() / 2, bytes.len()] {
            let mut parts = cut.blank();
            let len = u32::try_from(rows).unwrap().to_le_bytes();
            let _ = parts.merge_message(&[&len, &bytes[..]].concat());
            let _ = parts.finish(&[]);
        }
    }

    #[test]
    fn damaged_parts_are_no_danger(
        grid in grids(),
        plane in planes(),
        pixel in pixels(),
        places: Vec<(usize, u8)>,
    ) {
        let volume = Volume::random(grid.volume(), pixel, 3);
        let cut = Cut::new(plane, grid, pixel, Interpolation::Trilinear).unwrap();
        let mut slice = cut.blank(&[]);
        for tile in cut.boxes() {
            let mut parts = SliceParts::new();
            cut.extract(tile, &volume.stored(&grid, tile), &mut parts).unwrap();
            let mut message = Vec::new();
            parts.encode(&mut message);
            for &(place, byte) in &places {
                let place = place % message.len();
                message[place] = byte;
            }
            let _ = slice.paste_message(&message);
        }
        let _ = slice.into_data();
    }

    #[test]
    fn foreign_planes_are_refused_or_cut(
        origin: [i64; 3],
        right: [i64; 3],
        down: [i64; 3],
        shift in [0..63u32, 0..63u32],
        size in (0..40u32, 0..40u32),
        grid in grids(),
    ) {
        let [near, fine] = shift;
        let origin = origin.map(|at| at >> near);
        let (right, down) = (right.map(|at| at >> fine), down.map(|at| at >> fine));
        let foreign = serde_value(origin, right, down, size);
        if foreign.validate().is_err() {
            prop_assert!(Cut::new(foreign, grid, Pixel::GREY, Interpolation::Nearest).is_err());
            return Ok(());
        }
        for interpolation in [Interpolation::Nearest, Interpolation::Trilinear] {
            let cut = Cut::new(foreign, grid, Pixel::GREY, interpolation).unwrap();
            prop_assert_eq!(cut.boxes(), super::reference::boxes(&grid, &foreign, interpolation));
        }
    }
}

/// A plane as another process may send it.
fn serde_value(origin: [i64; 3], right: [i64; 3], down: [i64; 3], size: (u32, u32)) -> Plane {
    let json = serde_json::json!({
        "origin": origin, "right": right, "down": down, "width": size.0, "height": size.1,
    });
    serde_json::from_value(json).unwrap()
}

#[test]
fn slices_travel() {
    let plane = Plane::axial([1.5; 3]).size(30, 20).in_volume([1.0; 3]).unwrap();
    let sent = serde_json::to_string(&plane).unwrap();
    assert_eq!(serde_json::from_str::<Plane>(&sent).unwrap(), plane);
    let query = Plane::axial([1.5; 3]).size(30, 20);
    let slab = query.slab_in_volume([1.0; 3], 3, 0.5, Blend::Maximum).unwrap();
    let sent = serde_json::to_string(&slab).unwrap();
    assert_eq!(serde_json::from_str::<Slab>(&sent).unwrap(), slab);
}

#[test]
fn a_foreign_pixel_is_refused() {
    let read = |text: &str| serde_json::from_str::<Pixel>(text);
    assert_eq!(read(r#"["U8", 3]"#).unwrap(), Pixel::RGB);
    for channels in [0, 5, 9, 255] {
        let error = read(&format!(r#"["U8", {channels}]"#)).unwrap_err().to_string();
        assert!(error.contains("a pixel has 1 to 4 channels"), "{error}");
    }
}

#[test]
fn boxes_and_voxels_must_fit() {
    let grid = BoxGrid::new(Shape::volume(5, 4, 4), Shape::volume(4, 4, 4), [false; 3]).unwrap();
    let plane = Plane::axial([1.0; 3]).size(3, 3).in_volume([1.0; 3]).unwrap();
    let cut = Cut::new(plane, grid, Pixel::RGB, Interpolation::Nearest).unwrap();
    let mut parts = SliceParts::new();
    let outside = TilePosition::volume(2, 0, 0);
    let error = cut.extract(outside, &[], &mut parts).unwrap_err();
    assert!(matches!(error, ExtractError::NoSuchBox { .. }));
    let far = TilePosition::volume(u64::MAX, 0, 0);
    assert!(cut.extract(far, &[], &mut parts).is_err());
    let edge = TilePosition::volume(1, 0, 0);
    let error = cut.extract(edge, &[0; 192], &mut parts).unwrap_err();
    assert_eq!(error, ExtractError::Length { tile: edge, expected: 48, found: 192 });

    let (one, many) = (Shape::volume(1, 1, 1), Shape::volume(1 << 29, 1 << 29, 1 << 29));
    let longer = Shape::volume((1 << 29) + 1, 1, 1);
    assert!(BoxGrid::new(many, one, [true; 3]).is_ok());
    assert!(matches!(BoxGrid::new(longer, one, [true; 3]), Err(BoxGridError::TooLong { .. })));
    assert!(matches!(BoxGrid::new(many, many, [true; 3]), Err(BoxGridError::LargeBox { .. })));
    let nothing = Shape::volume(1, 0, 1);
    assert!(matches!(BoxGrid::new(nothing, one, [true; 3]), Err(BoxGridError::Empty { .. })));
}

#[test]
fn shares_must_come_once_and_all() {
    let grid = BoxGrid::new(Shape::volume(4, 1, 1), Shape::volume(2, 1, 1), [false; 3]).unwrap();
    let plane = Plane::in_voxels([1.25, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], 1, 1).unwrap();
    let cut = Cut::new(plane, grid, Pixel::GREY, Interpolation::Trilinear).unwrap();
    let (mut one, mut two) = (SliceParts::new(), SliceParts::new());
    cut.extract(TilePosition::volume(0, 0, 0), &[0, 10], &mut one).unwrap();
    cut.extract(TilePosition::volume(1, 0, 0), &[20, 0], &mut two).unwrap();
    let mut slice = cut.blank(&[7]);
    slice.paste(&one).unwrap();
    assert_eq!(slice.check_finished(), Err(PartsError::Unfinished { pixels: 1 }));
    assert_eq!(slice.data(), [7]);
    let twice = slice.clone().paste(&one);
    assert_eq!(twice, Err(PartsError::TooMuch { column: 0, row: 0 }));
    slice.paste(&two).unwrap();
    assert_eq!(slice.into_data().unwrap(), [13], "12.5 is rounded up");
}

#[test]
fn parts_must_lie_inside() {
    let (width, height) = (30u16, 20u16);
    let query = Plane::axial([1.0; 3]).size(width.into(), height.into());
    let slab = query.slab_in_volume([1.0; 3], 2, 1.0, Blend::Maximum).unwrap();
    let grid = BoxGrid::new(Shape::volume(4, 4, 4), Shape::volume(4, 4, 4), [false; 3]).unwrap();
    let cut = SlabCut::new(slab, grid, Pixel::GREY, Interpolation::Trilinear).unwrap();
    let edges = [
        (height - 1, width - 1, 0, true),
        (height - 1, 0, width - 1, true),
        (height, 0, 0, false),
        (0, width, 0, false),
        (0, width - 1, 1, false),
        (height - 1, 0, width, false),
        (u16::MAX, u16::MAX, u16::MAX, false),
    ];
    for (row, first, more, is_inside) in edges {
        let run = [row, first, more].map(u16::to_le_bytes).concat();
        let pixels = vec![1; usize::from(more) + 1];
        let head = |runs: u32, shares: u32| [runs.to_le_bytes(), shares.to_le_bytes()].concat();
        let mut slice = Slice::blank(width.into(), height.into(), Pixel::GREY, &[]);
        let pasted = slice.paste_message(&[&head(6, 0)[..], &run, &pixels].concat());
        let outside =
            |result: Result<(), PartsError>| matches!(result, Err(PartsError::Outside { .. }));
        assert_eq!((pasted.is_ok(), outside(pasted)), (is_inside, !is_inside));

        // A share of nothing is a share, and has a position.
        let share = [&[0, 0][..], &run, &vec![0; pixels.len() * 8]].concat();
        let len = u32::try_from(share.len()).unwrap();
        let pasted = slice.paste_message(&[&head(0, len)[..], &share].concat());
        assert_eq!((pasted.is_ok(), outside(pasted)), (is_inside, !is_inside));

        let cells = [1, 9].repeat(pixels.len());
        let len = u32::try_from(6 + cells.len()).unwrap().to_le_bytes();
        let merged = cut.blank().merge_message(&[&len[..], &run, &cells].concat());
        assert_eq!((merged.is_ok(), outside(merged)), (is_inside, !is_inside));
    }
}
