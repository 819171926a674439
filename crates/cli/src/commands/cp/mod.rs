//! `pario cp`
//!
//! `direction` says which side is in the cluster, `plan` which files go where, `copy` moves one of
//! them through a `pipe`, and `progress` shows it.

pub mod copy;
pub mod direction;
pub mod pipe;
pub mod plan;
pub mod progress;

use std::ffi::OsString;
use std::time::Instant;

use clap::Args;
use serde_json::json;

use crate::amounts::{count, parse_positive_size, per_second};
use crate::arguments::Global;
use crate::exit::{FAILED, Told, Usage};
use crate::interrupt::Interrupt;
use crate::{paths, reach, terminal};
use copy::Copier;
use plan::{Plan, Planner};
use progress::Progress;

/// Lines for the help.
pub const EXAMPLES: &str = "pario cp results.h5 /runs/              # to the cluster\n  \
                            pario cp pario:/runs/results.h5 .       # from the cluster\n  \
                            pario cp pario:/a pario:/b              # inside the cluster\n  \
                            pario cp -r runs pario:/ --unit 1MiB --disks 2\n  \
                            tar c . | pario cp - /backup.tar --verify";

/// What it takes.
#[derive(Args, Debug, Default)]
pub struct Options {
    /// Copy directories with all that is in them
    #[arg(short, long)]
    recursive: bool,

    /// Striping unit of new files in the cluster
    #[arg(long, value_name = "SIZE", value_parser = parse_positive_size, allow_hyphen_values = true)]
    pub unit: Option<u64>,

    /// Disks of new files in the cluster: how many, or which ones, such as a/disk0,b/disk1
    #[arg(long, value_name = "N|LIST", value_parser = parse_disks)]
    pub disks: Option<Disks>,

    /// Read back every file and compare
    #[arg(long)]
    pub verify: bool,

    /// What to copy, and last where to
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Which disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disks {
    /// So many.
    Count(u32),
    /// These, by name or number.
    These(Vec<String>),
}

/// Does it.
pub fn run(global: &Global, options: &Options) -> anyhow::Result<()> {
    let Some((target, sources)) = options.paths.split_last() else {
        return Err(Usage("give what to copy, and where to".to_owned()).into());
    };
    let is_marked = paths::is_marked_directory(target);
    let (sources, target) =
        direction::places(sources, target, |path| path.symlink_metadata().is_ok())?;
    let to_stdout = target == direction::Place::Stream;
    let cluster = reach::cluster(global)?;
    let interrupt = Interrupt::watch()?;
    let planner =
        Planner { cluster: &cluster, is_recursive: options.recursive, interrupt: &interrupt };
    let plan = planner.plan(&sources, &target, is_marked)?;

    let began = Instant::now();
    for directory in &plan.directories {
        interrupt.check()?;
        copy::make_directory(&cluster, directory)?;
    }
    let progress = begin(&plan, global.json);
    let copier = Copier { cluster: &cluster, options, progress: &progress, interrupt: &interrupt };
    let (mut copied, mut total) = (Vec::new(), 0);
    for job in &plan.files {
        let began = Instant::now();
        let bytes = copier.copy(job)?;
        total += bytes;
        if global.json {
            copied.push(json!({
                "from": job.from.to_string(),
                "to": job.to.to_string(),
                "bytes": bytes,
                "bytes_per_second": per_second(bytes, began.elapsed()),
                "verified": options.verify,
            }));
        }
    }
    progress.finish();
    for path in &plan.left_out {
        eprintln!("pario: {}: it is neither a file nor a directory, and left out", path.display());
    }
    // What goes to stdout there is the content itself.
    if global.json && !to_stdout {
        let took = began.elapsed();
        terminal::print_json(&json!({
            "copied": copied,
            "files": plan.files.len(),
            "directories": plan.directories.len(),
            "bytes": total,
            "seconds": took.as_secs_f64(),
            "bytes_per_second": per_second(total, took),
        }))?;
    }
    if plan.left_out.is_empty() { Ok(()) } else { Err(Told(FAILED).into()) }
}

fn begin(plan: &Plan, is_quiet: bool) -> Progress {
    let name = match &plan.files[..] {
        [file] => copy::short_name(&file.from),
        files => count(files.len() as u64, "file"),
    };
    let bytes = plan.files.iter().map(|job| job.len).sum();
    Progress::begin(&name, bytes, is_quiet)
}

fn parse_disks(text: &str) -> Result<Disks, String> {
    if let Ok(count) = text.parse() {
        return match count {
            0 => Err("a file needs at least one disk".to_owned()),
            count => Ok(Disks::Count(count)),
        };
    }
    let names: Vec<_> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        return Err("it is neither a number nor a list such as a/disk0,b/disk1".to_owned());
    }
    Ok(Disks::These(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_a_number_or_a_list() {
        let these = |names: &[&str]| {
            Ok(Disks::These(names.iter().map(|name| (*name).to_owned()).collect()))
        };
        assert_eq!(parse_disks("3"), Ok(Disks::Count(3)));
        assert_eq!(parse_disks("a/disk0, b/disk1"), these(&["a/disk0", "b/disk1"]));
        assert_eq!(parse_disks("0,1"), these(&["0", "1"]));
        for text in ["", "0", ",", "a,,b", "a,"] {
            assert!(parse_disks(text).is_err(), "{text}");
        }
    }
}
