//! The volume of all slice figures: 1024 x 1024 x 512 voxels, RGB; in quick runs an eighth of it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pario::Cluster;
use pario_image::{Phantom, Pixel, Plane, Volume, VolumeOptions};
use pario_proto::{PixelPosition, Shape};

use crate::area::RunSettings;

/// Voxels along each axis, in full runs.
pub const SIDES: [u64; 3] = [1024, 1024, 512];
/// Boxes as in the thesis: 32 x 32 x 17, of which one layer is shared with the next box.
pub const CORE: [u64; 3] = [32, 32, 16];
const SEED: u64 = 7;
/// The path of the volume.
pub const PATH: &str = "/body";

/// Voxels along each axis.
pub fn sides(setting: &RunSettings) -> [u64; 3] {
    setting.choose(SIDES, [512, 512, 256])
}

/// Opens the volume of a cluster; creates it if it does not exist.
pub fn volume(cluster: &Cluster, setting: &RunSettings) -> Result<Volume> {
    if cluster.metadata(PATH).is_ok() {
        return Ok(Volume::open(cluster, PATH)?);
    }
    let sides = sides(setting);
    eprintln!("  creating a volume of {sides:?} voxels");
    let options = VolumeOptions::new(sides, Pixel::RGB).boxes(CORE, [false, false, true]);
    let volume = options.create(cluster, PATH)?;
    volume.generate(SEED)?;
    volume.sync()?;
    Ok(volume)
}

/// Writes the same volume as a file without a header, for the peers.
pub fn write_raw(path: &Path, sides: [u64; 3]) -> Result<()> {
    let [x, y, z] = sides;
    let phantom = Phantom::new(SEED, Shape::volume(x, y, z), [1.0; 3])?;
    let mut out = BufWriter::new(File::create(path).context("creating volume.raw")?);
    let mut plane = vec![0; usize::try_from(x * y * 3)?];
    for z in 0..z {
        let start = PixelPosition { x: 0, y: 0, z };
        phantom.fill(start, Shape::volume(x, y, 1), Pixel::RGB, &mut plane);
        out.write_all(&plane)?;
    }
    out.flush()?;
    Ok(())
}

/// A slice across the diagonal, of 512 x 512 pixels, `number` voxels from the middle.
pub fn oblique(setting: &RunSettings, number: u32) -> Result<Plane> {
    let away = f64::from(number % 64) * 1.5 - 48.0;
    let place = centre(setting).map(|middle| middle + away);
    Ok(Plane::through(place).normal([1.0, 1.0, 1.0]).size(512, 512).in_volume([1.0; 3])?)
}

/// The middle of the volume.
pub fn centre(setting: &RunSettings) -> [f64; 3] {
    #[expect(clippy::cast_precision_loss, reason = "a thousand")]
    sides(setting).map(|side| (side / 2) as f64)
}

/// The line that requests a slice from a peer: the position of its first pixel, and the steps right
/// and down.
pub fn request_line(plane: &Plane) -> String {
    let [origin, right, down] = [plane.voxel_at(0, 0), plane.voxel_at(1, 0), plane.voxel_at(0, 1)];
    let step = |to: [f64; 3]| [0, 1, 2].map(|axis| to[axis] - origin[axis]);
    let numbers = [origin, step(right), step(down)].concat();
    let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
    format!("{} {} {}", numbers.join(" "), plane.width(), plane.height())
}

/// Checks that a peer returns the same pixels, except where rounding decides between two voxels.
pub fn check(ours: &[u8], theirs: &Path) -> Result<()> {
    let theirs = std::fs::read(theirs).context("reading the picture of the peer")?;
    ensure!(ours.len() == theirs.len(), "the peer's picture has another size");
    let different = ours.chunks(3).zip(theirs.chunks(3)).filter(|(a, b)| a != b).count();
    ensure!(different * 500 < ours.len() / 3, "{different} pixels differ from the peer's");
    Ok(())
}
