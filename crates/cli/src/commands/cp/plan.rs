//! Which files are copied where: made before the first byte moves, so that the user knows how much
//! there is to do.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::Context;
use pario::{Cluster, FileKind, FilePath};

use super::Flags;
use super::direction::Place;
use super::existing::ExistingFiles;
use super::links::Links;
use super::partial;
use crate::exit::Usage;
use crate::interrupt::{Interrupt, Interrupted};

/// What a copy does.
#[derive(Debug, Default)]
pub struct Plan {
    /// What was named, and where it goes.
    pub roots: Vec<(Place, Place)>,
    /// Directories to make, each after the one it lies in.
    pub directories: Vec<Directory>,
    /// Files to copy.
    pub files: Vec<Item>,
    /// What is not copied, on purpose.
    pub skipped: Vec<Skipped>,
    /// What cannot be copied.
    pub failures: Vec<Failed>,
}

/// A directory to make.
#[derive(Debug)]
pub struct Directory {
    /// Where.
    pub to: Place,
    /// The permissions of its source, if it has one.
    pub mode: Option<u32>,
    /// When the names in its source last changed.
    pub modified_ns: Option<u64>,
}

/// One file to copy.
#[derive(Clone, Debug)]
pub struct Item {
    /// Where it is.
    pub from: Place,
    /// Where it goes.
    pub to: Place,
    /// Its size, if it is known.
    pub len: Option<u64>,
    /// Its permissions, if it has some.
    pub mode: Option<u32>,
    /// When it last changed, if that is known.
    pub modified_ns: Option<u64>,
    /// Whether it is a file of extents in the cluster.
    pub is_extents: bool,
}

/// Something that is not copied, on purpose.
#[derive(Debug)]
pub struct Skipped {
    /// What.
    pub from: Place,
    /// Why.
    pub reason: SkipReason,
}

/// Why something is not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// It is a symbolic link.
    Link,
    /// The target is there, and was not to be replaced.
    Exists,
    /// The target is a copy of it already.
    Unchanged,
    /// It is itself a part of an unfinished copy.
    Unfinished,
}

/// Something that cannot be copied.
#[derive(Debug)]
pub struct Failed {
    /// What.
    pub from: Place,
    /// Where it would have gone, if that is known.
    pub to: Option<Place>,
    /// Why not.
    pub error: anyhow::Error,
}

/// Makes plans.
pub struct Planner<'c> {
    /// The cluster concerned.
    pub cluster: &'c Cluster,
    /// What was typed.
    pub flags: &'c Flags,
    /// Whether somebody asked for the end.
    pub interrupt: &'c Interrupt,
}

/// A local directory whose entries are still to be planned, with the identities of the directories
/// that it lies in: a followed link may lead back to one of them.
struct LocalDirectory {
    path: PathBuf,
    to: Place,
    above: Vec<(u64, u64)>,
}

impl Planner<'_> {
    /// The plan for all sources. `is_marked` says that the target was written as a directory.
    pub fn plan(&self, sources: &[Place], target: &Place, is_marked: bool) -> anyhow::Result<Plan> {
        let mut plan = Plan::default();
        let is_there = self.is_directory(target)?;
        let is_directory = is_there || is_marked;
        if is_marked && !is_there {
            let directory = Directory { to: target.clone(), mode: None, modified_ns: None };
            plan.directories.push(directory);
        }
        if sources.len() > 1 && !is_directory && *target != Place::Stream {
            let text = format!("{target}: several files go into a directory; end it with a slash");
            return Err(Usage(text).into());
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

    fn add(&self, plan: &mut Plan, source: &Place, to: Place) -> anyhow::Result<()> {
        if *source == to && *source != Place::Stream {
            return Err(Usage(format!("{source}: it cannot be copied to itself")).into());
        }
        match source {
            Place::Stream => {
                plan.files.push(Item {
                    from: Place::Stream,
                    to,
                    len: None,
                    mode: None,
                    modified_ns: None,
                    is_extents: false,
                });
                Ok(())
            }
            Place::Local(path) => self.add_local(plan, path, to),
            Place::Cluster(path) => self.add_from_cluster(plan, path, to),
        }
    }

    fn add_local(&self, plan: &mut Plan, path: &Path, to: Place) -> anyhow::Result<()> {
        let shown = || path.display().to_string();
        if self.flags.links() == Links::Never
            && path.symlink_metadata().with_context(shown)?.is_symlink()
        {
            skip(plan, Place::Local(path.to_owned()), SkipReason::Link);
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
                    fail(plan, Place::Local(directory.path), Some(directory.to), error)?;
                    continue;
                }
            };
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                self.interrupt.check()?;
                let path = entry.path();
                if let Err(error) = self.add_entry(plan, &directory, &path, &mut waiting) {
                    fail(plan, Place::Local(path), None, error)?;
                }
            }
        }
        Ok(())
    }

    /// Adds an entry of a local directory.
    fn add_entry(
        &self,
        plan: &mut Plan,
        directory: &LocalDirectory,
        path: &Path,
        waiting: &mut Vec<LocalDirectory>,
    ) -> anyhow::Result<()> {
        let shown = || path.display().to_string();
        let from = Place::Local(path.to_owned());
        let to = inside(&directory.to, &from)?;
        let mut known = path.symlink_metadata().with_context(shown)?;
        if known.is_symlink() {
            if self.flags.links() != Links::All {
                skip(plan, from, SkipReason::Link);
                return Ok(());
            }
            known = fs::metadata(path).with_context(shown)?;
        }
        if known.is_dir() {
            let identity = (known.dev(), known.ino());
            if directory.above.contains(&identity) {
                anyhow::bail!("{}: this link leads back to a directory above it", path.display());
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

    fn add_from_cluster(&self, plan: &mut Plan, path: &FilePath, to: Place) -> anyhow::Result<()> {
        let known = self.cluster.metadata(path.as_str())?;
        if !known.is_directory() {
            let is_extents = known.record.kind == FileKind::Extents;
            plan.files.push(Item {
                from: Place::Cluster(path.clone()),
                to,
                len: Some(known.len),
                mode: Some(known.record.mode & 0o777),
                modified_ns: Some(known.modified_ns),
                is_extents,
            });
            return Ok(());
        }
        self.allow_directory(&format!("pario:{path}"), &to)?;
        if let Place::Cluster(to) = &to
            && to.is_within(path)
        {
            return Err(Usage(format!("{path}: it cannot be copied into itself")).into());
        }
        plan.directories.push(cluster_directory(&to, &known.record));
        let mut waiting = vec![(path.clone(), to)];
        while let Some((directory, to)) = waiting.pop() {
            if let Err(error) = self.add_listed(plan, &directory, &to, &mut waiting) {
                fail(plan, Place::Cluster(directory), Some(to), error)?;
            }
        }
        Ok(())
    }

    /// Adds the entries of a directory in the cluster.
    fn add_listed(
        &self,
        plan: &mut Plan,
        directory: &FilePath,
        to: &Place,
        waiting: &mut Vec<(FilePath, Place)>,
    ) -> anyhow::Result<()> {
        for listed in self.cluster.list(directory.as_str())? {
            self.interrupt.check()?;
            let listed = listed?;
            let path = directory.join(&listed.name)?;
            let from = Place::Cluster(path.clone());
            let to = inside(to, &from)?;
            if listed.record.kind == FileKind::Directory {
                plan.directories.push(cluster_directory(&to, &listed.record));
                waiting.push((path, to));
            } else if partial::is_partial(listed.name.as_bytes()) {
                skip(plan, from, SkipReason::Unfinished);
            } else {
                plan.files.push(Item {
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

    /// Takes out of the plan what `-n` and `--update` leave as it is.
    fn leave_out_existing(
        &self,
        plan: &mut Plan,
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

    fn allow_directory(&self, source: &str, to: &Place) -> Result<(), Usage> {
        match to {
            Place::Stream => Err(Usage(format!("{source}: a directory cannot go to stdout"))),
            _ if self.flags.recursive => Ok(()),
            _ => Err(Usage(format!("{source}: this is a directory; use -r to copy what is in it"))),
        }
    }

    fn is_directory(&self, place: &Place) -> anyhow::Result<bool> {
        Ok(match place {
            Place::Stream => false,
            Place::Local(path) => path.is_dir(),
            Place::Cluster(path) => match self.cluster.metadata(path.as_str()) {
                Ok(known) => known.is_directory(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => return Err(error.into()),
            },
        })
    }
}

/// Notes a failure and goes on, unless the user wants the end.
fn fail(
    plan: &mut Plan,
    from: Place,
    to: Option<Place>,
    error: anyhow::Error,
) -> Result<(), anyhow::Error> {
    if error.is::<Interrupted>() {
        return Err(error);
    }
    plan.failures.push(Failed { from, to, error });
    Ok(())
}

fn skip(plan: &mut Plan, from: Place, reason: SkipReason) {
    plan.skipped.push(Skipped { from, reason });
}

/// The place of the same name in a directory.
fn inside(directory: &Place, source: &Place) -> anyhow::Result<Place> {
    let name: &[u8] = match source {
        Place::Stream => b"",
        Place::Cluster(path) => path.name().unwrap_or_default().as_bytes(),
        // The name of `.` or `..` is nothing to call a copy: its content goes right there.
        Place::Local(path) if path.as_os_str().as_bytes().ends_with(b"/.") => b"",
        Place::Local(path) => path.file_name().map(OsStrExt::as_bytes).unwrap_or_default(),
    };
    Ok(match directory {
        Place::Stream => Place::Stream,
        _ if name.is_empty() && *source == Place::Stream => {
            let text = format!("{directory}: stdin has no name; give the path of a file");
            return Err(Usage(text).into());
        }
        place if name.is_empty() => place.clone(),
        Place::Local(path) => Place::Local(path.join(std::ffi::OsStr::from_bytes(name))),
        Place::Cluster(path) => {
            let joined = [path.as_str().as_bytes(), b"/", name].concat();
            Place::Cluster(FilePath::from_bytes(&joined)?)
        }
    })
}

/// When a local file last changed, in nanoseconds since 1970.
pub fn nanoseconds(known: &fs::Metadata) -> u64 {
    let since = known.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn local_item(path: &Path, to: Place, known: &fs::Metadata) -> Item {
    // Size and time of what is no plain file, such as a pipe, say nothing.
    let is_file = known.is_file();
    Item {
        from: Place::Local(path.to_owned()),
        to,
        len: is_file.then_some(known.len()),
        mode: is_file.then(|| known.permissions().mode() & 0o777),
        modified_ns: is_file.then(|| nanoseconds(known)),
        is_extents: false,
    }
}

fn local_directory(to: &Place, known: &fs::Metadata) -> Directory {
    let (mode, modified_ns) = (known.permissions().mode() & 0o1777, nanoseconds(known));
    Directory { to: to.clone(), mode: Some(mode), modified_ns: Some(modified_ns) }
}

fn cluster_directory(to: &Place, record: &pario::FileRecord) -> Directory {
    let (mode, modified_ns) = (record.mode & 0o1777, record.changed_ns);
    Directory { to: to.clone(), mode: Some(mode), modified_ns: Some(modified_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(path: &str) -> Place {
        Place::Cluster(FilePath::new(path).unwrap())
    }

    fn local(path: &str) -> Place {
        Place::Local(path.into())
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
            (Place::Stream, cluster("/x"), Place::Stream),
        ] {
            assert_eq!(inside(&directory, &source).unwrap(), expected);
        }
    }

    #[test]
    fn what_has_no_name_or_a_bad_one_is_refused() {
        let refused = inside(&cluster("/runs"), &Place::Stream).unwrap_err().to_string();
        assert!(refused.contains("stdin has no name"), "{refused}");
        let strange = Place::Local(std::ffi::OsStr::from_bytes(b"x\xff").into());
        let refused = inside(&cluster("/runs"), &strange).unwrap_err().to_string();
        assert!(refused.contains("not UTF-8"), "{refused}");
        assert!(inside(&local("here"), &strange).is_ok());
    }
}
