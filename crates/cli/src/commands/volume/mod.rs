//! `pario volume`

mod bench;
mod export;
mod import;
mod info;
mod slice;
mod written;

use clap::Subcommand;

use crate::arguments::{Global, after_help};

/// Lines for the help.
pub const EXAMPLES: &str = "pario volume import head.nrrd /head\n  \
                            pario volume import --phantom 512x512x640 /body\n  \
                            pario volume export /body body.nrrd\n  \
                            pario volume info /body\n  \
                            pario volume slice /body cut.png --normal 1,1,1 --size 512x512\n  \
                            pario volume bench /body";

/// What can be done with volumes.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Make a volume of a file, of a stack of pictures, or of a seed
    ///
    /// Reads NRRD, NIfTI, npy, TIFF of many pages and raw files, and directories or lists of DICOM
    /// slices or of pictures, plane by plane. Slope and intercept of DICOM and NIfTI are applied. A
    /// phantom is a body that does not exist, made by the nodes themselves.
    #[command(after_help = after_help(import::EXAMPLES))]
    Import(import::Options),
    /// Write a volume as a file of another format
    ///
    /// The ending of the name says which one: .nrrd, .nii (NIfTI-1), .npy or .raw. What nobody has
    /// written is 0. A copy that becomes the same volume again is made by `pario cp`.
    #[command(after_help = after_help(export::EXAMPLES))]
    Export(export::Options),
    /// Show what a volume is, and how it is stored
    #[command(after_help = after_help(info::EXAMPLES))]
    Info(info::Options),
    /// Take a slice at any place and in any direction, as a picture
    ///
    /// Places and directions are in the units of the volume's spacing; without any, it is the
    /// middle plane across the z axis. Only the boxes that the slice meets are read, and only its
    /// pixels are sent.
    #[command(after_help = after_help(slice::EXAMPLES))]
    Slice(slice::Options),
    /// Take many slices, and show how fast that goes
    #[command(after_help = after_help(bench::EXAMPLES))]
    Bench(bench::Options),
}

/// Does it.
pub fn run(global: &Global, action: &Action) -> anyhow::Result<()> {
    match action {
        Action::Import(options) => import::run(global, options),
        Action::Export(options) => export::run(global, options),
        Action::Info(options) => info::run(global, options),
        Action::Slice(options) => slice::run(global, options),
        Action::Bench(options) => bench::run(global, options),
    }
}
