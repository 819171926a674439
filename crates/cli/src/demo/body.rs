//! The first part of the demo: a synthetic body scan, slices through it, and a filter, all computed
//! at the disks.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use pario::Cluster;
use pario::status::ProcessProgress;
use pario_image::formats::create_picture;
use pario_image::{
    Edge, Filter, Image, ImageOptions, Interpolation, Pixel, Pixels, Plane, Volume, VolumeOptions,
};
use serde::Serialize;

use super::report::{DemoPhase, Phases};
use crate::interrupt::Interrupt;

/// Sides of a body of about half a gigabyte; other sizes have the same proportions.
const SIDES: [f64; 3] = [560.0, 320.0, 960.0];
/// Number of slices.
const SLICES: u32 = 100;
/// One of this many slices becomes a picture.
const PICTURE_EVERY: usize = 25;
/// The filter: a Gaussian of 5 x 5 pixels.
const SIGMA: f64 = 0.6;

/// Measured figures.
#[derive(Clone, Debug, Serialize)]
pub struct BodyReport {
    /// Voxels along each axis.
    pub voxels: [u64; 3],
    /// Number of slices.
    pub slices: u32,
    /// Rate of slices.
    pub slices_per_second: f64,
    /// Extents read for them.
    pub extents: u64,
    /// Extents that were in the cache.
    pub cache_hits: u64,
    /// Bytes of these extents, read where they are stored.
    pub seen_bytes: u64,
    /// Bytes sent from the nodes to the caller.
    pub sent_bytes: u64,
    /// Width and height of the filtered image.
    pub filtered: [u32; 2],
    /// Bytes that the filter wrote, where they are stored.
    pub filter_written_bytes: u64,
    /// Directory of the pictures and the trace.
    pub pictures: PathBuf,
}

/// Returns the sides of a body of about `bytes` bytes.
fn sides(bytes: u64) -> [u64; 3] {
    #[expect(clippy::cast_precision_loss, reason = "a size for a demo")]
    let scale = (bytes as f64 / 3.0 / SIDES.iter().product::<f64>()).cbrt();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundreds")]
    SIDES.map(|side| ((side * scale) as u64).max(32))
}

/// Generates a body of about `size` bytes on a cluster, takes slices, filters one of them.
pub fn run(
    cluster: &Cluster,
    bytes: u64,
    seed: u64,
    pictures: &Path,
    phases: &mut Phases,
) -> anyhow::Result<BodyReport> {
    let voxels = sides(bytes);
    let body = VolumeOptions::new(voxels, Pixel::RGB).create(cluster, "/body")?;
    make(&body, seed, phases)?;
    let mut report = BodyReport {
        voxels,
        slices: SLICES,
        slices_per_second: 0.0,
        extents: 0,
        cache_hits: 0,
        seen_bytes: 0,
        sent_bytes: 0,
        filtered: [0; 2],
        filter_written_bytes: 0,
        pictures: pictures.to_owned(),
    };
    take_slices(&body, pictures, phases, &mut report)?;
    trace(&body, pictures)?;
    filter(cluster, &body, pictures, phases, &mut report)?;
    Ok(report)
}

fn make(body: &Volume, seed: u64, phases: &mut Phases) -> anyhow::Result<()> {
    let stored = body.stored_bytes();
    phases.run(DemoPhase::MakeBody, stored, |progress, interrupt| {
        let mut before = 0;
        let generated = body.generate_watched(seed, |report| {
            let done = report.progress.done * stored / report.progress.total.max(1);
            progress.advance(done.saturating_sub(before));
            before = done;
            go_on(interrupt)
        });
        interrupt.check()?;
        let report = generated?;
        body.sync()?;
        Ok(report.progress.written_bytes)
    })
}

/// Stops the work if the user asked for it.
fn go_on(interrupt: &Interrupt) -> ControlFlow<()> {
    match interrupt.check() {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

fn plane(body: &Volume, number: u32) -> anyhow::Result<Plane> {
    let way = 0.6 + 0.8 * f64::from(number) / f64::from(SLICES);
    let place = body.centre().map(|middle| middle * way);
    let query = Plane::through(place).normal([0.6, 1.0, 0.35]).size(512, 512);
    Ok(query.in_volume(body.spacing())?)
}

fn take_slices(
    body: &Volume,
    pictures: &Path,
    phases: &mut Phases,
    report: &mut BodyReport,
) -> anyhow::Result<()> {
    let planes: anyhow::Result<Vec<Plane>> =
        (0..SLICES).map(|number| plane(body, number)).collect();
    let planes = planes?;
    let expected = body.voxel_bytes() / 8;
    let mut kept = Vec::new();
    let mut seconds = 0.0;
    let mut all = ProcessProgress::default();
    phases.run(DemoPhase::TakeSlices, expected, |progress, interrupt| {
        let began = Instant::now();
        for (number, taken) in body.series(planes, Interpolation::Nearest).enumerate() {
            interrupt.check()?;
            let (slice, cost) = taken?;
            progress.advance(cost.progress.seen_bytes);
            all.add(&cost.progress);
            if number % PICTURE_EVERY == 0 {
                kept.push((number, slice));
            }
        }
        seconds = began.elapsed().as_secs_f64();
        Ok(all.seen_bytes)
    })?;
    fs::create_dir_all(pictures)
        .with_context(|| format!("cannot create the directory {}", pictures.display()))?;
    for (number, slice) in kept {
        let path = pictures.join(format!("slice-{number:02}.png"));
        let (width, height) = (u64::from(slice.width()), u64::from(slice.height()));
        save(&path, width, height, slice.pixel(), slice.data())?;
    }
    report.slices_per_second = f64::from(SLICES) / seconds;
    report.extents = all.found;
    report.cache_hits = all.cache_hits;
    report.seen_bytes = all.seen_bytes;
    report.sent_bytes = all.result_bytes;
    Ok(())
}

/// Takes one slice again and saves the trace of all disks and threads.
fn trace(body: &Volume, pictures: &Path) -> anyhow::Result<()> {
    let (_, report) =
        body.traced_slice(&plane(body, SLICES / 2)?, Interpolation::Trilinear, &[], true)?;
    for name in ["trace.svg", "trace.json"] {
        let path = pictures.join(name);
        report.trace.save(&path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Stores an enlarged slice as a tiled image, and filters it where the tiles are stored.
fn filter(
    cluster: &Cluster,
    body: &Volume,
    pictures: &Path,
    phases: &mut Phases,
    report: &mut BodyReport,
) -> anyhow::Result<()> {
    let zoom = 4;
    #[expect(clippy::cast_possible_truncation, reason = "some thousands")]
    let [width, height] = [report.voxels[0] as u32 * zoom, report.voxels[2] as u32 * zoom];
    let query = Plane::coronal(body.centre()).size(width, height).zoom(f64::from(zoom));
    let section = query.in_volume(body.spacing())?;
    let (slice, _) = body.slice_of(&section, Interpolation::Nearest, &[])?;
    let pixels = Pixels::new(width, height, slice.pixel(), slice.into_data()?)?;
    let options = ImageOptions::new([width.into(), height.into()], pixels.pixel());
    let image = options.create(cluster, "/section")?;
    image.write(0, 0, &pixels)?;
    let bytes = pixels.data().len() as u64;
    let mut smooth: Option<Image> = None;
    phases.run(DemoPhase::Filter, bytes, |progress, interrupt| {
        let mut before = 0;
        let gaussian = Filter::Gaussian { sigma: SIGMA };
        let applied = image.apply_watched(&gaussian, Edge::Clamp, "/smooth", |report| {
            let done = report.progress.seen_bytes.min(bytes);
            progress.advance(done.saturating_sub(before));
            before = done;
            go_on(interrupt)
        });
        interrupt.check()?;
        let (made, cost) = applied?;
        report.filter_written_bytes = cost.progress.written_bytes;
        smooth = Some(made);
        Ok(cost.progress.seen_bytes)
    })?;
    report.filtered = [width, height];
    if let Some(smooth) = smooth {
        let small = smooth.read_scaled(smooth.window(), width / zoom, height / zoom)?;
        let path = pictures.join("filtered.png");
        save(&path, small.width().into(), small.height().into(), small.pixel(), small.data())?;
    }
    Ok(())
}

fn save(path: &Path, width: u64, height: u64, pixel: Pixel, data: &[u8]) -> anyhow::Result<()> {
    let mut picture = create_picture(path, width, height, pixel)?;
    let row_bytes = usize::try_from(width)? * pixel.bytes();
    for row in data.chunks_exact(row_bytes) {
        picture.put_row(row)?;
    }
    Ok(picture.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_about_as_many_bytes_as_were_wanted() {
        for bytes in [8u64 << 20, 64 << 20, 512 << 20, 2 << 30] {
            let found = sides(bytes).iter().product::<u64>() * 3;
            assert!(found * 10 > bytes * 9 && found * 10 < bytes * 11, "{bytes}: {found}");
        }
        assert_eq!(sides(1), [32; 3]);
    }
}
