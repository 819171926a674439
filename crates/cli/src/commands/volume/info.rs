//! `pario volume info`: describes a volume.

use std::io::Write;

use clap::Args;
use pario_image::Volume;
use serde_json::json;

use super::parse::{units_json, values_json};
use crate::amounts::size;
use crate::arguments::GlobalOptions;
use crate::{reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario volume info /body\n  pario volume info /body --json";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The volume
    volume: String,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let cluster = reach::cluster(global)?;
    let volume = Volume::open(&cluster, &options.volume)?;
    let (shape, tiles, description) = (volume.shape(), volume.tiles(), volume.description());
    let metadata = cluster.metadata(&options.volume)?;
    let (core, boxes) = (tiles.tile(), tiles.tiles_per_axis());
    let bytes = volume.voxel_bytes();
    if global.json {
        return terminal::print_json(&json!({
            "volume": options.volume,
            "voxels": [shape.x, shape.y, shape.z],
            "pixel": description.pixel.to_string(),
            "spacing": description.spacing,
            "box": [core.x, core.y, core.z],
            "overlap": description.overlap,
            "boxes": [boxes.x, boxes.y, boxes.z],
            "compression": description.compression.to_string(),
            "disks": tiles.disks().count(),
            "units": units_json(volume.units()),
            "values": volume.statistics().as_ref().map(values_json),
            "voxel_bytes": bytes,
            "stored_bytes": metadata.len,
        }));
    }
    let axes = ["x", "y", "z"].into_iter().zip(description.overlap);
    let overlap: Vec<&str> = axes.filter(|(_, is)| *is).map(|(axis, _)| axis).collect();
    let overlap = match overlap.is_empty() {
        true => "no overlap".to_owned(),
        false => format!("one layer more along {}", overlap.join(", ")),
    };
    let [x, y, z] = description.spacing;
    let mut out = terminal::output();
    writeln!(out, "{}   {shape} voxels of {}, {}", options.volume, description.pixel, size(bytes))?;
    let symbol = |symbol: Option<&str>| symbol.map(|unit| format!(" {unit}")).unwrap_or_default();
    let (values, lengths) = (volume.units().values.symbol(), volume.units().lengths.symbol());
    writeln!(out, "  voxels are {x} x {y} x {z}{} apart", symbol(lengths))?;
    if let Some(known) = volume.statistics() {
        let unit = symbol(values);
        writeln!(
            out,
            "  values from {} to {}{unit}, 98 % of them from {} to {}{unit}",
            known.minimum, known.maximum, known.percentile_1, known.percentile_99
        )?;
    }
    writeln!(out, "  {} boxes of {core}, {overlap}", tiles.tile_count())?;
    writeln!(
        out,
        "  {} stored (compression: {}) over {} disks",
        size(metadata.len),
        description.compression,
        tiles.disks().count()
    )?;
    Ok(out.flush()?)
}
