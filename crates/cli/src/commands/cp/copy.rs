//! One file from one place to another, through a pipe.

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
use super::direction::Place;
use super::partial::Version;
use super::pipe::{self, Part, Source};
use super::plan::Item;
use super::progress::Progress;
use super::target::Target;
use crate::amounts::size;
use crate::interrupt::{Interrupt, Interrupted};

/// From this size on, what was copied before an interruption is kept and continued.
pub const CONTINUED_BYTES: u64 = 32 << 20;

/// Bytes after which a large copy is made durable; its name then says how far it has come.
const MARK_BYTES: u64 = 256 << 20;

/// What copying needs.
pub struct Copier<'c> {
    /// The cluster concerned.
    pub cluster: &'c Cluster,
    /// What was typed.
    pub flags: &'c Flags,
    /// What the user sees.
    pub progress: &'c Progress,
    /// Whether somebody asked for the end.
    pub interrupt: &'c Interrupt,
}

/// A file that was copied.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    /// Its bytes.
    pub bytes: u64,
    /// How many of them an earlier copy had brought.
    pub continued_at: u64,
    /// How long it took.
    pub took: Duration,
}

impl Copier<'_> {
    /// Copies a file of any size.
    pub fn copy(&self, item: &Item) -> anyhow::Result<Copied> {
        let began = Instant::now();
        let (bytes, continued_at) = if item.is_extents {
            (self.copy_extents(item)?, 0)
        } else {
            match self.open(item)? {
                Opened::Archive(mut input) => (self.import_archive(item, &mut *input)?, 0),
                Opened::Bytes(source) => self.copy_bytes(item, source)?,
            }
        };
        Ok(Copied { bytes, continued_at, took: began.elapsed() })
    }

    fn copy_bytes(&self, item: &Item, source: Source) -> anyhow::Result<(u64, u64)> {
        let version = item.version().filter(|version| version.len >= CONTINUED_BYTES);
        let (mut target, start) = match version {
            Some(version) => Target::continued(self.cluster, self.flags, item, version)?,
            None => (Target::begin(self.cluster, self.flags, item)?, 0),
        };
        let source = if start > 0 { self.source(&item.from, start)? } else { source };
        self.progress.advance(start);
        let mut hasher = (self.flags.verify && start == 0).then(Hasher::new);
        let (mut moved, mut marked) = (start, start);
        let part = Part { offset: start, length: None, expected: item.len };
        let copied = pipe::run(source, part, self.interrupt, |piece| {
            target.write(piece, moved)?;
            if let Some(hasher) = &mut hasher {
                hasher.update(piece);
            }
            moved += piece.len() as u64;
            self.progress.advance(piece.len() as u64);
            if let Some(version) = version.filter(|_| moved - marked >= MARK_BYTES) {
                target.mark(&item.to, version, moved)?;
                marked = moved;
            }
            Ok(())
        });
        let copied = match copied {
            Ok(_) => target.finish(item),
            Err(error) => {
                let is_kept = error.is::<Interrupted>()
                    && moved >= CONTINUED_BYTES
                    && version.is_some_and(|version| target.mark(&item.to, version, moved).is_ok());
                if is_kept {
                    eprintln!(
                        "pario: {}: {} are kept; the same command goes on from there",
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
            format!("copying {} to {} stopped at {}", item.from, item.to, size(moved))
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

    /// Opens what is copied, and looks whether it is an archive that becomes an image or volume.
    fn open(&self, item: &Item) -> anyhow::Result<Opened> {
        let may_be_archive = matches!(item.to, Place::Cluster(_)) && !self.flags.plain;
        match &item.from {
            Place::Local(path) if may_be_archive && item.len.is_some() => {
                let mut file = open_local(path)?;
                let head = head_of(&mut file).with_context(|| path.display().to_string())?;
                file.seek(SeekFrom::Start(0)).with_context(|| path.display().to_string())?;
                Ok(match is_archive(&head) {
                    true => Opened::Archive(Box::new(io::BufReader::new(file))),
                    false => Opened::Bytes(Source::Stream(Box::new(file))),
                })
            }
            Place::Stream if may_be_archive => {
                let head = head_of(&mut io::stdin())?;
                let is_archive = is_archive(&head);
                let whole = Cursor::new(head).chain(io::stdin());
                Ok(match is_archive {
                    true => Opened::Archive(Box::new(whole)),
                    false => Opened::Bytes(Source::Stream(Box::new(whole))),
                })
            }
            place => Ok(Opened::Bytes(self.source(place, 0)?)),
        }
    }

    /// The bytes of a file from an offset on. Those of a file in the cluster begin at 0: it is read
    /// with offsets.
    pub fn source(&self, place: &Place, offset: u64) -> anyhow::Result<Source> {
        Ok(match place {
            Place::Stream => Source::Stream(Box::new(io::stdin())),
            Place::Local(path) => {
                let mut file = open_local(path)?;
                if offset > 0 {
                    file.seek(SeekFrom::Start(offset))
                        .with_context(|| path.display().to_string())?;
                }
                Source::Stream(Box::new(file))
            }
            Place::Cluster(path) => Source::Cluster(Arc::new(self.cluster.open(path.as_str())?)),
        })
    }

    /// Reads back what was written and compares it with what was read.
    pub fn verify(&self, item: &Item, written: Hash) -> anyhow::Result<()> {
        if item.to == Place::Stream {
            return Ok(());
        }
        if self.hash(self.source(&item.to, 0)?, item.len)? != written {
            bail!("{} is not the same as {}: what was read back differs", item.to, item.from);
        }
        Ok(())
    }

    fn hash(&self, source: Source, len: Option<u64>) -> anyhow::Result<Hash> {
        let mut hasher = Hasher::new();
        pipe::run(source, Part::whole(len), self.interrupt, |piece| {
            hasher.update(piece);
            Ok(())
        })?;
        Ok(hasher.finalize())
    }
}

/// Something that was opened to be copied.
enum Opened {
    /// Bytes.
    Bytes(Source),
    /// An archive of an image or volume, which becomes one again.
    Archive(Box<dyn Read + Send>),
}

fn open_local(path: &Path) -> anyhow::Result<fs::File> {
    fs::File::open(path).with_context(|| path.display().to_string())
}

/// As many of the first bytes as tell what something is.
fn head_of(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(ARCHIVE_HEAD_BYTES);
    source.take(ARCHIVE_HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

impl Item {
    /// Which version of its source it is, if that is known.
    fn version(&self) -> Option<Version> {
        Some(Version { len: self.len?, modified_ns: self.modified_ns? })
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

#[cfg(test)]
mod tests {
    use pario::FilePath;

    use super::*;

    /// A source that interrupts the copy once `left` bytes have been read.
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

    /// Interrupts the copy of a file of 48 MiB after `bytes`, and copies it once more. Returns the
    /// names that the first copy has left, the second copy, and whether its bytes are right.
    fn interrupted_after(bytes: usize) -> (Vec<String>, Copied, bool) {
        const LEN: usize = 48 << 20;
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::embedded(dir.path().join("data")).unwrap();
        let path = dir.path().join("big");
        let mut content = vec![0; LEN];
        fastrand::Rng::with_seed(1).fill(&mut content);
        fs::write(&path, &content).unwrap();
        let item = Item {
            from: Place::Local(path.clone()),
            to: Place::Cluster(FilePath::new("/big").unwrap()),
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
