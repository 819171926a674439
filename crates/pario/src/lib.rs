//! SKELETON: signatures only.
#![allow(unused_variables, clippy::todo, missing_docs)]
use std::path::Path;
use std::time::Duration;
pub use pario_proto::{
    Access, ByteRange, CheckDepth, CheckReport, CheckRequest, ClientStatus, ClusterMap, DiskId,
    DiskInfo, DiskStatus, ExtentMeasure, ExtentPlace, Failure, FileKind, FilePath, FileRecord,
    Finding, FindingKind, Identity, Layout, NodeInfo, NodeStatus, PathError, PeerStatus,
    SubfileMeasure,
};

#[derive(Debug, Clone)]
pub struct Cluster(());
/// How to get at a cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterOptions { pub short_cut: Option<bool>, pub key_file: Option<std::path::PathBuf>, pub timeout: Option<Duration>, pub client: Option<String> }

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)] Path(#[from] PathError),
    #[error("{0}")] Failure(Failure),          // what a node answered; already names path, node or disk
    #[error("{text}")] NotRunning { text: String },     // no cluster there; says both ways to get one
    #[error("{text}")] InUse { text: String },   // --data DIR that a server holds
    #[error("{text}")] NodeDown { node: String, text: String },
    #[error("{text}")] Other { text: String },
}
impl Error { pub fn kind(&self) -> std::io::ErrorKind { todo!() } }

impl Cluster {
    pub fn embedded(dir: impl AsRef<Path>) -> Result<Cluster, Error> { todo!() }
    pub fn embedded_with(dir: impl AsRef<Path>, options: ClusterOptions) -> Result<Cluster, Error> { todo!() }
    /// `unix:PATH`, `tcp:HOST:PORT`, a path of a socket, a data directory of a running node, or HOST:PORT.
    pub fn connect(address: &str) -> Result<Cluster, Error> { todo!() }
    pub fn connect_with(address: &str, options: ClusterOptions) -> Result<Cluster, Error> { todo!() }
    /// PARIO_CLUSTER; otherwise the user's running node.
    pub fn from_env() -> Result<Cluster, Error> { todo!() }
    pub fn from_env_with(options: ClusterOptions) -> Result<Cluster, Error> { todo!() }

    pub fn map(&self) -> ClusterMap { todo!() }
    pub fn options(&self) -> OpenOptions<'_> { todo!() }
    pub fn open(&self, path: &str) -> Result<File, Error> { todo!() }
    pub fn create(&self, path: &str) -> Result<File, Error> { todo!() }
    pub fn metadata(&self, path: &str) -> Result<Metadata, Error> { todo!() }
    /// Streamed in order of names; sizes are asked for in batches.
    pub fn list(&self, path: &str) -> Result<Listing, Error> { todo!() }
    /// The same without sizes: faster.
    pub fn list_names(&self, path: &str) -> Result<Listing, Error> { todo!() }
    pub fn make_directory(&self, path: &str) -> Result<(), Error> { todo!() }
    pub fn make_directories(&self, path: &str) -> Result<(), Error> { todo!() }
    pub fn remove_directory(&self, path: &str) -> Result<(), Error> { todo!() }
    pub fn remove(&self, path: &str) -> Result<(), Error> { todo!() }
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> { todo!() }
    pub fn set_mode(&self, path: &str, mode: u32) -> Result<(), Error> { todo!() }
    pub fn set_owner(&self, path: &str, uid: Option<u32>, gid: Option<u32>) -> Result<(), Error> { todo!() }
    /// Of each node, in the order of the map; a node that does not answer within the time is an Err for that node only.
    pub fn status(&self, within: Duration) -> Vec<(String, Result<NodeStatus, Error>)> { todo!() }
    pub fn check(&self, what: CheckRequest) -> Result<CheckReport, Error> { todo!() }
    /// All nodes, or one.
    pub fn stop(&self, node: Option<&str>) -> Result<Vec<String>, Error> { todo!() }
}

#[derive(Debug, Clone)]
pub struct OpenOptions<'c>(std::marker::PhantomData<&'c ()>);
impl OpenOptions<'_> {
    pub fn read(self, yes: bool) -> Self { todo!() }
    pub fn write(self, yes: bool) -> Self { todo!() }
    pub fn create(self, yes: bool) -> Self { todo!() }
    pub fn create_new(self, yes: bool) -> Self { todo!() }
    pub fn truncate(self, yes: bool) -> Self { todo!() }
    pub fn mode(self, mode: u32) -> Self { todo!() }
    /// Striping unit in bytes.
    pub fn unit(self, bytes: u64) -> Self { todo!() }
    /// Over so many disks.
    pub fn disk_count(self, count: u32) -> Self { todo!() }
    /// Over these disks: "node/label" or a number.
    pub fn disks<I: IntoIterator<Item = S>, S: Into<String>>(self, disks: I) -> Self { todo!() }
    /// A file of extents instead of bytes.
    pub fn extents(self) -> Self { todo!() }
    pub fn layout(self, layout: Layout) -> Self { todo!() }
    pub fn open(self, path: &str) -> Result<File, Error> { todo!() }
}

/// Read, Write and Seek on a private pointer; and explicit offsets from any number of threads.
#[derive(Debug)]
pub struct File(());
impl File {
    pub fn path(&self) -> &FilePath { todo!() }
    pub fn record(&self) -> &FileRecord { todo!() }
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> { todo!() }
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> { todo!() }
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> Result<(), Error> { todo!() }
    pub fn read_vectored_at(&self, buffers: &mut [std::io::IoSliceMut<'_>], offset: u64) -> Result<usize, Error> { todo!() }
    pub fn write_vectored_at(&self, buffers: &[std::io::IoSlice<'_>], offset: u64) -> Result<(), Error> { todo!() }
    /// Many ranges with one request per node; bytes one range after the other.
    pub fn read_list(&self, ranges: &[ByteRange], buffer: &mut [u8]) -> Result<usize, Error> { todo!() }
    pub fn write_list(&self, ranges: &[ByteRange], buffer: &[u8]) -> Result<(), Error> { todo!() }
    pub fn start_read(&self, offset: u64, len: usize) -> Result<ReadRequest, Error> { todo!() }
    pub fn start_write(&self, offset: u64, bytes: impl Into<bytes::Bytes>) -> Result<WriteRequest, Error> { todo!() }
    pub fn sync(&self) -> Result<(), Error> { todo!() }
    pub fn set_len(&self, len: u64) -> Result<(), Error> { todo!() }
    pub fn len(&self) -> Result<u64, Error> { todo!() }
    pub fn is_empty(&self) -> Result<bool, Error> { todo!() }
    pub fn metadata(&self) -> Result<Metadata, Error> { todo!() }
    /// Whether this process reads and writes the subfiles itself.
    pub fn has_short_cut(&self) -> bool { todo!() }
    pub fn read_extent(&self, place: ExtentPlace) -> Result<Option<Extent>, Error> { todo!() }
    pub fn write_extent(&self, place: ExtentPlace, header: &[u8], body: &[u8]) -> Result<(), Error> { todo!() }
    pub fn delete_extent(&self, place: ExtentPlace) -> Result<bool, Error> { todo!() }
    /// All extents, subfile after subfile, streamed.
    pub fn list_extents(&self) -> Result<Extents<'_>, Error> { todo!() }
    /// Closes the file, and says what a drop could not say. Syncs what was written.
    pub fn close(self) -> Result<(), Error> { todo!() }
}
impl std::io::Read for File { fn read(&mut self, b: &mut [u8]) -> std::io::Result<usize> { todo!() } }
impl std::io::Write for File { fn write(&mut self, b: &[u8]) -> std::io::Result<usize> { todo!() } fn flush(&mut self) -> std::io::Result<()> { todo!() } }
impl std::io::Seek for File { fn seek(&mut self, p: std::io::SeekFrom) -> std::io::Result<u64> { todo!() } }

pub struct ReadRequest(());
impl ReadRequest { pub fn wait(self) -> Result<bytes::Bytes, Error> { todo!() } pub fn is_done(&self) -> bool { todo!() } }
pub struct WriteRequest(());
impl WriteRequest { pub fn wait(self) -> Result<(), Error> { todo!() } pub fn is_done(&self) -> bool { todo!() } }

#[derive(Debug, Clone)]
pub struct Extent { pub header: bytes::Bytes, pub body: bytes::Bytes }
pub struct Extents<'f>(std::marker::PhantomData<&'f ()>);
impl Iterator for Extents<'_> { type Item = Result<(ExtentPlace, ExtentMeasure), Error>; fn next(&mut self) -> Option<Self::Item> { todo!() } }

/// Size, times, rights and where the bytes lie.
#[derive(Debug, Clone)]
pub struct Metadata { pub record: FileRecord, pub len: u64, pub modified_ns: u64, pub subfiles: Vec<SubfileMeasure> }
impl Metadata {
    pub fn is_directory(&self) -> bool { todo!() }
    /// Bytes on disks.
    pub fn disk_bytes(&self) -> u64 { todo!() }
}
#[derive(Debug, Clone)]
pub struct ListedEntry { pub name: String, pub record: FileRecord, pub measured: Option<Metadata> }
#[derive(Debug)]
pub struct Listing(());
impl Iterator for Listing { type Item = Result<ListedEntry, Error>; fn next(&mut self) -> Option<Self::Item> { todo!() } }
