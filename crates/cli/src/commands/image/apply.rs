//! `pario image apply`: applies an operation at the nodes.

use std::ffi::OsString;
use std::io::Write;
use std::time::Instant;

use clap::Args;
use pario::ProcessReport;
use pario_image::{Bins, Edge, Histogram, Image};
use serde_json::json;

use super::info::facts;
use super::operation::{ConvolutionScale, ImageOperation, edge};
use super::progress::{OperationProgress, bytes};
use crate::arguments::GlobalOptions;
use crate::exit::UsageError;
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario image apply /sky gaussian 1.5 /soft\n  \
                            pario image apply /sky median 2 /clean --edge mirror\n  \
                            pario image apply /sky convolve kernel.txt /sharp --divisor 16\n  \
                            pario image apply /sky mix 0.299,0.587,0.114 /grey\n  \
                            pario image apply /sky histogram --json";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Values beyond the edges for filters: clamp, mirror, or a number
    #[arg(long, value_name = "RULE", default_value = "clamp", value_parser = edge,
          allow_hyphen_values = true)]
    edge: Edge,

    /// Divisor for the sums of convolve
    #[arg(long, value_name = "NUMBER", default_value = "1", allow_negative_numbers = true)]
    divisor: f32,

    /// Offset that is added to the quotient
    #[arg(long, value_name = "NUMBER", default_value = "0", allow_negative_numbers = true)]
    offset: f32,

    /// The image
    image: OsString,

    /// The operation, its parameters, and last the new image
    #[arg(required = true, value_name = "OPERATION", allow_negative_numbers = true)]
    words: Vec<String>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let path = paths::in_cluster(&options.image)?;
    let Some((name, rest)) = options.words.split_first() else {
        return Err(UsageError(
            "name an operation; `pario image apply --help` lists them".to_owned(),
        )
        .into());
    };
    let scale = ConvolutionScale { divisor: options.divisor, offset: options.offset };
    let (words, target) = match (name.as_str(), rest) {
        ("histogram", words) => (words, None),
        (_, [words @ .., target]) => (words, Some(target)),
        (_, []) => (rest, None),
    };
    let operation = ImageOperation::parse(name, words, scale)?;
    let target = target.map(|target| paths::in_cluster(target.as_ref())).transpose()?;
    let cluster = reach::cluster(global)?;
    let image = Image::open(&cluster, path.as_str())?;
    if let ImageOperation::Histogram(bins) = operation {
        let bins = bins.unwrap_or(Bins::usual(image.pixel().sample()));
        return print(global, &image, &image.histogram(bins)?);
    }
    let Some(target) = target else {
        return Err(
            UsageError(format!("name the new image after {name} and its parameters")).into()
        );
    };
    let began = Instant::now();
    let mut progress = OperationProgress::begin(name, bytes(&image), global.json)?;
    let advance = |report: &ProcessReport| progress.report(report);
    let made = match &operation {
        ImageOperation::Filter(filter) => {
            image.apply_watched(filter, options.edge, target.as_str(), advance)
        }
        ImageOperation::Pixelwise(map) => image.map_watched(map, target.as_str(), advance),
        ImageOperation::Histogram(_) => unreachable!("histograms are printed above"),
    };
    let (made, report) = progress.end(made)?;
    if global.json {
        let mut json = facts(&made);
        json["from"] = json!(path);
        json["operation"] = json!(name);
        json["seconds"] = json!(began.elapsed().as_secs_f64());
        json["seen_tiles"] = json!(report.progress.found);
        json["seen_bytes"] = json!(report.progress.seen_bytes);
        json["written_tiles"] = json!(report.progress.written);
        json["written_bytes"] = json!(report.progress.written_bytes);
        json["neighbour_bytes"] = json!(report.progress.neighbour_bytes);
        terminal::print_json(&json)?;
    }
    Ok(())
}

/// Prints the bins that are not empty.
fn print(global: &GlobalOptions, image: &Image, histogram: &Histogram) -> anyhow::Result<()> {
    let channels = 0..histogram.pixel().channels();
    let bins = histogram.bins().count() as usize;
    if global.json {
        let counts: Vec<_> = channels.clone().map(|channel| histogram.channel(channel)).collect();
        let outside = channels.map(|channel| {
            let [below, above, not_numbers] = histogram.outside(channel);
            json!({ "below": below, "above": above, "not_numbers": not_numbers })
        });
        return terminal::print_json(&json!({
            "path": image.file().path(),
            "bins": bins,
            "first": histogram.start_of(0),
            "end": histogram.start_of(bins),
            "counts": counts,
            "outside": outside.collect::<Vec<_>>(),
        }));
    }
    let mut out = terminal::output();
    for bin in 0..bins {
        let counts: Vec<u64> =
            channels.clone().map(|channel| histogram.channel(channel)[bin]).collect();
        if counts.iter().any(|count| *count > 0) {
            let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
            writeln!(out, "{}\t{}", histogram.start_of(bin), counts.join("\t"))?;
        }
    }
    for (number, name) in ["below", "above", "no number"].into_iter().enumerate() {
        let counts: Vec<u64> =
            channels.clone().map(|channel| histogram.outside(channel)[number]).collect();
        if counts.iter().any(|count| *count > 0) {
            let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
            writeln!(out, "{name}\t{}", counts.join("\t"))?;
        }
    }
    Ok(out.flush()?)
}
