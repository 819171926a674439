//! The shapes of the body, in centimetres.
//!
//! z runs from the top of the head to the feet, x to the left hand, y to the back. The spine is
//! near x = 0.

use super::noise::{hash, unit};
use super::shape::{Bounds, Knot, Solid};
use super::tissue::Tissue;

/// Height from the top of the head to the soles.
pub(super) const HEIGHT_CM: f32 = 180.0;
/// Width and depth that show the whole body.
pub(super) const WIDTH_CM: f32 = 66.0;
pub(super) const DEPTH_CM: f32 = 36.0;

/// A solid and its tissue.
#[derive(Clone, Debug)]
pub(super) struct BodyPart {
    pub tissue: Tissue,
    pub solid: Solid,
    pub bounds: Bounds,
}

/// The skin and the parts under it; later parts cover earlier ones.
#[derive(Clone, Debug)]
pub(super) struct PhantomBody {
    pub outline: Vec<BodyPart>,
    pub inside: Vec<BodyPart>,
}

impl PhantomBody {
    /// Creates a body that depends on the seed.
    pub fn new(seed: u32) -> PhantomBody {
        let mut build = BodyBuilder { seed, parts: Vec::new() };
        build.outline();
        let outline = std::mem::take(&mut build.parts);
        build.trunk();
        build.belly();
        build.chest();
        build.bones();
        build.head();
        PhantomBody { outline, inside: build.parts }
    }
}

struct BodyBuilder {
    seed: u32,
    parts: Vec<BodyPart>,
}

const BOTH: [f32; 2] = [-1.0, 1.0];

impl BodyBuilder {
    fn add(&mut self, tissue: Tissue, solid: Solid) {
        let bounds = solid.bounds();
        self.parts.push(BodyPart { tissue, solid, bounds });
    }

    /// Adds an ellipsoid that varies a little with the seed.
    fn organ(&mut self, tissue: Tissue, center: [f32; 3], radii: [f32; 3]) {
        let number = i32::try_from(self.parts.len()).unwrap_or(0);
        let vary = |what: i32| (unit(hash(self.seed, number, what, 0)) - 0.5) * 0.08;
        let radii = [0, 1, 2].map(|axis| radii[axis] * (1.0 + vary([1, 2, 3][axis])));
        let center = [0, 1, 2].map(|axis| center[axis] + radii[axis] * vary([4, 5, 6][axis]));
        self.ellipsoid(tissue, center, radii);
    }

    fn ellipsoid(&mut self, tissue: Tissue, center: [f32; 3], radii: [f32; 3]) {
        self.add(tissue, Solid::Ellipsoid { center, radii });
    }

    fn capsule(&mut self, tissue: Tissue, from: [f32; 3], to: [f32; 3], radii: [f32; 2]) {
        self.add(tissue, Solid::Capsule { from, to, radii });
    }

    /// Adds a capsule on either side.
    fn capsules(&mut self, tissue: Tissue, from: [f32; 3], to: [f32; 3], radii: [f32; 2]) {
        for side in BOTH {
            let turn = |at: [f32; 3]| [side * at[0], at[1], at[2]];
            self.capsule(tissue, turn(from), turn(to), radii);
        }
    }

    /// Adds a part of the wall of an ellipsoid.
    fn shell(
        &mut self,
        tissue: Tissue,
        center: [f32; 3],
        radii: [f32; 3],
        half_thickness: f32,
        low: [f32; 3],
        high: [f32; 3],
    ) {
        let solid = Solid::Shell { center, radii, half_thickness, taper: 0.0 };
        self.parts.push(BodyPart { tissue, solid, bounds: Bounds { low, high } });
    }

    /// Adds a tube through points (z, x, y, radius along x, radius along y).
    fn column(&mut self, tissue: Tissue, squareness: f32, points: &[[f32; 5]]) {
        self.add(tissue, Solid::Column { knots: knots(points, 1.0), squareness });
    }

    fn columns(&mut self, tissue: Tissue, squareness: f32, points: &[[f32; 5]]) {
        for side in BOTH {
            self.add(tissue, Solid::Column { knots: knots(points, side), squareness });
        }
    }

    fn outline(&mut self) {
        let skin = Tissue::Skin;
        self.ellipsoid(skin, [0.0, 1.0, 10.4], [8.0, 9.9, 10.4]);
        self.ellipsoid(skin, [0.0, -2.6, 14.8], [6.4, 6.9, 9.0]);
        self.ellipsoid(skin, [0.0, -9.6, 14.6], [1.4, 2.1, 2.3]);
        self.ellipsoid(skin, [0.0, -5.6, 20.6], [4.2, 4.2, 3.6]);
        for side in BOTH {
            self.ellipsoid(skin, [side * 8.0, 2.0, 12.4], [0.9, 1.9, 3.2]);
            self.ellipsoid(skin, [side * 17.5, 2.2, 36.5], [5.4, 5.4, 6.6]);
        }
        self.column(
            skin,
            0.0,
            &[
                [14.0, 0.0, 3.2, 5.6, 5.9],
                [22.0, 0.0, 3.0, 5.7, 6.1],
                [27.0, 0.0, 2.6, 6.8, 6.6],
                [31.0, 0.0, 2.4, 11.5, 7.4],
                [35.0, 0.0, 2.0, 13.0, 8.0],
                [41.0, 0.0, 1.6, 5.0, 3.0],
            ],
        );
        self.column(
            skin,
            0.42,
            &[
                [29.0, 0.0, 2.2, 3.0, 2.0],
                [31.5, 0.0, 2.0, 12.0, 6.4],
                [36.0, 0.0, 1.6, 17.6, 9.8],
                [43.0, 0.0, 0.8, 18.6, 11.6],
                [52.0, 0.0, 0.4, 18.2, 12.4],
                [62.0, 0.0, 0.3, 16.6, 12.0],
                [74.0, 0.0, 0.6, 15.8, 11.4],
                [84.0, 0.0, 1.2, 17.4, 11.6],
                [92.0, 0.0, 2.0, 18.8, 12.0],
                [98.0, 0.0, 2.0, 18.2, 11.2],
                [102.0, 0.0, 1.6, 12.0, 8.0],
                [105.5, 0.0, 1.4, 2.0, 1.5],
            ],
        );
        self.columns(
            skin,
            0.0,
            &[
                [31.0, 18.6, 2.2, 0.4, 0.4],
                [35.0, 19.6, 2.2, 4.0, 4.4],
                [41.0, 21.2, 2.2, 5.2, 5.6],
                [52.0, 24.0, 2.6, 4.7, 5.2],
                [64.0, 25.9, 2.6, 4.2, 4.5],
                [70.0, 26.7, 2.2, 4.5, 4.5],
                [80.0, 27.8, 1.2, 3.6, 3.5],
                [87.0, 28.5, 0.4, 2.8, 2.4],
                [92.0, 28.9, 0.0, 3.0, 4.0],
                [98.0, 29.1, -0.4, 2.6, 4.4],
                [104.0, 29.1, -0.6, 1.8, 3.6],
                [107.0, 29.1, -0.8, 0.4, 1.4],
            ],
        );
        self.columns(
            skin,
            0.1,
            &[
                [82.0, 9.6, 2.0, 1.0, 1.0],
                [92.0, 9.6, 2.0, 8.0, 9.0],
                [102.0, 9.7, 1.6, 9.0, 9.8],
                [115.0, 9.6, 1.0, 8.2, 8.8],
                [128.0, 9.2, 0.8, 6.7, 7.2],
                [136.0, 9.0, 0.6, 5.9, 6.5],
                [144.0, 9.0, 2.0, 5.9, 6.7],
                [152.0, 9.0, 2.6, 5.5, 6.3],
                [164.0, 9.0, 2.8, 3.9, 4.4],
                [171.0, 9.0, 2.8, 3.7, 4.5],
                [177.0, 9.0, 2.6, 3.6, 4.6],
                [179.6, 9.0, 2.4, 2.4, 3.6],
            ],
        );
        self.capsules(skin, [9.0, 3.0, 176.4], [10.2, -14.5, 177.8], [3.6, 2.2]);
    }

    fn trunk(&mut self) {
        // The inside of the rib cage and the belly is not muscle.
        self.column(
            Tissue::Fat,
            0.3,
            &[
                [58.0, 0.0, -0.6, 10.0, 6.0],
                [64.0, 0.0, -0.8, 13.0, 8.6],
                [74.0, 0.0, -0.9, 12.8, 8.4],
                [86.0, 0.0, -0.8, 12.6, 8.2],
                [95.0, 0.0, -0.4, 9.6, 7.2],
                [99.0, 0.0, 0.0, 6.0, 5.0],
                [102.0, 0.0, 0.0, 0.6, 0.6],
            ],
        );
        for side in BOTH {
            // The muscles along the spine and in front of it.
            self.column(
                Tissue::Muscle,
                0.2,
                &[
                    [62.0, side * 3.4, 4.6, 1.4, 1.4],
                    [74.0, side * 4.2, 3.6, 2.2, 2.4],
                    [88.0, side * 6.4, 1.6, 2.6, 2.8],
                    [97.0, side * 9.4, -1.6, 2.2, 2.2],
                ],
            );
        }
    }

    fn belly(&mut self) {
        use Tissue::{Chyme, Colon, Gall, Gut, Kidney, Liver, Pancreas, Spleen, Stomach, Urine};
        self.organ(Gut, [0.0, -3.2, 82.0], [10.8, 5.4, 13.6]);
        for side in BOTH {
            self.organ(Kidney, [side * 6.6, 3.9, 72.0], [2.7, 2.3, 5.6]);
        }
        self.capsule(Pancreas, [-3.0, 0.2, 71.0], [7.0, 1.8, 68.0], [1.5, 1.0]);
        self.capsule(Colon, [-10.2, 0.4, 74.0], [-9.6, -0.6, 90.0], [2.2, 2.7]);
        self.capsule(Colon, [-9.8, -2.4, 74.5], [0.0, -6.2, 76.5], [2.1, 1.9]);
        self.capsule(Colon, [0.0, -6.2, 76.5], [10.2, -2.0, 71.0], [1.9, 1.9]);
        self.capsule(Colon, [10.4, 0.6, 72.0], [9.6, 1.0, 89.0], [1.9, 1.7]);
        self.capsule(Colon, [9.4, 1.0, 89.0], [1.0, 4.0, 94.0], [1.7, 1.7]);
        self.capsule(Colon, [1.0, 4.0, 94.0], [0.0, 5.4, 102.0], [1.8, 1.5]);
        self.organ(Urine, [0.0, -3.4, 96.5], [4.2, 3.3, 3.6]);
        self.organ(Spleen, [10.4, 3.8, 62.0], [2.7, 3.9, 5.4]);
        self.organ(Stomach, [6.0, -2.4, 63.0], [5.0, 4.9, 6.4]);
        self.capsule(Stomach, [5.0, -3.4, 67.6], [-2.6, -3.6, 70.0], [2.6, 1.6]);
        self.organ(Chyme, [6.0, -2.4, 63.0], [4.3, 4.2, 5.7]);
        self.capsule(Chyme, [5.0, -3.4, 67.6], [-2.2, -3.6, 69.8], [1.9, 0.9]);
        self.organ(Liver, [-5.4, -0.6, 61.6], [8.2, 7.8, 7.4]);
        self.capsule(Liver, [-4.0, -3.6, 60.0], [5.6, -5.2, 58.6], [4.4, 1.8]);
        self.capsule(Liver, [-8.6, 0.4, 62.0], [-9.4, 0.2, 70.5], [4.4, 2.2]);
        self.organ(Gall, [-5.8, -5.0, 68.4], [1.5, 1.7, 3.0]);
    }

    fn chest(&mut self) {
        use Tissue::{Air, Blood, Cartilage, Fat, HeartMuscle, Lung, Muscle, Vein, VesselWall};
        // The space between the lungs.
        self.column(
            Fat,
            0.3,
            &[
                [32.0, 0.0, 1.0, 1.0, 1.0],
                [38.0, 0.0, 0.4, 4.0, 5.2],
                [48.0, 0.0, -0.6, 4.6, 6.8],
                [58.0, 0.0, -1.0, 5.0, 6.6],
                [62.0, 0.0, -1.0, 3.0, 3.0],
            ],
        );
        for (side, width) in [(-1.0, 6.2), (1.0, 5.9)] {
            let points = [
                [32.6, side * 4.6, 2.6, 0.6, 0.8],
                [36.0, side * 5.4, 2.2, 3.4, 4.8],
                [42.0, side * 6.4, 1.2, width - 0.8, 7.5],
                [50.0, side * 7.0, 0.4, width, 8.7],
                [56.0, side * 7.3, 0.5, width + 0.2, 8.9],
                [61.0, side * 8.0, 2.0, width - 0.6, 7.2],
                [66.0, side * 8.6, 4.4, 3.6, 3.9],
                [69.0, side * 9.2, 5.8, 0.6, 0.8],
            ];
            self.column(Lung, 0.25, &points);
        }
        // The liver and the stomach bulge into the lungs; the space between the lungs.
        self.organ(Tissue::Liver, [-6.6, 0.0, 61.0], [6.6, 6.9, 6.6]);
        self.organ(Tissue::Spleen, [10.0, 3.8, 62.4], [2.5, 3.6, 4.8]);
        self.organ(Tissue::Stomach, [6.2, -1.2, 61.4], [4.6, 4.8, 4.6]);
        self.organ(Tissue::Chyme, [6.2, -1.2, 61.4], [4.0, 4.2, 4.0]);
        self.organ(Fat, [0.4, -4.4, 49.0], [3.6, 3.6, 9.6]);
        self.organ(Fat, [2.4, -3.4, 53.6], [6.2, 5.1, 5.7]);
        self.organ(HeartMuscle, [2.6, -3.4, 53.4], [5.8, 4.7, 5.3]);
        self.organ(Blood, [4.3, -2.4, 54.0], [2.3, 2.1, 3.2]);
        self.organ(Vein, [0.4, -5.0, 54.2], [2.7, 1.7, 3.0]);
        self.organ(Blood, [1.8, -0.6, 50.6], [2.6, 1.5, 1.9]);
        self.organ(Vein, [-1.9, -2.8, 51.6], [1.5, 2.3, 2.7]);
        // The great vessels.
        let arch = [
            ([0.8, -3.2, 49.4], [-0.2, -3.0, 44.8]),
            ([-0.2, -3.0, 44.8], [1.2, -0.6, 42.6]),
            ([1.2, -0.6, 42.6], [2.4, 2.6, 44.6]),
            ([2.4, 2.6, 44.6], [1.9, 3.3, 60.0]),
            ([1.9, 3.3, 60.0], [0.9, 0.6, 82.0]),
            ([0.9, 0.6, 82.0], [5.8, -1.0, 92.0]),
            ([0.5, 0.6, 82.0], [-5.4, -1.0, 92.0]),
        ];
        let cava = [
            ([-2.4, -2.6, 51.0], [-2.6, -2.4, 40.0]),
            ([-2.0, -0.8, 55.0], [-1.8, 0.8, 70.0]),
            ([-1.8, 0.8, 70.0], [-1.6, 1.2, 83.0]),
            ([-1.6, 1.2, 83.0], [5.0, 0.6, 93.0]),
            ([-1.6, 1.2, 83.0], [-6.2, 0.6, 93.0]),
        ];
        let lung_vessels =
            [([1.6, -2.6, 47.6], [6.6, 1.0, 48.6]), ([1.0, -2.4, 47.8], [-6.4, 1.0, 48.8])];
        for (from, to) in arch {
            self.capsule(VesselWall, from, to, [1.45, 1.3]);
        }
        for (from, to) in cava.into_iter().chain(lung_vessels) {
            self.capsule(VesselWall, from, to, [1.2, 1.05]);
        }
        for (from, to) in arch {
            self.capsule(Blood, from, to, [1.25, 1.1]);
        }
        for (from, to) in cava.into_iter().chain(lung_vessels) {
            self.capsule(Vein, from, to, [1.05, 0.9]);
        }
        self.capsule(Muscle, [0.4, 3.4, 26.0], [0.9, 2.4, 59.0], [0.8, 0.8]);
        let airway = [
            ([0.0, 0.4, 24.5], [0.0, 0.6, 45.5], 1.0),
            ([0.0, 0.6, 45.5], [5.4, 1.4, 49.5], 0.75),
            ([0.0, 0.6, 45.5], [-5.2, 1.4, 49.3], 0.8),
            ([5.4, 1.4, 49.5], [8.2, 2.6, 55.0], 0.45),
            ([-5.2, 1.4, 49.3], [-8.2, 2.6, 55.0], 0.45),
        ];
        for (from, to, radius) in airway {
            self.capsule(Cartilage, from, to, [radius + 0.24, radius + 0.2]);
        }
        for (from, to, radius) in airway {
            self.capsule(Air, from, to, [radius, radius]);
        }
        for side in BOTH {
            self.capsule(
                VesselWall,
                [side * 3.4, 0.6, 19.0],
                [side * 3.0, -0.4, 34.0],
                [0.62, 0.62],
            );
            self.capsule(Blood, [side * 3.4, 0.6, 19.0], [side * 3.0, -0.4, 34.0], [0.46, 0.46]);
            self.capsule(Vein, [side * 4.3, 0.9, 19.0], [side * 4.1, -0.6, 34.0], [0.65, 0.7]);
            self.capsule(
                VesselWall,
                [side * 5.8, -1.0, 92.0],
                [side * 8.2, -4.6, 104.0],
                [0.7, 0.62],
            );
            self.capsule(Blood, [side * 5.8, -1.0, 92.0], [side * 8.2, -4.6, 104.0], [0.55, 0.48]);
            self.capsule(Blood, [side * 8.2, -4.6, 104.0], [side * 7.8, 2.8, 134.0], [0.48, 0.4]);
            self.organ(HeartMuscle, [side * 1.9, -0.3, 27.6], [1.1, 1.1, 2.4]);
        }
    }

    fn bones(&mut self) {
        use Tissue::{Bone, Cartilage, Nerve};
        let spine = [
            [21.0, 0.0, 2.6, 1.35, 1.1],
            [28.0, 0.0, 2.8, 1.45, 1.2],
            [36.0, 0.0, 4.6, 1.65, 1.5],
            [48.0, 0.0, 6.0, 1.85, 1.7],
            [60.0, 0.0, 5.4, 2.1, 1.9],
            [72.0, 0.0, 3.5, 2.35, 2.0],
            [82.0, 0.0, 3.0, 2.55, 2.1],
            [88.0, 0.0, 4.4, 2.6, 2.0],
        ];
        self.column(
            Cartilage,
            0.3,
            &spine.map(|[z, x, y, width, depth]| [z, x, y, width * 0.96, depth * 0.96]),
        );
        self.add(Bone, Solid::Vertebrae { spine: knots(&spine, 1.0) });
        let canal = spine.map(|[z, x, y, _, depth]| [z, x, y + depth + 0.55, 0.85, 0.72]);
        self.column(Tissue::Fluid, 0.0, &canal);
        let cord = spine.map(|[z, x, y, _, depth]| [z, x, y + depth + 0.55, 0.58, 0.48]);
        self.column(Nerve, 0.0, &cord[..6]);
        let cage = [
            [30.0, 0.0, 2.8, 3.6, 4.4],
            [33.0, 0.0, 2.4, 6.4, 6.4],
            [38.0, 0.0, 1.4, 10.6, 8.2],
            [46.0, 0.0, 0.6, 13.2, 9.5],
            [56.0, 0.0, 0.2, 14.2, 10.0],
            [66.0, 0.0, 0.2, 13.9, 9.7],
            [72.0, 0.0, 0.4, 13.2, 9.2],
        ];
        self.add(Bone, Solid::Ribs { cage: knots(&cage, 1.0) });
        self.capsule(Bone, [0.0, -7.0, 38.5], [0.0, -9.4, 55.0], [1.25, 0.9]);
        self.capsules(Bone, [2.0, -6.6, 36.6], [9.0, -5.4, 33.4], [0.85, 0.65]);
        self.capsules(Bone, [9.0, -5.4, 33.4], [17.0, 0.6, 32.8], [0.65, 0.8]);
        for side in BOTH {
            let (low, high) = if side < 0.0 { (-17.5, -6.5) } else { (6.5, 17.5) };
            // Shoulder blades and hip bones.
            let (center, radii) = ([side * 4.0, 0.0, 44.0], [14.0, 11.4, 18.0]);
            let solid = Solid::Shell { center, radii, half_thickness: 0.34, taper: 0.55 };
            let bounds = Bounds { low: [low, 2.0, 34.5], high: [high, 12.0, 51.0] };
            self.parts.push(BodyPart { tissue: Bone, solid, bounds });
            let (low, high) = if side < 0.0 { (-15.0, -3.4) } else { (3.4, 15.0) };
            let (center, radii) = ([side * 2.5, -1.6, 84.0], [11.6, 9.4, 11.6]);
            self.shell(Bone, center, radii, 0.55, [low, -4.5, 81.0], [high, 9.5, 94.0]);
        }
        self.capsules(Bone, [15.6, 2.8, 35.0], [12.6, 7.6, 37.4], [1.3, 0.7]);
        self.ellipsoid(Bone, [0.0, 6.8, 92.0], [5.2, 1.9, 4.4]);
        self.capsule(Bone, [0.0, 7.2, 95.0], [0.0, 6.4, 100.0], [1.4, 0.6]);
        self.capsules(Bone, [8.4, 3.4, 91.0], [9.0, 2.0, 97.0], [2.4, 2.6]);
        self.capsules(Bone, [8.4, 1.0, 97.6], [1.4, -4.2, 98.0], [1.2, 1.1]);
        self.capsules(Bone, [7.6, 3.6, 97.0], [6.4, 4.4, 102.6], [1.4, 1.4]);
        self.capsules(Cartilage, [9.9, 1.6, 95.2], [10.0, 1.6, 95.3], [2.55, 2.55]);
        self.capsules(Bone, [9.9, 1.6, 95.2], [10.0, 1.6, 95.3], [2.3, 2.3]);
        self.capsules(Bone, [10.2, 1.6, 95.4], [13.6, 2.4, 99.0], [1.5, 1.7]);
        self.capsules(Bone, [13.2, 2.2, 99.0], [9.6, 0.6, 132.0], [1.75, 1.45]);
        self.capsules(Bone, [9.6, 0.6, 129.0], [9.2, 0.8, 135.0], [1.6, 3.1]);
        self.capsules(Cartilage, [7.8, 0.8, 137.0], [10.6, 0.8, 137.0], [1.8, 1.8]);
        self.capsules(Bone, [9.2, 1.0, 139.6], [9.0, 1.2, 143.0], [3.0, 1.9]);
        self.capsules(Bone, [9.0, 1.0, 142.0], [8.6, 2.6, 170.0], [1.7, 1.4]);
        self.capsules(Bone, [11.4, 3.0, 141.0], [10.9, 3.6, 172.0], [0.75, 0.85]);
        self.capsules(Bone, [9.0, -4.4, 134.4], [9.0, -4.6, 136.2], [1.3, 1.2]);
        self.capsules(Bone, [9.0, 2.6, 172.6], [9.2, 5.4, 176.6], [1.9, 1.9]);
        self.capsules(Bone, [9.2, 1.0, 173.8], [9.4, -4.0, 175.4], [1.6, 1.3]);
        for toe in [-1.6f32, -0.4, 0.8, 1.9] {
            self.capsules(
                Bone,
                [9.4 + toe * 0.8, -4.6, 175.8],
                [10.0 + toe, -12.0, 177.6],
                [0.6, 0.5],
            );
        }
        self.capsules(Bone, [18.0, 2.2, 36.4], [18.2, 2.2, 36.8], [2.4, 2.3]);
        self.capsules(Bone, [18.8, 2.2, 37.0], [25.1, 2.8, 64.0], [1.35, 1.15]);
        self.capsules(Bone, [24.2, 2.8, 65.4], [27.0, 2.8, 65.6], [1.2, 1.2]);
        self.capsules(Bone, [25.0, 3.6, 65.8], [27.7, 1.4, 88.0], [1.0, 0.55]);
        self.capsules(Bone, [27.0, 2.2, 67.4], [28.7, -0.4, 88.0], [0.7, 1.0]);
        self.capsules(Bone, [28.3, 0.4, 90.0], [28.5, 0.2, 91.4], [1.3, 1.3]);
        for finger in [-2.4f32, -0.9, 0.6, 2.0] {
            self.capsules(
                Bone,
                [28.8, finger * 0.6, 92.6],
                [29.1, finger * 1.1 - 0.5, 98.0],
                [0.5, 0.45],
            );
            self.capsules(
                Bone,
                [29.1, finger * 1.1 - 0.5, 98.8],
                [29.1, finger * 1.1 - 0.6, 104.0],
                [0.42, 0.35],
            );
        }
    }

    fn head(&mut self) {
        use Tissue::{Air, Bone, Brain, Cerebellum, Eye, Fat, Fluid, Lens, Muscle, Nerve, Tooth};
        // Face and base of the skull, then the vault with the brain in it.
        self.ellipsoid(Bone, [0.0, -3.6, 13.4], [5.4, 4.4, 3.4]);
        self.ellipsoid(Bone, [0.0, 1.6, 14.6], [5.6, 5.6, 3.6]);
        self.ellipsoid(Bone, [0.0, 1.0, 10.0], [7.3, 9.1, 9.3]);
        self.ellipsoid(Fluid, [0.0, 1.0, 9.8], [6.7, 8.5, 8.6]);
        self.organ(Brain, [0.0, 1.0, 9.4], [6.5, 8.3, 7.8]);
        self.ellipsoid(Fluid, [0.3, 1.0, 5.6], [0.15, 7.4, 4.2]);
        self.ellipsoid(Nerve, [0.0, 1.2, 9.8], [1.6, 3.2, 1.0]);
        for side in BOTH {
            self.capsule(Fluid, [side * 1.1, -2.0, 8.8], [side * 1.5, 3.4, 8.4], [0.55, 0.65]);
            self.capsule(Fluid, [side * 1.5, 3.4, 8.4], [side * 2.6, 4.4, 10.6], [0.6, 0.3]);
            self.ellipsoid(Nerve, [side * 1.5, 1.4, 10.6], [1.1, 1.9, 1.1]);
        }
        self.organ(Cerebellum, [-2.1, 5.2, 14.8], [2.7, 2.9, 2.4]);
        self.organ(Cerebellum, [2.1, 5.2, 14.8], [2.7, 2.9, 2.4]);
        self.capsule(Nerve, [0.0, 1.6, 12.4], [0.0, 3.4, 17.0], [1.3, 1.1]);
        self.capsule(Fluid, [0.0, 3.6, 17.0], [0.0, 4.4, 23.0], [0.85, 0.8]);
        self.capsule(Nerve, [0.0, 3.4, 16.4], [0.0, 4.4, 23.0], [0.65, 0.55]);
        for side in BOTH {
            self.ellipsoid(Fat, [side * 3.2, -5.6, 12.6], [1.8, 2.9, 1.6]);
            self.capsule(Muscle, [side * 4.4, -5.8, 12.6], [side * 2.6, -2.8, 12.6], [0.3, 0.3]);
            self.capsule(Muscle, [side * 2.0, -5.8, 12.6], [side * 2.4, -2.8, 12.6], [0.3, 0.3]);
            self.capsule(Nerve, [side * 3.2, -5.6, 12.6], [side * 1.4, -1.4, 12.8], [0.22, 0.25]);
            self.ellipsoid(Eye, [side * 3.2, -7.0, 12.6], [1.25, 1.25, 1.25]);
            self.ellipsoid(Lens, [side * 3.2, -7.85, 12.6], [0.5, 0.25, 0.5]);
            self.ellipsoid(Air, [side * 3.1, -5.4, 15.0], [1.3, 1.6, 1.5]);
            self.ellipsoid(Air, [side * 1.2, -7.3, 8.8], [1.0, 0.45, 1.0]);
            self.ellipsoid(Air, [side * 0.62, -5.6, 14.6], [0.46, 3.2, 2.0]);
            self.capsule(Air, [side * 8.0, 1.8, 13.6], [side * 5.0, 1.4, 13.6], [0.34, 0.3]);
            self.capsule(Bone, [side * 5.2, 0.2, 15.0], [side * 4.7, -0.6, 20.4], [0.8, 0.75]);
        }
        self.capsule(Air, [0.0, -2.6, 15.4], [0.0, -1.0, 24.0], [0.75, 0.8]);
        let (jaw, wide) = ([0.0, -2.8, 20.0], [4.7, 5.6, 20.0]);
        self.shell(Bone, jaw, wide, 0.62, [-5.6, -9.2, 18.9], [5.6, 0.2, 21.6]);
        self.shell(Bone, jaw, [4.3, 5.4, 20.0], 0.65, [-5.6, -9.2, 15.6], [5.6, -1.6, 17.2]);
        self.shell(Tooth, jaw, [4.3, 5.4, 20.0], 0.45, [-5.2, -9.0, 17.0], [5.2, -2.2, 18.0]);
        self.shell(Tooth, jaw, [4.5, 5.4, 20.0], 0.42, [-5.2, -9.0, 18.1], [5.2, -2.4, 19.1]);
        self.ellipsoid(Muscle, [0.0, -3.8, 18.8], [2.9, 3.7, 2.0]);
    }
}

fn knots(points: &[[f32; 5]], side: f32) -> Vec<Knot> {
    let knot = |&[z, x, y, width, depth]: &[f32; 5]| Knot {
        z,
        center: [side * x, y],
        radii: [width, depth],
    };
    points.iter().map(knot).collect()
}
