//! `pario volume export`: writes a volume file.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use pario_image::formats::create_volume_as;
use pario_image::{ImageError, Volume};
use serde_json::json;

use crate::amounts::{per_second, size};
use crate::arguments::GlobalOptions;
use crate::commands::cp::partial;
use crate::commands::cp::progress::Progress;
use crate::interrupt::Interrupt;
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario volume export /body body.nrrd\n  \
                            pario volume export /ct ct.nii\n  \
                            pario volume export /body body.npy";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The volume in the cluster
    volume: OsString,

    /// The file; an existing one is replaced
    file: PathBuf,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let path = paths::in_cluster(&options.volume)?;
    let shown = || options.file.display().to_string();
    let interrupt = Interrupt::watch()?;
    let cluster = reach::cluster(global)?;
    let volume = Volume::open(&cluster, path.as_str())?;
    let began = Instant::now();
    let unfinished = UnfinishedExport::beside(&options.file);
    let shape = volume.shape();
    let (voxels, pixel) = ([shape.x, shape.y, shape.z], volume.description().pixel);
    let sink = create_volume_as(&unfinished.0, &shown(), voxels, volume.spacing(), pixel)
        .map_err(ImageError::from)?;
    let (bytes, plane) = (volume.voxel_bytes(), volume.voxel_bytes() / shape.z);
    let progress = Progress::begin(path.as_str(), Some(bytes), global.json);
    let mut before = 0;
    let exported = volume.export(sink, |planes| {
        progress.advance((planes - before) * plane);
        before = planes;
        interrupt.check().map_err(|stop| ImageError::Invalid(stop.to_string()))
    });
    interrupt.check()?;
    exported?;
    fs::File::open(&unfinished.0).and_then(|file| file.sync_all()).with_context(shown)?;
    fs::rename(&unfinished.0, &options.file).with_context(shown)?;
    drop(progress);
    let took = began.elapsed();
    if global.json {
        return terminal::print_json(&json!({
            "volume": path,
            "file": options.file,
            "voxels": voxels,
            "pixel": pixel.to_string(),
            "bytes": bytes,
            "seconds": took.as_secs_f64(),
            "bytes_per_second": per_second(bytes, took),
        }));
    }
    println!("pario:{path} -> {}  {shape} voxels of {pixel}, {}", shown(), size(bytes));
    Ok(())
}

/// A hidden file beside the target, removed on drop.
struct UnfinishedExport(PathBuf);

impl UnfinishedExport {
    fn beside(file: &Path) -> Self {
        Self(file.with_file_name(partial::unique(file.file_name().unwrap_or_default())))
    }
}

impl Drop for UnfinishedExport {
    fn drop(&mut self) {
        // After the rename this file no longer exists.
        let _ = fs::remove_file(&self.0);
    }
}
