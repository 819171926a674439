//! The bytes of a layout: golden, inverse, and harmless when damaged.

use pario_proto::{Declustering, DiskId, Disks, Layout, LayoutDecodeError, Shape, Striped, Tiles};
use proptest::prelude::*;

/// Changes of these bytes change files on disks: add a version instead.
const STRIPED_GOLDEN: [u8; 24] = [
    1, 0, // version
    1, 0, // kind
    2, 0, 0, 0, // disks
    0, 0, 1, 0, 0, 0, 0, 0, // unit: 65,536
    7, 0, 0, 0, 4, 3, 2, 1, // disk ids
];

const TILES_GOLDEN: [u8; 84] = [
    1, 0, // version
    2, 0, // kind
    5, 0, 0, 0, // disks
    0, 8, 0, 0, 0, 0, 0, 0, // image: 2,048 x 1,216 x 1,878
    192, 4, 0, 0, 0, 0, 0, 0, //
    86, 7, 0, 0, 0, 0, 0, 0, //
    32, 0, 0, 0, 0, 0, 0, 0, // tile: 32 x 32 x 17
    32, 0, 0, 0, 0, 0, 0, 0, //
    17, 0, 0, 0, 0, 0, 0, 0, //
    2, 0, 0, 0, // row offset
    3, 0, 0, 0, // plane offset
    0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, // disk ids
];

fn striped() -> Layout {
    Striped::new(65_536, Disks::new([DiskId(7), DiskId(0x0102_0304)]).unwrap()).unwrap().into()
}

fn tiles() -> Layout {
    Tiles::with_declustering(
        Shape::volume(2_048, 1_216, 1_878),
        Shape::volume(32, 32, 17),
        Disks::new((0..5).map(DiskId)).unwrap(),
        Declustering::new(5, 2, 3).unwrap(),
    )
    .unwrap()
    .into()
}

fn layouts() -> impl Strategy<Value = Layout> {
    let disks = || {
        prop::collection::hash_set(any::<u32>(), 1..20)
            .prop_map(|ids| Disks::new(ids.into_iter().map(DiskId)).unwrap())
    };
    let shape = |sides: std::ops::Range<u64>| {
        [sides.clone(), sides.clone(), sides].prop_map(|[x, y, z]| Shape { x, y, z })
    };
    prop_oneof![
        (1..=u64::MAX, disks())
            .prop_map(|(unit, disks)| Layout::from(Striped::new(unit, disks).unwrap())),
        (shape(1..60_000), shape(1..500), disks())
            .prop_map(|(image, tile, disks)| Layout::from(Tiles::new(image, tile, disks).unwrap())),
    ]
}

/// Whatever the bytes, decoding answers; and what it accepts encodes to the same bytes.
fn check_any_bytes(bytes: &[u8]) -> Result<(), TestCaseError> {
    match Layout::decode(bytes) {
        Ok(layout) => prop_assert_eq!(layout.encode(), bytes),
        Err(error) => prop_assert!(!error.to_string().is_empty()),
    }
    Ok(())
}

#[test]
fn golden_bytes() {
    assert_eq!(striped().encode(), STRIPED_GOLDEN);
    assert_eq!(Layout::decode(&STRIPED_GOLDEN), Ok(striped()));
    assert_eq!(tiles().encode(), TILES_GOLDEN);
    assert_eq!(Layout::decode(&TILES_GOLDEN), Ok(tiles()));
}

#[test]
fn every_damage_has_its_error() {
    for golden in [&STRIPED_GOLDEN[..], &TILES_GOLDEN[..]] {
        for len in 0..golden.len() {
            let cut = Layout::decode(&golden[..len]);
            assert!(
                matches!(cut, Err(LayoutDecodeError::CutOff { given, needed }) if given == len && needed > len)
            );
        }
        let longer = [golden, &[0]].concat();
        assert_eq!(Layout::decode(&longer), Err(LayoutDecodeError::TrailingBytes { extra: 1 }));
    }
    let changed = |golden: &[u8], at: usize, value: u8| {
        let mut bytes = golden.to_vec();
        bytes[at] = value;
        Layout::decode(&bytes).unwrap_err().to_string()
    };
    let expected = [
        (changed(&STRIPED_GOLDEN, 0, 2), "format version 2"),
        (changed(&STRIPED_GOLDEN, 2, 9), "of kind 9"),
        (changed(&STRIPED_GOLDEN, 4, 3), "cut off: 24 bytes, at least 28"),
        (changed(&STRIPED_GOLDEN, 4, 1), "followed by 4 bytes"),
        (changed(&STRIPED_GOLDEN, 10, 0), "unit is 0 bytes"),
        (changed(&TILES_GOLDEN, 9, 0), "is empty"),
        (changed(&TILES_GOLDEN, 15, 255), "choose larger tiles"),
        (changed(&TILES_GOLDEN, 32, 0), "is empty"),
        (changed(&TILES_GOLDEN, 56, 5), "row offset 5 does not fit 5 subfiles"),
        (changed(&TILES_GOLDEN, 60, 0), "plane offset 0 does not fit 5 subfiles"),
        (changed(&TILES_GOLDEN, 68, 0), "disk 0 is named twice"),
    ];
    for (sentence, part) in expected {
        assert!(sentence.contains(part), "{sentence:?} should contain {part:?}");
    }
    assert!(Layout::decode(&[1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]).is_err(), "no disks");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn decode_is_the_inverse_of_encode(layout in layouts()) {
        let bytes = layout.encode();
        prop_assert_eq!(Layout::decode(&bytes), Ok(layout));
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_any_bytes(&bytes)?;
    }

    #[test]
    fn random_bytes_with_a_good_start_never_panic(
        kind in 1..=2u8, count in 0..20u8, rest in prop::collection::vec(any::<u8>(), 0..150),
    ) {
        check_any_bytes(&[&[1, 0, kind, 0, count, 0, 0, 0], &rest[..]].concat())?;
    }

    #[test]
    fn mutated_encodings_never_panic(
        layout in layouts(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        len in any::<prop::sample::Index>(),
    ) {
        let mut bytes = layout.encode();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        check_any_bytes(&bytes)?;
        bytes.truncate(len.index(bytes.len()));
        check_any_bytes(&bytes)?;
    }
}
