//! Directories of small files on the measured file system, and the programs that copy and remove
//! them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A directory with files of six bytes.
pub struct LocalTree {
    path: PathBuf,
}

impl LocalTree {
    /// Creates a tree of `count` files.
    pub fn make(path: PathBuf, count: u32) -> Result<Self> {
        let file = |number: u32| (format!("f{number}"), format!("{number:06}").into_bytes());
        Self::write(path, &(0..count).map(file).collect::<Vec<_>>())
    }

    /// Writes files into a new directory and makes them durable with one sync.
    pub fn write(path: PathBuf, files: &[(String, Vec<u8>)]) -> Result<Self> {
        fs::create_dir(&path)?;
        for (name, bytes) in files {
            fs::write(path.join(name), bytes)?;
        }
        rustix::fs::syncfs(File::open(&path)?)?;
        Ok(Self { path })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names and bytes of all files.
    pub fn read(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let entries = fs::read_dir(&self.path)?;
        let file = |entry: std::io::Result<fs::DirEntry>| {
            let entry = entry?;
            let name = entry.file_name().into_string().ok().context("a readable name")?;
            Ok((name, fs::read(entry.path())?))
        };
        entries.map(file).collect()
    }
}

/// `cp -r` of a tree, then `sync -f`.
pub fn plain_copy(from: &Path, to: &Path) -> Result<()> {
    run(Command::new("cp").arg("-r").arg(from).arg(to))?;
    run(Command::new("sync").arg("-f").arg(to))
}

/// `rm -r` of a tree, then `sync -f` of the file system.
pub fn plain_remove(tree: &Path) -> Result<()> {
    run(Command::new("rm").arg("-r").arg(tree))?;
    run(Command::new("sync").arg("-f").arg(tree.parent().context("a tree lies somewhere")?))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("running {command:?}"))?;
    ensure!(status.success(), "{command:?} has failed");
    Ok(())
}
