//! The working directory of a demo, removed at its end.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, anyhow};

/// A new directory, removed on drop unless it is kept.
#[derive(Debug)]
pub struct DemoDirectory {
    path: PathBuf,
    keep: bool,
    is_removed: bool,
}

impl DemoDirectory {
    /// Creates a new directory in `parent`.
    pub fn create(parent: &Path, keep: bool) -> anyhow::Result<Self> {
        let made = parent
            .canonicalize()
            .and_then(|parent| tempfile::Builder::new().prefix("pario-demo-").tempdir_in(parent));
        let made = made.map_err(|error| {
            anyhow!(
                "cannot create a directory in {}: {}; name one that exists and that you may write \
                 to with --dir",
                parent.display(),
                error.kind()
            )
        })?;
        Ok(Self { path: made.keep(), keep, is_removed: false })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its parent.
    pub fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Returns where it will be kept, if it is.
    pub fn kept(&self) -> Option<PathBuf> {
        self.keep.then(|| self.path.clone())
    }

    /// Removes it unless it is kept; returns the path of a kept one.
    pub fn finish(mut self) -> anyhow::Result<Option<PathBuf>> {
        if self.keep {
            return Ok(Some(self.path.clone()));
        }
        self.is_removed = true;
        remove(&self.path).with_context(|| {
            format!("cannot remove {}; the demo has ended, remove it by hand", self.path.display())
        })?;
        Ok(None)
    }
}

impl Drop for DemoDirectory {
    fn drop(&mut self) {
        if !self.keep && !self.is_removed {
            // The error that ended the demo is the one to report.
            let _ = remove(&self.path);
        }
    }
}

/// Removes a directory. Retries, because a disk thread may still be creating its last file in it.
fn remove(path: &Path) -> io::Result<()> {
    const ATTEMPTS: u32 = 100;
    let mut removed = Ok(());
    for _ in 0..ATTEMPTS {
        removed = fs::remove_dir_all(path);
        match &removed {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            _ => break,
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_in_the_end_unless_it_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        for keep in [false, true] {
            for finish in [false, true] {
                let directory = DemoDirectory::create(parent.path(), keep).unwrap();
                let path = directory.path().to_path_buf();
                fs::write(path.join("file"), "content").unwrap();
                if finish {
                    let kept = directory.finish().unwrap();
                    assert_eq!(kept, keep.then_some(path.clone()));
                } else {
                    drop(directory);
                }
                assert_eq!(path.exists(), keep);
            }
        }
    }
}
