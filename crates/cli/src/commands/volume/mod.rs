//! `pario volume`: the commands for volumes.

mod bench;
mod export;
mod import;
mod info;
mod parse;
mod slice;

use clap::Subcommand;

use crate::arguments::{GlobalOptions, after_help};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario volume import head.nrrd /head\n  \
                            pario volume import --phantom 512x512x640 /body\n  \
                            pario volume export /body body.nrrd\n  \
                            pario volume info /body\n  \
                            pario volume slice /body cut.png --normal 1,1,1 --size 512x512\n  \
                            pario volume bench /body";

/// The subcommands of `pario volume`.
#[derive(Debug, Subcommand)]
pub enum VolumeAction {
    /// Create a volume from a file, a stack of pictures, or a seed
    ///
    /// Reads NRRD, NIfTI, npy, multi-page TIFF and raw files, and directories or lists of DICOM
    /// slices or pictures, plane by plane. Applies slope and intercept of DICOM and NIfTI. A
    /// phantom is a synthetic body that the nodes generate.
    #[command(after_help = after_help(import::EXAMPLES))]
    Import(import::Options),
    /// Write a volume to a file of another format
    ///
    /// The file extension selects the format: .nrrd, .nii (NIfTI-1), .npy or .raw. Voxels that were
    /// never written are 0. For a copy that can become the same volume again, use `pario cp`.
    #[command(after_help = after_help(export::EXAMPLES))]
    Export(export::Options),
    /// Show properties and storage of a volume
    #[command(after_help = after_help(info::EXAMPLES))]
    Info(info::Options),
    /// Take a slice at any position and orientation, as a picture
    ///
    /// Positions and directions are in the units of the volume's spacing; the default is the middle
    /// plane across the z axis. The nodes read only the boxes that the slice cuts and send only its
    /// pixels.
    #[command(after_help = after_help(slice::EXAMPLES))]
    Slice(slice::Options),
    /// Take many slices and show the rate
    #[command(after_help = after_help(bench::EXAMPLES))]
    Bench(bench::Options),
}

/// Runs the command.
pub fn run(global: &GlobalOptions, action: &VolumeAction) -> anyhow::Result<()> {
    match action {
        VolumeAction::Import(options) => import::run(global, options),
        VolumeAction::Export(options) => export::run(global, options),
        VolumeAction::Info(options) => info::run(global, options),
        VolumeAction::Slice(options) => slice::run(global, options),
        VolumeAction::Bench(options) => bench::run(global, options),
    }
}
