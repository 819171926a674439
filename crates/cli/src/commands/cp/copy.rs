//! Copies one file through a pipe.

use std::fs;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use blake3::{Hash, Hasher};
use pario::Cluster;
use pario_image::archive::{ARCHIVE_HEAD_BYTES, is_archive};

use super::Flags;
use super::direction::Location;
use super::partial::SourceVersion;
use super::pipe::{self, PipedRange, Source};
use super::plan::CopyItem;
use super::progress::Progress;
use super::target::CopyTarget;
use crate::amounts::size;
use crate::interrupt::{Interrupt, Interrupted};

/// From this size on, an interrupted copy keeps its bytes and can be continued.
pub const CONTINUED_BYTES: u64 = 32 << 20;

/// Interval at which a large copy is synced; its name then records the synced length.
const SYNC_INTERVAL_BYTES: u64 = 256 << 20;

/// Everything that copying a file needs.
pub struct Copier<'c> {
    /// The cluster.
    pub cluster: &'c Cluster,
    /// The user's options.
    pub flags: &'c Flags,
    /// The progress bar.
    pub progress: &'c Progress,
    /// Reports whether the user asked to stop.
    pub interrupt: &'c Interrupt,
}

/// The result of copying one file.
#[derive(Clone, Copy, Debug)]
pub struct CopiedFile {
    /// The file's size.
    pub bytes: u64,
    /// Bytes that an earlier, interrupted copy had already written.
    pub continued_at: u64,
    /// Time it took.
    pub took: Duration,
}

impl Copier<'_> {
    /// Copies one file of any size.
    pub fn copy(&self, item: &CopyItem) -> anyhow::Result<CopiedFile> {
        let began = Instant::now();
        let (bytes, continued_at) = if item.is_extents {
            (self.copy_extents(item)?, 0)
        } else {
            match self.open(item)? {
                OpenedSource::Archive(mut input) => (self.import_archive(item, &mut *input)?, 0),
                OpenedSource::Bytes(source) => self.copy_bytes(item, source)?,
            }
        };
        Ok(CopiedFile { bytes, continued_at, took: began.elapsed() })
    }

    fn copy_bytes(&self, item: &CopyItem, source: Source) -> anyhow::Result<(u64, u64)> {
        let version = item.version().filter(|version| version.len >= CONTINUED_BYTES);
        let (mut target, start) = match version {
            Some(version) => CopyTarget::resume(self.cluster, self.flags, item, version)?,
            None => (CopyTarget::begin(self.cluster, self.flags, item)?, 0),
        };
        let source = if start > 0 { self.source(&item.from, start)? } else { source };
        self.progress.advance(start);
        let mut hasher = (self.flags.verify && start == 0).then(Hasher::new);
        let (mut moved, mut marked) = (start, start);
        let part = PipedRange { offset: start, length: None, expected: item.len };
        let copied = pipe::run(source, part, self.interrupt, |piece| {
            target.write(piece, moved)?;
            if let Some(hasher) = &mut hasher {
                hasher.update(piece);
            }
            moved += piece.len() as u64;
            self.progress.advance(piece.len() as u64);
            if let Some(version) = version.filter(|_| moved - marked >= SYNC_INTERVAL_BYTES) {
                target.sync_and_record(&item.to, version, moved)?;
                marked = moved;
            }
            Ok(())
        });
        let copied = match copied {
            Ok(_) => target.finish(item),
            Err(error) => {
                let is_kept = error.is::<Interrupted>()
                    && moved >= CONTINUED_BYTES
                    && version.is_some_and(|version| {
                        target.sync_and_record(&item.to, version, moved).is_ok()
                    });
                if is_kept {
                    eprintln!(
                        "pario: {}: {} are kept; run the same command again to continue",
                        item.to,
                        size(moved)
                    );
                } else {
                    target.abandon();
                }
                Err(error)
            }
        };
        copied.with_context(|| {
            format!("cannot copy {} to {}: stopped at {}", item.from, item.to, size(moved))
        })?;
        if self.flags.verify {
            let expected = match hasher {
                Some(hasher) => hasher.finalize(),
                None => self.hash(self.source(&item.from, 0)?, item.len)?,
            };
            self.verify(item, expected)?;
        }
        Ok((moved, start))
    }

    /// Opens a source, and checks whether it is an archive that becomes an image or volume.
    fn open(&self, item: &CopyItem) -> anyhow::Result<OpenedSource> {
        let may_be_archive = matches!(item.to, Location::Cluster(_)) && !self.flags.plain;
        match &item.from {
            Location::Local(path) if may_be_archive && item.len.is_some() => {
                let mut file = open_local(path)?;
                let head = head_of(&mut file).with_context(|| path.display().to_string())?;
                file.seek(SeekFrom::Start(0)).with_context(|| path.display().to_string())?;
                Ok(match is_archive(&head) {
                    true => OpenedSource::Archive(Box::new(io::BufReader::new(file))),
                    false => OpenedSource::Bytes(Source::Stream(Box::new(file))),
                })
            }
            Location::Stream if may_be_archive => {
                let head = head_of(&mut io::stdin())?;
                let is_archive = is_archive(&head);
                let whole = Cursor::new(head).chain(io::stdin());
                Ok(match is_archive {
                    true => OpenedSource::Archive(Box::new(whole)),
                    false => OpenedSource::Bytes(Source::Stream(Box::new(whole))),
                })
            }
            place => Ok(OpenedSource::Bytes(self.source(place, 0)?)),
        }
    }

    /// Returns the bytes of a file from an offset on. A cluster source always begins at 0, because
    /// the pipe reads it with offsets.
    pub fn source(&self, place: &Location, offset: u64) -> anyhow::Result<Source> {
        Ok(match place {
            Location::Stream => Source::Stream(Box::new(io::stdin())),
            Location::Local(path) => {
                let mut file = open_local(path)?;
                if offset > 0 {
                    file.seek(SeekFrom::Start(offset))
                        .with_context(|| path.display().to_string())?;
                }
                Source::Stream(Box::new(file))
            }
            Location::Cluster(path) => Source::Cluster(Arc::new(self.cluster.open(path.as_str())?)),
        })
    }

    /// Reads the copy back and compares it with the source.
    pub fn verify(&self, item: &CopyItem, written: Hash) -> anyhow::Result<()> {
        if item.to == Location::Stream {
            return Ok(());
        }
        if self.hash(self.source(&item.to, 0)?, item.len)? != written {
            bail!(
                "{} differs from {}: verification read other bytes back; copy it again",
                item.to,
                item.from
            );
        }
        Ok(())
    }

    fn hash(&self, source: Source, len: Option<u64>) -> anyhow::Result<Hash> {
        let mut hasher = Hasher::new();
        pipe::run(source, PipedRange::whole(len), self.interrupt, |piece| {
            hasher.update(piece);
            Ok(())
        })?;
        Ok(hasher.finalize())
    }
}

/// An opened source.
enum OpenedSource {
    /// Plain bytes.
    Bytes(Source),
    /// An archive of an image or volume, to be imported.
    Archive(Box<dyn Read + Send>),
}

fn open_local(path: &Path) -> anyhow::Result<fs::File> {
    fs::File::open(path).with_context(|| path.display().to_string())
}

/// Reads enough of the first bytes to recognise an archive.
fn head_of(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(ARCHIVE_HEAD_BYTES);
    source.take(ARCHIVE_HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

impl CopyItem {
    /// Returns the version of the source, if size and time are known.
    fn version(&self) -> Option<SourceVersion> {
        Some(SourceVersion { len: self.len?, modified_ns: self.modified_ns? })
    }
}

/// Returns the last name of a location, for the progress bar.
pub fn short_name(place: &Location) -> String {
    match place {
        Location::Stream => "-".to_owned(),
        Location::Local(path) => {
            path.file_name().map(Path::new).unwrap_or(path).display().to_string()
        }
        Location::Cluster(path) => path.name().unwrap_or("/").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pario::FilePath;

    use super::*;

    /// A source that interrupts the copy after `left` bytes.
    struct Interrupting {
        left: usize,
        interrupt: Interrupt,
        file: fs::File,
    }

    impl Read for Interrupting {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.file.read(buffer)?;
            self.left = self.left.saturating_sub(read);
            if self.left == 0 {
                self.interrupt.ask();
            }
            Ok(read)
        }
    }

    /// Interrupts the copy of a 48 MiB file after `bytes`, then copies it again. Returns the names
    /// that the first copy left, the result of the second copy, and whether its bytes are right.
    fn interrupted_after(bytes: usize) -> (Vec<String>, CopiedFile, bool) {
        const LEN: usize = 48 << 20;
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::embedded(dir.path().join("data")).unwrap();
        let path = dir.path().join("big");
        let mut content = vec![0; LEN];
        fastrand::Rng::with_seed(1).fill(&mut content);
        fs::write(&path, &content).unwrap();
        let item = CopyItem {
            from: Location::Local(path.clone()),
            to: Location::Cluster(FilePath::new("/big").unwrap()),
            len: Some(LEN as u64),
            mode: Some(0o640),
            modified_ns: Some(7),
            is_extents: false,
        };
        let (flags, progress) = (Flags::default(), Progress::begin("big", None, true));
        let names = || -> Vec<String> {
            cluster.list("/").unwrap().map(|entry| entry.unwrap().name).collect()
        };
        let interrupt = Interrupt::default();
        let file = fs::File::open(&path).unwrap();
        let source = Interrupting { left: bytes, interrupt: interrupt.clone(), file };
        let copier =
            Copier { cluster: &cluster, flags: &flags, progress: &progress, interrupt: &interrupt };
        let stopped = copier.copy_bytes(&item, Source::Stream(Box::new(source))).unwrap_err();
        assert!(stopped.chain().any(|cause| cause.is::<Interrupted>()), "{stopped:#}");
        let left = names();
        let interrupt = Interrupt::default();
        let copier = Copier { interrupt: &interrupt, ..copier };
        let copied = copier.copy(&item).unwrap();
        assert_eq!(names(), ["big"]);
        let mut stored = vec![0; LEN];
        cluster.open("/big").unwrap().read_exact_at(&mut stored, 0).unwrap();
        assert_eq!(cluster.metadata("/big").unwrap().record.mode, 0o640);
        (left, copied, stored == content)
    }

    #[test]
    fn what_a_large_copy_has_brought_is_kept() {
        let (left, copied, is_same) = interrupted_after(44 << 20);
        assert!(left.len() == 1 && left[0].starts_with(".big.3000000-7-"), "{left:?}");
        assert!(copied.continued_at >= CONTINUED_BYTES && is_same, "{copied:?}");
    }

    #[test]
    fn little_is_not_worth_keeping() {
        let (left, copied, is_same) = interrupted_after(4 << 20);
        assert!(left.is_empty(), "{left:?}");
        assert!(copied.continued_at == 0 && is_same, "{copied:?}");
    }
}
