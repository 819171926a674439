//! `pario volume bench`: measures the rate of slices.

use std::time::Instant;

use clap::Args;
use pario::status::ProcessProgress;
use pario_image::{ImageError, Interpolation, Plane, Volume};
use serde_json::json;

use super::parse;
use crate::amounts::size;
use crate::arguments::GlobalOptions;
use crate::{reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario volume bench /body\n  \
                            pario volume bench /body --slices 500 --size 1024x1024 --linear";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The volume
    volume: String,

    /// Number of slices
    #[arg(long, default_value_t = 100)]
    slices: u32,

    /// Width and height of each slice
    #[arg(long, value_name = "WxH", value_parser = parse::pixels, default_value = "512x512")]
    size: [u32; 2],

    /// Interpolate linearly between voxels instead of taking the nearest
    #[arg(long)]
    linear: bool,
}

/// Runs the command: slices across the diagonal, from one end of the volume to the other.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let cluster = reach::cluster(global)?;
    let volume = Volume::open(&cluster, &options.volume)?;
    let (centre, spacing, [width, height]) = (volume.centre(), volume.spacing(), options.size);
    let planes: Result<Vec<Plane>, _> = (0..options.slices)
        .map(|number| {
            let way = 0.5 + f64::from(number) / f64::from(options.slices.max(2) - 1);
            let place = centre.map(|middle| middle * way);
            Plane::through(place).normal(centre).size(width, height).in_volume(spacing)
        })
        .collect();
    let interpolation = match options.linear {
        true => Interpolation::Trilinear,
        false => Interpolation::Nearest,
    };
    let began = Instant::now();
    let mut all = ProcessProgress::default();
    for taken in volume.series(planes.map_err(ImageError::from)?, interpolation) {
        all.add(&taken?.1.progress);
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = f64::from(options.slices) / seconds;
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    let (seen, hits) =
        (all.seen_bytes as f64 / seconds / 1e6, all.cache_hits as f64 / all.found.max(1) as f64);
    if global.json {
        return terminal::print_json(&json!({
            "slices": options.slices,
            "seconds": seconds,
            "slices_per_second": rate,
            "extents": all.found,
            "cache_hits": all.cache_hits,
            "bytes_seen": all.seen_bytes,
            "bytes_sent": all.result_bytes,
        }));
    }
    println!(
        "{} slices of {width} x {height}: {rate:.1} per second, {seen:.0} MB/s of extents ({:.1} % from \
         the cache), {} sent for {} looked at",
        options.slices,
        hits * 100.0,
        size(all.result_bytes),
        size(all.seen_bytes)
    );
    Ok(())
}
