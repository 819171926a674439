//! The directory for temporary files, which the program removes at the end of a run.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use anyhow::{Context, Result, bail};

/// The beginning of the names of scratch directories; the process id follows.
const PREFIX: &str = "pario-bench-";

/// The type that `statfs` reports for tmpfs.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The scratch directory of this run. Dropping it removes it with its content; the next run in the
/// same place removes the directory of a run that was killed.
#[derive(Debug)]
pub struct ScratchDirectory {
    path: PathBuf,
}

impl ScratchDirectory {
    /// Creates a directory in `parent`, or next to this program, or in the current directory: the
    /// first that is on a disk.
    pub fn make(parent: Option<&Path>) -> Result<Self> {
        let parent = match parent {
            Some(given) => {
                fs::create_dir_all(given)
                    .with_context(|| format!("creating the directory {}", given.display()))?;
                if in_memory(given) {
                    eprintln!("note: {} is not on a disk", given.display());
                }
                given.to_owned()
            }
            None => default_parent()?,
        };
        sweep(&parent);
        let path = parent.join(format!("{PREFIX}{}", process::id()));
        fs::create_dir(&path)
            .with_context(|| format!("creating the directory {}", path.display()))?;
        Ok(Self { path })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// The directory of this program or the current one: the first that is on a disk.
fn default_parent() -> Result<PathBuf> {
    let program = env::current_exe().context("finding this program")?;
    let beside = program.parent().map(Path::to_owned);
    let here = env::current_dir().ok();
    match beside.into_iter().chain(here).find(|dir| !in_memory(dir)) {
        Some(dir) => Ok(dir),
        None => bail!("there is no disk here; name a directory on one with --dir"),
    }
}

/// Whether a directory is on tmpfs.
pub fn in_memory(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(TMPFS_MAGIC))
}

/// Removes the scratch directories of processes that have ended.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some(process) = process.and_then(|id| id.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new(&format!("/proc/{process}")).exists() {
            eprintln!("removing {}", entry.path().display());
            // The remains do not disturb this run.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_goes_and_takes_old_ones_along() {
        let parent = default_parent().unwrap().join("scratch-test");
        // No process has this number.
        let old = parent.join(format!("{PREFIX}{}", u32::MAX));
        fs::create_dir_all(old.join("sub")).unwrap();
        let scratch = ScratchDirectory::make(Some(&parent)).unwrap();
        assert!(!old.exists());
        fs::write(scratch.path().join("file"), "bytes").unwrap();
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
        fs::remove_dir_all(parent).unwrap();
    }
}
