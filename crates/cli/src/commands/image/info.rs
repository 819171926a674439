//! `pario image info`: describes images.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use pario_image::{Image, Summary};
use serde_json::{Value, json};

use crate::amounts::{count, size};
use crate::arguments::GlobalOptions;
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario image info /sky\n  \
                            pario image info /sky --summary\n  \
                            pario image info /sky --json | jq '.[0].pixels'";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Compute minimum, maximum and mean of each channel, at the nodes
    #[arg(long)]
    summary: bool,

    /// The images
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<OsString>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.images)?;
    let cluster = reach::cluster(global)?;
    let mut out = terminal::output();
    let mut all = Vec::new();
    for path in &paths {
        let image = Image::open(&cluster, path.as_str())?;
        let measured = image.file().metadata()?;
        let extents: u64 = measured.subfiles.iter().map(|subfile| subfile.extents).sum();
        // One extent holds the description of the image.
        let stored = extents.saturating_sub(1);
        let summary = options.summary.then(|| image.summary()).transpose()?;
        if global.json {
            let mut json = facts(&image);
            json["stored_tiles"] = json!(stored);
            json["disk_bytes"] = json!(measured.disk_bytes());
            json["summary"] = json!(summary.as_ref().map(summary_json));
            all.push(json);
            continue;
        }
        let [width, height] = image.size();
        let (tiles, description) = (image.tiles(), image.description());
        let tile = tiles.tile();
        writeln!(out, "{path}   {width} x {height} pixels of {}", description.pixel)?;
        writeln!(
            out,
            "  {} of {} tiles of {} x {} are stored ({}), compression {}, over {}",
            stored,
            tiles.tile_count(),
            tile.x,
            tile.y,
            size(measured.disk_bytes()),
            description.compression,
            count(u64::from(tiles.disks().count()), "disk")
        )?;
        for (number, channel) in summary.iter().flat_map(Summary::channels).enumerate() {
            write!(out, "  channel {number}: ")?;
            match channel.mean() {
                Some(mean) => {
                    write!(out, "{} to {}, mean {mean}", channel.minimum, channel.maximum)?;
                }
                None => write!(out, "only NaN")?,
            }
            match channel.not_numbers {
                0 => writeln!(out)?,
                others => writeln!(out, ", {others} are NaN")?,
            }
        }
    }
    out.flush()?;
    if global.json { terminal::print_json(&all) } else { Ok(()) }
}

/// Returns the description of an image as JSON.
pub fn facts(image: &Image) -> Value {
    let [width, height] = image.size();
    let (tiles, description) = (image.tiles(), image.description());
    json!({
        "path": image.file().path(),
        "width": width,
        "height": height,
        "channels": description.pixel.channels(),
        "sample": description.pixel.sample().to_string(),
        "pixels": image.window().area(),
        "bytes": super::progress::bytes(image),
        "tile_width": tiles.tile().x,
        "tile_height": tiles.tile().y,
        "tiles": tiles.tile_count(),
        "compression": description.compression.to_string(),
        "disks": tiles.disks().count(),
    })
}

fn summary_json(summary: &Summary) -> Value {
    let channels = summary.channels().iter().map(|channel| {
        let is_any = channel.count > 0;
        json!({
            "count": channel.count,
            "not_numbers": channel.not_numbers,
            "minimum": is_any.then_some(channel.minimum),
            "maximum": is_any.then_some(channel.maximum),
            "mean": channel.mean(),
        })
    });
    channels.collect()
}
