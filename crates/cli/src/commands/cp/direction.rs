//! Which side of a copy is in the cluster.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pario::FilePath;

use crate::exit::Usage;
use crate::paths::{self, PREFIX};

/// Where something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this machine.
    Local(PathBuf),
    /// In the cluster.
    Cluster(FilePath),
    /// On stdin or stdout.
    Stream,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Cluster(path) => write!(f, "{PREFIX}{path}"),
            Self::Stream => f.write_str("-"),
        }
    }
}

/// What the arguments mean. `exists` tells whether a path is there on this machine.
pub fn places(
    sources: &[OsString],
    target: &OsStr,
    exists: impl Fn(&Path) -> bool,
) -> anyhow::Result<(Vec<Place>, Place)> {
    let has_prefix = |argument: &OsStr| paths::without_prefix(argument).is_some();
    if let Some(empty) =
        sources.iter().map(OsString::as_os_str).chain([target]).find(|a| a.is_empty())
    {
        return Err(usage(format!("{empty:?} is an empty path")));
    }
    let is_clear = has_prefix(target) || sources.iter().any(|source| has_prefix(source));
    let target_place = match target {
        _ if target == "-" => Place::Stream,
        _ if has_prefix(target) => Place::Cluster(paths::in_cluster(target)?),
        _ if !is_clear && is_rooted(target) => Place::Cluster(paths::in_cluster(target)?),
        _ => Place::Local(target.into()),
    };
    let into_cluster = matches!(target_place, Place::Cluster(_));
    let mut places = Vec::new();
    for source in sources {
        let path = Path::new(source);
        let place = if source == "-" {
            Place::Stream
        } else if has_prefix(source) {
            Place::Cluster(paths::in_cluster(source)?)
        } else if is_clear || !is_rooted(source) || exists(path) {
            Place::Local(path.to_owned())
        } else {
            Place::Cluster(paths::in_cluster(source)?)
        };
        if !into_cluster && !matches!(place, Place::Cluster(_)) {
            return Err(usage(format!(
                "{} and {} would both be on this machine; write {PREFIX}/PATH for the one in the \
                 cluster, or a target that begins with a slash",
                source.display(),
                target.display()
            )));
        }
        places.push(place);
    }
    Ok((places, target_place))
}

fn is_rooted(argument: &OsStr) -> bool {
    argument.as_bytes().starts_with(b"/")
}

fn usage(text: String) -> anyhow::Error {
    Usage(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a line means on a machine that has `results.h5` and `/tmp/x`.
    fn meaning(line: &str) -> Result<String, String> {
        let mut arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let target = arguments.pop().unwrap();
        let here =
            |path: &Path| ["results.h5", "/tmp/x"].iter().any(|known| path == Path::new(known));
        let (sources, target) =
            places(&arguments, &target, here).map_err(|error| error.to_string())?;
        let word = |place: &Place| match place {
            Place::Local(path) => format!("local {}", path.display()),
            Place::Cluster(path) => format!("cluster {path}"),
            Place::Stream => "stream".to_owned(),
        };
        let sources: Vec<_> = sources.iter().map(word).collect();
        Ok(format!("{} > {}", sources.join(" + "), word(&target)))
    }

    #[test]
    fn the_prefix_makes_it_clear() {
        for (line, expected) in [
            ("pario:/a b", "cluster /a > local b"),
            ("pario:/a /tmp/b", "cluster /a > local /tmp/b"),
            ("a pario:/b", "local a > cluster /b"),
            ("/tmp/not-there pario:/b", "local /tmp/not-there > cluster /b"),
            ("pario:/a pario:/b", "cluster /a > cluster /b"),
            ("pario:/a -", "cluster /a > stream"),
            ("- pario:/a", "stream > cluster /a"),
            ("pario:/a pario:/b .", "cluster /a + cluster /b > local ."),
        ] {
            assert_eq!(meaning(line).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn without_it_what_exists_here_is_local() {
        for (line, expected) in [
            ("results.h5 /runs/", "local results.h5 > cluster /runs"),
            ("/tmp/x /runs", "local /tmp/x > cluster /runs"),
            ("/runs/x copy", "cluster /runs/x > local copy"),
            ("/runs/x /runs/y", "cluster /runs/x > cluster /runs/y"),
            ("/runs/x .", "cluster /runs/x > local ."),
            ("/runs/x -", "cluster /runs/x > stream"),
            ("- /runs/x", "stream > cluster /runs/x"),
            ("results.h5 /runs/x /all", "local results.h5 + cluster /runs/x > cluster /all"),
            // It will be told that there is no such file.
            ("missing /runs", "local missing > cluster /runs"),
        ] {
            assert_eq!(meaning(line).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn two_sides_on_this_machine_are_refused() {
        for line in ["results.h5 copy", "/tmp/x copy", "- copy", "- -", "pario:/a b c"] {
            let refused = meaning(line).unwrap_err();
            assert!(refused.contains("pario:/PATH"), "{line}: {refused}");
        }
        assert!(meaning("pario:a b").unwrap_err().contains("relative"));
        assert!(meaning(" /b").unwrap_err().contains("empty"));
    }
}
