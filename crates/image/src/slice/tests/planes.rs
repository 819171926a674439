//! Planes: valid and invalid descriptions.

use proptest::prelude::*;

use crate::slice::{Blend, Plane, PlaneError};

const EYE: [[f64; 3]; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

fn steps(plane: &Plane) -> [[f64; 3]; 2] {
    let from = plane.voxel_at(0, 0);
    let to = [plane.voxel_at(1, 0), plane.voxel_at(0, 1)];
    to.map(|to| [0, 1, 2].map(|axis| to[axis] - from[axis]))
}

#[test]
fn straight_slices_lie_along_the_axes() {
    let [x, y, z] = EYE;
    let center = [10.0, 20.0, 30.0];
    let planes = [
        (Plane::axial(center), [x, y]),
        (Plane::coronal(center), [x, z]),
        (Plane::sagittal(center), [y, z]),
        (Plane::through(center), [x, y]),
    ];
    for (query, directions) in planes {
        let plane = query.size(11, 7).in_volume([1.0; 3]).unwrap();
        assert_eq!(plane.voxel_at(5, 3), center);
        assert_eq!(steps(&plane), directions);
    }
}

#[test]
fn spacing_and_zoom_are_applied() {
    let plane = Plane::coronal([10.0, 20.0, 30.0]).size(1, 1).zoom(4.0);
    let plane = plane.in_volume([0.5, 1.0, 2.0]).unwrap();
    assert_eq!(plane.voxel_at(0, 0), [20.0, 20.0, 15.0]);
    assert_eq!(steps(&plane), [[0.25, 0.0, 0.0], [0.0, 0.0, 0.0625]]);

    let spanned = Plane::spanned([1.0; 3], [3.0, 0.0, 0.0], [0.0, 0.0, 3.0]).size(2, 2);
    let plane = spanned.zoom(0.5).in_volume([1.0, 1.0, 2.0]).unwrap();
    assert_eq!(plane.voxel_at(1, 1), [7.0, 1.0, 3.5]);
}

#[test]
fn a_slab_extends_away_from_the_viewer() {
    let query = Plane::axial([0.0; 3]).size(1, 1);
    let slab = query.slab_in_volume([1.0, 1.0, 2.0], 3, 4.0, Blend::Mean).unwrap();
    let last = slab.layers().last().unwrap();
    assert_eq!((last.0, last.1.voxel_at(0, 0)), (2, [0.0, 0.0, 4.0]));
    assert!(query.slab_in_volume([1.0; 3], 0, 1.0, Blend::Mean).is_err());
    assert!(query.slab_in_volume([1.0; 3], 65_536, 1e9, Blend::Mean).is_err());
    assert!(query.slab_in_volume([1.0; 3], 2, f64::NAN, Blend::Mean).is_err());
}

#[test]
fn invalid_planes_are_refused() {
    let [x, y, z] = EYE;
    let good = Plane::through([1.0; 3]).normal(z).size(10, 10);
    assert!(good.in_volume([1.0; 3]).is_ok());
    let refused = |error: Result<Plane, PlaneError>| error.unwrap_err();
    let not_finite =
        |error: Result<Plane, PlaneError>| matches!(error, Err(PlaneError::NotFinite { .. }));
    for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(not_finite(Plane::through([0.0, wrong, 0.0]).size(1, 1).in_volume([1.0; 3])));
        assert!(not_finite(good.normal([wrong, 0.0, 1.0]).in_volume([1.0; 3])));
        assert!(not_finite(good.up([wrong, 0.0, 1.0]).in_volume([1.0; 3])));
        assert!(not_finite(Plane::in_voxels([wrong, 0.0, 0.0], x, y, 1, 1)));
        assert!(not_finite(Plane::in_voxels([0.0; 3], [0.0, 0.0, wrong], y, 1, 1)));
        assert!(matches!(refused(good.zoom(wrong).in_volume([1.0; 3])), PlaneError::Zoom { .. }));
        let spacing = good.in_volume([1.0, wrong, 1.0]);
        assert!(matches!(refused(spacing), PlaneError::Spacing { .. }));
    }
    for zoom in [0.0, -1.0] {
        assert_eq!(refused(good.zoom(zoom).in_volume([1.0; 3])), PlaneError::Zoom { zoom });
        let spacing = refused(good.in_volume([zoom, 1.0, 1.0]));
        assert_eq!(spacing, PlaneError::Spacing { spacing: zoom });
    }
    let zero = |what| PlaneError::ZeroDirection { what };
    assert_eq!(refused(good.normal([0.0; 3]).in_volume([1.0; 3])), zero("normal"));
    assert_eq!(refused(good.up([0.0; 3]).in_volume([1.0; 3])), zero("direction up"));
    assert_eq!(refused(good.up(z).in_volume([1.0; 3])), PlaneError::UpAlongNormal);
    let spanned = Plane::spanned([0.0; 3], x, [0.0; 3]).size(1, 1);
    assert_eq!(refused(spanned.in_volume([1.0; 3])), zero("direction down"));
    for (width, height) in [(0, 1), (1, 0), (65_537, 1), (1, 65_537), (u32::MAX, u32::MAX)] {
        let error = refused(good.size(width, height).in_volume([1.0; 3]));
        assert_eq!(error, PlaneError::Size { width, height });
    }
    assert!(good.size(65_536, 65_536).in_volume([1.0; 3]).is_ok());
    let far = Plane::through([6e8, 0.0, 0.0]).size(1, 1).in_volume([1.0; 3]);
    assert_eq!(refused(far), PlaneError::TooFar);
    assert_eq!(refused(good.zoom(1e-9).in_volume([1.0; 3])), PlaneError::TooFar);
    assert_eq!(refused(good.zoom(1e-300).in_volume([1.0; 3])), PlaneError::TooFar);
    let fine = refused(good.zoom(1e12).in_volume([1.0; 3]));
    assert_eq!(fine, PlaneError::TooFine { what: "direction right" });
}

proptest! {
    #[test]
    fn oblique_slices_are_square_and_centred(
        center in [-100.0..100.0, -100.0..100.0, -100.0..100.0f64],
        normal in [-1.0..1.0, -1.0..1.0, -1.0..1.0f64],
        up in proptest::option::of([-1.0..1.0, -1.0..1.0, -1.0..1.0f64]),
        spacing in [0.1..3.0, 0.1..3.0, 0.1..3.0f64],
    ) {
        let mut query = Plane::through(center).normal(normal).size(101, 51);
        if let Some(up) = up {
            query = query.up(up);
        }
        let Ok(plane) = query.in_volume(spacing) else { return Ok(()) };
        let world = |v: [f64; 3]| [0, 1, 2].map(|axis| v[axis] * spacing[axis]);
        let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        let middle = world(plane.voxel_at(50, 25));
        let [right, down] = steps(&plane).map(world);
        let side = spacing.into_iter().fold(f64::MAX, f64::min);
        for axis in 0..3 {
            prop_assert!((middle[axis] - center[axis]).abs() < 1e-6);
        }
        for (product, expected) in [
            (dot(right, right), side * side),
            (dot(down, down), side * side),
            (dot(right, down), 0.0),
            (dot(right, normal), 0.0),
            (dot(down, normal), 0.0),
        ] {
            prop_assert!((product - expected).abs() < 1e-6, "{} is not {}", product, expected);
        }
        if let Some(up) = up {
            prop_assert!(dot(down, up) < 0.0);
        }
    }
}
