//! Striping from C: `struct sattr` with `fcntl`, and the default that the environment gives to new
//! files.
//!
//! Disks have numbers from 0 on, in the order in which `pario df` lists them. A file begins on one
//! disk and goes on with the disks that follow; disk 0 follows the last one.

use std::io::SeekFrom;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use libc::c_int;
use pario::{Cluster, DEFAULT_UNIT_BYTES, DiskId, Error, FileRecord, Layout, SharedOpenOptions};

use crate::descriptors::{DescriptorEntry, FileHandle};
use crate::errors::{CallResult, EPFSLINVAL, ErrnoContext, ErrnoError, IntoCallResult};
use crate::opening;

/// `fcntl`: returns the striping of a file.
pub const F_GETSATTR: c_int = 0x5046_0001;
/// `fcntl`: sets the striping of an empty file.
pub const F_SETSATTR: c_int = 0x5046_0002;
/// `fcntl`: turns the buffers of the nodes on or off.
pub const F_PFS_SVR_BUF: c_int = 0x5046_0003;

/// The variables with the default for new files: bytes of a unit, number of disks, first disk.
const UNIT_VARIABLE: &str = "PARIO_STRIPE_UNIT";
const DISKS_VARIABLE: &str = "PARIO_STRIPE_DISKS";
const FIRST_VARIABLE: &str = "PARIO_STRIPE_FIRST";

/// The striping of a file, as C programs see it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct sattr {
    /// Bytes of a unit.
    pub s_sunitsize: c_int,
    /// The number of disks.
    pub s_sfactor: c_int,
    /// The first disk.
    pub s_start_sdir: c_int,
}

/// The striping of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striping {
    /// Bytes of a unit.
    pub unit_bytes: u64,
    /// The number of disks.
    pub disks: u32,
    /// The first disk.
    pub first: u32,
}

impl Striping {
    /// Returns the striping of a file; none for a directory and for a file of extents.
    pub fn of_record(cluster: &Cluster, record: &FileRecord) -> Option<Self> {
        let Some(Layout::Striped(striped)) = &record.layout else { return None };
        let disks = striped.disks();
        let first =
            all_disks(cluster).iter().position(|(id, _)| disks.as_slice().first() == Some(id));
        let first = first.and_then(|first| u32::try_from(first).ok()).unwrap_or(0);
        Some(Self { unit_bytes: striped.unit_bytes(), disks: disks.count(), first })
    }

    /// Returns the striping of files that are created without another choice. The cluster lets each
    /// file begin on another disk, unless the environment names one.
    pub fn of_new_files(cluster: &Cluster) -> CallResult<Self> {
        let default = StripingDefault::current().in_call(ErrnoContext::Open)?;
        let writable = all_disks(cluster).iter().filter(|(_, is_writable)| *is_writable).count();
        Ok(Self {
            unit_bytes: default.unit_bytes.unwrap_or(DEFAULT_UNIT_BYTES),
            disks: default.disks.unwrap_or(u32::try_from(writable).unwrap_or(u32::MAX)),
            first: default.first.unwrap_or(0),
        })
    }
}

/// Implements `F_GETSATTR`.
pub fn get(open: &DescriptorEntry) -> CallResult<sattr> {
    let file = open.file()?;
    let cluster = open.files.cluster();
    let Some(striping) = Striping::of_record(cluster, file.file().record()) else {
        let why = format!("{}: a file of extents has no striping", open.path);
        return Err(ErrnoError::new(libc::EINVAL, why));
    };
    let too_large = || {
        let why = format!("{}: its striping unit is beyond what an int holds", open.path);
        ErrnoError::new(libc::EOVERFLOW, why)
    };
    Ok(sattr {
        s_sunitsize: c_int::try_from(striping.unit_bytes).map_err(|_| too_large())?,
        s_sfactor: c_int::try_from(striping.disks).map_err(|_| too_large())?,
        s_start_sdir: c_int::try_from(striping.first).map_err(|_| too_large())?,
    })
}

/// Implements `F_SETSATTR`: replaces the empty file, and opens it again for this descriptor.
pub fn set(open: &DescriptorEntry, wanted: sattr) -> CallResult<()> {
    let refused = |why: String| ErrnoError::new(libc::EINVAL, format!("{}: {why}", open.path));
    let cluster = open.files.cluster();
    let FileHandle { file, is_single } = open.handle()?;
    let all = all_disks(cluster);
    let within = |value: c_int, low: usize, high: usize| {
        usize::try_from(value).ok().filter(|value| (low..=high).contains(value))
    };
    let unit_bytes = u64::try_from(wanted.s_sunitsize).ok().filter(|bytes| *bytes > 0);
    let unit_bytes = unit_bytes.ok_or_else(|| {
        refused(format!("a striping unit of {} bytes is not possible", wanted.s_sunitsize))
    })?;
    let count = within(wanted.s_sfactor, 1, all.len()).ok_or_else(|| {
        let (wanted, count) = (wanted.s_sfactor, all.len());
        refused(format!(
            "a stripe factor of {wanted} is not possible: the cluster has {count} disks"
        ))
    })?;
    let first = within(wanted.s_start_sdir, 0, all.len() - 1).ok_or_else(|| {
        let (wanted, last) = (wanted.s_start_sdir, all.len() - 1);
        refused(format!("there is no disk {wanted} to begin with: the disks are 0 to {last}"))
    })?;
    if get(open)? == wanted {
        return Ok(());
    }
    if open.flags & libc::O_ACCMODE == libc::O_RDONLY {
        let why = format!("{}: its striping needs an open for writing", open.path);
        return Err(ErrnoError::new(libc::EBADF, why));
    }
    let disks = disks_from(&all, first, Some(count)).map_err(refused)?;
    let at = file.position().in_call(ErrnoContext::Other)?;
    file.file().set_striping(unit_bytes, &disks).map_err(|error| {
        let failed = ErrnoError::from_error(&error, ErrnoContext::Open);
        let number = if failed.number == EPFSLINVAL { libc::EINVAL } else { failed.number };
        ErrnoError { number, ..failed }
    })?;
    let opener = FileHandle { file: file.clone(), is_single };
    let again = opening::reopen(open, &opener).in_call(ErrnoContext::Open)?;
    again.seek(SeekFrom::Start(at)).in_call(ErrnoContext::Other)?;
    drop(opener);
    drop(open.replace(FileHandle { file: Arc::new(again), is_single }));
    match Arc::into_inner(file) {
        Some(file) => file.close().in_call(ErrnoContext::Other),
        None => Ok(()),
    }
}

/// Implements `F_PFS_SVR_BUF`.
pub fn set_node_buffers(path: &str, value: c_int) -> CallResult<()> {
    let refused = |number: c_int, why: &str| Err(ErrnoError::new(number, format!("{path}: {why}")));
    match value {
        1 => Ok(()),
        0 => refused(
            libc::EOPNOTSUPP,
            "the nodes always buffer: use fsync, or open with O_SYNC, for durable writes",
        ),
        _ => refused(libc::EINVAL, "F_PFS_SVR_BUF takes TRUE or FALSE"),
    }
}

/// Gives a new file the striping of the environment.
pub fn with_default<'f>(
    options: SharedOpenOptions<'f>,
    cluster: &Cluster,
) -> Result<SharedOpenOptions<'f>, Error> {
    let StripingDefault { unit_bytes, disks, first } = StripingDefault::current()?;
    let options = match unit_bytes {
        Some(bytes) => options.unit(bytes),
        None => options,
    };
    Ok(match (disks, first) {
        (None, None) => options,
        (Some(count), None) => options.disk_count(count),
        (count, Some(first)) => {
            let chosen = default_disks(cluster, first, count)?;
            options.disks(chosen.iter().map(|id| id.0.to_string()))
        }
    })
}

/// Checks the striping of the environment. A collective open does so before it involves the other
/// processes.
pub fn check_default(cluster: &Cluster) -> Result<(), Error> {
    let StripingDefault { disks, first, .. } = StripingDefault::current()?;
    first.map_or(Ok(()), |first| default_disks(cluster, first, disks).map(|_| ()))
}

/// Returns the disks that the environment gives to new files.
fn default_disks(cluster: &Cluster, first: u32, count: Option<u32>) -> Result<Vec<DiskId>, Error> {
    let count = count.map(|count| count as usize);
    disks_from(&all_disks(cluster), first as usize, count).map_err(|why| Error::Invalid {
        text: format!("{FIRST_VARIABLE} and {DISKS_VARIABLE}: {why}"),
    })
}

/// The striping that the environment gives to new files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StripingDefault {
    unit_bytes: Option<u64>,
    disks: Option<u32>,
    first: Option<u32>,
}

impl StripingDefault {
    /// Returns the default of this process. The environment is read once, at the first open.
    fn current() -> Result<Self, Error> {
        static DEFAULT: OnceLock<Result<StripingDefault, String>> = OnceLock::new();
        let variable =
            |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into());
        let known = DEFAULT.get_or_init(|| Self::new(variable));
        known.clone().map_err(|text| Error::Invalid { text })
    }

    fn new(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        let unit_bytes = match value(UNIT_VARIABLE) {
            Some(text) => Some(bytes_of(&text).ok_or_else(|| {
                format!("{UNIT_VARIABLE} is {text:?}: set it to a size such as 65536, 64K or 1M")
            })?),
            None => None,
        };
        let number = |name: &str, least: u32| match value(name) {
            Some(text) => match u32::from_str(&text) {
                Ok(number) if number >= least => Ok(Some(number)),
                _ => Err(format!("{name} is {text:?}: set it to a number, at least {least}")),
            },
            None => Ok(None),
        };
        let (disks, first) = (number(DISKS_VARIABLE, 1)?, number(FIRST_VARIABLE, 0)?);
        Ok(Self { unit_bytes, disks, first })
    }
}

/// Reads a size: a number of bytes, or of KiB, MiB or GiB.
fn bytes_of(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let shift = match suffix.trim() {
        "" | "B" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        _ => return None,
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

/// Returns all disks of the cluster, and whether each can be written to.
fn all_disks(cluster: &Cluster) -> Vec<(DiskId, bool)> {
    let nodes = cluster.map().nodes;
    nodes.iter().flat_map(|node| &node.disks).map(|disk| (disk.id, !disk.is_read_only)).collect()
}

/// Returns the disks of a file that begins on a disk: `count` of them, or all. Read-only disks are
/// left out.
fn disks_from(
    all: &[(DiskId, bool)],
    first: usize,
    count: Option<usize>,
) -> Result<Vec<DiskId>, String> {
    match all.get(first) {
        Some((_, true)) => {}
        Some((_, false)) => return Err(format!("disk {first} is read-only: begin with another")),
        None => {
            return Err(format!(
                "there is no disk {first} to begin with: the cluster has {} disks, from 0 on",
                all.len()
            ));
        }
    }
    let rotated = all[first..].iter().chain(&all[..first]);
    let writable: Vec<DiskId> =
        rotated.filter(|(_, is_writable)| *is_writable).map(|(id, _)| *id).collect();
    let count = count.unwrap_or(writable.len());
    if count > writable.len() {
        return Err(format!(
            "{count} disks are not possible: {} of the cluster can be written to",
            writable.len()
        ));
    }
    Ok(writable[..count].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default_of(variables: &[(&str, &str)]) -> Result<StripingDefault, String> {
        StripingDefault::new(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_gives_a_default() {
        assert_eq!(default_of(&[]), Ok(StripingDefault::default()));
        let all = [(UNIT_VARIABLE, "1M"), (DISKS_VARIABLE, "2"), (FIRST_VARIABLE, "0")];
        let expected =
            StripingDefault { unit_bytes: Some(1 << 20), disks: Some(2), first: Some(0) };
        assert_eq!(default_of(&all), Ok(expected));
        for (name, value) in [
            (UNIT_VARIABLE, "0"),
            (UNIT_VARIABLE, "large"),
            (UNIT_VARIABLE, "99999999999999999999"),
            (UNIT_VARIABLE, "18446744073709551615G"),
            (DISKS_VARIABLE, "0"),
            (DISKS_VARIABLE, "-1"),
            (FIRST_VARIABLE, "a/disk0"),
        ] {
            let why = default_of(&[(name, value)]).unwrap_err();
            assert!(why.starts_with(&format!("{name} is {value:?}: set it to ")), "{why}");
        }
    }

    #[test]
    fn sizes_have_suffixes() {
        let known = [("65536", 65536), ("64K", 65536), ("1 MiB", 1 << 20), ("2g", 2 << 30)];
        for (text, bytes) in known {
            assert_eq!(bytes_of(text), Some(bytes), "{text}");
        }
        for text in ["", "K", "1.5M", "-1", "0K", "1X"] {
            assert_eq!(bytes_of(text), None, "{text}");
        }
    }

    #[test]
    fn files_begin_on_a_disk_and_leave_read_only_ones_out() {
        let all = [(DiskId(7), true), (DiskId(3), false), (DiskId(5), true), (DiskId(9), true)];
        let from = |first, count| disks_from(&all, first, count);
        assert_eq!(from(2, Some(2)), Ok(vec![DiskId(5), DiskId(9)]));
        assert_eq!(from(3, None), Ok(vec![DiskId(9), DiskId(7), DiskId(5)]));
        assert!(from(1, None).unwrap_err().contains("read-only"));
        assert!(from(4, None).unwrap_err().contains("no disk 4"));
        assert!(from(0, Some(4)).unwrap_err().contains("3 of the cluster"));
    }
}
