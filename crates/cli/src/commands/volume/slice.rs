//! `pario volume slice`: writes a slice as a picture.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use pario::ProcessReport;
use pario_image::formats::{FormatError, create_picture};
use pario_image::{Blend, ImageError, Interpolation, Plane, Slice, SliceQuery, Volume};
use serde_json::json;

use super::parse;
use crate::amounts::size;
use crate::arguments::GlobalOptions;
use crate::exit::UsageError;
use crate::view::picture::{self, ValueWindow};
use crate::{reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario volume slice /body middle.png\n  \
                            pario volume slice /body cut.png --normal 1,1,1 --size 512x512\n  \
                            pario volume slice /body bones.png --normal 0,1,0 --slab 80 --maximum\n  \
                            pario volume slice /ct brain.png --window -20,100\n  \
                            pario volume slice /body cut.png --linear --trace trace.svg";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The volume
    volume: String,

    /// The picture file: .png, .tif, .pnm, .nrrd, .raw
    picture: PathBuf,

    /// Centre of the slice [default: the centre of the volume]
    #[arg(long, value_name = "X,Y,Z", value_parser = parse::coordinates, allow_hyphen_values = true)]
    center: Option<[f64; 3]>,

    /// Normal of the slice
    #[arg(long, value_name = "X,Y,Z", value_parser = parse::coordinates, default_value = "0,0,1", allow_hyphen_values = true)]
    normal: [f64; 3],

    /// Direction that is up in the picture
    #[arg(long, value_name = "X,Y,Z", value_parser = parse::coordinates, allow_hyphen_values = true)]
    up: Option<[f64; 3]>,

    /// Width and height of the picture
    #[arg(long, value_name = "WxH", value_parser = parse::pixels, default_value = "512x512")]
    size: [u32; 2],

    /// Magnification
    #[arg(long, default_value_t = 1.0)]
    zoom: f64,

    /// Interpolate linearly between voxels instead of taking the nearest
    #[arg(long)]
    linear: bool,

    /// Combine this many parallel slices into their mean
    #[arg(long, value_name = "SLICES")]
    slab: Option<u32>,

    /// Distance between the slices of a slab [default: the smallest distance between voxels]
    #[arg(long, requires = "slab")]
    step: Option<f64>,

    /// Take the maximum of a slab instead of the mean
    #[arg(long, requires = "slab")]
    maximum: bool,

    /// Show these values from black to white, in 256 steps [default: values unchanged]
    #[arg(long, value_name = "LOW,HIGH", value_parser = parse::window, allow_hyphen_values = true)]
    window: Option<[f64; 2]>,

    /// Write a trace of the slice: .svg for a picture, .json for a trace viewer
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    if options.slab.is_some() && options.trace.is_some() {
        return Err(UsageError(
            "--trace records a single slice; it cannot be used with --slab".to_owned(),
        )
        .into());
    }
    let cluster = reach::cluster(global)?;
    let volume = Volume::open(&cluster, &options.volume)?;
    let began = Instant::now();
    let (slice, report) = take(options, &volume)?;
    let seconds = began.elapsed().as_secs_f64();
    save(&slice, options).map_err(ImageError::from)?;
    if let Some(path) = &options.trace {
        report.trace.save(path).map_err(|error| {
            anyhow::Error::from(error).context(format!("cannot write {}", path.display()))
        })?;
    }
    let progress = report.progress;
    if global.json {
        return terminal::print_json(&json!({
            "picture": options.picture,
            "width": slice.width(),
            "height": slice.height(),
            "milliseconds": seconds * 1e3,
            "extents": progress.found,
            "cache_hits": progress.cache_hits,
            "bytes_seen": progress.seen_bytes,
            "bytes_sent": progress.result_bytes,
        }));
    }
    println!(
        "{}  {} x {} in {:.1} ms: {} extents ({} from the cache), {} read, {} sent",
        options.picture.display(),
        slice.width(),
        slice.height(),
        seconds * 1e3,
        progress.found,
        progress.cache_hits,
        size(progress.seen_bytes),
        size(progress.result_bytes)
    );
    Ok(())
}

fn query(options: &Options, volume: &Volume) -> SliceQuery {
    let [width, height] = options.size;
    let plane = Plane::through(options.center.unwrap_or_else(|| volume.centre()))
        .normal(options.normal)
        .size(width, height)
        .zoom(options.zoom);
    match options.up {
        Some(up) => plane.up(up),
        None => plane,
    }
}

fn take(options: &Options, volume: &Volume) -> anyhow::Result<(Slice, ProcessReport)> {
    let interpolation = match options.linear {
        true => Interpolation::Trilinear,
        false => Interpolation::Nearest,
    };
    let (query, spacing) = (query(options, volume), volume.spacing());
    Ok(match options.slab {
        Some(depth) => {
            let closest = spacing.into_iter().fold(f64::INFINITY, f64::min);
            let blend = if options.maximum { Blend::Maximum } else { Blend::Mean };
            let step = options.step.unwrap_or(closest);
            volume.slab(query, depth, step, blend, interpolation)?
        }
        None => {
            let plane = query.in_volume(spacing).map_err(ImageError::from)?;
            // Outside the volume a window shows black, independent of the value 0.
            match options.window {
                Some(_) => volume.covered_slice(&plane, interpolation, options.trace.is_some())?,
                None => volume.traced_slice(&plane, interpolation, &[], options.trace.is_some())?,
            }
        }
    })
}

fn save(slice: &Slice, options: &Options) -> Result<(), FormatError> {
    let (width, height) = (u64::from(slice.width()), u64::from(slice.height()));
    let (pixel, steps);
    let data = match options.window {
        None => {
            pixel = slice.pixel();
            slice.data()
        }
        Some([low, high]) => {
            pixel = picture::steps_pixel(slice.pixel());
            steps = picture::steps(slice, ValueWindow { low, high });
            &steps
        }
    };
    let mut picture = create_picture(&options.picture, width, height, pixel)?;
    for row in data.chunks_exact(slice.width() as usize * pixel.bytes()) {
        picture.put_row(row)?;
    }
    picture.finish()
}
