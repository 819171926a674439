//! `pario cp`, and the parts that `pario put` and `pario get` share with it.
//!
//! `direction` decides which side is in the cluster, `plan` which files go where. `small` copies
//! many
//! small files at a time, `copy` moves a large one through a `pipe`, `extents` copies images and
//! volumes. A `target` has a hidden name until it is complete (`partial`). `progress` shows a bar,
//! `report` prints the result.

pub mod copy;
pub mod direction;
mod directories;
mod existing;
mod extents;
mod links;
pub mod partial;
pub mod pipe;
pub mod plan;
pub mod progress;
mod report;
mod small;
mod target;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::Args;

use crate::amounts::{count, parse_positive_size};
use crate::arguments::GlobalOptions;
use crate::exit::{AlreadyReported, FAILED, UsageError};
use crate::interrupt::{Interrupt, Interrupted};
use crate::{paths, reach};
use copy::Copier;
use direction::Location;
use links::LinkPolicy;
use plan::{CopyFailure, CopyItem, CopyPlan, Planner};
use progress::Progress;
use report::CopyReport;

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario cp results.h5 /runs/              # to the cluster\n  \
                            pario cp pario:/runs/results.h5 .       # from the cluster\n  \
                            pario cp pario:/a pario:/b              # inside the cluster\n  \
                            pario cp -r --update runs pario:/       # what is new or has changed\n  \
                            pario cp -r runs pario:/ --unit 1MiB --disks 2\n  \
                            tar c . | pario cp - /backup.tar --verify";

/// Files up to this size are copied in groups.
pub const SMALL_BYTES: u64 = 1 << 20;

/// Small files per group; a group is reported at once.
const GROUP_FILES: usize = 512;

/// Arguments of `cp`.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    flags: Flags,

    /// The files to copy, and last the target
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Options of `cp`, `put` and `get`.
#[derive(Args, Debug, Default)]
pub struct Flags {
    /// Copy directories with their contents; keeps times, like -p
    #[arg(short, long)]
    pub recursive: bool,

    /// Keep modification times; permissions are always kept
    #[arg(short, long)]
    pub preserve: bool,

    /// Copy the targets of symbolic links, also inside directories
    #[arg(short = 'L', long, overrides_with = "no_dereference")]
    dereference: bool,

    /// Skip symbolic links, also those that you name
    #[arg(short = 'P', long)]
    no_dereference: bool,

    /// Do not replace files that exist at the target
    #[arg(short, long)]
    pub no_clobber: bool,

    /// Copy only files that are missing, older or of another size at the target; keeps times
    #[arg(short, long)]
    pub update: bool,

    /// Print a line for every file
    #[arg(short, long)]
    verbose: bool,

    /// Striping unit of new files in the cluster
    #[arg(long, value_name = "SIZE", value_parser = parse_positive_size, allow_hyphen_values = true)]
    pub unit: Option<u64>,

    /// Disks of new files in the cluster: a number, or a list such as a/disk0,b/disk1
    #[arg(long, value_name = "N|LIST", value_parser = parse_disks)]
    pub disks: Option<DiskArgument>,

    /// Store archives of images and volumes as plain bytes
    #[arg(long)]
    pub plain: bool,

    /// Read every file back and compare it
    #[arg(long)]
    pub verify: bool,
}

impl Flags {
    fn links(&self) -> LinkPolicy {
        match (self.dereference, self.no_dereference) {
            (true, _) => LinkPolicy::All,
            (false, true) => LinkPolicy::Never,
            (false, false) => LinkPolicy::Named,
        }
    }

    /// Returns whether copies get the times of their sources.
    pub fn keeps_times(&self) -> bool {
        self.preserve || self.recursive || self.update
    }
}

/// The disks of new files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskArgument {
    /// A number of disks.
    Count(u32),
    /// Named or numbered disks.
    These(Vec<String>),
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let Some((target, sources)) = options.paths.split_last() else {
        return Err(UsageError("give what to copy, and where to".to_owned()).into());
    };
    let is_marked = paths::is_marked_directory(target);
    let (sources, target) =
        direction::locations(sources, target, |path| path.symlink_metadata().is_ok())?;
    transfer(global, &options.flags, &sources, &target, is_marked)
}

/// Copies sources to a target; `is_marked` means that the user wrote it as a directory.
pub fn transfer(
    global: &GlobalOptions,
    flags: &Flags,
    sources: &[Location],
    target: &Location,
    is_marked: bool,
) -> anyhow::Result<()> {
    let cluster = reach::cluster(global)?;
    let interrupt = Interrupt::watch()?;
    let planner = Planner { cluster: &cluster, flags, interrupt: &interrupt };
    let mut plan = planner.plan(sources, target, is_marked)?;

    let to_stdout = *target == Location::Stream;
    let mut outcome = CopyReport::new(global.json, flags.verbose, flags.verify, to_stdout);
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
    // Creating an entry changes the time of its directory: finish the innermost first.
    for directory in made.into_iter().rev() {
        if let Err(error) = directories::finish(&cluster, directory, flags.keeps_times()) {
            outcome.failures.push(failed(&directory.to, None, error));
        }
    }
    let copied = copied.and_then(|()| sync_local(&plan.files));
    drop(progress);
    report(copied, outcome, &plan)
}

/// Copies all files; a failure of one does not stop the others.
fn copy_all(
    copier: &Copier<'_>,
    files: &[CopyItem],
    outcome: &mut CopyReport,
) -> anyhow::Result<()> {
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
                // A closed pipe ends the copy; it is not an error.
                Err(error) if item.to == Location::Stream && is_closed_pipe(&error) => {
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

fn is_small(item: &CopyItem) -> bool {
    let is_file = item.from != Location::Stream && item.to != Location::Stream;
    is_file && !item.is_extents && item.len.is_some_and(|len| len <= SMALL_BYTES)
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_pipe = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_pipe))
}

fn failed(from: &Location, to: Option<&Location>, error: anyhow::Error) -> CopyFailure {
    CopyFailure { from: from.clone(), to: to.cloned(), error }
}

/// Syncs small files that were copied to this machine, once per file system.
fn sync_local(files: &[CopyItem]) -> anyhow::Result<()> {
    let local = files.iter().filter(|item| is_small(item)).find_map(|item| match &item.to {
        Location::Local(path) => path.parent(),
        _ => None,
    });
    let Some(directory) = local else { return Ok(()) };
    let directory = if directory == Path::new("") { Path::new(".") } else { directory };
    let opened = match fs::File::open(directory) {
        Ok(opened) => opened,
        // Nothing was written there, so there is nothing to sync.
        Err(_) => return Ok(()),
    };
    let synced = rustix::fs::syncfs(&opened).map_err(std::io::Error::from);
    synced.with_context(|| directory.display().to_string())
}

/// Prints the result and returns the error that decides the exit code.
fn report(
    copied: anyhow::Result<()>,
    mut outcome: CopyReport,
    plan: &CopyPlan,
) -> anyhow::Result<()> {
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
                format!("copied {done} of {all}; run the same command with --update to continue");
            return Err(error.context(text));
        }
        return Err(error);
    }
    // The only source has failed: its error is the whole report.
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
    Err(AlreadyReported(FAILED).into())
}

fn begin(plan: &CopyPlan, is_quiet: bool) -> Progress {
    let name = match &plan.files[..] {
        [file] => copy::short_name(&file.from),
        files => count(files.len() as u64, "file"),
    };
    let bytes = plan.files.iter().map(|item| item.len).sum();
    Progress::begin(&name, bytes, is_quiet)
}

fn parse_disks(text: &str) -> Result<DiskArgument, String> {
    if let Ok(count) = text.parse() {
        return match count {
            0 => Err("a file needs at least one disk".to_owned()),
            count => Ok(DiskArgument::Count(count)),
        };
    }
    let names: Vec<_> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        return Err("it is neither a number nor a list such as a/disk0,b/disk1".to_owned());
    }
    Ok(DiskArgument::These(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_a_number_or_a_list() {
        let these = |names: &[&str]| {
            Ok(DiskArgument::These(names.iter().map(|name| (*name).to_owned()).collect()))
        };
        assert_eq!(parse_disks("3"), Ok(DiskArgument::Count(3)));
        assert_eq!(parse_disks("a/disk0, b/disk1"), these(&["a/disk0", "b/disk1"]));
        assert_eq!(parse_disks("0,1"), these(&["0", "1"]));
        for text in ["", "0", ",", "a,,b", "a,"] {
            assert!(parse_disks(text).is_err(), "{text}");
        }
    }
}
