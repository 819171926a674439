//! `pario image export`: writes a picture file.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use pario_image::formats::{RowSink, create_picture};
use pario_image::{AffineMap, Image, ImageError, ImageWindow, Pixels, Resampling, Sampling};
use serde_json::json;

use super::parse;
use super::progress::OperationProgress;
use crate::amounts::per_second;
use crate::arguments::GlobalOptions;
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario image export /photo photo.png\n  \
                            pario image export /sky part.tif --window 30000,20000,1920,1080\n  \
                            pario image export /sky small.png --scale 600x400\n  \
                            pario image export /sky turned.png --window 0,0,800,600 --turn 30";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Only this part: left, top, width and height
    #[arg(long, value_name = "X,Y,W,H", value_parser = parse::window)]
    window: Option<ImageWindow>,

    /// Width and height of the picture
    #[arg(long, value_name = "WxH", value_parser = parse::size::<u32>)]
    scale: Option<[u32; 2]>,

    /// Rotate it around its centre; at 90 degrees, rows run down the image
    #[arg(long, value_name = "DEGREES", allow_negative_numbers = true)]
    turn: Option<f64>,

    /// Interpolation between pixels when it is turned
    #[arg(long, value_name = "HOW", default_value = "bilinear", requires = "turn")]
    sampling: SamplingArgument,

    /// Value outside the image when it is turned, or one per channel
    #[arg(long, value_name = "VALUES", default_value = "0", requires = "turn",
          value_parser = parse::values, allow_hyphen_values = true)]
    background: [f32; 4],

    /// The image in the cluster
    image: OsString,

    /// The picture file; an existing one is replaced
    file: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SamplingArgument {
    Nearest,
    Bilinear,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let path = paths::in_cluster(&options.image)?;
    let cluster = reach::cluster(global)?;
    let image = Image::open(&cluster, path.as_str())?;
    let window = options.window.unwrap_or(image.window());
    let began = Instant::now();
    let made = resampled(&image, window, options)?;
    let size =
        made.as_ref().map_or([window.width, window.height], |made| [made.width(), made.height()]);
    let [width, height] = size.map(u64::from);
    let bytes = width * height * image.pixel().bytes() as u64;
    if made.is_none() && !image.window().contains(window) {
        // Reading reports a bad window before the file is created.
        image.read(window)?;
    }
    let sink =
        create_picture(&options.file, width, height, image.pixel()).map_err(ImageError::from)?;
    let name = options.file.file_name().unwrap_or_default().display().to_string();
    let mut progress = OperationProgress::begin(&name, bytes, global.json)?;
    let exported = match made {
        Some(made) => put(&made, sink),
        None => image.export(window, sink, |row| progress.advance_to(row, height)),
    };
    if exported.is_err() {
        // An incomplete picture is useless.
        let _ = std::fs::remove_file(&options.file);
    }
    progress.end(exported)?;
    if global.json {
        let took = began.elapsed();
        terminal::print_json(&json!({
            "image": path,
            "file": options.file,
            "width": width,
            "height": height,
            "bytes": bytes,
            "seconds": took.as_secs_f64(),
            "bytes_per_second": per_second(bytes, took),
        }))?;
    }
    Ok(())
}

/// Returns the picture if it is scaled or turned.
fn resampled(
    image: &Image,
    window: ImageWindow,
    options: &Options,
) -> Result<Option<Pixels>, ImageError> {
    let sampling = match options.sampling {
        SamplingArgument::Nearest => Sampling::Nearest,
        SamplingArgument::Bilinear => Sampling::Bilinear,
    };
    match (options.scale, options.turn) {
        (None, None) => Ok(None),
        (Some([width, height]), None) => image.read_scaled(window, width, height).map(Some),
        (None, Some(degrees)) => {
            image.read_turned(window, degrees, sampling, options.background).map(Some)
        }
        (Some([width, height]), Some(degrees)) => {
            let side = |length: u32, outputs: u32| f64::from(length) / f64::from(outputs);
            let step = side(window.width, width).max(side(window.height, height));
            let middle = |start: u32, length: u32| f64::from(start) + f64::from(length) / 2.0;
            let middle = [middle(window.x, window.width), middle(window.y, window.height)];
            let map = AffineMap::turned(middle, degrees, step, width, height)?;
            let turned = Resampling::Mapped { map, width, height, interpolation: sampling };
            image.read_resampled(turned, options.background).map(Some)
        }
    }
}

fn put(made: &Pixels, mut sink: Box<dyn RowSink>) -> Result<(), ImageError> {
    for row in 0..made.height() {
        sink.put_row(made.row(row))?;
    }
    Ok(sink.finish()?)
}
