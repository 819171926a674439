//! One file from one place to another.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use blake3::{Hash, Hasher};
use pario::{Cluster, FilePath};

use super::direction::Place;
use super::pipe::{self, Part, Source};
use super::plan::Job;
use super::progress::Progress;
use super::{Disks, Options};
use crate::amounts::size;
use crate::interrupt::Interrupt;
use crate::owners;

/// What copying needs.
pub struct Copier<'c> {
    /// The cluster concerned.
    pub cluster: &'c Cluster,
    /// What was typed.
    pub options: &'c Options,
    /// What the user sees.
    pub progress: &'c Progress,
    /// Whether somebody asked for the end.
    pub interrupt: &'c Interrupt,
}

impl Copier<'_> {
    /// Copies a file, and says how many bytes it had.
    pub fn copy(&self, job: &Job) -> anyhow::Result<u64> {
        let source = self.source(&job.from)?;
        let mut target = self.target(&job.to, job.mode)?;
        let mut hasher = self.options.verify.then(Hasher::new);
        let mut moved = 0;
        let copied = pipe::run(source, Part::whole(job.len), self.interrupt, |piece| {
            target.write(piece, moved)?;
            if let Some(hasher) = &mut hasher {
                hasher.update(piece);
            }
            moved += piece.len() as u64;
            self.progress.advance(piece.len() as u64);
            Ok(())
        });
        let copied = copied.and_then(|bytes| target.finish(job.mode, self.cluster).map(|()| bytes));
        let bytes = copied.with_context(|| {
            format!("copying {} to {} stopped at {}", job.from, job.to, size(moved))
        })?;
        if let Some(hasher) = hasher {
            self.verify(job, hasher.finalize())?;
        }
        Ok(bytes)
    }

    fn source(&self, place: &Place) -> anyhow::Result<Source> {
        Ok(match place {
            Place::Stream => Source::Stream(Box::new(io::stdin())),
            Place::Local(path) => {
                let file = fs::File::open(path).with_context(|| path.display().to_string())?;
                Source::Stream(Box::new(file))
            }
            Place::Cluster(path) => Source::Cluster(Arc::new(self.cluster.open(path.as_str())?)),
        })
    }

    fn target(&self, place: &Place, mode: Option<u32>) -> anyhow::Result<Target> {
        Ok(match place {
            Place::Stream => Target::Stream(io::stdout()),
            Place::Local(path) => {
                let mut options = fs::OpenOptions::new();
                options.write(true).create(true).truncate(true).mode(mode.unwrap_or(0o666));
                let opened = options.open(path).with_context(|| path.display().to_string())?;
                Target::Local(opened)
            }
            Place::Cluster(path) => Target::Cluster(Box::new(self.create(path, mode)?)),
        })
    }

    fn create(&self, path: &FilePath, mode: Option<u32>) -> Result<pario::File, pario::Error> {
        let mut options = self.cluster.options().write(true).create(true).truncate(true);
        if let Some(mode) = mode {
            options = options.mode(mode);
        }
        if let Some(unit) = self.options.unit {
            options = options.unit(unit);
        }
        options = match &self.options.disks {
            None => options,
            Some(Disks::Count(count)) => options.disk_count(*count),
            Some(Disks::These(names)) => options.disks(names.iter().cloned()),
        };
        options.open(path.as_str())
    }

    /// Reads back what was written and compares it with what was read.
    fn verify(&self, job: &Job, written: Hash) -> anyhow::Result<()> {
        let mut hasher = Hasher::new();
        let source = match &job.to {
            Place::Stream => return Ok(()),
            place => self.source(place)?,
        };
        pipe::run(source, Part::whole(job.len), self.interrupt, |piece| {
            hasher.update(piece);
            Ok(())
        })?;
        if hasher.finalize() != written {
            bail!("{} is not the same as {}: what was read back differs", job.to, job.from);
        }
        Ok(())
    }
}

/// Makes a directory; one that is there is fine.
pub fn make_directory(cluster: &Cluster, place: &Place) -> anyhow::Result<()> {
    match place {
        Place::Stream => Ok(()),
        Place::Local(path) => fs::create_dir_all(path).with_context(|| path.display().to_string()),
        Place::Cluster(path) => Ok(cluster.make_directories(path.as_str())?),
    }
}

enum Target {
    Cluster(Box<pario::File>),
    Local(fs::File),
    Stream(io::Stdout),
}

impl Target {
    fn write(&mut self, piece: &[u8], offset: u64) -> anyhow::Result<()> {
        match self {
            Self::Cluster(file) => file.write_at(piece, offset)?,
            Self::Local(file) => file.write_all(piece)?,
            Self::Stream(stdout) => stdout.write_all(piece)?,
        }
        Ok(())
    }

    /// Makes everything durable, and gives it the permissions of the source.
    fn finish(self, mode: Option<u32>, cluster: &Cluster) -> anyhow::Result<()> {
        match self {
            Self::Cluster(file) => {
                let (path, before) = (file.path().clone(), file.record().mode & 0o777);
                file.sync()?;
                file.close()?;
                if let Some(mode) = mode.filter(|mode| *mode != before) {
                    let outcome = cluster.set_mode(path.as_str(), mode)?;
                    owners::warn_of_untold(&path, &outcome);
                }
                Ok(())
            }
            Self::Local(file) => {
                if let Some(mode) = mode {
                    file.set_permissions(fs::Permissions::from_mode(mode))?;
                }
                // Pipes and devices cannot be synced, and need not be.
                if file.metadata()?.is_file() { Ok(file.sync_all()?) } else { Ok(()) }
            }
            Self::Stream(mut stdout) => Ok(stdout.flush()?),
        }
    }
}

/// The last name of a place, for the bar.
pub fn short_name(place: &Place) -> String {
    match place {
        Place::Stream => "-".to_owned(),
        Place::Local(path) => path.file_name().map(Path::new).unwrap_or(path).display().to_string(),
        Place::Cluster(path) => path.name().unwrap_or("/").to_owned(),
    }
}
