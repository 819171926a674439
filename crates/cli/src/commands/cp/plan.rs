//! Which files are copied where: made before the first byte moves, so that the user knows how much
//! there is to do.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pario::{Cluster, FileKind, FilePath};

use super::direction::Place;
use crate::exit::Usage;
use crate::interrupt::Interrupt;

/// What a copy does.
#[derive(Debug, Default)]
pub struct Plan {
    /// Directories to make, each after the one it lies in.
    pub directories: Vec<Place>,
    /// Files to copy.
    pub files: Vec<Job>,
    /// What is neither a file nor a directory, and is left out.
    pub left_out: Vec<PathBuf>,
}

/// One file to copy.
#[derive(Debug)]
pub struct Job {
    /// Where it is.
    pub from: Place,
    /// Where it goes.
    pub to: Place,
    /// Its size, if it is known.
    pub len: Option<u64>,
    /// Its permissions, if it has some.
    pub mode: Option<u32>,
}

/// Makes plans.
pub struct Planner<'c> {
    /// The cluster concerned.
    pub cluster: &'c Cluster,
    /// Whether directories are copied.
    pub is_recursive: bool,
    /// Whether somebody asked for the end.
    pub interrupt: &'c Interrupt,
}

impl Planner<'_> {
    /// The plan for all sources. `is_marked` says that the target was written as a directory.
    pub fn plan(&self, sources: &[Place], target: &Place, is_marked: bool) -> anyhow::Result<Plan> {
        let mut plan = Plan::default();
        let is_there = self.is_directory(target)?;
        let is_directory = is_there || is_marked;
        if is_marked && !is_there {
            plan.directories.push(target.clone());
        }
        if sources.len() > 1 && !is_directory && *target != Place::Stream {
            let text = format!("{target}: several files go into a directory; end it with a slash");
            return Err(Usage(text).into());
        }
        for source in sources {
            let to = if is_directory { inside(target, source)? } else { target.clone() };
            self.add(&mut plan, source, to)?;
        }
        Ok(plan)
    }

    fn add(&self, plan: &mut Plan, source: &Place, to: Place) -> anyhow::Result<()> {
        if *source == to && *source != Place::Stream {
            return Err(Usage(format!("{source}: it cannot be copied to itself")).into());
        }
        match source {
            Place::Stream => {
                plan.files.push(Job { from: Place::Stream, to, len: None, mode: None });
                Ok(())
            }
            Place::Local(path) => self.add_local(plan, path, to),
            Place::Cluster(path) => self.add_from_cluster(plan, path, to),
        }
    }

    fn add_local(&self, plan: &mut Plan, path: &Path, to: Place) -> anyhow::Result<()> {
        let known = fs::metadata(path).with_context(|| path.display().to_string())?;
        if !known.is_dir() {
            plan.files.push(local_job(path, to, &known));
            return Ok(());
        }
        self.allow_directory(&path.display().to_string(), &to)?;
        plan.directories.push(to.clone());
        let mut waiting = vec![(path.to_owned(), to)];
        while let Some((directory, to)) = waiting.pop() {
            let shown = || directory.display().to_string();
            let entries = fs::read_dir(&directory).with_context(shown)?;
            let mut entries: Vec<_> =
                entries.collect::<Result<_, io::Error>>().with_context(shown)?;
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                self.interrupt.check()?;
                let path = entry.path();
                let to = inside(&to, &Place::Local(path.clone()))?;
                let is_link = entry.file_type().with_context(shown)?.is_symlink();
                let known = fs::metadata(&path).with_context(|| path.display().to_string())?;
                // A link to a directory could lead back to where it is.
                if known.is_dir() && !is_link {
                    plan.directories.push(to.clone());
                    waiting.push((path, to));
                } else if known.is_file() {
                    plan.files.push(local_job(&path, to, &known));
                } else {
                    plan.left_out.push(path);
                }
            }
        }
        Ok(())
    }

    fn add_from_cluster(&self, plan: &mut Plan, path: &FilePath, to: Place) -> anyhow::Result<()> {
        let known = self.cluster.metadata(path.as_str())?;
        if !known.is_directory() {
            plan.files.push(cluster_job(path, to, known.len, known.record.mode));
            return Ok(());
        }
        self.allow_directory(&format!("pario:{path}"), &to)?;
        if let Place::Cluster(to) = &to
            && to.is_within(path)
        {
            return Err(Usage(format!("{path}: it cannot be copied into itself")).into());
        }
        plan.directories.push(to.clone());
        let mut waiting = vec![(path.clone(), to)];
        while let Some((directory, to)) = waiting.pop() {
            for listed in self.cluster.list(directory.as_str())? {
                self.interrupt.check()?;
                let listed = listed?;
                let path = directory.join(&listed.name)?;
                let to = inside(&to, &Place::Cluster(path.clone()))?;
                if listed.record.kind == FileKind::Directory {
                    plan.directories.push(to.clone());
                    waiting.push((path, to));
                } else {
                    let len = listed.measured.as_ref().map_or(0, |measured| measured.len);
                    plan.files.push(cluster_job(&path, to, len, listed.record.mode));
                }
            }
        }
        Ok(())
    }

    fn allow_directory(&self, source: &str, to: &Place) -> Result<(), Usage> {
        match to {
            Place::Stream => Err(Usage(format!("{source}: a directory cannot go to stdout"))),
            _ if self.is_recursive => Ok(()),
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

/// The place of the same name in a directory.
fn inside(directory: &Place, source: &Place) -> anyhow::Result<Place> {
    let name: &[u8] = match source {
        Place::Stream => b"",
        Place::Cluster(path) => path.name().unwrap_or_default().as_bytes(),
        // The name of `.` or `..` is nothing to call a copy: its content goes right there.
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

fn local_job(path: &Path, to: Place, known: &fs::Metadata) -> Job {
    // The size of what is no plain file, such as a pipe, says nothing.
    let len = known.is_file().then_some(known.len());
    let mode = known.is_file().then(|| known.permissions().mode() & 0o777);
    Job { from: Place::Local(path.to_owned()), to, len, mode }
}

fn cluster_job(path: &FilePath, to: Place, len: u64, mode: u32) -> Job {
    Job { from: Place::Cluster(path.clone()), to, len: Some(len), mode: Some(mode & 0o777) }
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
