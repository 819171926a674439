//! The space of the cluster as the system's calls return it (`statvfs`, `statfs`), and the Paragon's
//! `statpfs`.

use std::collections::HashMap;
use std::ffi::CStr;
use std::time::Duration;

use libc::{c_char, c_int, c_long, c_uint};
use pario::Cluster;

use crate::boundary::return_errno;
use crate::by_name::{by_name, write_to};
use crate::errors::{CallResult, ErrnoContext, ErrnoError, IntoCallResult};
use crate::striping::Striping;
use crate::{descriptors, plain_files, process};

/// The type of the cluster's file system in `struct statfs`: "PARI".
pub const PARIO_SUPER_MAGIC: c_long = 0x5041_5249;

/// The type of a plain file system of this machine, in `struct estatfs`.
pub const MOUNT_UFS: c_int = 1;
/// The type of a file system that another machine serves by NFS.
pub const MOUNT_NFS: c_int = 2;
/// The type of the cluster.
pub const MOUNT_PFS: c_int = 19;

const BLOCK_BYTES: u64 = 4096;
/// Nodes that do not answer in time count as nodes without disks.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// What `statpfs` says of a file system. Sizes are in blocks of 1024 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct estatfs {
    /// `MOUNT_PFS`, `MOUNT_NFS` or `MOUNT_UFS`.
    pub f_type: c_int,
    /// Bytes of a block: 1024.
    pub f_bsize: c_int,
    /// All blocks.
    pub f_blocks: c_long,
    /// Free blocks.
    pub f_bfree: c_long,
    /// Free blocks that this user may use.
    pub f_bavail: c_long,
    /// All files that the file system can hold; 0 if it has no limit.
    pub f_files: c_long,
    /// Files that can still be created; 0 if there is no limit.
    pub f_ffree: c_long,
}

/// How `statpfs` describes the striping of a new file, or of the file with the given name.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct statpfs_t {
    /// Bytes of this structure.
    pub p_reclen: c_uint,
    /// The striping unit.
    pub p_sunitsize: c_uint,
    /// The number of disks.
    pub p_sfactor: c_uint,
    /// The first disk.
    pub p_start_sdir: c_uint,
}

/// `statvfs`.
///
/// # Safety
/// `name` is null or a NUL-terminated string; `to` is null or points to a `struct statvfs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_statvfs(name: *const c_char, to: *mut libc::statvfs) -> c_int {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated, and the caller guarantees `to`.
        plain_files::check_int(unsafe { libc::statvfs(own.as_ptr(), to) })
    };
    let shared = |cluster: &Cluster, path: &str| {
        let space = space_at(cluster, path)?;
        // SAFETY: the caller guarantees it.
        unsafe { write_to(to, space.statvfs(), "the struct statvfs") }
    };
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { by_name(libc::AT_FDCWD, name, plain, shared) })
}

/// `fstatvfs`.
///
/// # Safety
/// `to` is null or points to a `struct statvfs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_fstatvfs(fd: c_int, to: *mut libc::statvfs) -> c_int {
    return_errno(|| match descriptors::find(fd)? {
        // SAFETY: the caller guarantees it.
        Some(open) => unsafe {
            write_to(to, space_of(open.files.cluster()).statvfs(), "the struct statvfs")
        },
        // SAFETY: the caller guarantees it.
        None => plain_files::check_int(unsafe { libc::fstatvfs(fd, to) }),
    })
}

/// `statfs`.
///
/// # Safety
/// `name` is null or a NUL-terminated string; `to` is null or points to a `struct statfs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_statfs(name: *const c_char, to: *mut libc::statfs) -> c_int {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated, and the caller guarantees `to`.
        plain_files::check_int(unsafe { libc::statfs(own.as_ptr(), to) })
    };
    let shared = |cluster: &Cluster, path: &str| {
        let space = space_at(cluster, path)?;
        // SAFETY: the caller guarantees it.
        unsafe { write_to(to, space.statfs(), "the struct statfs") }
    };
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { by_name(libc::AT_FDCWD, name, plain, shared) })
}

/// `fstatfs`.
///
/// # Safety
/// `to` is null or points to a `struct statfs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_fstatfs(fd: c_int, to: *mut libc::statfs) -> c_int {
    return_errno(|| match descriptors::find(fd)? {
        // SAFETY: the caller guarantees it.
        Some(open) => unsafe {
            write_to(to, space_of(open.files.cluster()).statfs(), "the struct statfs")
        },
        // SAFETY: the caller guarantees it.
        None => plain_files::check_int(unsafe { libc::fstatfs(fd, to) }),
    })
}

/// The Paragon's `statpfs`: which kind of file system has a file or directory, and how the file is
/// striped. `striping` may be null; otherwise `bytes` is the size of its memory. Of a plain file it
/// gets zeros.
///
/// # Safety
/// `name` is null or a NUL-terminated string; `to` is null or points to a `struct estatfs`;
/// `striping` is null or points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statpfs(
    name: *const c_char,
    to: *mut estatfs,
    striping: *mut statpfs_t,
    bytes: c_int,
) -> c_int {
    let needed = size_of::<statpfs_t>();
    let is_too_small = || usize::try_from(bytes).is_ok_and(|bytes| bytes < needed) || bytes < 0;
    return_errno(|| {
        if !striping.is_null() && is_too_small() {
            let why = format!("{bytes} bytes are too few for a struct statpfs: it has {needed}");
            return Err(ErrnoError::new(libc::EINVAL, why));
        }
        // SAFETY: the caller guarantees it.
        let (system, known) =
            unsafe { by_name(libc::AT_FDCWD, name, plain_statpfs, shared_statpfs) }?;
        if !striping.is_null() {
            // SAFETY: the memory is large enough, as the caller guarantees.
            unsafe { striping.write_unaligned(known) };
        }
        // SAFETY: the caller guarantees it.
        unsafe { write_to(to, system, "the struct estatfs") }
    })
}

fn plain_statpfs(own: &CStr) -> CallResult<(estatfs, statpfs_t)> {
    let mut known = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: a `CStr` is NUL-terminated; the memory is local and large enough.
    plain_files::check_int(unsafe { libc::statfs(own.as_ptr(), known.as_mut_ptr()) })?;
    // SAFETY: the successful call has filled it.
    let known = unsafe { known.assume_init() };
    let is_nfs = known.f_type == libc::NFS_SUPER_MAGIC;
    let block = u64::try_from(known.f_bsize).unwrap_or(BLOCK_BYTES);
    let kilobytes = |blocks: u64| clipped(blocks.saturating_mul(block) / 1024);
    let system = estatfs {
        f_type: if is_nfs { MOUNT_NFS } else { MOUNT_UFS },
        f_bsize: 1024,
        f_blocks: kilobytes(known.f_blocks),
        f_bfree: kilobytes(known.f_bfree),
        f_bavail: kilobytes(known.f_bavail),
        f_files: clipped(known.f_files),
        f_ffree: clipped(known.f_ffree),
    };
    Ok((system, statpfs_t::new(0, 0, 0)))
}

fn shared_statpfs(cluster: &Cluster, path: &str) -> CallResult<(estatfs, statpfs_t)> {
    let record = cluster.record(path).in_call(ErrnoContext::Open)?;
    let Striping { unit_bytes, disks, first } = match Striping::of_record(cluster, &record) {
        Some(striping) => striping,
        None => Striping::of_new_files(cluster)?,
    };
    let space = space_of(cluster);
    let free = clipped(space.free_bytes / 1024);
    let system = estatfs {
        f_type: MOUNT_PFS,
        f_bsize: 1024,
        f_blocks: clipped(space.total_bytes / 1024),
        f_bfree: free,
        f_bavail: free,
        f_files: 0,
        f_ffree: 0,
    };
    let unit = u32::try_from(unit_bytes).unwrap_or(u32::MAX);
    Ok((system, statpfs_t::new(unit, disks, first)))
}

impl statpfs_t {
    fn new(unit: u32, disks: u32, first: u32) -> Self {
        let p_reclen = u32::try_from(size_of::<Self>()).unwrap_or(0);
        Self { p_reclen, p_sunitsize: unit, p_sfactor: disks, p_start_sdir: first }
    }
}

/// The space of all disks of a cluster.
#[derive(Clone, Copy, Debug, Default)]
struct ClusterSpace {
    total_bytes: u64,
    free_bytes: u64,
    id: u64,
}

/// Returns the space of the cluster. Fails if the file or directory does not exist.
fn space_at(cluster: &Cluster, path: &str) -> CallResult<ClusterSpace> {
    cluster.record(path).in_call(ErrnoContext::Open)?;
    Ok(space_of(cluster))
}

/// Adds up the disks. Disks that share a file system count once.
fn space_of(cluster: &Cluster) -> ClusterSpace {
    let known = cluster.file_systems(STATUS_TIMEOUT);
    let mut systems: HashMap<String, (u64, u64)> = HashMap::new();
    for (node, status) in cluster.status(STATUS_TIMEOUT) {
        let Ok(status) = status else { continue };
        for (number, disk) in status.disks.iter().enumerate() {
            let key = match known.get(&(node.clone(), number)) {
                Some(id) => format!("{id:?}"),
                None => format!("{node}/{number}"),
            };
            let (total, free) = systems.entry(key).or_insert((0, u64::MAX));
            *total = disk.total_bytes.max(*total);
            *free = disk.free_bytes.min(*free);
        }
    }
    let id = process::hash_of(&cluster.map().name);
    let add = |space: ClusterSpace, (total, free): &(u64, u64)| ClusterSpace {
        total_bytes: space.total_bytes.saturating_add(*total),
        free_bytes: space.free_bytes.saturating_add(*free),
        id,
    };
    systems.values().fold(ClusterSpace { id, ..ClusterSpace::default() }, add)
}

impl ClusterSpace {
    fn statvfs(self) -> libc::statvfs {
        // SAFETY: all-zero bytes are a valid `struct statvfs`.
        let mut to: libc::statvfs = unsafe { std::mem::zeroed() };
        (to.f_bsize, to.f_frsize) = (BLOCK_BYTES, BLOCK_BYTES);
        to.f_blocks = self.total_bytes / BLOCK_BYTES;
        (to.f_bfree, to.f_bavail) = (self.free_bytes / BLOCK_BYTES, self.free_bytes / BLOCK_BYTES);
        to.f_fsid = self.id;
        to.f_namemax = 255;
        to
    }

    fn statfs(self) -> libc::statfs {
        // SAFETY: all-zero bytes are a valid `struct statfs`.
        let mut to: libc::statfs = unsafe { std::mem::zeroed() };
        to.f_type = PARIO_SUPER_MAGIC;
        (to.f_bsize, to.f_frsize) = (clipped(BLOCK_BYTES), clipped(BLOCK_BYTES));
        to.f_blocks = self.total_bytes / BLOCK_BYTES;
        (to.f_bfree, to.f_bavail) = (self.free_bytes / BLOCK_BYTES, self.free_bytes / BLOCK_BYTES);
        to.f_namelen = 255;
        to
    }
}

fn clipped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
