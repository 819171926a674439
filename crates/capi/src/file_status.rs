//! The status of shared files as the system's calls return it: `struct stat` and `struct statx`.

use pario::{Cluster, FileKind, FileRecord, Metadata};

use crate::descriptors::DescriptorEntry;
use crate::errors::{CallResult, ErrnoContext, IntoCallResult};
use crate::process;

/// The block size that programs should use: the default striping unit.
const BLOCK_BYTES: u32 = 1 << 16;
const SECOND_NS: u64 = 1_000_000_000;

/// Returns the status of an open file or directory.
pub fn of_descriptor(open: &DescriptorEntry) -> CallResult<libc::stat> {
    Ok(stat_of(open.files.cluster(), &metadata_of_descriptor(open)?))
}

/// Returns the metadata of an open file or directory.
pub fn metadata_of_descriptor(open: &DescriptorEntry) -> CallResult<Metadata> {
    if open.is_directory() {
        return open.files.cluster().metadata(&open.path).in_call(ErrnoContext::Open);
    }
    let file = open.file()?;
    // Writes that this process has started count.
    let issued = file.issued_end();
    let mut known = file.file().metadata().in_call(ErrnoContext::Other)?;
    known.len = known.len.max(issued);
    // The open file has the permissions from the time of its open. A file without a name keeps them.
    if let Ok(record) = open.files.cluster().record(&open.path)
        && record.id == known.record.id
    {
        known.record = record;
    }
    Ok(known)
}

/// Converts metadata to a `struct stat`.
pub fn stat_of(cluster: &Cluster, known: &Metadata) -> libc::stat {
    // SAFETY: all-zero bytes are a valid `struct stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let (major, minor) = device_of(cluster);
    stat.st_dev = libc::makedev(major, minor);
    stat.st_ino = inode_of(&known.record);
    stat.st_mode = mode_of(&known.record);
    stat.st_nlink = 1;
    stat.st_uid = known.record.uid;
    stat.st_gid = known.record.gid;
    stat.st_size = clipped(known.len);
    stat.st_blksize = BLOCK_BYTES.into();
    stat.st_blocks = clipped(known.disk_bytes() / 512);
    let times = |ns: u64| (clipped(ns / SECOND_NS), clipped(ns % SECOND_NS));
    (stat.st_mtime, stat.st_mtime_nsec) = times(known.modified_ns);
    (stat.st_atime, stat.st_atime_nsec) = (stat.st_mtime, stat.st_mtime_nsec);
    (stat.st_ctime, stat.st_ctime_nsec) = times(known.record.changed_ns);
    stat
}

/// Converts metadata to a `struct statx`.
pub fn statx_of(cluster: &Cluster, known: &Metadata) -> libc::statx {
    // SAFETY: all-zero bytes are a valid `struct statx`.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    let time = |ns: u64| {
        // SAFETY: all-zero bytes are a valid `struct statx_timestamp`.
        let mut time: libc::statx_timestamp = unsafe { std::mem::zeroed() };
        time.tv_sec = clipped(ns / SECOND_NS);
        time.tv_nsec = u32::try_from(ns % SECOND_NS).unwrap_or(0);
        time
    };
    stat.stx_mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    (stat.stx_dev_major, stat.stx_dev_minor) = device_of(cluster);
    stat.stx_ino = inode_of(&known.record);
    stat.stx_mode = u16::try_from(mode_of(&known.record)).unwrap_or(0);
    stat.stx_nlink = 1;
    stat.stx_uid = known.record.uid;
    stat.stx_gid = known.record.gid;
    stat.stx_size = known.len;
    stat.stx_blksize = BLOCK_BYTES;
    stat.stx_blocks = known.disk_bytes() / 512;
    stat.stx_mtime = time(known.modified_ns);
    stat.stx_atime = stat.stx_mtime;
    stat.stx_ctime = time(known.record.changed_ns);
    stat.stx_btime = time(known.record.created_ns);
    stat
}

/// Returns the inode number of a file or directory, never 0.
pub fn inode_of(record: &FileRecord) -> u64 {
    process::hash_of(&record.id.to_string()) | 1
}

/// Returns the device of all files of a cluster. The major number is one that Linux does not use.
fn device_of(cluster: &Cluster) -> (u32, u32) {
    let minor = process::hash_of(&cluster.map().name) & 0xf_ffff;
    (4095, u32::try_from(minor).unwrap_or(0))
}

fn mode_of(record: &FileRecord) -> u32 {
    let kind = match record.kind {
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Flat | FileKind::Extents => libc::S_IFREG,
    };
    kind | record.mode & 0o7777
}

fn clipped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
