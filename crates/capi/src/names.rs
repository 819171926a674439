//! The rule of file names: a plain file of this process, a shared file of the cluster, or another
//! plain file.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_char, c_int};
use parking_lot::Mutex;

use crate::errors::{CallResult, ErrnoError};
use crate::{descriptors, process};

/// Replaced by the rank of the process.
const RANK_PLACEHOLDER: &str = "###";
/// Marks names of shared files, unless `PARIO_PREFIX` names their directory.
const SHARED_MARKER: &str = "pfs";
/// The variable that limits shared files to one directory.
const PREFIX_VARIABLE: &str = "PARIO_PREFIX";

/// The file that a name stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum NameTarget {
    /// A file of the system.
    Plain(CString),
    /// A shared file, at this path of the cluster.
    Shared(String),
}

/// Decides which names are those of shared files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// The rule of the manual: names that contain `pfs`.
    Manual,
    /// Names of a directory and below it.
    Below(String),
    /// `PARIO_PREFIX` has this value, which names no directory. Names that contain `pfs` are
    /// refused, so that no file is written to an unexpected place.
    Invalid(String),
}

/// The part of the rule that a name matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameMatch {
    /// It contains `###`: a plain file of this process.
    Number,
    /// It contains `pfs`: a shared file.
    Contains,
    /// It is `PARIO_PREFIX` or below it: a shared file.
    Below,
    /// It is relative, and the working directory is a shared one: a shared file.
    Relative,
    /// It leads out of `PARIO_PREFIX` by `..`: the plain file at the path that results.
    Leaves,
}

/// The working directory, while it is a shared one. The system knows no shared directories, so the
/// process' own working directory stays where it is.
static SHARED_DIRECTORY: Mutex<Option<String>> = Mutex::new(None);
/// Whether there is one: names are compared without the lock otherwise.
static HAS_SHARED_DIRECTORY: AtomicBool = AtomicBool::new(false);

/// Makes a shared directory the working directory, or none.
pub fn set_shared_directory(path: Option<String>) {
    let mut current = SHARED_DIRECTORY.lock();
    HAS_SHARED_DIRECTORY.store(path.is_some(), Ordering::Release);
    *current = path;
}

/// Returns the working directory if it is a shared one.
pub fn shared_directory() -> Option<String> {
    if !HAS_SHARED_DIRECTORY.load(Ordering::Acquire) {
        return None;
    }
    SHARED_DIRECTORY.lock().clone()
}

impl NameRule {
    /// Returns the rule of this process. The environment is read once, at the first name.
    pub fn current() -> &'static Self {
        static RULE: OnceLock<NameRule> = OnceLock::new();
        RULE.get_or_init(|| Self::new(std::env::var_os(PREFIX_VARIABLE).as_deref()))
    }

    fn new(prefix: Option<&OsStr>) -> Self {
        let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) else { return Self::Manual };
        let directory = prefix.to_str().filter(|prefix| prefix.starts_with('/')).map(without_dots);
        match directory {
            Some(directory) if directory != "/" => Self::Below(directory),
            _ => Self::Invalid(prefix.to_string_lossy().into_owned()),
        }
    }

    /// Returns what a name matches; none for a plain name.
    pub fn matched(&self, name: &str) -> Option<NameMatch> {
        if name.contains(RANK_PLACEHOLDER) {
            return Some(NameMatch::Number);
        }
        let is_relative_to_shared = !name.starts_with('/') && shared_directory().is_some();
        match self {
            Self::Manual | Self::Invalid(_) if is_relative_to_shared => Some(NameMatch::Relative),
            Self::Manual | Self::Invalid(_) => {
                name.contains(SHARED_MARKER).then_some(NameMatch::Contains)
            }
            Self::Below(directory) => {
                let is_below = |path: &str| {
                    let rest = path.strip_prefix(directory.as_str());
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                match is_below(&path(name).ok()?) {
                    true if is_relative_to_shared => Some(NameMatch::Relative),
                    true => Some(NameMatch::Below),
                    false => (is_relative_to_shared || is_below(name)).then_some(NameMatch::Leaves),
                }
            }
        }
    }

    fn resolve(
        &self,
        name: &str,
        rank: impl FnOnce() -> CallResult<u32>,
    ) -> CallResult<NameTarget> {
        match (self.matched(name), self) {
            (None, _) => plain(name),
            (Some(NameMatch::Number), _) => {
                plain(&name.replace(RANK_PLACEHOLDER, &format!("{:03}", rank()?)))
            }
            (Some(NameMatch::Leaves), _) => plain(&path(name)?),
            (Some(_), Self::Invalid(value)) => Err(ErrnoError::invalid(format!(
                "{name}: {PREFIX_VARIABLE} is {value:?}, which is no directory for shared files: \
                 set it to an absolute path such as /pfs, or unset it"
            ))),
            (Some(_), _) => Ok(NameTarget::Shared(path(name)?)),
        }
    }
}

/// Copies a name from C. Fails if it is null, empty or not UTF-8.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
pub unsafe fn from_c(name: *const c_char) -> CallResult<String> {
    if name.is_null() {
        return Err(ErrnoError::null_pointer("the file name"));
    }
    // SAFETY: it is not null, and the caller guarantees a NUL at its end.
    let name = unsafe { CStr::from_ptr(name) };
    match name.to_str() {
        Ok("") => Err(ErrnoError::new(libc::ENOENT, "the file name is empty")),
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(ErrnoError::invalid(format!("{name:?}: the file name is not UTF-8"))),
    }
}

/// Returns the file that a name stands for in this process.
pub fn resolve(name: &str, rank: impl FnOnce() -> CallResult<u32>) -> CallResult<NameTarget> {
    NameRule::current().resolve(name, rank)
}

/// Returns the file that a name stands for in this process. A relative name starts at the directory
/// of the descriptor; `AT_FDCWD` is the working directory.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
pub unsafe fn resolve_at(directory: c_int, name: *const c_char) -> CallResult<NameTarget> {
    if name.is_null() {
        return Err(ErrnoError::null_pointer("the file name"));
    }
    // SAFETY: it is not null, and the caller guarantees a NUL at its end.
    let raw = unsafe { CStr::from_ptr(name) };
    let text = raw.to_string_lossy();
    let is_relative = directory != libc::AT_FDCWD && !text.starts_with('/');
    let base = if is_relative { descriptors::find(directory)? } else { None };
    let is_shared = match (&base, is_relative) {
        (Some(open), _) if !open.is_directory() => {
            let why = format!("{}: it is not a directory", open.path);
            return Err(ErrnoError::new(libc::ENOTDIR, why));
        }
        (Some(_), _) => true,
        (None, true) => false,
        (None, false) => NameRule::current().matched(&text).is_some(),
    };
    if !is_shared || text.is_empty() {
        // The system reports an empty name.
        return Ok(NameTarget::Plain(raw.to_owned()));
    }
    // SAFETY: the caller guarantees it.
    let name = unsafe { from_c(name) }?;
    match base {
        Some(open) => Ok(NameTarget::Shared(without_dots(&format!("{}/{name}", open.path)))),
        None => resolve(&name, || process::size_and_rank().map(|(_, rank)| rank)),
    }
}

/// Adds to the error about a file that the cluster does not have that a Unix file has its name, and
/// how to copy it into the cluster.
pub fn with_put_hint(mut failed: ErrnoError, path: &str) -> ErrnoError {
    let is_unix_file = || std::fs::metadata(path).is_ok_and(|known| known.is_file());
    if failed.number == libc::ENOENT && is_unix_file() {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        failed.text = format!(
            "{path}: the cluster has no such file, but a Unix file has this name: copy it into the \
             cluster with `pario put {path} {directory}/`"
        );
    }
    failed
}

fn plain(name: &str) -> CallResult<NameTarget> {
    CString::new(name)
        .map(NameTarget::Plain)
        .map_err(|_| ErrnoError::new(libc::EINVAL, "the file name contains a NUL byte"))
}

/// Returns the path of a shared file. A relative name starts at the working directory.
pub fn path(name: &str) -> CallResult<String> {
    if name.starts_with('/') {
        return Ok(without_dots(name));
    }
    if let Some(here) = shared_directory() {
        return Ok(without_dots(&format!("{here}/{name}")));
    }
    let here = rustix::process::getcwd(Vec::new())?;
    match OsStr::from_bytes(here.to_bytes()).to_str() {
        Some(here) => Ok(without_dots(&format!("{here}/{name}"))),
        None => Err(ErrnoError::invalid("the path of the working directory is not UTF-8")),
    }
}

/// Resolves `.` and `..`, which paths of a cluster do not have.
fn without_dots(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(name: &str) -> NameTarget {
        NameRule::Manual.resolve(name, || Ok(7)).unwrap()
    }

    fn is_plain(name: &str, expected: &str) {
        assert_eq!(resolved(name), NameTarget::Plain(CString::new(expected).unwrap()));
    }

    #[test]
    fn names_mean_what_the_manual_says() {
        is_plain("/data/x", "/data/x");
        is_plain("x.###", "x.007");
        is_plain("/pfs/x.###", "/pfs/x.007");
        is_plain("####", "007#");
        assert_eq!(resolved("/pfs/x"), NameTarget::Shared("/pfs/x".to_owned()));
        assert_eq!(resolved("/mypfs//a/./b/../c"), NameTarget::Shared("/mypfs/a/c".to_owned()));
        let here = std::env::current_dir().unwrap();
        let there = here.join("x.pfs").to_str().unwrap().to_owned();
        assert_eq!(resolved("x.pfs"), NameTarget::Shared(there));
        assert_eq!(resolved("/../pfs"), NameTarget::Shared("/pfs".to_owned()));
    }

    #[test]
    fn ranks_beyond_three_digits_keep_all_digits() {
        let name = NameRule::Manual.resolve("a###b###", || Ok(12_345)).unwrap();
        assert_eq!(name, NameTarget::Plain(CString::new("a12345b12345").unwrap()));
    }

    #[test]
    fn a_prefix_limits_shared_files_to_one_directory() {
        let rule = NameRule::new(Some("/scratch//pario/".as_ref()));
        assert_eq!(rule, NameRule::Below("/scratch/pario".to_owned()));
        assert_eq!(rule.matched("/scratch/pario/x"), Some(NameMatch::Below));
        assert_eq!(rule.matched("/scratch/./pario"), Some(NameMatch::Below));
        assert_eq!(rule.matched("/scratch/pario2/x"), None);
        assert_eq!(rule.matched("/scratch/../scratch/x"), None);
        let leaves = rule.resolve("/scratch/pario/../x", || Ok(0)).unwrap();
        assert_eq!(leaves, NameTarget::Plain(c"/scratch/x".to_owned()));
        assert_eq!(rule.matched("/gpfs/home/x"), None);
        assert_eq!(rule.matched("/pfs/x"), None);
        assert_eq!(rule.matched("/scratch/pario/x.###"), Some(NameMatch::Number));
        let shared = rule.resolve("/scratch/pario/a/../x", || Ok(0)).unwrap();
        assert_eq!(shared, NameTarget::Shared("/scratch/pario/x".to_owned()));
        // Relative names start at the working directory.
        let here = std::env::current_dir().unwrap();
        let rule = NameRule::new(Some(here.as_os_str()));
        assert_eq!(rule.matched("x"), Some(NameMatch::Below));
    }

    #[test]
    fn a_prefix_that_is_no_directory_refuses_names_of_shared_files() {
        assert_eq!(NameRule::new(None), NameRule::Manual);
        assert_eq!(NameRule::new(Some("".as_ref())), NameRule::Manual);
        for value in ["pfs", "/", "//", "/x/.."] {
            let rule = NameRule::new(Some(value.as_ref()));
            assert_eq!(rule, NameRule::Invalid(value.to_owned()));
            assert!(rule.resolve("/data/x", || Ok(0)).is_ok());
            let failed = rule.resolve("/gpfs/x", || Ok(0)).unwrap_err();
            assert!(failed.text.contains(&format!("PARIO_PREFIX is {value:?}")), "{}", failed.text);
        }
    }
}
