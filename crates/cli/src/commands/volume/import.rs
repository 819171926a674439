//! `pario volume import`: reads a volume from files.

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use pario_image::formats::{
    ByteOrder, FilePixel, FormatOptions, RawLayout, VolumeSource, open_volume,
};
use pario_image::{Compression, ImageError, LengthUnit, Pixel, Volume, VolumeOptions, VoxelUnits};
use serde_json::json;

use super::parse;
use crate::amounts::size;
use crate::arguments::GlobalOptions;
use crate::commands::cp::progress::Progress;
use crate::exit::UsageError;
use crate::interrupt::Interrupt;
use crate::unfinished_file::UnfinishedFile;
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario volume import head.nrrd /head\n  \
                            pario volume import dicom/ /ct --compression zstd\n  \
                            pario volume import slices/*.png /stack --spacing 0.33,0.33,1\n  \
                            pario volume import ct.raw /ct --raw 512x512x300 --pixel u16\n  \
                            pario volume import --phantom 512x512x640 /body --pixel u8x3";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The files to read (none for a phantom), and last the new volume
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Generate a synthetic body of this size instead of reading files
    #[arg(long, value_name = "XxYxZ", value_parser = parse::voxels, conflicts_with = "raw")]
    phantom: Option<[u64; 3]>,

    /// Seed of the phantom
    #[arg(long, default_value_t = 1, requires = "phantom")]
    seed: u64,

    /// The file has no header and these dimensions
    #[arg(long, value_name = "XxYxZ", value_parser = parse::voxels, requires = "pixel")]
    raw: Option<[u64; 3]>,

    /// Voxels of a raw file or of a phantom: u8, u8x3, i16, u16, f32, ...
    #[arg(long, value_name = "KIND", value_parser = parse::pixel)]
    pixel: Option<FilePixel>,

    /// Voxels of a raw file are big-endian
    #[arg(long, requires = "raw")]
    big_endian: bool,

    /// Bytes before the first voxel of a raw file
    #[arg(long, default_value_t = 0, requires = "raw", value_name = "BYTES")]
    skip: u64,

    /// The DICOM series to read from a directory, by its UID
    #[arg(long, value_name = "UID", conflicts_with_all = ["raw", "phantom"])]
    series: Option<String>,

    /// Distance between voxels in millimetres [default: from the file, otherwise 1,1,1]
    #[arg(long, value_name = "X,Y,Z", value_parser = parse::coordinates)]
    spacing: Option<[f64; 3]>,

    /// Size of a box, and the axes along which it also holds the first layer of the next box
    #[arg(long, value_name = "XxYxZ[+AXES]", default_value = "32x32x16+z", value_parser = parse::boxes)]
    boxes: ([u64; 3], [bool; 3]),

    /// Compression of boxes: none, lz4 or zstd
    #[arg(long, default_value = "none")]
    compression: Compression,

    /// Number of disks to spread it over [default: all]
    #[arg(long, value_name = "NUMBER")]
    disks: Option<u32>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let Some((target, sources)) = options.paths.split_last() else {
        return Err(UsageError("name the new volume".to_owned()).into());
    };
    let target = paths::in_cluster(target.as_os_str())?;
    match (sources.is_empty(), options.phantom) {
        (true, None) => {
            let text = "name the files to read and the new volume, such as `pario volume \
             import head.nrrd /head`, or generate a phantom with --phantom";
            return Err(UsageError(text.to_owned()).into());
        }
        (false, Some(_)) => {
            let text = "a phantom is generated from its seed: give only the path of the new volume";
            return Err(UsageError(text.to_owned()).into());
        }
        _ => {}
    }
    let interrupt = Interrupt::watch()?;
    let cluster = reach::cluster(global)?;
    let mut notes = Vec::new();
    let unfinished = UnfinishedFile::new(&cluster, &target)?;
    let (path, target) = (unfinished.path().as_str(), target.as_str());
    let (volume, bytes) = match options.phantom {
        Some(voxels) => {
            let pixel = options.pixel.unwrap_or(Pixel::RGB.into());
            if pixel != FilePixel::from(pixel.stored()) {
                let text = format!(
                    "a phantom cannot have voxels of {}; choose u8, u16, i8, i16 or f32",
                    pixel.number()
                );
                return Err(UsageError(text).into());
            }
            let pixel = pixel.stored();
            let units = VoxelUnits::default();
            let volume = made(options, voxels, pixel, [1.0; 3], units).create(&cluster, path)?;
            unfinished.note_created();
            (volume.clone(), generate(global, options, target, &volume, &interrupt)?)
        }
        None => {
            let mut source = open(options, sources)?;
            notes = source.notes();
            terminal::print_notes(&sources[0], &notes);
            let (size, pixel) = (source.size(), source.pixel());
            let wanted = made(options, size, pixel, source.spacing(), source.units());
            let volume = wanted.create(&cluster, path)?;
            unfinished.note_created();
            (volume.clone(), import(global, target, &volume, &mut source, &interrupt)?)
        }
    };
    let statistics = volume.record_statistics()?;
    volume.sync()?;
    unfinished.finish()?;
    if global.json {
        let shape = volume.shape();
        return terminal::print_json(&json!({
            "volume": target,
            "voxels": [shape.x, shape.y, shape.z],
            "pixel": volume.description().pixel.to_string(),
            "bytes": bytes,
            "values": statistics.as_ref().map(parse::values_json),
            "notes": notes,
        }));
    }
    println!(
        "{target}  {} voxels of {}, {}",
        volume.shape(),
        volume.description().pixel,
        size(bytes)
    );
    Ok(())
}

fn made(
    options: &Options,
    voxels: [u64; 3],
    pixel: Pixel,
    spacing: [f64; 3],
    mut units: VoxelUnits,
) -> VolumeOptions {
    let (core, overlap) = options.boxes;
    if options.spacing.is_some() {
        units.lengths = LengthUnit::Millimetre;
    }
    let made = VolumeOptions::new(voxels, pixel)
        .spacing(options.spacing.unwrap_or(spacing))
        .units(units)
        .boxes(core, overlap)
        .compression(options.compression);
    match options.disks {
        Some(disks) => made.disk_count(disks),
        None => made,
    }
}

fn open(options: &Options, sources: &[PathBuf]) -> anyhow::Result<VolumeSource> {
    let limits = FormatOptions { series: options.series.clone(), ..FormatOptions::default() };
    let Some(size) = options.raw else {
        return Ok(open_volume(sources, &limits).map_err(ImageError::from)?);
    };
    let [path] = sources else {
        return Err(UsageError("a raw volume is read from exactly one file".to_owned()).into());
    };
    let order = if options.big_endian { ByteOrder::Big } else { ByteOrder::Little };
    let pixel = options.pixel.unwrap_or(Pixel::GREY.into());
    let layout = RawLayout { size, pixel, order, skip_bytes: options.skip };
    Ok(VolumeSource::raw(path, &layout, [1.0; 3], &limits).map_err(ImageError::from)?)
}

/// Lets the nodes generate a phantom; returns the bytes written.
fn generate(
    global: &GlobalOptions,
    options: &Options,
    target: &str,
    volume: &Volume,
    interrupt: &Interrupt,
) -> anyhow::Result<u64> {
    let stored = volume.stored_bytes();
    let progress = Progress::begin(target, Some(stored), global.json);
    let mut before = 0;
    let generated = volume.generate_watched(options.seed, |report| {
        let progressed = report.progress.done * stored / report.progress.total.max(1);
        progress.advance(progressed.saturating_sub(before));
        before = progressed;
        match interrupt.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    interrupt.check()?;
    let report = generated?;
    progress.finish();
    Ok(report.progress.written_bytes)
}

/// Writes the voxels of a source; returns their bytes.
fn import(
    global: &GlobalOptions,
    target: &str,
    volume: &Volume,
    source: &mut VolumeSource,
    interrupt: &Interrupt,
) -> anyhow::Result<u64> {
    let shape = volume.shape();
    let plane = shape.x * shape.y * volume.description().pixel.bytes() as u64;
    let progress = Progress::begin(target, Some(plane * shape.z), global.json);
    let mut before = 0;
    let mut is_interrupted = false;
    let imported = volume.import(source, |planes| {
        progress.advance((planes - before) * plane);
        before = planes;
        is_interrupted = interrupt.check().is_err();
        match is_interrupted {
            true => Err(ImageError::Invalid("interrupted".to_owned())),
            false => Ok(()),
        }
    });
    if is_interrupted {
        interrupt.check()?;
    }
    imported?;
    progress.finish();
    Ok(plane * shape.z)
}
