//! An open file.

mod compaction;
mod extents;
mod grow;
mod lease;
mod locks;
mod many;
mod memory;
mod pointer;
mod ranges;
mod renewal;
mod request;
mod short_cut;
mod times;
mod traffic;
mod transfer;

use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};

use pario_proto::{
    Access, ByteRange, FileKind, FilePath, FileRecord, Grant, Layout, NamespaceRequest, Opened,
    Reply, Request, Striped, SubfileIndex, SubfileLocation,
};
use parking_lot::{Mutex, RwLock};

pub use compaction::CompactedDisk;
pub use extents::{Extent, Extents};
pub use locks::LockRequest;
pub use many::FileContent;
pub use request::{ReadRequest, WriteRequest};
pub(crate) use short_cut::Descriptors;
pub(crate) use traffic::TrafficTable;

use crate::cluster::Cluster;
use crate::connection::strange;
use crate::error::Error;
use crate::metadata::{Metadata, measure, parts_of};
use short_cut::{Broken, ShortCut, Way};

/// The largest offset of a byte, 2^62.
const OFFSET_LIMIT: u64 = 1 << 62;

/// An open file; made by [`Cluster::open`], [`Cluster::create`] and [`Cluster::options`].
///
/// Any number of threads may use it. It is closed when it is dropped; [`close`](File::close) also
/// makes what was written durable and says whether that worked.
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
    cluster: Cluster,
    path: FilePath,
    access: Access,
    record: FileRecord,
    parts: Vec<SubfileLocation>,
    grant: renewal::KeptGrant,
    handle: u64,
    /// Whether the caller closes it at the interface node: the group that has opened it, or a call that
    /// closes many.
    is_closed_by_caller: bool,
    short_cut: RwLock<Way>,
    /// Subfiles of which this process knows that they have been synced once.
    settled: Mutex<Vec<bool>>,
    is_dirty: AtomicBool,
    pointer: Mutex<u64>,
    locked: locks::Locked,
}

impl File {
    pub(crate) fn new(cluster: &Cluster, path: FilePath, access: Access, opened: Opened) -> Self {
        let Opened { record, grant, handle, renew_after_ms, .. } = opened;
        let parts = parts_of(&record);
        let settled = parts.iter().map(|part| record.is_first_synced(part.subfile.0)).collect();
        Self {
            cluster: cluster.clone(),
            path,
            access,
            record,
            parts,
            grant: renewal::KeptGrant::new(grant, renew_after_ms),
            handle,
            is_closed_by_caller: false,
            short_cut: RwLock::new(Way::Unknown),
            settled: Mutex::new(settled),
            is_dirty: AtomicBool::new(false),
            pointer: Mutex::new(0),
            locked: locks::Locked::default(),
        }
    }

    /// A file that the processes of a job have opened together, and close together.
    pub(crate) fn of_group(
        cluster: &Cluster,
        path: FilePath,
        access: Access,
        opened: Opened,
    ) -> Self {
        let mut file = Self::new(cluster, path, access, opened);
        file.is_closed_by_caller = true;
        file
    }

    /// The path with which it was opened.
    pub fn path(&self) -> &FilePath {
        &self.path
    }

    /// What the namespace said when it was opened.
    pub fn record(&self) -> &FileRecord {
        &self.record
    }

    /// Whether this process reads and writes the bytes itself, because all disks are on its machine.
    pub fn has_short_cut(&self) -> bool {
        self.usable_short_cut(|| Some(0)).is_ok_and(|found| found.is_some())
    }

    /// Reads into a buffer from an offset on; fewer bytes than asked for only at the end.
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

    /// Reads exactly as many bytes as the buffer has.
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
        let (path, len) = (self.path.to_string(), end);
        Err(Error::Ended { path, len, offset, wanted: wanted as u64 })
    }

    /// Writes all of a buffer from an offset on; the file grows as needed.
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
        let mut pieces: Vec<ranges::ReadPiece<'_>> = Vec::with_capacity(buffers.len());
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
        let mut pieces: Vec<ranges::WritePiece<'_>> = Vec::with_capacity(buffers.len());
        for buffer in buffers {
            pieces.push((next, buffer));
            next += buffer.len() as u64;
        }
        self.write_pieces(striped, &pieces)
    }

    /// Makes everything durable that was written before, by whomever.
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
        self.is_dirty.store(false, Ordering::SeqCst);
        let synced = self.for_all_parts(|grant, part| Request::Sync { grant, part });
        let noted = synced.and_then(|replies| self.note_synced(&replies));
        if noted.is_err() {
            self.is_dirty.store(true, Ordering::SeqCst);
        }
        noted
    }

    /// Has it noted which subfiles were synced for the first time.
    fn note_synced(&self, replies: &[Reply]) -> Result<(), Error> {
        let fresh: Vec<SubfileIndex> = {
            let settled = self.settled.lock();
            let parts = self.parts.iter().zip(replies).zip(settled.iter());
            let fresh = parts.filter(|((_, reply), is_settled)| {
                matches!(reply, Reply::Synced { is_there: true }) && !**is_settled
            });
            fresh.map(|((part, _), _)| part.subfile).collect()
        };
        if fresh.is_empty() {
            return Ok(());
        }
        self.with_renewal(self.grant(), |grant| {
            self.cluster.names(NamespaceRequest::MarkSynced { grant, subfiles: fresh.clone() })
        })?;
        let mut settled = self.settled.lock();
        for subfile in fresh {
            settled[subfile.0 as usize] = true;
        }
        Ok(())
    }

    /// Cuts the file, or extends it with zeros.
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
        self.for_all_parts(|grant, part| Request::Resize {
            grant,
            part,
            len: lens[part.subfile.0 as usize],
        })
        .map(|_| ())
    }

    /// Its length, as its disks say at this moment.
    pub fn len(&self) -> Result<u64, Error> {
        // Asking for the descriptors of subfiles makes them: the length alone is no reason to.
        if let Some(short_cut) = self.complete_short_cut()
            && let Some(Layout::Striped(striped)) = &self.record.layout
        {
            return short_cut.len(striped).map_err(|broken| self.failed(&short_cut, &broken));
        }
        Ok(self.metadata()?.len)
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Size, times and rights: the first two as they are now, the last as they were at the open.
    pub fn metadata(&self) -> Result<Metadata, Error> {
        self.with_retry(self.grant(), |grant| {
            let mut all = measure(&self.cluster.shared, vec![(self.record.clone(), Some(grant))]);
            all.pop().ok_or_else(|| strange("interface"))?
        })
    }

    /// Closes the file, and makes durable what was written through it.
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
        self.make_durable()
    }

    /// Makes durable what was written through it, if anything was.
    pub(crate) fn make_durable(&self) -> Result<(), Error> {
        if self.is_dirty.load(Ordering::SeqCst) {
            self.sync()?;
        }
        Ok(())
    }

    /// Empties it, whatever it holds.
    pub(crate) fn empty(&self) -> Result<(), Error> {
        if self.record.kind == FileKind::Extents {
            let places: Result<Vec<_>, Error> =
                self.all_extents()?.map(|found| Ok(found?.0)).collect();
            for place in places? {
                self.delete_extent(place)?;
            }
            return Ok(());
        }
        self.set_len(0)
    }

    /// Asks the nodes of all parts at once, and waits for all. The replies are in the order of the
    /// parts.
    fn for_all_parts(
        &self,
        request: impl Fn(Grant, SubfileLocation) -> Request,
    ) -> Result<Vec<Reply>, Error> {
        self.with_retry(self.grant(), |grant| {
            let start = |part: &SubfileLocation| {
                let node = self.cluster.shared.node_of(part.disk)?;
                self.cluster.shared.node(node).start(request(grant.clone(), *part), Vec::new())
            };
            let mut waiting = Vec::with_capacity(self.parts.len());
            let mut replies = Vec::with_capacity(self.parts.len());
            let mut done = Ok(());
            for part in &self.parts {
                match start(part) {
                    Ok(started) => waiting.push(started),
                    Err(error) => {
                        done = Err(error);
                        break;
                    }
                }
            }
            // All are waited for, also after a failure: nothing is under way afterwards.
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

    /// What closes it; from here on it is the caller who does.
    fn into_handle(mut self) -> u64 {
        self.is_closed_by_caller = true;
        self.handle
    }

    /// Its subfiles.
    pub(crate) fn parts(&self) -> &[SubfileLocation] {
        &self.parts
    }

    /// The cluster it belongs to.
    pub(crate) fn cluster_shared(&self) -> &crate::cluster::Shared {
        &self.cluster.shared
    }

    /// Nodes will write to it.
    pub(crate) fn note_work(&self) {
        self.note_write();
    }

    fn note_write(&self) {
        if !self.is_dirty.load(Ordering::Relaxed) {
            self.is_dirty.store(true, Ordering::SeqCst);
        }
    }

    fn striped(&self, action: &str) -> Result<&Striped, Error> {
        match &self.record.layout {
            Some(Layout::Striped(striped)) => Ok(striped),
            _ => Err(Error::invalid(format!(
                "{}: this is a file of extents; {action} extents instead of bytes",
                self.path
            ))),
        }
    }

    fn check_readable(&self) -> Result<(), Error> {
        if self.access.read {
            return self.check_locked();
        }
        Err(Error::invalid(format!("{}: the file was not opened for reading", self.path)))
    }

    fn check_writable(&self) -> Result<(), Error> {
        self.check_opened_for_writing()?;
        self.check_locked()
    }

    fn check_opened_for_writing(&self) -> Result<(), Error> {
        if self.access.write {
            return Ok(());
        }
        Err(Error::invalid(format!("{}: the file was not opened for writing", self.path)))
    }

    fn range(&self, offset: u64, len: usize) -> Result<ByteRange, Error> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= OFFSET_LIMIT);
        match (end, ByteRange::new(offset, len as u64)) {
            (Some(_), Ok(range)) => Ok(range),
            _ => Err(Error::invalid(format!(
                "{}: {len} bytes at offset {offset} end beyond the largest file, 2^62 bytes",
                self.path
            ))),
        }
    }

    /// A system call on a subfile failed.
    fn failed(&self, short_cut: &ShortCut, broken: &Broken) -> Error {
        let Broken { subfile, error } = broken;
        if error.kind() == std::io::ErrorKind::FileTooLarge {
            return Error::invalid(format!(
                "{}: a subfile would be too large for the file system of its disk: spread the file \
                 over more disks",
                self.path
            ));
        }
        let disk = self.parts.get(*subfile).map(|part| part.disk);
        let disk = disk.map_or_else(String::new, |id| self.cluster.shared.disk_name(id));
        let failure = match error.kind() {
            std::io::ErrorKind::StorageFull => pario_proto::Failure::DiskFull {
                disk,
                free_bytes: short_cut.free_bytes(*subfile),
                action: "cannot write".to_owned(),
            },
            _ => pario_proto::Failure::Disk { disk, why: error.to_string() },
        };
        Error::File { path: self.path.to_string(), failure }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !self.is_closed_by_caller {
            self.cluster.tell_names(NamespaceRequest::Close { handle: self.handle });
        }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({:?})", self.path.as_str())
    }
}
