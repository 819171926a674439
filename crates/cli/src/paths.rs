//! Parses paths of the command line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use pario::{FilePath, PathError};

/// Scheme of paths in the cluster.
pub const PREFIX: &str = "pario:";

/// Scheme of paths on this machine.
pub const LOCAL_PREFIX: &str = "file:";

/// Returns the path after the local scheme, if there is one.
pub fn marked_local(argument: &OsStr) -> Option<&OsStr> {
    argument.as_bytes().strip_prefix(LOCAL_PREFIX.as_bytes()).map(OsStr::from_bytes)
}

/// Parses a path in the cluster; the scheme is optional.
pub fn in_cluster(argument: &OsStr) -> Result<FilePath, PathError> {
    FilePath::from_bytes(without_prefix(argument).unwrap_or(argument.as_bytes()))
}

/// Returns the bytes after the cluster's scheme, if there is one.
pub fn without_prefix(argument: &OsStr) -> Option<&[u8]> {
    argument.as_bytes().strip_prefix(PREFIX.as_bytes())
}

/// Parses several paths in the cluster.
pub fn all_in_cluster<'a>(
    arguments: impl IntoIterator<Item = &'a std::ffi::OsString>,
) -> Result<Vec<FilePath>, PathError> {
    arguments.into_iter().map(|argument| in_cluster(argument)).collect()
}

/// Returns whether a trailing slash marks the path as a directory.
pub fn is_marked_directory(argument: &OsStr) -> bool {
    argument.as_bytes().ends_with(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(bytes: &[u8]) -> Result<FilePath, PathError> {
        in_cluster(OsStr::from_bytes(bytes))
    }

    #[test]
    fn the_prefix_may_be_there() {
        assert_eq!(path(b"/runs/7").unwrap().as_str(), "/runs/7");
        assert_eq!(path(b"pario:/runs//7/").unwrap().as_str(), "/runs/7");
        assert_eq!(path(b"pario:/").unwrap().as_str(), "/");
    }

    #[test]
    fn what_is_no_path_is_refused_with_a_reason() {
        let long = vec![b'x'; 300];
        let too_long = [b"/", &long[..]].concat();
        for (bytes, reason) in [
            (&b""[..], "empty"),
            (b"pario:", "empty"),
            (b"runs", "relative"),
            (b"pario:runs", "relative"),
            (b"/a/../b", "\"..\""),
            (b"/a\nb", "control character"),
            (b"/\xff", "not UTF-8"),
            (&too_long, "300 bytes"),
        ] {
            let refused = path(bytes).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn a_slash_at_the_end_means_a_directory() {
        assert!(is_marked_directory(OsStr::new("/runs/")));
        assert!(!is_marked_directory(OsStr::new("/runs")));
    }
}
