//! A file to measure: one of ours, or a plain one.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pario::Cluster;

use super::content::Content;

/// Files are filled in pieces of the striping unit. The kernel keeps in large pages what is written
/// in large pieces, so pieces as large lead to the same pages on both sides.
const FILL_BYTES: usize = 64 << 10;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file, over what is there.
    Write,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Read, Self::Write];

    /// How it is called in names of figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// An open file.
#[derive(Debug)]
pub enum MeasuredFile {
    /// Of a cluster.
    Ours(Box<pario::File>),
    /// Of the file system.
    Plain(File),
}

impl MeasuredFile {
    /// Creates a file of ours with the default layout, which spreads it over all disks.
    pub fn create_ours(cluster: &Cluster, path: &str) -> Result<Self> {
        let options = cluster.options().read(true).write(true).create_new(true);
        Ok(Self::Ours(Box::new(options.open(path)?)))
    }

    /// Opens a file of ours.
    pub fn open_ours(cluster: &Cluster, path: &str) -> Result<Self> {
        let file = cluster.options().read(true).write(true).open(path)?;
        Ok(Self::Ours(Box::new(file)))
    }

    /// Creates a plain file.
    pub fn create_plain(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path);
        Ok(Self::Plain(file.with_context(|| format!("creating {}", path.display()))?))
    }

    /// Opens a plain file.
    pub fn open_plain(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Ok(Self::Plain(file.with_context(|| format!("opening {}", path.display()))?))
    }

    /// Fills the buffer, with one call in most cases.
    #[inline]
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let count = match self {
            Self::Ours(file) => file.read_at(buffer, offset)?,
            Self::Plain(file) => file.read_at(buffer, offset)?,
        };
        if count < buffer.len() {
            // A mounted file system may return less at a time.
            self.read_rest(&mut buffer[count..], offset + count as u64)?;
        }
        Ok(())
    }

    #[cold]
    fn read_rest(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        match self {
            Self::Ours(file) => Ok(file.read_exact_at(buffer, offset)?),
            Self::Plain(file) => Ok(file.read_exact_at(buffer, offset)?),
        }
    }

    /// Writes all of the buffer.
    #[inline]
    pub fn write(&self, buffer: &[u8], offset: u64) -> Result<()> {
        match self {
            Self::Ours(file) => Ok(file.write_at(buffer, offset)?),
            Self::Plain(file) => Ok(file.write_all_at(buffer, offset)?),
        }
    }

    /// Makes the file durable.
    pub fn sync(&self) -> Result<()> {
        match self {
            Self::Ours(file) => Ok(file.sync()?),
            Self::Plain(file) => Ok(file.sync_data()?),
        }
    }

    /// Fills the file. Afterwards its blocks are allocated on the disk, and all its pages are in
    /// the page cache and dirty, as they are during the measured writes.
    pub fn fill(&self, content: &Content, len: u64) -> Result<()> {
        let mut piece = vec![0; FILL_BYTES];
        for is_last in [false, true] {
            for offset in (0..len).step_by(FILL_BYTES) {
                let now = usize::try_from(len - offset).unwrap_or(FILL_BYTES).min(FILL_BYTES);
                content.fill(offset, &mut piece[..now]);
                self.write(&piece[..now], offset)?;
            }
            if !is_last {
                self.sync()?;
            }
        }
        Ok(())
    }

    /// Checks all pieces of the file.
    pub fn check(&self, content: &Content, piece_bytes: usize, count: u64) -> Result<()> {
        let mut piece = vec![0; piece_bytes];
        for number in 0..count {
            piece.fill(0);
            self.read(&mut piece, number * piece_bytes as u64)?;
            content.check(number, &piece)?;
        }
        Ok(())
    }

    /// Checks whether accesses of a file of ours take the short cut.
    pub fn ensure_short_cut(&self, expected: bool) -> Result<()> {
        if let Self::Ours(file) = self {
            let found = file.has_short_cut();
            ensure!(found == expected, "short cut: {found}, but the figure needs: {expected}");
        }
        Ok(())
    }
}
