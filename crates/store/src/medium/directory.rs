//! A medium that is a directory of this machine.

use std::any::Any;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags};
use rustix::io::ReadWriteFlags;

use super::{DirectoryEntry, Medium, MediumFile, MediumOpenMode, MediumSpace, cachestat, syncfs};

/// The mode of files: only the user of the process can read and write them.
const PRIVATE_FILE: u32 = 0o600;
/// The mode of directories: only the user of the process can enter them.
const PRIVATE_DIRECTORY: u32 = 0o700;

/// A directory of this machine as a medium.
#[derive(Debug)]
pub struct DirectoryMedium {
    root: PathBuf,
    /// The directory, opened before the first write: the kernel reports to this descriptor every
    /// write to the file system that fails from then on.
    root_descriptor: File,
    /// Whether `syncfs` reports failures of this file system.
    reports_failures: bool,
}

impl DirectoryMedium {
    /// Opens a directory, which must exist.
    pub fn new(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        if !fs::metadata(&root)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let root_descriptor = File::open(&root)?;
        let reports_failures = syncfs::reports_failures(&root_descriptor);
        Ok(Self { root, root_descriptor, reports_failures })
    }

    /// Opens a directory; creates it and its parents if they are missing, so that only the user of
    /// the process can enter them.
    pub fn create(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(&root)?;
        Self::new(root)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

impl Medium for DirectoryMedium {
    fn open(&self, path: &str, mode: MediumOpenMode) -> io::Result<Arc<dyn MediumFile>> {
        let path = self.path(path);
        let mut options = OpenOptions::new();
        options.read(true).write(mode.write || mode.create);
        options.create_new(mode.create).mode(PRIVATE_FILE);
        if let Some(file) = mode.direct_alignment.and_then(|a| open_direct(&mut options, &path, a))
        {
            return Ok(Arc::new(DirectoryFile { file, direct: true }));
        }
        // The attempt with O_DIRECT may have created the file before it failed.
        let exists = mode.create && mode.direct_alignment.is_some() && path.exists();
        options.create_new(mode.create && !exists).custom_flags(0);
        Ok(Arc::new(DirectoryFile { file: options.open(path)?, direct: false }))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        DirBuilder::new().mode(PRIVATE_DIRECTORY).create(self.path(path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.path(path))
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.path(path))
    }

    fn list(&self, path: &str) -> io::Result<Vec<DirectoryEntry>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(path))? {
            let entry = entry?;
            // The store writes no names that are not UTF-8.
            if let Ok(name) = entry.file_name().into_string() {
                names.push(DirectoryEntry { name, is_dir: entry.file_type()?.is_dir() });
            }
        }
        names.sort();
        Ok(names)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        File::open(self.path(path))?.sync_all()
    }

    fn sync_all(&self) -> io::Result<()> {
        if !self.reports_failures {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(rustix::fs::syncfs(&self.root_descriptor)?)
    }

    fn lock(&self, path: &str, exclusive: bool) -> io::Result<Box<dyn Any + Send + Sync>> {
        let file = File::open(self.path(path))?;
        let operation = if exclusive {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        rustix::fs::flock(&file, operation)?;
        Ok(Box::new(file))
    }

    fn space(&self) -> io::Result<MediumSpace> {
        let stat = rustix::fs::statvfs(&self.root)?;
        let device = rustix::fs::stat(&self.root)?.st_dev;
        Ok(MediumSpace {
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            device,
        })
    }

    fn label(&self) -> String {
        self.root.display().to_string()
    }
}

/// Opens with O_DIRECT if the file system then accepts I/O of the given alignment.
fn open_direct(options: &mut OpenOptions, path: &Path, alignment: u32) -> Option<File> {
    options.custom_flags(i32::try_from(OFlags::DIRECT.bits()).ok()?);
    let file = options.open(path).ok()?;
    let known = rustix::fs::statx(
        &file,
        "",
        rustix::fs::AtFlags::EMPTY_PATH,
        rustix::fs::StatxFlags::DIOALIGN,
    );
    let needed = match known {
        Ok(stat) if stat.stx_mask & rustix::fs::StatxFlags::DIOALIGN.bits() != 0 => {
            stat.stx_dio_offset_align.max(stat.stx_dio_mem_align)
        }
        // The kernel does not tell. Every device accepts 4 KiB.
        _ => 4096,
    };
    (needed != 0 && alignment.is_multiple_of(needed)).then_some(file)
}

#[derive(Debug)]
struct DirectoryFile {
    file: File,
    direct: bool,
}

impl DirectoryFile {
    fn sync_range(&self, flags: libc::c_uint) -> io::Result<()> {
        // SAFETY: the call accesses no memory, and the descriptor is open while `self` is borrowed.
        match unsafe { libc::sync_file_range(self.file.as_raw_fd(), 0, 0, flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl MediumFile for DirectoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, position: u64, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), position, len) {
            Err(rustix::io::Errno::OPNOTSUPP) => {
                let end = position.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
                if self.len()? < end { self.set_len(end) } else { Ok(()) }
            }
            other => Ok(other?),
        }
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(&self.file, &mut buffer[done..], position + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    fn read_vectored_at(
        &self,
        mut buffers: &mut [IoSliceMut<'_>],
        position: u64,
    ) -> io::Result<usize> {
        let mut done = 0;
        while !buffers.is_empty() {
            let some = buffers.len().min(IOV_MAX);
            match rustix::io::preadv(&self.file, &mut buffers[..some], position + done as u64) {
                Ok(0) if buffers[..some].iter().all(|buffer| buffer.is_empty()) => {
                    buffers = &mut buffers[some..];
                }
                Ok(0) => break,
                Ok(count) => {
                    done += count;
                    IoSliceMut::advance_slices(&mut buffers, count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    fn write_all_at(&self, buffer: &[u8], position: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pwrite(&self.file, &buffer[done..], position + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn write_all_vectored_at(
        &self,
        mut buffers: &mut [IoSlice<'_>],
        position: u64,
    ) -> io::Result<()> {
        let mut done = 0;
        while !buffers.is_empty() {
            let some = buffers.len().min(IOV_MAX);
            match rustix::io::pwritev(&self.file, &buffers[..some], position + done) {
                Ok(0) if buffers[..some].iter().all(|buffer| buffer.is_empty()) => {
                    buffers = &mut buffers[some..];
                }
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    done += count as u64;
                    IoSlice::advance_slices(&mut buffers, count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn begin_sync(&self) {
        // The call only starts writes; their failures show later.
        let _ = self.sync_range(libc::SYNC_FILE_RANGE_WRITE);
    }

    fn wait_begun(&self) -> io::Result<()> {
        match self.sync_range(libc::SYNC_FILE_RANGE_WAIT_BEFORE) {
            // The file system lacks the call; the sync does all the work.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ENOSYS | libc::EINVAL | libc::ESPIPE | libc::EOPNOTSUPP)
                ) =>
            {
                Ok(())
            }
            waited => waited,
        }
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }

    fn modified_ns(&self) -> io::Result<u64> {
        let since = self.file.metadata()?.modified()?.duration_since(UNIX_EPOCH);
        Ok(since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
    }

    fn set_modified_ns(&self, time: u64) -> io::Result<()> {
        self.file.set_modified(UNIX_EPOCH + Duration::from_nanos(time))
    }

    fn will_need(&self, position: u64, len: u64) {
        let Some(len) = NonZeroU64::new(len) else { return };
        // Advice: a file system may ignore it.
        let _ = rustix::fs::fadvise(&self.file, position, Some(len), Advice::WillNeed);
    }

    fn drop_cached(&self) {
        // Advice: if the kernel ignores it, reads come from the page cache.
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
    }

    fn next_data(&self, position: u64) -> io::Result<Option<u64>> {
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(position)) {
            Ok(found) => Ok(Some(found)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(rustix::io::Errno::INVAL) => Ok((position < self.len()?).then_some(position)),
            Err(error) => Err(error.into()),
        }
    }

    fn is_direct(&self) -> bool {
        self.direct
    }

    fn is_cached(&self, position: u64, len: u64) -> bool {
        cachestat::is_cached(self.file.as_fd(), position, len)
    }

    fn read_in_memory(&self, buffer: &mut [u8], position: u64) -> usize {
        let (buffers, flags) = (&mut [IoSliceMut::new(buffer)], ReadWriteFlags::NOWAIT);
        // A failed read moves nothing: the read that follows reports the failure.
        rustix::io::preadv2(&self.file, buffers, position, flags).unwrap_or(0)
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.file.as_raw_fd())
    }
}

/// The largest number of buffers the kernel takes in one vectored call.
const IOV_MAX: usize = 1024;
