//! Paths of files: absolute, made of plain names.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

/// The path of a file or directory: `/`, or names with a slash before each.
///
/// Invariant: no name is empty, `.`, `..`, longer than [`FilePath::NAME_LIMIT_BYTES`], or contains
/// a control character. So a path names one entry of the tree, and a list of paths can be printed
/// one per line.
///
/// ```
/// use pario_proto::FilePath;
///
/// let path = FilePath::new("/runs//7/result/")?; // slashes may be doubled, as everywhere
/// assert_eq!(path.as_str(), "/runs/7/result");
/// assert_eq!(path.parent().unwrap().as_str(), "/runs/7");
/// assert_eq!(path.name(), Some("result"));
/// assert!(FilePath::new("runs").is_err() && FilePath::new("/a/../b").is_err());
/// # Ok::<(), pario_proto::PathError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct FilePath(String);

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// Nothing was given.
    #[error("the path is empty: give an absolute one, like /runs/7")]
    Empty,
    /// It does not begin at the root.
    #[error("{path:?} is a relative path: paths in a cluster begin with a slash, like /{path}")]
    Relative {
        /// The text given.
        path: String,
    },
    /// It is longer than any path may be.
    #[error(
        "the path {start:?}... has {bytes} bytes, at most {} are allowed: use shorter names",
        FilePath::LIMIT_BYTES
    )]
    TooLong {
        /// Its first characters.
        start: String,
        /// Its length.
        bytes: usize,
    },
    /// A name in it is longer than any name may be.
    #[error(
        "the name {start:?}... has {bytes} bytes, at most {} are allowed: use a shorter one",
        FilePath::NAME_LIMIT_BYTES
    )]
    NameTooLong {
        /// Its first characters.
        start: String,
        /// Its length.
        bytes: usize,
    },
    /// A name in it is `.` or `..`.
    #[error("{path:?} contains the name {name:?}: write the path without it")]
    Dots {
        /// The text given.
        path: String,
        /// The name.
        name: String,
    },
    /// It contains a character that cannot be printed.
    #[error(
        "{path:?} contains the control character {character:?}: names are made of printable characters"
    )]
    Control {
        /// The text given.
        path: String,
        /// The character.
        character: char,
    },
    /// It is not text.
    #[error("the path {path:?} is not UTF-8: names in a cluster are UTF-8 text")]
    NotText {
        /// The bytes, as far as they can be shown.
        path: String,
    },
}

impl FilePath {
    /// The longest path.
    pub const LIMIT_BYTES: usize = 4096;
    /// The longest name.
    pub const NAME_LIMIT_BYTES: usize = 255;

    /// Checks a path, and returns it in its canonical form.
    pub fn new(text: &str) -> Result<FilePath, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if text.len() > Self::LIMIT_BYTES {
            return Err(PathError::TooLong { start: start_of(text), bytes: text.len() });
        }
        let path = || text.to_owned();
        if let Some(character) = text.chars().find(|c| c.is_control()) {
            return Err(PathError::Control { path: path(), character });
        }
        if !text.starts_with('/') {
            return Err(PathError::Relative { path: path() });
        }
        let mut plain = String::with_capacity(text.len());
        for name in text.split('/').filter(|name| !name.is_empty()) {
            if name == "." || name == ".." {
                return Err(PathError::Dots { path: path(), name: name.to_owned() });
            }
            if name.len() > Self::NAME_LIMIT_BYTES {
                return Err(PathError::NameTooLong { start: start_of(name), bytes: name.len() });
            }
            plain.push('/');
            plain.push_str(name);
        }
        if plain.is_empty() {
            plain.push('/');
        }
        Ok(FilePath(plain))
    }

    /// Checks a path that may not be UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> Result<FilePath, PathError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => FilePath::new(text),
            Err(_) => Err(PathError::NotText { path: String::from_utf8_lossy(bytes).into_owned() }),
        }
    }

    /// The directory that every path begins with.
    pub fn root() -> FilePath {
        FilePath("/".to_owned())
    }

    /// Whether it is the root.
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last name; the root has none.
    pub fn name(&self) -> Option<&str> {
        if self.is_root() { None } else { self.0.rsplit('/').next() }
    }

    /// The directory it is in; the root is in none.
    pub fn parent(&self) -> Option<FilePath> {
        let (parent, _) = self.0.rsplit_once('/').filter(|_| !self.is_root())?;
        Some(if parent.is_empty() { FilePath::root() } else { FilePath(parent.to_owned()) })
    }

    /// The names, from the root down.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// A path below this one.
    pub fn join(&self, below: &str) -> Result<FilePath, PathError> {
        FilePath::new(&format!("{}/{below}", self.0))
    }

    /// Whether it is the other path or below it.
    pub fn is_within(&self, other: &FilePath) -> bool {
        other.is_root()
            || self
                .0
                .strip_prefix(&other.0)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

fn start_of(text: &str) -> String {
    text.chars().take(24).collect()
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::str::FromStr for FilePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<FilePath, PathError> {
        FilePath::new(text)
    }
}

/// A path from the network is checked like one from a user.
impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FilePath, D::Error> {
        let text = String::deserialize(deserializer)?;
        FilePath::new(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_paths_are_refused_with_a_sentence() {
        let long = "/a".repeat(2049);
        let name = format!("/{}", "n".repeat(256));
        for (text, part) in [
            ("", "is empty"),
            ("runs/7", "relative"),
            ("/runs/../etc", "\"..\""),
            ("/runs/./x", "\".\""),
            ("/a\nb", "control character"),
            ("/a\0b", "control character"),
            (long.as_str(), "at most 4096"),
            (name.as_str(), "at most 255"),
        ] {
            let error = FilePath::new(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
        let error = FilePath::from_bytes(b"/a\xff").unwrap_err().to_string();
        assert!(error.contains("UTF-8"), "{error}");
    }

    #[test]
    fn names_parents_and_parts() {
        let path = FilePath::new("//a/b///c/").unwrap();
        assert_eq!(path.as_str(), "/a/b/c");
        assert!(path.names().eq(["a", "b", "c"]));
        assert_eq!(FilePath::root().parent(), None);
        assert_eq!(FilePath::new("/a").unwrap().parent(), Some(FilePath::root()));
        assert!(path.is_within(&FilePath::new("/a/b").unwrap()));
        assert!(!path.is_within(&FilePath::new("/a/bb").unwrap()));
        assert!(!FilePath::new("/a/bb").unwrap().is_within(&FilePath::new("/a/b").unwrap()));
    }
}
