//! Solids as formulas that give the depth of a point inside.
//!
//! Invariants: a depth is about a distance in centimetres to the surface, positive inside. It uses
//! only additions, products, quotients, roots and comparisons, so it is the same on every machine.
//! Callers evaluate a solid only within its bounds, and treat it as far away outside of them.

use super::noise::floor;

/// Neighbours along x that are computed together.
pub(super) const LANES: usize = 16;

/// A value for each neighbour.
pub(super) type Lanes = [f32; LANES];

/// Positions of neighbours, in centimetres.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowPosition {
    pub x: Lanes,
    pub y: f32,
    pub z: f32,
}

/// A formula of a solid.
#[derive(Clone, Debug)]
pub(super) enum Solid {
    /// An ellipsoid.
    Ellipsoid { center: [f32; 3], radii: [f32; 3] },
    /// The wall of an ellipsoid with half of its thickness on either side of the surface, cut off
    /// at the bounds; on the side away from x = 0 it loses `taper` with every centimetre down.
    Shell { center: [f32; 3], radii: [f32; 3], half_thickness: f32, taper: f32 },
    /// All points near a line between two points, with a radius at each.
    Capsule { from: [f32; 3], to: [f32; 3], radii: [f32; 2] },
    /// An upright tube of changing position and size; `squareness` from 0 (ellipse) to 1.
    Column { knots: Vec<Knot>, squareness: f32 },
    /// Rings on the wall of a column, sloping down to the front.
    Ribs { cage: Vec<Knot> },
    /// Vertebrae along a column.
    Vertebrae { spine: Vec<Knot> },
}

/// A cross-section of a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knot {
    pub z: f32,
    pub center: [f32; 2],
    pub radii: [f32; 2],
}

/// The bounding box of a solid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub low: [f32; 3],
    pub high: [f32; 3],
}

impl Bounds {
    /// Returns whether two boxes intersect.
    pub fn intersects(&self, other: &Bounds) -> bool {
        (0..3).all(|axis| self.low[axis] <= other.high[axis] && other.low[axis] <= self.high[axis])
    }

    /// Returns a box that is larger on all sides.
    pub fn widened(&self, by: f32) -> Bounds {
        Bounds { low: self.low.map(|low| low - by), high: self.high.map(|high| high + by) }
    }
}

impl Solid {
    /// Returns the bounding box.
    pub fn bounds(&self) -> Bounds {
        match self {
            Solid::Ellipsoid { center, radii } => around(*center, *radii),
            Solid::Shell { center, radii, half_thickness, .. } => {
                around(*center, radii.map(|radius| radius + half_thickness))
            }
            Solid::Capsule { from, to, radii } => {
                let radius = radii[0].max(radii[1]);
                Bounds {
                    low: [0, 1, 2].map(|axis| from[axis].min(to[axis]) - radius),
                    high: [0, 1, 2].map(|axis| from[axis].max(to[axis]) + radius),
                }
            }
            Solid::Column { knots, .. } => around_knots(knots, [0.0; 2]),
            Solid::Ribs { cage } => around_knots(cage, [1.0, 1.0]),
            Solid::Vertebrae { spine } => around_knots(spine, [3.0, 6.0]),
        }
    }

    /// Returns the depths of the points of a row, given the bounds and the section at this height.
    pub fn depths(&self, row: &RowPosition, bounds: &Bounds, section: Option<&Knot>) -> Lanes {
        match self {
            Solid::Ellipsoid { center, radii } => ellipsoid(row, *center, *radii),
            Solid::Shell { center, radii, half_thickness, taper } => {
                let mut depths = ellipsoid(row, *center, *radii);
                let sides = (row.y - bounds.low[1]).min(bounds.high[1] - row.y);
                let ends = (row.z - bounds.low[2]).min(bounds.high[2] - row.z);
                let edge = sides.min(ends);
                let outer = bounds.high[0].max(-bounds.low[0]) - taper * (row.z - bounds.low[2]);
                for (depth, &x) in depths.iter_mut().zip(&row.x) {
                    let edge =
                        edge.min(x - bounds.low[0]).min(bounds.high[0] - x).min(outer - x.abs());
                    *depth = (half_thickness - depth.abs()).min(edge);
                }
                depths
            }
            Solid::Capsule { from, to, radii } => capsule(row, *from, *to, *radii),
            Solid::Column { squareness, .. } => {
                section.map_or([-100.0; LANES], |section| column(row, section, *squareness))
            }
            Solid::Ribs { .. } => section.map_or([-100.0; LANES], |section| ribs(row, section)),
            Solid::Vertebrae { .. } => {
                section.map_or([-100.0; LANES], |section| vertebrae(row, section))
            }
        }
    }

    /// Returns the cross-section at a height, for solids that have one there.
    pub fn section(&self, z: f32) -> Option<Knot> {
        match self {
            Solid::Column { knots, .. } => section(knots, z),
            Solid::Ribs { cage } => section(cage, z),
            Solid::Vertebrae { spine } => section(spine, z),
            Solid::Ellipsoid { .. } | Solid::Shell { .. } | Solid::Capsule { .. } => None,
        }
    }
}

fn around(center: [f32; 3], radii: [f32; 3]) -> Bounds {
    Bounds {
        low: [0, 1, 2].map(|axis| center[axis] - radii[axis]),
        high: [0, 1, 2].map(|axis| center[axis] + radii[axis]),
    }
}

fn around_knots(knots: &[Knot], more: [f32; 2]) -> Bounds {
    let mut bounds = Bounds { low: [f32::MAX; 3], high: [f32::MIN; 3] };
    for knot in knots {
        for (axis, more) in more.into_iter().enumerate() {
            // Between knots a column can be a little wider than at them.
            let radius = knot.radii[axis] * 1.1 + 0.5 + more;
            bounds.low[axis] = bounds.low[axis].min(knot.center[axis] - radius);
            bounds.high[axis] = bounds.high[axis].max(knot.center[axis] + radius);
        }
        bounds.low[2] = bounds.low[2].min(knot.z);
        bounds.high[2] = bounds.high[2].max(knot.z);
    }
    bounds
}

fn ellipsoid(row: &RowPosition, center: [f32; 3], radii: [f32; 3]) -> Lanes {
    let smallest = radii[0].min(radii[1]).min(radii[2]);
    let (y, z) = ((row.y - center[1]) / radii[1], (row.z - center[2]) / radii[2]);
    let (rest, per_x) = (y * y + z * z, 1.0 / radii[0]);
    row.x.map(|x| {
        let x = (x - center[0]) * per_x;
        (1.0 - (x * x + rest).sqrt()) * smallest
    })
}

fn capsule(row: &RowPosition, from: [f32; 3], to: [f32; 3], radii: [f32; 2]) -> Lanes {
    let along = [0, 1, 2].map(|axis| to[axis] - from[axis]);
    let length = along[0] * along[0] + along[1] * along[1] + along[2] * along[2];
    let (y, z) = (row.y - from[1], row.z - from[2]);
    let rest = y * along[1] + z * along[2];
    row.x.map(|x| {
        let x = x - from[0];
        let part = ((x * along[0] + rest) / length).clamp(0.0, 1.0);
        let (x, y, z) = (x - part * along[0], y - part * along[1], z - part * along[2]);
        radii[0] + part * (radii[1] - radii[0]) - (x * x + y * y + z * z).sqrt()
    })
}

/// Returns the cross-section at a height, on a smooth curve through the knots.
fn section(knots: &[Knot], z: f32) -> Option<Knot> {
    let after = knots.iter().position(|knot| knot.z >= z)?;
    let before = after.checked_sub(1)?;
    let (one, two) = (&knots[before], &knots[after]);
    let (outer, outermost) =
        (&knots[before.saturating_sub(1)], &knots[(after + 1).min(knots.len() - 1)]);
    let part = (z - one.z) / (two.z - one.z);
    let curve = |value: fn(&Knot) -> f32| {
        let slope = |from: &Knot, to: &Knot| {
            (value(to) - value(from)) / (to.z - from.z).max(0.001) * (two.z - one.z)
        };
        let (start, end) = (slope(outer, two), slope(one, outermost));
        let (a, b) = (value(one), value(two));
        let (square, cube) = (part * part, part * part * part);
        a * (2.0 * cube - 3.0 * square + 1.0)
            + start * (cube - 2.0 * square + part)
            + b * (3.0 * square - 2.0 * cube)
            + end * (cube - square)
    };
    Some(Knot {
        z,
        center: [curve(|knot| knot.center[0]), curve(|knot| knot.center[1])],
        radii: [curve(|knot| knot.radii[0]).max(0.01), curve(|knot| knot.radii[1]).max(0.01)],
    })
}

fn column(row: &RowPosition, section: &Knot, squareness: f32) -> Lanes {
    let smallest = section.radii[0].min(section.radii[1]);
    let y = (row.y - section.center[1]) / section.radii[1];
    let (y, per_x) = (y * y, 1.0 / section.radii[0]);
    row.x.map(|x| {
        let x = (x - section.center[0]) * per_x;
        let x = x * x;
        let (round, square) = ((x + y).sqrt(), (x * x + y * y).sqrt().sqrt());
        (1.0 - round - (square - round) * squareness) * smallest
    })
}

fn ribs(row: &RowPosition, section: &Knot) -> Lanes {
    const FIRST: f32 = 31.0;
    const PITCH: f32 = 2.7;
    // Ribs run down to the front.
    let height = (row.z - 0.33 * (9.0 - row.y) - FIRST) / PITCH;
    let number = floor(height + 0.5).clamp(0, 11);
    let from_middle = (height - number as f32) * PITCH / 0.72;
    let rest = from_middle * from_middle;
    // The last ones do not reach the front.
    let front = if number < 7 { -100.0 } else { -7.0 + 2.4 * (number - 6) as f32 };
    let wall = column(row, section, 0.25);
    let mut depths = [0.0; LANES];
    for ((depth, wall), x) in depths.iter_mut().zip(wall).zip(row.x) {
        let across = wall / 0.42;
        let rib = (1.0 - (across * across + rest).sqrt()) * 0.42;
        let ends = if row.y < 0.0 { x.abs() - 1.6 } else { x.abs() - 2.0 };
        *depth = rib.min(ends).min(row.y - front);
    }
    depths
}

fn vertebrae(row: &RowPosition, section: &Knot) -> Lanes {
    let [x, y] = section.center;
    // Vertebrae grow from 2 cm at the neck to 3.5 cm, so their number per centimetre falls.
    let below = row.z - 21.0;
    let turn = (0.5 - 0.001_64 * below) * below;
    let pitch = 1.0 / (0.5 - 0.003_28 * below);
    let part = turn - floor(turn) as f32 - 0.5;
    let from_middle = part.abs() * pitch;
    let body = (0.39 * pitch - from_middle) * 1.5;
    let bodies = column(row, section, 0.3);
    let back = row.y - y - section.radii[1];
    let mut depths = [0.0; LANES];
    for ((depth, body_depth), at) in depths.iter_mut().zip(bodies).zip(row.x) {
        let x = (at - x).abs();
        // Waists between the end plates.
        let waist = 0.22 * (1.0 - from_middle / (0.4 * pitch)).max(0.0);
        let body = (body_depth - waist).min(body);
        // The arch around the canal, and its three processes.
        let (arch_x, arch_y) = (x / 1.25, (back - 0.55) / 1.15);
        let arch = (1.0 - (arch_x * arch_x + arch_y * arch_y).sqrt()) * 1.1;
        let arch = arch.min(0.36 * pitch - from_middle);
        let spinous = (0.42 - x).min(back - 0.4).min(4.2 - back).min(0.28 * pitch - from_middle);
        let reach = 1.0 + 1.25 * section.radii[0];
        let transverse = (0.5 - (back - 0.3).abs()).min(reach - x).min(0.2 * pitch - from_middle);
        *depth = body.max(arch).max(spinous).max(transverse);
    }
    depths
}
