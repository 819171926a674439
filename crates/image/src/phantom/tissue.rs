//! The appearance of tissues: in colour as in a photograph of a cut, in grey as in a tomogram.

use super::noise::mix;

/// The tissue of a voxel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tissue {
    Outside,
    Skin,
    Fat,
    Muscle,
    Bone,
    Tooth,
    Cartilage,
    Air,
    Brain,
    Cerebellum,
    Nerve,
    Fluid,
    Eye,
    Lens,
    Lung,
    HeartMuscle,
    Blood,
    Vein,
    VesselWall,
    Liver,
    Gall,
    Stomach,
    Chyme,
    Spleen,
    Pancreas,
    Kidney,
    Gut,
    Colon,
    Urine,
}

/// What the paint of a voxel depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct TissueSample {
    pub tissue: Tissue,
    /// Depth inside of its solid.
    pub depth: f32,
    /// Slow and fast texture, 0 to 1, and grain from voxel to voxel, -0.5 to 0.5.
    pub slow: f32,
    pub fast: f32,
    pub grain: f32,
}

/// Red, green, blue, and density, each from 0 to 1.
pub(super) type Paint = [f32; 4];

const OUTSIDE: Paint = [0.0, 0.0, 0.0, 0.0];

/// Returns the paint of a voxel.
pub(super) fn paint(sample: &TissueSample) -> Paint {
    let TissueSample { depth, slow, fast, grain, .. } = *sample;
    let (plain, roughness) = match sample.tissue {
        Tissue::Outside => return OUTSIDE,
        Tissue::Skin => (blend(rgb(214, 160, 128, 52), rgb(176, 112, 84, 56), fast), 0.05),
        Tissue::Fat => {
            // Lobes with fine walls between them.
            let lobe = blend(rgb(236, 206, 132, 30), rgb(220, 178, 98, 33), fast);
            (blend(lobe, rgb(206, 154, 96, 38), wall(slow, 0.010) * 0.7), 0.05)
        }
        Tissue::Muscle => {
            let fibre = blend(rgb(152, 56, 48, 58), rgb(112, 36, 36, 62), fast);
            let bundle = blend(fibre, rgb(172, 78, 62, 56), (slow - 0.45) * 1.2);
            // Fat along the walls between muscles.
            (blend(bundle, rgb(222, 178, 118, 36), wall(slow, 0.012) * 0.9), 0.09)
        }
        Tissue::Bone => {
            let spongy = blend(rgb(206, 150, 108, 72), rgb(158, 82, 62, 64), fast * 1.3 - 0.15);
            (blend(rgb(240, 230, 204, 97), spongy, (depth - 0.22) * 6.0), 0.04)
        }
        Tissue::Tooth => (rgb(248, 244, 228, 100), 0.02),
        Tissue::Cartilage => (blend(rgb(206, 206, 204, 64), rgb(180, 184, 190, 62), fast), 0.03),
        Tissue::Air => (rgb(26, 12, 14, 2), 0.1),
        Tissue::Brain => {
            // A folded ribbon of grey matter; between the folds, fluid.
            let fold = clamp(1.0 - (fast - 0.5).abs() * 5.0);
            let inward = depth - 0.45 - 3.2 * fold;
            let white = blend(rgb(184, 142, 126, 55), rgb(236, 218, 196, 50), inward * 4.0);
            let furrow = wall(fast, 0.020) * clamp((2.6 - depth) * 2.0);
            (blend(white, rgb(96, 58, 56, 44), furrow), 0.03)
        }
        Tissue::Cerebellum => {
            let leaf = clamp((fast - 0.5).abs() * 5.0);
            (blend(rgb(226, 204, 182, 50), rgb(176, 128, 112, 56), leaf), 0.04)
        }
        Tissue::Nerve => (blend(rgb(234, 218, 192, 53), rgb(220, 196, 172, 55), fast), 0.03),
        Tissue::Fluid => (rgb(118, 96, 104, 44), 0.03),
        Tissue::Eye => {
            (blend(rgb(236, 234, 230, 58), rgb(150, 160, 172, 46), (depth - 0.14) * 9.0), 0.02)
        }
        Tissue::Lens => (rgb(212, 196, 150, 64), 0.02),
        Tissue::Lung => {
            let air = blend(rgb(150, 76, 74, 14), rgb(98, 42, 48, 20), fast);
            let air = blend(air, rgb(74, 32, 42, 24), (slow - 0.5) * 1.6);
            (blend(air, rgb(206, 128, 118, 52), wall(fast, 0.045) * clamp(slow * 2.2 - 0.6)), 0.16)
        }
        Tissue::HeartMuscle => (blend(rgb(158, 50, 44, 60), rgb(124, 34, 36, 63), fast), 0.07),
        Tissue::Blood => (blend(rgb(104, 14, 22, 66), rgb(84, 8, 18, 66), fast), 0.03),
        Tissue::Vein => (blend(rgb(70, 16, 36, 62), rgb(58, 14, 34, 62), fast), 0.03),
        Tissue::VesselWall => (rgb(214, 164, 142, 60), 0.04),
        Tissue::Liver => {
            let plain = blend(rgb(138, 56, 36, 64), rgb(112, 40, 28, 67), fast);
            (blend(plain, rgb(70, 16, 26, 58), wall(slow, 0.018)), 0.06)
        }
        Tissue::Gall => (rgb(92, 108, 38, 47), 0.03),
        Tissue::Stomach => (blend(rgb(204, 132, 112, 56), rgb(178, 98, 86, 58), fast), 0.05),
        Tissue::Chyme => (blend(rgb(120, 102, 62, 48), rgb(84, 74, 48, 44), slow), 0.10),
        Tissue::Spleen => (blend(rgb(110, 34, 50, 65), rgb(90, 24, 42, 67), fast), 0.06),
        Tissue::Pancreas => (blend(rgb(222, 178, 132, 54), rgb(196, 140, 104, 57), fast), 0.06),
        Tissue::Kidney => {
            // Bark, pyramids, and the fat of the hilum.
            let pyramid = blend(rgb(112, 36, 36, 60), rgb(170, 84, 66, 66), (slow - 0.4) * 5.0);
            let inner = blend(pyramid, rgb(232, 200, 128, 32), (depth - 1.55) * 6.0);
            (blend(rgb(152, 62, 44, 68), inner, (depth - 0.65) * 6.0), 0.05)
        }
        Tissue::Gut => {
            // Loops of bowel in the fat that holds them.
            let ring = (slow - 0.5).abs();
            let inside = blend(rgb(208, 124, 108, 55), rgb(116, 92, 56, 44), (0.085 - ring) * 40.0);
            (blend(inside, rgb(232, 198, 124, 31), (ring - 0.17) * 30.0), 0.06)
        }
        Tissue::Colon => {
            let inside = blend(rgb(94, 70, 40, 46), rgb(40, 26, 22, 8), (slow - 0.5) * 12.0);
            (blend(rgb(200, 140, 112, 56), inside, (depth - 0.3) * 9.0), 0.08)
        }
        Tissue::Urine => {
            (blend(rgb(206, 140, 116, 57), rgb(214, 188, 98, 45), (depth - 0.4) * 9.0), 0.03)
        }
    };
    let shade = 1.0 + roughness * 2.0 * grain;
    // Densities vary less than colours.
    let density = plain[3] * (1.0 + roughness * grain) + 0.02 * grain;
    [plain[0] * shade, plain[1] * shade, plain[2] * shade, density].map(clamp)
}

/// Returns 1 where a texture is in the middle, falling to 0 within a width: thin, winding walls.
fn wall(texture: f32, width: f32) -> f32 {
    clamp(1.6 - (texture - 0.5).abs() / width)
}

fn blend(one: Paint, two: Paint, part: f32) -> Paint {
    let part = clamp(part);
    [0, 1, 2, 3].map(|channel| mix(one[channel], two[channel], part))
}

fn clamp(value: f32) -> f32 {
    value.clamp(0.0, 1.0)
}

/// Returns a colour in 256 steps with a density in per cent.
const fn rgb(red: u8, green: u8, blue: u8, density: u8) -> Paint {
    [red as f32 / 255.0, green as f32 / 255.0, blue as f32 / 255.0, density as f32 / 100.0]
}
