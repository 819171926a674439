//! The rule of file names: a plain file of this process, a shared file of the cluster, or another
//! plain file.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use libc::c_char;

use crate::errors::{CallResult, ErrnoError};

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
        match self {
            Self::Manual | Self::Invalid(_) => {
                name.contains(SHARED_MARKER).then_some(NameMatch::Contains)
            }
            Self::Below(directory) => {
                let path = path(name).ok()?;
                let rest = path.strip_prefix(directory.as_str())?;
                (rest.is_empty() || rest.starts_with('/')).then_some(NameMatch::Below)
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
        assert_eq!(rule.matched("/scratch/pario/../x"), None);
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
