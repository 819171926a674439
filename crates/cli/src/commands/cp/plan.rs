//! Plans which files go where, before the first byte moves, so that the total is known.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::Context;
use pario::{Cluster, FileKind, FilePath};

use super::Flags;
use super::direction::Location;
use super::existing::ExistingFiles;
use super::links::LinkPolicy;
use super::partial;
use crate::exit::UsageError;
use crate::interrupt::{Interrupt, Interrupted};

/// Everything that a copy will do.
#[derive(Debug, Default)]
pub struct CopyPlan {
    /// The named sources and their targets.
    pub roots: Vec<(Location, Location)>,
    /// Directories to create, parents first.
    pub directories: Vec<PlannedDirectory>,
    /// Files to copy.
    pub files: Vec<CopyItem>,
    /// Files that are not copied on purpose.
    pub skipped: Vec<Skipped>,
    /// Files that cannot be copied.
    pub failures: Vec<CopyFailure>,
}

/// A directory to create.
#[derive(Debug)]
pub struct PlannedDirectory {
    /// The directory itself.
    pub to: Location,
    /// Permissions of its source, if it has one.
    pub mode: Option<u32>,
    /// Modification time of its source.
    pub modified_ns: Option<u64>,
}

/// A file to copy.
#[derive(Clone, Debug)]
pub struct CopyItem {
    /// The source.
    pub from: Location,
    /// The target.
    pub to: Location,
    /// Its size, if known.
    pub len: Option<u64>,
    /// Its permissions, if it has any.
    pub mode: Option<u32>,
    /// Its modification time, if known.
    pub modified_ns: Option<u64>,
    /// Whether it is an extent file in the cluster.
    pub is_extents: bool,
}

/// A file that is not copied on purpose.
#[derive(Debug)]
pub struct Skipped {
    /// The file.
    pub from: Location,
    /// The reason.
    pub reason: SkipReason,
}

/// The reason for skipping a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// It is a symbolic link.
    Link,
    /// The target exists and must not be replaced.
    Exists,
    /// The target is already a copy of the file.
    Unchanged,
    /// The file is itself part of an unfinished copy.
    Unfinished,
}

/// A file that cannot be copied.
#[derive(Debug)]
pub struct CopyFailure {
    /// The file.
    pub from: Location,
    /// The target, if known.
    pub to: Option<Location>,
    /// The error.
    pub error: anyhow::Error,
}

/// Builds plans.
pub struct Planner<'c> {
    /// The cluster.
    pub cluster: &'c Cluster,
    /// The user's options.
    pub flags: &'c Flags,
    /// Reports whether the user asked to stop.
    pub interrupt: &'c Interrupt,
}

/// A local directory whose entries are still to be planned, with the identities of its ancestors: a
/// followed link may lead back to one of them.
struct LocalDirectory {
    path: PathBuf,
    to: Location,
    above: Vec<(u64, u64)>,
}

impl Planner<'_> {
    /// Plans the copy of all sources. `is_marked` means that the user wrote the target as a
    /// directory.
    pub fn plan(
        &self,
        sources: &[Location],
        target: &Location,
        is_marked: bool,
    ) -> anyhow::Result<CopyPlan> {
        let mut plan = CopyPlan::default();
        let is_there = self.is_directory(target)?;
        let is_directory = is_there || is_marked;
        if is_marked && !is_there {
            let directory = PlannedDirectory { to: target.clone(), mode: None, modified_ns: None };
            plan.directories.push(directory);
        }
        if sources.len() > 1 && !is_directory && *target != Location::Stream {
            let text = format!(
                "{target}: the target of several files must be a directory; end it with a slash"
            );
            return Err(UsageError(text).into());
        }
        let mut existing = ExistingFiles::new(self.cluster);
        for source in sources {
            let to = match is_directory {
                true => inside(target, source),
                false => Ok(target.clone()),
            };
            let added = to.and_then(|to| {
                plan.roots.push((source.clone(), to.clone()));
                self.add(&mut plan, source, to)
            });
            if let Err(error) = added {
                fail(&mut plan, source.clone(), None, error)?;
            }
        }
        self.leave_out_existing(&mut plan, &mut existing)?;
        Ok(plan)
    }

    fn add(&self, plan: &mut CopyPlan, source: &Location, to: Location) -> anyhow::Result<()> {
        if *source == to && *source != Location::Stream {
            return Err(UsageError(format!("{source}: cannot copy it to itself")).into());
        }
        match source {
            Location::Stream => {
                plan.files.push(CopyItem {
                    from: Location::Stream,
                    to,
                    len: None,
                    mode: None,
                    modified_ns: None,
                    is_extents: false,
                });
                Ok(())
            }
            Location::Local(path) => self.add_local(plan, path, to),
            Location::Cluster(path) => self.add_from_cluster(plan, path, to),
        }
    }

    fn add_local(&self, plan: &mut CopyPlan, path: &Path, to: Location) -> anyhow::Result<()> {
        let shown = || path.display().to_string();
        if self.flags.links() == LinkPolicy::Never
            && path.symlink_metadata().with_context(shown)?.is_symlink()
        {
            skip(plan, Location::Local(path.to_owned()), SkipReason::Link);
            return Ok(());
        }
        let known = fs::metadata(path).with_context(shown)?;
        if !known.is_dir() {
            plan.files.push(local_item(path, to, &known));
            return Ok(());
        }
        self.allow_directory(&path.display().to_string(), &to)?;
        plan.directories.push(local_directory(&to, &known));
        let above = vec![(known.dev(), known.ino())];
        let mut waiting = vec![LocalDirectory { path: path.to_owned(), to, above }];
        while let Some(directory) = waiting.pop() {
            let shown = || directory.path.display().to_string();
            let entries = fs::read_dir(&directory.path)
                .and_then(Iterator::collect::<Result<Vec<_>, io::Error>>)
                .with_context(shown);
            let mut entries = match entries {
                Ok(entries) => entries,
                Err(error) => {
                    fail(plan, Location::Local(directory.path), Some(directory.to), error)?;
                    continue;
                }
            };
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                self.interrupt.check()?;
                let path = entry.path();
                if let Err(error) = self.add_entry(plan, &directory, &path, &mut waiting) {
                    fail(plan, Location::Local(path), None, error)?;
                }
            }
        }
        Ok(())
    }

    /// Adds an entry of a local directory.
    fn add_entry(
        &self,
        plan: &mut CopyPlan,
        directory: &LocalDirectory,
        path: &Path,
        waiting: &mut Vec<LocalDirectory>,
    ) -> anyhow::Result<()> {
        let shown = || path.display().to_string();
        let from = Location::Local(path.to_owned());
        let to = inside(&directory.to, &from)?;
        let mut known = path.symlink_metadata().with_context(shown)?;
        if known.is_symlink() {
            if self.flags.links() != LinkPolicy::All {
                skip(plan, from, SkipReason::Link);
                return Ok(());
            }
            known = fs::metadata(path).with_context(shown)?;
        }
        if known.is_dir() {
            let identity = (known.dev(), known.ino());
            if directory.above.contains(&identity) {
                anyhow::bail!(
                    "{}: this symbolic link leads back to a directory above it",
                    path.display()
                );
            }
            let above = directory.above.iter().copied().chain([identity]).collect();
            plan.directories.push(local_directory(&to, &known));
            waiting.push(LocalDirectory { path: path.to_owned(), to, above });
        } else if !known.is_file() {
            anyhow::bail!("{}: it is neither a file nor a directory", path.display());
        } else if path.file_name().is_some_and(|name| partial::is_partial(name.as_bytes())) {
            skip(plan, from, SkipReason::Unfinished);
        } else {
            plan.files.push(local_item(path, to, &known));
        }
        Ok(())
    }

    fn add_from_cluster(
        &self,
        plan: &mut CopyPlan,
        path: &FilePath,
        to: Location,
    ) -> anyhow::Result<()> {
        let known = self.cluster.metadata(path.as_str())?;
        if !known.is_directory() {
            let is_extents = known.record.kind == FileKind::Extents;
            plan.files.push(CopyItem {
                from: Location::Cluster(path.clone()),
                to,
                len: Some(known.len),
                mode: Some(known.record.mode & 0o777),
                modified_ns: Some(known.modified_ns),
                is_extents,
            });
            return Ok(());
        }
        self.allow_directory(&format!("pario:{path}"), &to)?;
        if let Location::Cluster(to) = &to
            && to.is_within(path)
        {
            return Err(UsageError(format!("{path}: cannot copy it into itself")).into());
        }
        plan.directories.push(cluster_directory(&to, &known.record));
        let mut waiting = vec![(path.clone(), to)];
        while let Some((directory, to)) = waiting.pop() {
            if let Err(error) = self.add_listed(plan, &directory, &to, &mut waiting) {
                fail(plan, Location::Cluster(directory), Some(to), error)?;
            }
        }
        Ok(())
    }

    /// Adds the entries of a directory in the cluster.
    fn add_listed(
        &self,
        plan: &mut CopyPlan,
        directory: &FilePath,
        to: &Location,
        waiting: &mut Vec<(FilePath, Location)>,
    ) -> anyhow::Result<()> {
        for listed in self.cluster.list(directory.as_str())? {
            self.interrupt.check()?;
            let listed = listed?;
            let path = directory.join(&listed.name)?;
            let from = Location::Cluster(path.clone());
            let to = inside(to, &from)?;
            if listed.record.kind == FileKind::Directory {
                plan.directories.push(cluster_directory(&to, &listed.record));
                waiting.push((path, to));
            } else if partial::is_partial(listed.name.as_bytes()) {
                skip(plan, from, SkipReason::Unfinished);
            } else {
                plan.files.push(CopyItem {
                    from,
                    to,
                    len: listed.measured.as_ref().map(|measured| measured.len),
                    mode: Some(listed.record.mode & 0o777),
                    modified_ns: listed.measured.as_ref().map(|measured| measured.modified_ns),
                    is_extents: listed.record.kind == FileKind::Extents,
                });
            }
        }
        Ok(())
    }

    /// Removes the files from the plan that `-n` and `--update` leave unchanged.
    fn leave_out_existing(
        &self,
        plan: &mut CopyPlan,
        existing: &mut ExistingFiles<'_>,
    ) -> anyhow::Result<()> {
        if !self.flags.no_clobber && !self.flags.update {
            return Ok(());
        }
        for item in std::mem::take(&mut plan.files) {
            self.interrupt.check()?;
            let reason = match existing.find(&item.to)? {
                Some(_) if self.flags.no_clobber => Some(SkipReason::Exists),
                Some(found) if self.flags.update && found.is_current(&item) => {
                    Some(SkipReason::Unchanged)
                }
                _ => None,
            };
            match reason {
                Some(reason) => skip(plan, item.from, reason),
                None => plan.files.push(item),
            }
        }
        Ok(())
    }

    fn allow_directory(&self, source: &str, to: &Location) -> Result<(), UsageError> {
        match to {
            Location::Stream => {
                Err(UsageError(format!("{source}: a directory cannot go to stdout")))
            }
            _ if self.flags.recursive => Ok(()),
            _ => Err(UsageError(format!(
                "{source}: this is a directory; use -r to copy it with its contents"
            ))),
        }
    }

    fn is_directory(&self, place: &Location) -> anyhow::Result<bool> {
        Ok(match place {
            Location::Stream => false,
            Location::Local(path) => path.is_dir(),
            Location::Cluster(path) => match self.cluster.metadata(path.as_str()) {
                Ok(known) => known.is_directory(),
                Err(error) if error.kind() == pario::ErrorKind::NotFound => false,
                Err(error) => return Err(error.into()),
            },
        })
    }
}

/// Records a failure and continues, unless the user asked to stop.
fn fail(
    plan: &mut CopyPlan,
    from: Location,
    to: Option<Location>,
    error: anyhow::Error,
) -> Result<(), anyhow::Error> {
    if error.is::<Interrupted>() {
        return Err(error);
    }
    plan.failures.push(CopyFailure { from, to, error });
    Ok(())
}

fn skip(plan: &mut CopyPlan, from: Location, reason: SkipReason) {
    plan.skipped.push(Skipped { from, reason });
}

/// Returns the location of a source's name inside a directory.
fn inside(directory: &Location, source: &Location) -> anyhow::Result<Location> {
    let name: &[u8] = match source {
        Location::Stream => b"",
        Location::Cluster(path) => path.name().unwrap_or_default().as_bytes(),
        // `.` and `..` give a copy no name: their content goes directly into the directory.
        Location::Local(path) if path.as_os_str().as_bytes().ends_with(b"/.") => b"",
        Location::Local(path) => path.file_name().map(OsStrExt::as_bytes).unwrap_or_default(),
    };
    Ok(match directory {
        Location::Stream => Location::Stream,
        _ if name.is_empty() && *source == Location::Stream => {
            let text = format!("{directory}: stdin has no name; give the path of a file");
            return Err(UsageError(text).into());
        }
        place if name.is_empty() => place.clone(),
        Location::Local(path) => Location::Local(path.join(std::ffi::OsStr::from_bytes(name))),
        Location::Cluster(path) => {
            let joined = [path.as_str().as_bytes(), b"/", name].concat();
            Location::Cluster(FilePath::from_bytes(&joined)?)
        }
    })
}

/// Returns the modification time of a local file, in nanoseconds since 1970.
pub fn nanoseconds(known: &fs::Metadata) -> u64 {
    let since = known.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn local_item(path: &Path, to: Location, known: &fs::Metadata) -> CopyItem {
    // Size and time mean nothing for pipes and devices.
    let is_file = known.is_file();
    CopyItem {
        from: Location::Local(path.to_owned()),
        to,
        len: is_file.then_some(known.len()),
        mode: is_file.then(|| known.permissions().mode() & 0o777),
        modified_ns: is_file.then(|| nanoseconds(known)),
        is_extents: false,
    }
}

fn local_directory(to: &Location, known: &fs::Metadata) -> PlannedDirectory {
    let (mode, modified_ns) = (known.permissions().mode() & 0o1777, nanoseconds(known));
    PlannedDirectory { to: to.clone(), mode: Some(mode), modified_ns: Some(modified_ns) }
}

fn cluster_directory(to: &Location, record: &pario::FileRecord) -> PlannedDirectory {
    let (mode, modified_ns) = (record.mode & 0o1777, record.changed_ns);
    PlannedDirectory { to: to.clone(), mode: Some(mode), modified_ns: Some(modified_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(path: &str) -> Location {
        Location::Cluster(FilePath::new(path).unwrap())
    }

    fn local(path: &str) -> Location {
        Location::Local(path.into())
    }

    #[test]
    fn names_are_kept_in_directories() {
        for (directory, source, expected) in [
            (cluster("/runs"), local("a/results.h5"), cluster("/runs/results.h5")),
            (cluster("/"), local("/tmp/x"), cluster("/x")),
            (local("here"), cluster("/runs/7"), local("here/7")),
            (local("here"), cluster("/"), local("here")),
            (cluster("/runs"), local("."), cluster("/runs")),
            (cluster("/runs"), local("tree/."), cluster("/runs")),
            (Location::Stream, cluster("/x"), Location::Stream),
        ] {
            assert_eq!(inside(&directory, &source).unwrap(), expected);
        }
    }

    #[test]
    fn what_has_no_name_or_a_bad_one_is_refused() {
        let refused = inside(&cluster("/runs"), &Location::Stream).unwrap_err().to_string();
        assert!(refused.contains("stdin has no name"), "{refused}");
        let strange = Location::Local(std::ffi::OsStr::from_bytes(b"x\xff").into());
        let refused = inside(&cluster("/runs"), &strange).unwrap_err().to_string();
        assert!(refused.contains("not UTF-8"), "{refused}");
        assert!(inside(&local("here"), &strange).is_ok());
    }
}
