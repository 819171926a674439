//! The file behind a cached file: a plain file of the machine, or a file of a cluster.

use std::fmt;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::agreement::RankFailure;
use crate::cluster::Cluster;
use crate::file::File;

/// The file behind a cached file: a plain file of the machine, which is what a path means, or a file
/// of a cluster.
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// use pario::cached::CachedFileSource;
///
/// assert_eq!(CachedFileSource::from("/scratch/mesh.bin").to_string(), "/scratch/mesh.bin");
/// let in_cluster = CachedFileSource::in_cluster(&cluster, "/runs/mesh.bin");
/// assert_eq!(in_cluster.to_string(), "/runs/mesh.bin");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CachedFileSource {
    /// A file of the machine.
    Plain(PathBuf),
    /// A file of a cluster, at this path.
    Cluster(Cluster, String),
}

/// How the backing file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackingOptions {
    pub read: bool,
    pub write: bool,
    pub create: bool,
    pub is_new: bool,
    pub truncate: bool,
    pub mode: u32,
}

/// The open backing file.
#[derive(Debug)]
pub enum BackingFile {
    Plain(fs::File),
    Cluster(Box<File>),
}

impl CachedFileSource {
    /// A file of a cluster.
    pub fn in_cluster(cluster: &Cluster, path: impl Into<String>) -> Self {
        Self::Cluster(cluster.clone(), path.into())
    }

    /// The same source for all processes of this machine, whatever their working directories are.
    pub(super) fn absolute(&self) -> Result<Self, RankFailure> {
        match self {
            Self::Plain(path) => {
                // The target of a link, so that a flush can replace it.
                let path = fs::canonicalize(path).or_else(|_| std::path::absolute(path))?;
                Ok(Self::Plain(path))
            }
            source => Ok(source.clone()),
        }
    }

    /// The name of the file in messages, equal on all ranks, also on machines without the file.
    pub(super) fn common_name(&self) -> String {
        match self {
            Self::Plain(path) => {
                std::path::absolute(path).as_ref().unwrap_or(path).display().to_string()
            }
            source => source.to_string(),
        }
    }

    /// Opens the file.
    pub(super) fn open(&self, options: BackingOptions) -> Result<BackingFile, RankFailure> {
        let BackingOptions { read, write, create, is_new, truncate, mode } = options;
        match self {
            Self::Plain(path) => {
                let mut options = fs::OpenOptions::new();
                options.read(read).write(write).create(create).create_new(is_new).mode(mode);
                // The open of a pipe would wait for its other end.
                options.custom_flags(NONBLOCK);
                let file = options.open(path)?;
                let kind = file.metadata()?.file_type();
                if kind.is_dir() {
                    return Err(RankFailure::new(Errno::ISDIR, "it is a directory"));
                }
                if !kind.is_file() {
                    let what = if kind.is_fifo() || kind.is_socket() { "pipe" } else { "device" };
                    let text = format!("it is a {what}, which cannot be cached: use a plain file");
                    return Err(RankFailure::invalid(text));
                }
                if truncate && file.metadata()?.len() > 0 {
                    file.set_len(0)?;
                }
                Ok(BackingFile::Plain(file))
            }
            Self::Cluster(cluster, path) => {
                let options = cluster.options().read(read).write(write).create(create);
                let options = options.create_new(is_new).truncate(truncate).mode(mode);
                let file = options.open(path)?;
                // Files of extents have no bytes.
                file.read_at(&mut [], 0).or_else(|error| if read { Err(error) } else { Ok(0) })?;
                Ok(BackingFile::Cluster(Box::new(file)))
            }
        }
    }

    /// Creates a new file beside this one, with the same owner and rights, that is to replace it.
    pub(super) fn create_beside(&self) -> Result<Self, RankFailure> {
        let number = new_number();
        match self {
            Self::Plain(path) => {
                let (dir, name) = dir_and_name(path)?;
                let beside = dir.join(format!(".{name}.pario-{number:016x}"));
                let known = fs::metadata(path)?;
                let mut options = fs::OpenOptions::new();
                let file = options.write(true).create_new(true).mode(0o600).open(&beside)?;
                let made = file.metadata()?;
                let keep = || {
                    if (made.uid(), made.gid()) != (known.uid(), known.gid()) {
                        std::os::unix::fs::fchown(&file, Some(known.uid()), Some(known.gid()))?;
                    }
                    file.set_permissions(fs::Permissions::from_mode(known.mode() & 0o7777))
                };
                if let Err(error) = keep() {
                    let _ = fs::remove_file(&beside);
                    return Err(
                        RankFailure::from(error).context("cannot keep its owner and rights")
                    );
                }
                Ok(Self::Plain(beside))
            }
            Self::Cluster(cluster, path) => {
                let known = cluster.metadata(path)?.record;
                let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
                let beside = format!("{dir}/.{name}.pario-{number:016x}");
                let mut options = cluster.options().write(true).create_new(true).mode(known.mode);
                if let Some(layout) = known.layout {
                    options = options.layout(layout);
                }
                options.open(&beside)?;
                Ok(Self::Cluster(cluster.clone(), beside))
            }
        }
    }

    /// Renames the file beside this one over it, durably.
    pub(super) fn replace_by(&self, beside: &Self) -> Result<(), RankFailure> {
        match (self, beside) {
            (Self::Plain(path), Self::Plain(beside)) => {
                fs::rename(beside, path)?;
                self.sync_name()
            }
            (Self::Cluster(cluster, path), Self::Cluster(_, beside)) => {
                Ok(cluster.rename(beside, path)?)
            }
            _ => Err(RankFailure::invalid("a file can only be replaced by one of its kind")),
        }
    }

    /// Makes the name of the file durable.
    pub(super) fn sync_name(&self) -> Result<(), RankFailure> {
        if let Self::Plain(path) = self {
            let (dir, _) = dir_and_name(path)?;
            fs::File::open(dir)?.sync_all()?;
        }
        Ok(())
    }

    /// Deletes the file, if possible.
    pub(super) fn remove(&self) {
        // A file that stays behind is useless and harmless.
        let _ = match self {
            Self::Plain(path) => fs::remove_file(path).map_err(RankFailure::from),
            Self::Cluster(cluster, path) => cluster.remove(path).map_err(RankFailure::from),
        };
    }

    /// The source of the same kind at the path that another rank has sent.
    pub(super) fn at(&self, path: &[u8]) -> Self {
        use std::os::unix::ffi::OsStrExt as _;
        match self {
            Self::Plain(_) => Self::Plain(Path::new(std::ffi::OsStr::from_bytes(path)).to_owned()),
            Self::Cluster(cluster, _) => {
                Self::Cluster(cluster.clone(), String::from_utf8_lossy(path).into_owned())
            }
        }
    }

    /// The path, in the form that is sent to other ranks.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        use std::os::unix::ffi::OsStrExt as _;
        match self {
            Self::Plain(path) => path.as_os_str().as_bytes().to_vec(),
            Self::Cluster(_, path) => path.as_bytes().to_vec(),
        }
    }
}

/// `O_NONBLOCK`, which has no effect on plain files.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

fn dir_and_name(path: &Path) -> Result<(&Path, String), RankFailure> {
    match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) => Ok((dir, name.to_string_lossy().into_owned())),
        _ => Err(RankFailure::invalid("it has no name")),
    }
}

/// A number that no other process is likely to draw.
fn new_number() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u64::from_le_bytes(bytes),
        Err(_) => u64::from(std::process::id()),
    }
}

impl BackingFile {
    /// The length.
    pub fn len(&self) -> Result<u64, RankFailure> {
        match self {
            Self::Plain(file) => Ok(file.metadata()?.len()),
            Self::Cluster(file) => Ok(file.len()?),
        }
    }

    /// Changes the length.
    pub fn set_len(&self, len: u64) -> Result<(), RankFailure> {
        match self {
            Self::Plain(file) => Ok(file.set_len(len)?),
            Self::Cluster(file) => Ok(file.set_len(len)?),
        }
    }

    /// Reads consecutive bytes; fewer than the buffers hold only at the end of the file.
    pub fn read_at(
        &self,
        mut pieces: &mut [IoSliceMut<'_>],
        offset: u64,
    ) -> Result<u64, RankFailure> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Cluster(file) => return Ok(file.read_vectored_at(pieces, offset)? as u64),
        };
        let mut done = 0;
        while !pieces.is_empty() {
            match rustix::io::preadv(file, pieces, offset + done) {
                Ok(0) => break,
                Ok(count) => {
                    done += count as u64;
                    IoSliceMut::advance_slices(&mut pieces, count);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
        }
        Ok(done)
    }

    /// Writes consecutive bytes.
    pub fn write_at(&self, mut pieces: &mut [IoSlice<'_>], offset: u64) -> Result<(), RankFailure> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Cluster(file) => return Ok(file.write_vectored_at(pieces, offset)?),
        };
        let mut done = 0;
        while !pieces.is_empty() {
            match rustix::io::pwritev(file, pieces, offset + done) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(count) => {
                    done += count as u64;
                    IoSlice::advance_slices(&mut pieces, count);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
        }
        Ok(())
    }

    /// Makes the writes durable. A failure is final.
    pub fn sync(&self) -> Result<(), RankFailure> {
        let synced = match self {
            Self::Plain(file) => file.sync_data().map_err(RankFailure::from),
            Self::Cluster(file) => file.sync().map_err(RankFailure::from),
        };
        synced.map_err(|why| RankFailure { is_final: true, ..why })
    }
}

impl From<&str> for CachedFileSource {
    fn from(path: &str) -> Self {
        Self::Plain(path.into())
    }
}

impl From<&Path> for CachedFileSource {
    fn from(path: &Path) -> Self {
        Self::Plain(path.to_owned())
    }
}

impl From<PathBuf> for CachedFileSource {
    fn from(path: PathBuf) -> Self {
        Self::Plain(path)
    }
}

impl From<&PathBuf> for CachedFileSource {
    fn from(path: &PathBuf) -> Self {
        Self::Plain(path.clone())
    }
}

impl fmt::Display for CachedFileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(path) => write!(f, "{}", path.display()),
            Self::Cluster(_, path) => f.write_str(path),
        }
    }
}
