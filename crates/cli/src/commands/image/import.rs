//! `pario image import`: reads a picture file into the cluster.

use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use pario_image::formats::{
    ByteOrder, FormatError, FormatOptions, RawLayout, RawRows, Rows, open_picture,
};
use pario_image::{Compression, ImageError, ImageOptions};
use serde_json::json;

use super::info::facts;
use super::parse;
use super::progress::{OperationProgress, bytes};
use crate::amounts::{parse_size, per_second};
use crate::arguments::GlobalOptions;
use crate::unfinished_file::UnfinishedFile;
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario image import photo.png /photo\n  \
                            pario image import sky.tif /sky --tile 512x512 --compression zstd\n  \
                            pario image import sky.raw /sky --raw 60000x40000x3:u8 --disks 4";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Width and height of a tile
    #[arg(long, value_name = "WxH", default_value = "256x256", value_parser = parse::size::<u64>)]
    tile: [u64; 2],

    /// Compression of tiles: none, lz4 or zstd
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = parse::compression)]
    compression: Compression,

    /// Number of disks to spread it over [default: all]
    #[arg(long, value_name = "N")]
    disks: Option<u32>,

    /// The file has no header, only pixels of this layout: such as 1920x1080x3:u8 (or i16, u16,
    /// f32, ...)
    #[arg(long, value_name = "WxHxC:TYPE", value_parser = parse::raw)]
    raw: Option<RawLayout>,

    /// Bytes before the first pixel of a raw file
    #[arg(long, value_name = "SIZE", requires = "raw", value_parser = parse_size)]
    skip: Option<u64>,

    /// Samples of a raw file are big-endian
    #[arg(long, requires = "raw")]
    big_endian: bool,

    /// The picture file
    file: PathBuf,

    /// The image in the cluster
    image: OsString,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let path = paths::in_cluster(&options.image)?;
    let mut rows = open(options).map_err(ImageError::from)?;
    let notes = rows.notes();
    terminal::print_notes(&options.file, &notes);
    let cluster = reach::cluster(global)?;
    let ((width, height), pixel) = (rows.size(), rows.pixel());
    let mut wanted = ImageOptions::new([width, height], pixel)
        .tile(options.tile)
        .compression(options.compression);
    if let Some(disks) = options.disks {
        wanted = wanted.disk_count(disks);
    }
    let began = Instant::now();
    let made = UnfinishedFile::new(&cluster, &path)?;
    let image = wanted.create(&cluster, made.path().as_str())?;
    made.note_created();
    let name = options.file.file_name().unwrap_or_default().display().to_string();
    let mut progress = OperationProgress::begin(&name, bytes(&image), global.json)?;
    let imported = image
        .import(&mut *rows, |row| progress.advance_to(row, height))
        .and_then(|()| image.sync());
    progress.end(imported)?;
    made.finish()?;
    if global.json {
        let (took, bytes) = (began.elapsed(), bytes(&image));
        let mut json = facts(&image);
        json["file"] = json!(options.file);
        json["notes"] = json!(notes);
        json["seconds"] = json!(took.as_secs_f64());
        json["bytes_per_second"] = json!(per_second(bytes, took));
        terminal::print_json(&json)?;
    }
    Ok(())
}

fn open(options: &Options) -> Result<Box<dyn Rows>, FormatError> {
    let (file, how) = (options.file.as_path(), FormatOptions::default());
    let Some(layout) = options.raw else { return open_picture(file, &how) };
    let order = if options.big_endian { ByteOrder::Big } else { layout.order };
    let layout = RawLayout { order, skip_bytes: options.skip.unwrap_or(0), ..layout };
    let source = BufReader::new(opened(file)?);
    Ok(Box::new(RawRows::open(&file.display().to_string(), source, &layout, &how)?))
}

fn opened(path: &Path) -> Result<File, FormatError> {
    File::open(path).map_err(|source| {
        let name = path.display().to_string();
        FormatError::Io { name, action: "open", source }
    })
}
