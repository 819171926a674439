//! `pario volume import`

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use pario_image::formats::{
    ByteOrder, FilePixel, OpenOptions, RawLayout, VolumeSource, open_volume,
};
use pario_image::{Compression, ImageError, LengthUnit, Pixel, Volume, VolumeOptions, VoxelUnits};
use serde_json::json;

use super::written;
use crate::amounts::size;
use crate::arguments::Global;
use crate::commands::cp::progress::Progress;
use crate::exit::Usage;
use crate::interrupt::Interrupt;
use crate::unfinished_file::UnfinishedFile;
use crate::{paths, reach, terminal};

/// Lines for the help.
pub const EXAMPLES: &str = "pario volume import head.nrrd /head\n  \
                            pario volume import dicom/ /ct --compression zstd\n  \
                            pario volume import slices/*.png /stack --spacing 0.33,0.33,1\n  \
                            pario volume import ct.raw /ct --raw 512x512x300 --pixel u16\n  \
                            pario volume import --phantom 512x512x640 /body --pixel u8x3";

/// What it takes.
#[derive(Args, Debug)]
pub struct Options {
    /// What to read, if it is no phantom, and last the volume to be made
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Make a body of this size instead of reading one
    #[arg(long, value_name = "XxYxZ", value_parser = written::voxels, conflicts_with = "raw")]
    phantom: Option<[u64; 3]>,

    /// What the phantom is drawn from
    #[arg(long, default_value_t = 1, requires = "phantom")]
    seed: u64,

    /// The file has no header; it is so large
    #[arg(long, value_name = "XxYxZ", value_parser = written::voxels, requires = "pixel")]
    raw: Option<[u64; 3]>,

    /// Voxels of a raw file or of a phantom: u8, u8x3, i16, u16, f32, ...
    #[arg(long, value_name = "KIND", value_parser = written::pixel)]
    pixel: Option<FilePixel>,

    /// The most significant byte of a raw file comes first
    #[arg(long, requires = "raw")]
    big_endian: bool,

    /// Bytes of a raw file before the first voxel
    #[arg(long, default_value_t = 0, requires = "raw", value_name = "BYTES")]
    skip: u64,

    /// Which series of a directory of DICOM slices is read, by its UID
    #[arg(long, value_name = "UID", conflicts_with_all = ["raw", "phantom"])]
    series: Option<String>,

    /// How far voxels are apart, in millimetres [default: what the file says, otherwise 1,1,1]
    #[arg(long, value_name = "X,Y,Z", value_parser = written::coordinates)]
    spacing: Option<[f64; 3]>,

    /// Size of a box, and along which axes it also holds the first layer of the next
    #[arg(long, value_name = "XxYxZ[+AXES]", default_value = "32x32x16+z", value_parser = written::boxes)]
    boxes: ([u64; 3], [bool; 3]),

    /// How boxes are packed: none, lz4 or zstd
    #[arg(long, default_value = "none")]
    compression: Compression,

    /// Spread it over so many disks [default: all]
    #[arg(long, value_name = "NUMBER")]
    disks: Option<u32>,
}

/// Does it.
pub fn run(global: &Global, options: &Options) -> anyhow::Result<()> {
    let Some((target, sources)) = options.paths.split_last() else {
        return Err(Usage("say which volume is to be made".to_owned()).into());
    };
    let target = paths::in_cluster(target.as_os_str())?;
    match (sources.is_empty(), options.phantom) {
        (true, None) => {
            let text = "say what is to be read and what is to be made, such as `pario volume \
                        import head.nrrd /head`, or make a phantom with --phantom";
            return Err(Usage(text.to_owned()).into());
        }
        (false, Some(_)) => {
            let text = "a phantom is made of its seed: nothing is read for it";
            return Err(Usage(text.to_owned()).into());
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
                    "a phantom has no voxels of {}, choose u8, u16, i8, i16 or f32",
                    pixel.number()
                );
                return Err(Usage(text).into());
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
            "values": statistics.as_ref().map(written::values_json),
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
    let limits = OpenOptions { series: options.series.clone(), ..OpenOptions::default() };
    let Some(size) = options.raw else {
        return Ok(open_volume(sources, &limits).map_err(ImageError::from)?);
    };
    let [path] = sources else {
        return Err(Usage("a raw volume is one file".to_owned()).into());
    };
    let order = if options.big_endian { ByteOrder::Big } else { ByteOrder::Little };
    let pixel = options.pixel.unwrap_or(Pixel::GREY.into());
    let layout = RawLayout { size, pixel, order, skip_bytes: options.skip };
    Ok(VolumeSource::raw(path, &layout, [1.0; 3], &limits).map_err(ImageError::from)?)
}

/// Has the nodes make a phantom; how many bytes they have written.
fn generate(
    global: &Global,
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

/// Writes what is read; how many bytes of voxels that were.
fn import(
    global: &Global,
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
