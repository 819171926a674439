//! `pario image`
//!
//! `operation` says what the words of `apply` mean, `parse` what sizes and windows do; `watch` shows
//! how far something has come.

mod apply;
mod export;
mod import;
mod info;
mod operation;
mod parse;
mod watch;

use clap::{Args, Subcommand};

use crate::arguments::{Global, after_help};

/// Lines for the help.
pub const EXAMPLES: &str = "pario image import sky.tif /sky --compression zstd\n  \
                            pario image info /sky --summary\n  \
                            pario image apply /sky gaussian 1.5 /soft\n  \
                            pario image export /soft part.png --window 30000,20000,1920,1080";

/// What it takes.
#[derive(Args, Debug)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring a picture into the cluster: PNG, TIFF, PNM, NRRD or raw
    ///
    /// It is read by rows, and may be far larger than memory. An image that is there already is
    /// not replaced.
    #[command(after_help = after_help(import::EXAMPLES))]
    Import(import::Options),
    /// Make a picture file of an image, or of a part of it
    ///
    /// The ending of its name says which format: .png, .tif, .tiff, .pgm, .ppm, .pnm, .pam, .pfm,
    /// .nrrd or .raw. What is scaled or turned is computed at the nodes.
    #[command(after_help = after_help(export::EXAMPLES))]
    Export(export::Options),
    /// Show size, pixels and tiles of images
    #[command(after_help = after_help(info::EXAMPLES))]
    Info(info::Options),
    /// Make a new image of an image, computed where its tiles lie
    ///
    /// Operations that look at the pixels around: gaussian SIGMA, median R, erode R, dilate R,
    /// convolve FILE (rows of weights). Those that look at each pixel: gamma G, threshold AT BELOW
    /// ABOVE, mix ROW.. (a row for each channel that comes out: weights with commas, and maybe a
    /// colon and an offset), levels LOW HIGH, invert. And histogram, or histogram LOW HIGH BINS for
    /// f32, which is printed and needs no target.
    #[command(after_help = after_help(apply::EXAMPLES))]
    Apply(apply::Options),
}

/// Does it.
pub fn run(global: &Global, options: &Options) -> anyhow::Result<()> {
    match &options.command {
        Command::Import(options) => import::run(global, options),
        Command::Export(options) => export::run(global, options),
        Command::Info(options) => info::run(global, options),
        Command::Apply(options) => apply::run(global, options),
    }
}
