//! What a file name means: a file of this process alone, a file that is shared, or a plain one.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;

use libc::c_char;

use crate::errors::{Done, Failed};

/// What is replaced by the number of the process.
const NUMBER: &str = "###";
/// What names of shared files contain.
const SHARED: &str = "pfs";

/// What a name means.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A file of the system, for this process alone or for everybody.
    Plain(CString),
    /// A shared file, at this path of the cluster.
    Shared(String),
}

/// The name that a C program gives.
///
/// # Safety
/// It is null, or ends with a zero.
pub unsafe fn text(name: *const c_char) -> Done<String> {
    if name.is_null() {
        return Err(Failed::new(libc::EFAULT, ""));
    }
    // SAFETY: it is not null, and the caller says that it ends.
    let name = unsafe { CStr::from_ptr(name) };
    match name.to_str() {
        Ok("") => Err(Failed::new(libc::ENOENT, "")),
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Failed::invalid(format!("{name:?}: it is not UTF-8"))),
    }
}

/// What a name means to a process of a given number.
pub fn meaning(name: &str, rank: impl FnOnce() -> Done<u32>) -> Done<Meaning> {
    if name.contains(NUMBER) {
        let own = name.replace(NUMBER, &format!("{:03}", rank()?));
        return plain(&own);
    }
    if name.contains(SHARED) { Ok(Meaning::Shared(path(name)?)) } else { plain(name) }
}

fn plain(name: &str) -> Done<Meaning> {
    CString::new(name).map(Meaning::Plain).map_err(|_| Failed::new(libc::EINVAL, ""))
}

/// The path of a shared file: names that do not begin with a slash begin where the process is.
pub fn path(name: &str) -> Done<String> {
    if name.starts_with('/') {
        return Ok(without_dots(name));
    }
    let here = rustix::process::getcwd(Vec::new())?;
    match OsStr::from_bytes(here.to_bytes()).to_str() {
        Some(here) => Ok(without_dots(&format!("{here}/{name}"))),
        None => Err(Failed::invalid("the name of the working directory is not UTF-8")),
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

    fn means(name: &str) -> Meaning {
        meaning(name, || Ok(7)).unwrap()
    }

    fn is_plain(name: &str, expected: &str) {
        assert_eq!(means(name), Meaning::Plain(CString::new(expected).unwrap()));
    }

    #[test]
    fn names_mean_what_the_manual_says() {
        is_plain("/data/x", "/data/x");
        is_plain("x.###", "x.007");
        is_plain("/pfs/x.###", "/pfs/x.007");
        is_plain("####", "007#");
        assert_eq!(means("/pfs/x"), Meaning::Shared("/pfs/x".to_owned()));
        assert_eq!(means("/mypfs//a/./b/../c"), Meaning::Shared("/mypfs/a/c".to_owned()));
        let here = std::env::current_dir().unwrap();
        let there = here.join("x.pfs").to_str().unwrap().to_owned();
        assert_eq!(means("x.pfs"), Meaning::Shared(there));
        assert_eq!(means("/../pfs"), Meaning::Shared("/pfs".to_owned()));
    }

    #[test]
    fn numbers_beyond_three_digits_keep_all_of_them() {
        let name = meaning("a###b###", || Ok(12_345)).unwrap();
        assert_eq!(name, Meaning::Plain(CString::new("a12345b12345").unwrap()));
    }
}
