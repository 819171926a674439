//! The description of a slice in the world, with defaults.
//!
//! Invariant: right, down and normal of a slice are oriented like x, y and z; the normal points
//! away from the viewer.

use super::plane::{Plane, PlaneError, coordinates};
use super::slab::{Blend, Slab};

/// A builder for a [`Plane`] or a [`Slab`]; see [`Plane::through`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SliceQuery {
    orientation: Orientation,
    width: u32,
    height: u32,
    zoom: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Orientation {
    Through { center: [f64; 3], normal: [f64; 3], up: Option<[f64; 3]> },
    Spanned { origin: [f64; 3], right: [f64; 3], down: [f64; 3] },
}

/// A slice in the world, per pixel.
struct WorldPlane {
    origin: [f64; 3],
    right: [f64; 3],
    down: [f64; 3],
}

impl SliceQuery {
    pub(super) fn through(center: [f64; 3]) -> SliceQuery {
        let orientation = Orientation::Through { center, normal: [0.0, 0.0, 1.0], up: None };
        SliceQuery { orientation, width: 0, height: 0, zoom: 1.0 }
    }

    pub(super) fn spanned(origin: [f64; 3], right: [f64; 3], down: [f64; 3]) -> SliceQuery {
        let orientation = Orientation::Spanned { origin, right, down };
        SliceQuery { orientation, width: 0, height: 0, zoom: 1.0 }
    }

    /// Sets the direction across the slice, of any length, away from the viewer. The default is the
    /// z axis. A spanned slice keeps its normal.
    pub fn normal(mut self, direction: [f64; 3]) -> SliceQuery {
        if let Orientation::Through { normal, .. } = &mut self.orientation {
            *normal = direction;
        }
        self
    }

    /// Sets the direction that is up in the slice, of any length; only its part within the slice
    /// counts. By default z runs down, and in slices across the z axis y does.
    pub fn up(mut self, direction: [f64; 3]) -> SliceQuery {
        if let Orientation::Through { up, .. } = &mut self.orientation {
            *up = Some(direction);
        }
        self
    }

    /// Sets the number of pixels; there is no default.
    pub fn size(mut self, width: u32, height: u32) -> SliceQuery {
        (self.width, self.height) = (width, height);
        self
    }

    /// Sets the zoom: 2 shows everything twice as large, 0.5 half as large.
    pub fn zoom(mut self, zoom: f64) -> SliceQuery {
        self.zoom = zoom;
        self
    }

    /// Returns the slice in a volume with this spacing. At zoom 1, the pixels of a slice through a
    /// point are as far apart as voxels along the axis where they are closest.
    pub fn in_volume(&self, spacing: [f64; 3]) -> Result<Plane, PlaneError> {
        let plane = self.world_plane(spacing)?;
        let voxels = |place: [f64; 3]| [0, 1, 2].map(|axis| place[axis] / spacing[axis]);
        let (right, down) = (voxels(plane.right), voxels(plane.down));
        Plane::in_voxels(voxels(plane.origin), right, down, self.width, self.height)
    }

    /// Returns this slice and others behind it, `step` apart in the world, to be blended into one.
    ///
    /// ```
    /// use pario_image::{Blend, Plane};
    ///
    /// let plane = Plane::coronal([50.0, 40.0, 30.0]).size(256, 256);
    /// let slab = plane.slab_in_volume([0.5, 0.5, 1.5], 20, 0.5, Blend::Maximum)?;
    /// assert_eq!(slab.depth(), 20);
    /// # Ok::<(), pario_image::PlaneError>(())
    /// ```
    pub fn slab_in_volume(
        &self,
        spacing: [f64; 3],
        depth: u32,
        step: f64,
        blend: Blend,
    ) -> Result<Slab, PlaneError> {
        if !step.is_finite() {
            return Err(PlaneError::NotFinite { what: "step from slice to slice", value: step });
        }
        let plane = self.world_plane(spacing)?;
        let normal = unit("normal", cross(plane.right, plane.down))?;
        let step = [0, 1, 2].map(|axis| normal[axis] * step / spacing[axis]);
        let step = coordinates("step from slice to slice", step)?;
        Slab::new(self.in_volume(spacing)?, step, depth, blend)
    }

    fn world_plane(&self, spacing: [f64; 3]) -> Result<WorldPlane, PlaneError> {
        if let Some(&spacing) = spacing.iter().find(|side| !(side.is_finite() && **side > 0.0)) {
            return Err(PlaneError::Spacing { spacing });
        }
        if !(self.zoom.is_finite() && self.zoom > 0.0) {
            return Err(PlaneError::Zoom { zoom: self.zoom });
        }
        match self.orientation {
            Orientation::Spanned { origin, right, down } => {
                check("direction right", right)?;
                check("direction down", down)?;
                Ok(WorldPlane {
                    origin,
                    right: scaled(right, 1.0 / self.zoom),
                    down: scaled(down, 1.0 / self.zoom),
                })
            }
            Orientation::Through { center, normal, up } => {
                let normal = unit("normal", normal)?;
                let down = match up {
                    Some(up) => across(scaled(unit("direction up", up)?, -1.0), normal),
                    None => across([0.0, 0.0, 1.0], normal).or(across([0.0, 1.0, 0.0], normal)),
                };
                let down = down.ok_or(PlaneError::UpAlongNormal)?;
                let side = spacing[0].min(spacing[1]).min(spacing[2]) / self.zoom;
                let (right, down) = (scaled(cross(down, normal), side), scaled(down, side));
                let half = |pixels: u32| (f64::from(pixels) - 1.0) / 2.0;
                let (left, above) = (half(self.width), half(self.height));
                let origin =
                    [0, 1, 2].map(|axis| center[axis] - left * right[axis] - above * down[axis]);
                Ok(WorldPlane { origin, right, down })
            }
        }
    }
}

/// Returns the part of a direction that is across a normal, with length 1; `None` if it is almost
/// 0.
fn across(direction: [f64; 3], normal: [f64; 3]) -> Option<[f64; 3]> {
    let along = dot(direction, normal);
    let rest = [0, 1, 2].map(|axis| direction[axis] - along * normal[axis]);
    let length = dot(rest, rest).sqrt();
    (length > 1e-6).then(|| scaled(rest, 1.0 / length))
}

fn check(what: &'static str, direction: [f64; 3]) -> Result<f64, PlaneError> {
    if let Some(&value) = direction.iter().find(|value| !value.is_finite()) {
        return Err(PlaneError::NotFinite { what, value });
    }
    let largest = direction.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    if largest == 0.0 { Err(PlaneError::ZeroDirection { what }) } else { Ok(largest) }
}

/// Returns the direction with length 1.
fn unit(what: &'static str, direction: [f64; 3]) -> Result<[f64; 3], PlaneError> {
    // Divide by the largest coordinate first, so that squares neither overflow nor vanish.
    let largest = check(what, direction)?;
    let direction = direction.map(|value| value / largest);
    Ok(scaled(direction, 1.0 / dot(direction, direction).sqrt()))
}

fn scaled(direction: [f64; 3], factor: f64) -> [f64; 3] {
    direction.map(|value| value * factor)
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}
