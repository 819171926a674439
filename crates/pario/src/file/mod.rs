//! An open file.

pub(crate) mod atomic;
mod batches;
mod compaction;
mod extents;
mod grow;
mod lease;
mod locks;
mod many;
mod pointer;
mod read_target;
mod renewal;
mod short_cut;
mod started;
mod striping;
mod times;
mod traffic;
mod transfer;

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pario_proto::{
    Access, ByteRange, FileKind, FilePath, FileRecord, Grant, Layout, NamespaceRequest, Opened,
    Reply, Request, Striped, SubfileIndex, SubfileLocation,
};
use parking_lot::{Mutex, RwLock};

pub use compaction::CompactedDisk;
pub use extents::{Extent, Extents};
pub use many::FileContent;
pub(crate) use short_cut::Descriptors;
pub(crate) use traffic::TrafficTable;

use crate::cluster::Cluster;
use crate::connection::strange;
use crate::error::Error;
use crate::metadata::{Metadata, measure, parts_of};
use short_cut::{AccessPath, ShortCut, SubfileError};

/// The largest offset of a byte, 2^62.
const OFFSET_LIMIT: u64 = 1 << 62;

/// An open file; made by [`Cluster::open`], [`Cluster::create`] and [`Cluster::options`].
///
/// Any number of threads may use it. Dropping it closes it; [`close`](File::close) also makes its
/// writes durable and returns whether that succeeded.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// use std::io::{Read, Seek, Write};
///
/// let mut file = cluster.create("/log")?;
/// writeln!(file, "residual {:e}", 1e-9)?;
/// file.rewind()?;
/// let mut text = String::new();
/// file.read_to_string(&mut text)?;
/// assert_eq!(text, "residual 1e-9\n");
/// # Ok(())
/// # }
/// ```
pub struct File {
    state: Arc<FileState>,
}

/// An open file. Started requests share it: the file stays open until they are over.
struct FileState {
    cluster: Cluster,
    path: FilePath,
    access: Access,
    record: FileRecord,
    parts: Vec<SubfileLocation>,
    grant: renewal::KeptGrant,
    handle: u64,
    /// Whether the caller closes the file at the interface node: a job, or a call that closes many.
    is_closed_by_caller: AtomicBool,
    short_cut: RwLock<AccessPath>,
    /// Which subfiles this process knows to be first-synced.
    first_synced: Mutex<Vec<bool>>,
    is_dirty: AtomicBool,
    pointer: Mutex<u64>,
    locked: locks::Locked,
    atomic: atomic::AtomicAccess,
    /// Whether writes at the pointer go to the end of the file.
    is_append: AtomicBool,
    /// Started writes that may be under way.
    started_writes: started::StartedWrites,
}

impl File {
    pub(crate) fn new(cluster: &Cluster, path: FilePath, access: Access, opened: Opened) -> Self {
        let Opened { record, grant, handle, renew_after_ms, .. } = opened;
        let parts = parts_of(&record);
        let first_synced =
            parts.iter().map(|part| record.is_first_synced(part.subfile.0)).collect();
        let state = FileState {
            cluster: cluster.clone(),
            path,
            access,
            record,
            parts,
            grant: renewal::KeptGrant::new(grant, renew_after_ms),
            handle,
            is_closed_by_caller: AtomicBool::new(false),
            short_cut: RwLock::new(AccessPath::Unknown),
            first_synced: Mutex::new(first_synced),
            is_dirty: AtomicBool::new(false),
            pointer: Mutex::new(0),
            locked: locks::Locked::default(),
            atomic: atomic::AtomicAccess::default(),
            is_append: AtomicBool::new(false),
            started_writes: started::StartedWrites::default(),
        };
        Self { state: Arc::new(state) }
    }

    /// A file that the processes of a job have opened together, and close together.
    pub(crate) fn opened_by_job(
        cluster: &Cluster,
        path: FilePath,
        access: Access,
        opened: Opened,
    ) -> Self {
        let file = Self::new(cluster, path, access, opened);
        file.state.is_closed_by_caller.store(true, Ordering::Relaxed);
        file
    }

    /// The same open file, for a started request.
    fn share(&self) -> Self {
        Self { state: self.state.clone() }
    }

    /// Returns the path with which it was opened.
    pub fn path(&self) -> &FilePath {
        &self.state.path
    }

    /// Returns the record of the file in the namespace, as it was at the open.
    pub fn record(&self) -> &FileRecord {
        &self.state.record
    }

    /// Whether this process reads and writes the bytes itself: all disks of the file are on its
    /// machine, their nodes pass descriptors, and the first disk is no slow one.
    pub fn has_short_cut(&self) -> bool {
        let shared = &self.state.cluster.shared;
        let is_near = |disk| shared.node_of(disk).is_ok_and(|node| shared.passes_descriptors(node));
        self.state.parts.iter().all(|part| is_near(part.disk))
            && self.usable_short_cut(|| Some(0)).is_ok_and(|found| found.is_some())
    }

    /// Reads into a buffer at an offset. Returns the number of bytes; fewer than the buffer has
    /// only at the end of the file.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/data")?;
    /// file.write_at(b"0123456789", 0)?;
    /// let mut bytes = [0; 8];
    /// assert_eq!(file.read_at(&mut bytes, 6)?, 4);
    /// assert_eq!(&bytes[..4], b"6789");
    /// assert_eq!(file.read_at(&mut bytes, 1000)?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        let striped = self.striped("read")?;
        self.check_readable()?;
        let range = self.range(offset, buffer.len())?;
        if buffer.is_empty() {
            return Ok(0);
        }
        self.read_pieces(striped, &mut [(range.start_bytes(), buffer)])
    }

    /// Reads exactly as many bytes as the buffer has; fails if the file ends before.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/data")?;
    /// file.write_at(b"0123", 0)?;
    /// assert!(file.read_exact_at(&mut [0; 8], 0).unwrap_err().to_string().contains("ends at byte 4"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let wanted = buffer.len();
        let count = self.read_at(buffer, offset)?;
        if count == wanted {
            return Ok(());
        }
        let end = if count == 0 { self.len()?.min(offset) } else { offset + count as u64 };
        let (path, len) = (self.state.path.to_string(), end);
        Err(Error::Ended { path, len, offset, wanted: wanted as u64 })
    }

    /// Writes all of a buffer at an offset. The file grows as needed.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/data")?;
    /// file.write_at(&[7; 1_000_000], 1 << 40)?;
    /// assert_eq!(file.len()?, (1 << 40) + 1_000_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> Result<(), Error> {
        let striped = self.striped("write")?;
        self.check_writable()?;
        let range = self.range(offset, buffer.len())?;
        if buffer.is_empty() {
            return Ok(());
        }
        self.note_write();
        self.write_pieces(striped, &[(range.start_bytes(), buffer)])
    }

    /// Reads consecutive bytes into several buffers.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use std::io::IoSliceMut;
    ///
    /// let file = cluster.create("/data")?;
    /// file.write_at(b"headbody", 0)?;
    /// let (mut head, mut body) = ([0; 4], [0; 4]);
    /// let count = file
    ///     .read_vectored_at(&mut [IoSliceMut::new(&mut head), IoSliceMut::new(&mut body)], 0)?;
    /// assert_eq!((count, &head, &body), (8, b"head", b"body"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_vectored_at(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        offset: u64,
    ) -> Result<usize, Error> {
        let striped = self.striped("read")?;
        self.check_readable()?;
        let len = buffers.iter().map(|buffer| buffer.len()).sum();
        let range = self.range(offset, len)?;
        if len == 0 {
            return Ok(0);
        }
        let mut next = range.start_bytes();
        let mut pieces: Vec<batches::ReadPiece<'_>> = Vec::with_capacity(buffers.len());
        for buffer in buffers {
            let len = buffer.len() as u64;
            pieces.push((next, buffer));
            next += len;
        }
        self.read_pieces(striped, &mut pieces)
    }

    /// Writes several buffers to consecutive bytes.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use std::io::IoSlice;
    ///
    /// let file = cluster.create("/data")?;
    /// file.write_vectored_at(&[IoSlice::new(b"head"), IoSlice::new(b"body")], 0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_vectored_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> Result<(), Error> {
        let striped = self.striped("write")?;
        self.check_writable()?;
        let len = buffers.iter().map(|buffer| buffer.len()).sum();
        let range = self.range(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        self.note_write();
        let mut next = range.start_bytes();
        let mut pieces: Vec<batches::WritePiece<'_>> = Vec::with_capacity(buffers.len());
        for buffer in buffers {
            pieces.push((next, buffer));
            next += buffer.len() as u64;
        }
        self.write_pieces(striped, &pieces)
    }

    /// Makes all earlier writes to the file durable, of any process.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/checkpoint")?;
    /// file.write_at(b"state", 0)?;
    /// file.sync()?; // from here on it survives a power loss
    /// # Ok(())
    /// # }
    /// ```
    pub fn sync(&self) -> Result<(), Error> {
        self.check_opened_for_writing()?;
        self.state.is_dirty.store(false, Ordering::SeqCst);
        let synced = self.for_all_parts(|grant, part| Request::Sync { grant, part });
        let noted = synced.and_then(|replies| self.note_synced(&replies));
        if noted.is_err() {
            self.state.is_dirty.store(true, Ordering::SeqCst);
        }
        noted
    }

    /// Marks the subfiles that were synced for the first time in the namespace.
    fn note_synced(&self, replies: &[Reply]) -> Result<(), Error> {
        let fresh: Vec<SubfileIndex> = {
            let first_synced = self.state.first_synced.lock();
            let parts = self.state.parts.iter().zip(replies).zip(first_synced.iter());
            let fresh = parts.filter(|((_, reply), is_first_synced)| {
                matches!(reply, Reply::Synced { is_there: true }) && !**is_first_synced
            });
            fresh.map(|((part, _), _)| part.subfile).collect()
        };
        if fresh.is_empty() {
            return Ok(());
        }
        self.with_renewal(self.grant(), |grant| {
            self.state
                .cluster
                .names(NamespaceRequest::MarkSynced { grant, subfiles: fresh.clone() })
        })?;
        let mut first_synced = self.state.first_synced.lock();
        for subfile in fresh {
            first_synced[subfile.0 as usize] = true;
        }
        Ok(())
    }

    /// Truncates the file, or extends it with zeros.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/data")?;
    /// file.set_len(1_000_000)?;
    /// assert_eq!(file.len()?, 1_000_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_len(&self, len: u64) -> Result<(), Error> {
        let striped = self.striped("resize")?;
        self.check_writable()?;
        self.range(len, 0)?;
        self.note_write();
        let lens: Vec<u64> = striped.subfile_lens_bytes(len).collect();
        self.whole_atomically(true, || {
            self.for_all_parts(|grant, part| Request::Resize {
                grant,
                part,
                len: lens[part.subfile.0 as usize],
            })
        })
        .map(|_| ())
    }

    /// Returns the current length, as the disks report it. With atomic access, no write that may
    /// change it is under way.
    pub fn len(&self) -> Result<u64, Error> {
        self.whole_atomically(false, || self.measured_len())
    }

    /// The current length, as the disks report it, also while writes are under way.
    pub(crate) fn measured_len(&self) -> Result<u64, Error> {
        // A request for descriptors creates the subfiles: the length alone must not.
        if let Some(short_cut) = self.complete_short_cut()
            && let Some(Layout::Striped(striped)) = &self.state.record.layout
        {
            return short_cut.len(striped).map_err(|failed| self.failed(&short_cut, &failed));
        }
        Ok(self.metadata()?.len)
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Returns the current size and times, and the rights as they were at the open.
    pub fn metadata(&self) -> Result<Metadata, Error> {
        self.with_retry(self.grant(), |grant| {
            let mut all =
                measure(&self.state.cluster.shared, vec![(self.state.record.clone(), Some(grant))]);
            all.pop().ok_or_else(|| strange("interface"))?
        })
    }

    /// Closes the file, and makes the writes through it durable. Waits for started writes;
    /// their results stay with their [`Pending`](crate::Pending).
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/result")?;
    /// file.write_at(b"42", 0)?;
    /// file.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(self) -> Result<(), Error> {
        self.state.started_writes.finish();
        self.make_durable()
    }

    /// Makes the writes through this file durable, if there were any.
    pub(crate) fn make_durable(&self) -> Result<(), Error> {
        if self.state.is_dirty.load(Ordering::SeqCst) {
            self.sync()?;
        }
        Ok(())
    }

    /// Removes all bytes or extents.
    pub(crate) fn empty(&self) -> Result<(), Error> {
        if self.state.record.kind == FileKind::Extents {
            let places: Result<Vec<_>, Error> =
                self.all_extents()?.map(|found| Ok(found?.0)).collect();
            for place in places? {
                self.delete_extent(place)?;
            }
            return Ok(());
        }
        self.set_len(0)
    }

    /// Sends a request for each part, and waits for all replies. They are in the order of the
    /// parts.
    fn for_all_parts(
        &self,
        request: impl Fn(Grant, SubfileLocation) -> Request,
    ) -> Result<Vec<Reply>, Error> {
        self.with_retry(self.grant(), |grant| {
            let start = |part: &SubfileLocation| {
                let node = self.state.cluster.shared.node_of(part.disk)?;
                self.state
                    .cluster
                    .shared
                    .node(node)
                    .start(request(grant.clone(), *part), Vec::new())
            };
            let mut waiting = Vec::with_capacity(self.state.parts.len());
            let mut replies = Vec::with_capacity(self.state.parts.len());
            let mut done = Ok(());
            for part in &self.state.parts {
                match start(part) {
                    Ok(started) => waiting.push(started),
                    Err(error) => {
                        done = Err(error);
                        break;
                    }
                }
            }
            // Waits for all, also after a failure: nothing is under way afterwards.
            for started in waiting {
                match started.wait() {
                    Ok((reply, _)) => replies.push(reply),
                    Err(error) if done.is_ok() => done = Err(error),
                    Err(_) => {}
                }
            }
            done.map(|()| replies)
        })
    }

    /// Returns the handle at the interface node. The caller closes it from here on.
    fn into_handle(self) -> u64 {
        self.state.is_closed_by_caller.store(true, Ordering::Relaxed);
        self.state.handle
    }

    /// The subfiles.
    pub(crate) fn parts(&self) -> &[SubfileLocation] {
        &self.state.parts
    }

    /// The cluster of the file.
    pub(crate) fn cluster_shared(&self) -> &crate::cluster::ClusterState {
        &self.state.cluster.shared
    }

    /// Notes that nodes will write to the file.
    pub(crate) fn note_work(&self) {
        self.note_write();
    }

    fn note_write(&self) {
        if !self.state.is_dirty.load(Ordering::Relaxed) {
            self.state.is_dirty.store(true, Ordering::SeqCst);
        }
    }

    fn striped(&self, action: &str) -> Result<&Striped, Error> {
        match &self.state.record.layout {
            Some(Layout::Striped(striped)) => Ok(striped),
            _ => Err(Error::invalid(format!(
                "{}: this is a file of extents; {action} extents instead of bytes",
                self.state.path
            ))),
        }
    }

    fn check_readable(&self) -> Result<(), Error> {
        if self.state.access.read {
            return self.check_locked();
        }
        Err(Error::invalid(format!("{}: the file was not opened for reading", self.state.path)))
    }

    fn check_writable(&self) -> Result<(), Error> {
        self.check_opened_for_writing()?;
        self.check_locked()
    }

    fn check_opened_for_writing(&self) -> Result<(), Error> {
        if self.state.access.write {
            return Ok(());
        }
        Err(Error::invalid(format!("{}: the file was not opened for writing", self.state.path)))
    }

    fn range(&self, offset: u64, len: usize) -> Result<ByteRange, Error> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= OFFSET_LIMIT);
        match (end, ByteRange::new(offset, len as u64)) {
            (Some(_), Ok(range)) => Ok(range),
            _ => Err(Error::invalid(format!(
                "{}: {len} bytes at offset {offset} end beyond the largest file, 2^62 bytes",
                self.state.path
            ))),
        }
    }

    /// The error for a system call on a subfile that failed.
    fn failed(&self, short_cut: &ShortCut, failed: &SubfileError) -> Error {
        let SubfileError { subfile, error } = failed;
        if error.kind() == std::io::ErrorKind::FileTooLarge {
            return Error::invalid(format!(
                "{}: a subfile would be too large for the file system of its disk: spread the file \
                 over more disks",
                self.state.path
            ));
        }
        let disk = self.state.parts.get(*subfile).map(|part| part.disk);
        let disk = disk.map_or_else(String::new, |id| self.state.cluster.shared.disk_name(id));
        let failure = match error.kind() {
            std::io::ErrorKind::StorageFull => pario_proto::Failure::DiskFull {
                disk,
                free_bytes: short_cut.free_bytes(*subfile),
                action: "cannot write".to_owned(),
            },
            _ => pario_proto::Failure::Disk { disk, why: error.to_string() },
        };
        Error::File { path: self.state.path.to_string(), failure }
    }
}

impl Drop for FileState {
    fn drop(&mut self) {
        if !*self.is_closed_by_caller.get_mut() {
            self.cluster.tell_names(NamespaceRequest::Close { handle: self.handle });
        }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({:?})", self.state.path.as_str())
    }
}
