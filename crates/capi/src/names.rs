//! What a file name means: a file of this process alone, a file that is shared, or a plain one.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use libc::c_char;

use crate::errors::{CallError, CallResult};

/// What is replaced by the number of the process.
const RANK_PLACEHOLDER: &str = "###";
/// What names of shared files contain, unless `PARIO_PREFIX` names their directory.
const SHARED_MARKER: &str = "pfs";
/// The variable that narrows the rule to one directory.
const PREFIX_VARIABLE: &str = "PARIO_PREFIX";

/// What a name means.
#[derive(Debug, PartialEq, Eq)]
pub enum NameTarget {
    /// A file of the system, for this process alone or for everybody.
    Plain(CString),
    /// A shared file, at this path of the cluster.
    Shared(String),
}

/// Which names are those of shared files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// The manual's: names that contain `pfs`.
    Manual,
    /// Names in a directory and below it.
    Below(String),
    /// `PARIO_PREFIX` has this value, which names no directory. The names of the manual's rule are
    /// refused, so that no file is written where it is not expected.
    Invalid(String),
}

/// Why a name is not simply that of a plain file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameMatch {
    /// It contains `###`: a plain file of this process alone.
    Number,
    /// It contains `pfs`.
    Contains,
    /// It is in the directory that `PARIO_PREFIX` names.
    Below,
}

impl NameRule {
    /// The rule of this process: the environment counts when the first name is looked at.
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

    /// Why a name is not simply that of a plain file, if it is not.
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
            (Some(_), Self::Invalid(value)) => Err(CallError::invalid(format!(
                "{name}: {PREFIX_VARIABLE} is {value:?}, which does not say where shared files are: set it to \
                 a directory such as /pfs, or unset it"
            ))),
            (Some(_), _) => Ok(NameTarget::Shared(path(name)?)),
        }
    }
}

/// The name that a C program gives.
///
/// # Safety
/// It is null, or ends with a zero.
pub unsafe fn from_c(name: *const c_char) -> CallResult<String> {
    if name.is_null() {
        return Err(CallError::null_pointer("the name"));
    }
    // SAFETY: it is not null, and the caller says that it ends.
    let name = unsafe { CStr::from_ptr(name) };
    match name.to_str() {
        Ok("") => Err(CallError::new(libc::ENOENT, "the name is empty")),
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(CallError::invalid(format!("{name:?}: it is not UTF-8"))),
    }
}

/// What a name means to a process of a given number.
pub fn resolve(name: &str, rank: impl FnOnce() -> CallResult<u32>) -> CallResult<NameTarget> {
    NameRule::current().resolve(name, rank)
}

fn plain(name: &str) -> CallResult<NameTarget> {
    CString::new(name)
        .map(NameTarget::Plain)
        .map_err(|_| CallError::new(libc::EINVAL, "the name contains a zero byte"))
}

/// The path of a shared file: names that do not begin with a slash begin where the process is.
pub fn path(name: &str) -> CallResult<String> {
    if name.starts_with('/') {
        return Ok(without_dots(name));
    }
    let here = rustix::process::getcwd(Vec::new())?;
    match OsStr::from_bytes(here.to_bytes()).to_str() {
        Some(here) => Ok(without_dots(&format!("{here}/{name}"))),
        None => Err(CallError::invalid("the name of the working directory is not UTF-8")),
    }
}

/// Paths of a cluster have no `.` and no `..`.
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

    fn means(name: &str) -> NameTarget {
        NameRule::Manual.resolve(name, || Ok(7)).unwrap()
    }

    fn is_plain(name: &str, expected: &str) {
        assert_eq!(means(name), NameTarget::Plain(CString::new(expected).unwrap()));
    }

    #[test]
    fn names_mean_what_the_manual_says() {
        is_plain("/data/x", "/data/x");
        is_plain("x.###", "x.007");
        is_plain("/pfs/x.###", "/pfs/x.007");
        is_plain("####", "007#");
        assert_eq!(means("/pfs/x"), NameTarget::Shared("/pfs/x".to_owned()));
        assert_eq!(means("/mypfs//a/./b/../c"), NameTarget::Shared("/mypfs/a/c".to_owned()));
        let here = std::env::current_dir().unwrap();
        let there = here.join("x.pfs").to_str().unwrap().to_owned();
        assert_eq!(means("x.pfs"), NameTarget::Shared(there));
        assert_eq!(means("/../pfs"), NameTarget::Shared("/pfs".to_owned()));
    }

    #[test]
    fn numbers_beyond_three_digits_keep_all_of_them() {
        let name = NameRule::Manual.resolve("a###b###", || Ok(12_345)).unwrap();
        assert_eq!(name, NameTarget::Plain(CString::new("a12345b12345").unwrap()));
    }

    #[test]
    fn a_prefix_narrows_the_rule_to_one_directory() {
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
        // Names that do not begin with a slash begin where the process is.
        let here = std::env::current_dir().unwrap();
        let rule = NameRule::new(Some(here.as_os_str()));
        assert_eq!(rule.matched("x"), Some(NameMatch::Below));
    }

    #[test]
    fn a_prefix_that_is_no_directory_is_told_where_it_matters() {
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
