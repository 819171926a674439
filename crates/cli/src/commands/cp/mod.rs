//! `pario cp`, and what `pario put` and `pario get` share with it
//!
//! `direction` says which side is in the cluster, `plan` which files go where. `small` copies many
//! small files at a time, `copy` moves a large one through a `pipe`, `extents` copies images and
//! volumes. A `target` has a hidden name until it is whole (`partial`). `progress` shows how far it
//! has come, `outcome` what came of it.

pub mod copy;
pub mod direction;
mod directories;
mod existing;
mod extents;
mod links;
mod outcome;
pub mod partial;
pub mod pipe;
pub mod plan;
pub mod progress;
mod small;
mod target;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::Args;

use crate::amounts::{count, parse_positive_size};
use crate::arguments::Global;
use crate::exit::{FAILED, Told, Usage};
use crate::interrupt::{Interrupt, Interrupted};
use crate::{paths, reach};
use copy::Copier;
use direction::Place;
use links::Links;
use outcome::Outcome;
use plan::{Failed, Item, Plan, Planner};
use progress::Progress;

/// Lines for the help.
pub const EXAMPLES: &str = "pario cp results.h5 /runs/              # to the cluster\n  \
                            pario cp pario:/runs/results.h5 .       # from the cluster\n  \
                            pario cp pario:/a pario:/b              # inside the cluster\n  \
                            pario cp -r --update runs pario:/       # what is new or has changed\n  \
                            pario cp -r runs pario:/ --unit 1MiB --disks 2\n  \
                            tar c . | pario cp - /backup.tar --verify";

/// Files of at most this size are copied many at a time.
pub const SMALL_BYTES: u64 = 1 << 20;

/// So many small files are one group: what came of them is noted together.
const GROUP_FILES: usize = 512;

/// What `cp` takes.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    flags: Flags,

    /// What to copy, and last where to
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
}

/// How files are copied.
#[derive(Args, Debug, Default)]
pub struct Flags {
    /// Copy directories with all that is in them; keeps times, as -p
    #[arg(short, long)]
    pub recursive: bool,

    /// Keep the times of change; permissions are always kept
    #[arg(short, long)]
    pub preserve: bool,

    /// Copy what symbolic links point to, also inside of directories
    #[arg(short = 'L', long, overrides_with = "no_dereference")]
    dereference: bool,

    /// Leave out symbolic links, also those that are named
    #[arg(short = 'P', long)]
    no_dereference: bool,

    /// Leave files alone that exist at the target
    #[arg(short, long)]
    pub no_clobber: bool,

    /// Copy only what is missing at the target, has another size there or is older; keeps times
    #[arg(short, long)]
    pub update: bool,

    /// Name every file
    #[arg(short, long)]
    verbose: bool,

    /// Striping unit of new files in the cluster
    #[arg(long, value_name = "SIZE", value_parser = parse_positive_size, allow_hyphen_values = true)]
    pub unit: Option<u64>,

    /// Disks of new files in the cluster: how many, or which ones, such as a/disk0,b/disk1
    #[arg(long, value_name = "N|LIST", value_parser = parse_disks)]
    pub disks: Option<Disks>,

    /// Store archives of images and volumes as the bytes that they are
    #[arg(long)]
    pub plain: bool,

    /// Read back every file and compare
    #[arg(long)]
    pub verify: bool,
}

impl Flags {
    fn links(&self) -> Links {
        match (self.dereference, self.no_dereference) {
            (true, _) => Links::All,
            (false, true) => Links::Never,
            (false, false) => Links::Named,
        }
    }

    /// Whether copies get the times of their sources.
    pub fn keeps_times(&self) -> bool {
        self.preserve || self.recursive || self.update
    }
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
    transfer(global, &options.flags, &sources, &target, is_marked)
}

/// Copies sources to a target; `is_marked` says that it was written as a directory.
pub fn transfer(
    global: &Global,
    flags: &Flags,
    sources: &[Place],
    target: &Place,
    is_marked: bool,
) -> anyhow::Result<()> {
    let cluster = reach::cluster(global)?;
    let interrupt = Interrupt::watch()?;
    let planner = Planner { cluster: &cluster, flags, interrupt: &interrupt };
    let mut plan = planner.plan(sources, target, is_marked)?;

    let to_stdout = *target == Place::Stream;
    let mut outcome = Outcome::new(global.json, flags.verbose, flags.verify, to_stdout);
    outcome.failures = std::mem::take(&mut plan.failures);
    outcome.note_skipped(std::mem::take(&mut plan.skipped))?;
    let mut made = Vec::new();
    for directory in &plan.directories {
        interrupt.check()?;
        match directories::make(&cluster, directory) {
            Ok(is_new) => {
                outcome.note_directory();
                made.extend(is_new.then_some(directory));
            }
            Err(error) => outcome.failures.push(failed(&directory.to, None, error)),
        }
    }
    let progress = begin(&plan, global.json);
    let copier = Copier { cluster: &cluster, flags, progress: &progress, interrupt: &interrupt };
    let copied = copy_all(&copier, &plan.files, &mut outcome);
    // What is in a directory changes its time: the innermost come first.
    for directory in made.into_iter().rev() {
        if let Err(error) = directories::finish(&cluster, directory, flags.keeps_times()) {
            outcome.failures.push(failed(&directory.to, None, error));
        }
    }
    let copied = copied.and_then(|()| sync_local(&plan.files));
    drop(progress);
    report(copied, outcome, &plan)
}

/// Copies all files; a failure of one does not keep the others from being copied.
fn copy_all(copier: &Copier<'_>, files: &[Item], outcome: &mut Outcome) -> anyhow::Result<()> {
    let mut rest = files;
    while let Some(first) = rest.first() {
        copier.interrupt.check()?;
        let small = rest.iter().take(GROUP_FILES).take_while(|item| is_small(item)).count();
        let (group, results) = match small {
            0 => (std::slice::from_ref(first), vec![copier.copy(first)]),
            small => (&rest[..small], copier.copy_small(&rest[..small])),
        };
        let mut is_interrupted = false;
        for (item, result) in group.iter().zip(results) {
            match result {
                Ok(copied) => outcome.note_copied(item, copied)?,
                Err(error) if error.chain().any(|cause| cause.is::<Interrupted>()) => {
                    is_interrupted = true;
                }
                // A closed pipe ends everything, and is not worth a word.
                Err(error) if item.to == Place::Stream && is_closed_pipe(&error) => {
                    return Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into());
                }
                Err(error) => {
                    outcome.failures.push(failed(&item.from, Some(&item.to), error));
                }
            }
        }
        if is_interrupted {
            return Err(Interrupted.into());
        }
        rest = &rest[group.len()..];
    }
    Ok(())
}

fn is_small(item: &Item) -> bool {
    let is_file = item.from != Place::Stream && item.to != Place::Stream;
    is_file && !item.is_extents && item.len.is_some_and(|len| len <= SMALL_BYTES)
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_pipe = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_pipe))
}

fn failed(from: &Place, to: Option<&Place>, error: anyhow::Error) -> Failed {
    Failed { from: from.clone(), to: to.cloned(), error }
}

/// Small files that came to this machine are made durable together.
fn sync_local(files: &[Item]) -> anyhow::Result<()> {
    let local = files.iter().filter(|item| is_small(item)).find_map(|item| match &item.to {
        Place::Local(path) => path.parent(),
        _ => None,
    });
    let Some(directory) = local else { return Ok(()) };
    let directory = if directory == Path::new("") { Path::new(".") } else { directory };
    let opened = match fs::File::open(directory) {
        Ok(opened) => opened,
        // Where nothing was written nothing has to be made durable.
        Err(_) => return Ok(()),
    };
    let synced = rustix::fs::syncfs(&opened).map_err(std::io::Error::from);
    synced.with_context(|| directory.display().to_string())
}

/// Says what came of it, and how the process ends.
fn report(copied: anyhow::Result<()>, mut outcome: Outcome, plan: &Plan) -> anyhow::Result<()> {
    let attempted = plan.files.len() + outcome.failures.len();
    if let Err(error) = copied {
        if !error.is::<Interrupted>() {
            return Err(error);
        }
        if plan.files.len() > 1 {
            let done = outcome.copied();
            outcome.print(&plan.roots)?;
            let all = count(plan.files.len() as u64, "file");
            let text =
                format!("{done} of {all} are copied; with --update the same command goes on");
            return Err(error.context(text));
        }
        return Err(error);
    }
    // The only thing that was asked for has failed: its error is the answer.
    if outcome.copied() == 0 && outcome.failures.len() == 1 && plan.roots.len() <= 1 {
        let is_all = attempted <= 2 && plan.files.len() <= 1 && plan.directories.len() <= 1;
        if let Some(only) = outcome.failures.pop_if(|_| is_all) {
            return Err(only.error);
        }
    }
    outcome.print(&plan.roots)?;
    if outcome.failures.is_empty() {
        return Ok(());
    }
    outcome.print_failures();
    Err(Told(FAILED).into())
}

fn begin(plan: &Plan, is_quiet: bool) -> Progress {
    let name = match &plan.files[..] {
        [file] => copy::short_name(&file.from),
        files => count(files.len() as u64, "file"),
    };
    let bytes = plan.files.iter().map(|item| item.len).sum();
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
