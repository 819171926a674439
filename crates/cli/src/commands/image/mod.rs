//! `pario image`: the commands for images.
//!
//! `operation` parses the operations of `apply`, `parse` sizes and windows; `progress` shows a bar.

mod apply;
mod export;
mod import;
mod info;
mod operation;
mod parse;
mod progress;

use clap::{Args, Subcommand};

use crate::arguments::{GlobalOptions, after_help};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario image import sky.tif /sky --compression zstd\n  \
                            pario image info /sky --summary\n  \
                            pario image apply /sky gaussian 1.5 /soft\n  \
                            pario image export /soft part.png --window 30000,20000,1920,1080";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Import a picture into the cluster: PNG, JPEG, TIFF, PNM, NRRD, NIfTI, DICOM, npy or raw
    ///
    /// Reads row by row; the picture may be far larger than memory. Does not replace an existing
    /// image.
    #[command(after_help = after_help(import::EXAMPLES))]
    Import(import::Options),
    /// Write an image, or a part of it, to a picture file
    ///
    /// The file extension selects the format: .png, .tif, .tiff, .pgm, .ppm, .pnm, .pam, .pfm,
    /// .nrrd or .raw. The nodes scale and turn the image.
    #[command(after_help = after_help(export::EXAMPLES))]
    Export(export::Options),
    /// Show size, pixels and tiles of images
    #[command(after_help = after_help(info::EXAMPLES))]
    Info(info::Options),
    /// Create a new image from an image, computed where its tiles are stored
    ///
    /// Operations on the neighbourhood of each pixel: gaussian SIGMA, median R, erode R, dilate R,
    /// convolve FILE (rows of weights). Operations on each pixel: gamma G, threshold AT BELOW
    /// ABOVE, mix ROW.. (one row per output channel: weights separated by commas, optionally a
    /// colon and an offset), levels LOW HIGH, invert. histogram, or histogram LOW HIGH BINS for
    /// f32, prints its result and needs no target.
    #[command(after_help = after_help(apply::EXAMPLES))]
    Apply(apply::Options),
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    match &options.command {
        Command::Import(options) => import::run(global, options),
        Command::Export(options) => export::run(global, options),
        Command::Info(options) => info::run(global, options),
        Command::Apply(options) => apply::run(global, options),
    }
}
