//! Copies images, volumes and other extent files.

use std::io::{self, Read, Write, pipe};
use std::ops::ControlFlow;
use std::thread;

use anyhow::bail;
use blake3::Hasher;
use pario::FilePath;
use pario_image::ImageError;
use pario_image::archive::{ArchivePlacement, copy_file, digest, read_archive, write_archive};

use super::DiskArgument;
use super::copy::Copier;
use super::direction::Location;
use super::plan::CopyItem;
use super::target::CopyTarget;
use crate::exit::UsageError;
use crate::unfinished_file::UnfinishedFile;

impl Copier<'_> {
    /// Copies an extent file inside the cluster or out of it; returns the bytes of its extents.
    pub fn copy_extents(&self, item: &CopyItem) -> anyhow::Result<u64> {
        let Location::Cluster(from) = &item.from else {
            bail!("{}: only the cluster has files of extents", item.from)
        };
        match &item.to {
            Location::Cluster(to) => self.copy_inside(item, from, to),
            Location::Local(_) | Location::Stream => self.export_archive(item, from),
        }
    }

    /// Creates an extent file from an archive; returns the bytes of its extents.
    pub fn import_archive(&self, item: &CopyItem, input: &mut dyn Read) -> anyhow::Result<u64> {
        let Location::Cluster(to) = &item.to else {
            bail!("{}: only the cluster has files of extents", item.to)
        };
        let made = UnfinishedFile::replacing(self.cluster, to)?;
        let own = made.path();
        let placement = self.placement(item)?;
        let name = item.from.to_string();
        let read = read_archive(self.cluster, own.as_str(), &placement, (&name, input), |bytes| {
            self.watched(bytes)
        });
        self.interrupt.check()?;
        let expected = read?;
        self.name_copy(item, made, |copy| Ok(digest(copy)? == expected))?;
        Ok(expected.bytes)
    }

    fn copy_inside(&self, item: &CopyItem, from: &FilePath, to: &FilePath) -> anyhow::Result<u64> {
        let source = self.cluster.open(from.as_str())?;
        let made = UnfinishedFile::replacing(self.cluster, to)?;
        let own = made.path();
        let bytes = if self.flags.disks.is_none() {
            let mut before = 0;
            let mode = item.mode.unwrap_or(0o644);
            let copied = copy_file(self.cluster, &source, own.as_str(), mode, |report| {
                let written = report.progress.written_bytes;
                self.progress.advance(written.saturating_sub(before));
                before = written;
                match self.interrupt.check() {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
            self.interrupt.check()?;
            copied?
        } else {
            self.spread_anew(item, &source, own)?
        };
        self.name_copy(item, made, |copy| Ok(digest(copy)? == digest(&source)?))?;
        Ok(bytes)
    }

    /// Copies an extent file to other disks, through this process.
    fn spread_anew(
        &self,
        item: &CopyItem,
        source: &pario::File,
        own: &FilePath,
    ) -> anyhow::Result<u64> {
        let placement = self.placement(item)?;
        let name = item.from.to_string();
        let (mut reader, mut writer) = pipe()?;
        let read = thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let written = write_archive(source, &name, &mut writer, |_| Ok(()));
                drop(writer);
                written
            });
            let input = (name.as_str(), &mut reader as &mut dyn Read);
            let read = read_archive(self.cluster, own.as_str(), &placement, input, |bytes| {
                self.watched(bytes)
            });
            drop(reader);
            let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // If reading failed, writing fails too: report the read error first.
            read.and_then(|read| written.map(|_| read))
        });
        self.interrupt.check()?;
        Ok(read?.bytes)
    }

    fn export_archive(&self, item: &CopyItem, from: &FilePath) -> anyhow::Result<u64> {
        let source = self.cluster.open(from.as_str())?;
        let target = CopyTarget::begin(self.cluster, self.flags, item)?;
        let mut output = TargetWriter { target, offset: 0, hasher: Hasher::new() };
        let name = item.to.to_string();
        let written = {
            let mut gathered = io::BufWriter::with_capacity(1 << 20, &mut output);
            let written = write_archive(&source, &name, &mut gathered, |bytes| self.watched(bytes));
            written.and_then(|digest| {
                let flushed = gathered.flush();
                flushed.map(|()| digest).map_err(|error| ImageError::Other {
                    path: name.clone(),
                    why: error.to_string(),
                })
            })
        };
        let digest = match written {
            Ok(digest) => digest,
            Err(error) => {
                output.target.abandon();
                self.interrupt.check()?;
                return Err(error.into());
            }
        };
        output.target.finish(item)?;
        if self.flags.verify {
            self.verify(item, output.hasher.finalize())?;
        }
        Ok(digest.bytes)
    }

    /// Gives a complete copy its name, after verifying it with `--verify`.
    fn name_copy(
        &self,
        item: &CopyItem,
        made: UnfinishedFile<'_>,
        is_right: impl FnOnce(&pario::File) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        made.note_created();
        if self.flags.verify && !is_right(&self.cluster.open(made.path().as_str())?)? {
            bail!(
                "{} differs from {}: verification read other bytes back; copy it again",
                item.to,
                item.from
            );
        }
        Ok(made.finish()?)
    }

    fn placement(&self, item: &CopyItem) -> anyhow::Result<ArchivePlacement> {
        let disks = match &self.flags.disks {
            None => None,
            Some(DiskArgument::Count(count)) => Some(*count),
            Some(DiskArgument::These(_)) => {
                let text = format!(
                    "{}: --disks must be a number for an image or volume, not a list",
                    item.from
                );
                return Err(UsageError(text).into());
            }
        };
        Ok(ArchivePlacement { disks, mode: item.mode.unwrap_or(0o644) })
    }

    /// Advances the progress bar; fails if the user asked to stop.
    fn watched(&self, bytes: u64) -> Result<(), ImageError> {
        self.progress.advance(bytes);
        self.interrupt.check().map_err(|stop| ImageError::Invalid(stop.to_string()))
    }
}

/// Writes to a target sequentially.
struct TargetWriter<'c> {
    target: CopyTarget<'c>,
    offset: u64,
    hasher: Hasher,
}

impl Write for TargetWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.target.write(bytes, self.offset);
        written.map_err(|error| match error.downcast::<io::Error>() {
            Ok(error) => error,
            Err(error) => io::Error::other(error),
        })?;
        self.hasher.update(bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
