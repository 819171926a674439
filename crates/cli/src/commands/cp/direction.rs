//! Decides which paths of a copy are in the cluster and which are on this machine.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pario::FilePath;

use crate::exit::UsageError;
use crate::paths::{self, LOCAL_PREFIX, PREFIX};

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// On this machine.
    Local(PathBuf),
    /// In the cluster.
    Cluster(FilePath),
    /// On stdin or stdout.
    Stream,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Cluster(path) => write!(f, "{PREFIX}{path}"),
            Self::Stream => f.write_str("-"),
        }
    }
}

impl Location {
    /// Returns the last name of the path, if it has one.
    pub fn file_name(&self) -> Option<OsString> {
        match self {
            Self::Local(path) => path.file_name().map(OsStr::to_owned),
            Self::Cluster(path) => path.name().map(OsString::from),
            Self::Stream => None,
        }
    }
}

/// The form of an argument, before the other arguments are considered.
enum ArgumentForm {
    Certain(Location),
    /// An absolute path without a scheme.
    Absolute,
}

fn argument_form(argument: &OsStr) -> anyhow::Result<ArgumentForm> {
    if argument.is_empty() {
        return Err(usage(format!("{argument:?} is an empty path")));
    }
    let certain = if argument == "-" {
        Location::Stream
    } else if paths::without_prefix(argument).is_some() {
        Location::Cluster(paths::in_cluster(argument)?)
    } else if let Some(path) = paths::marked_local(argument) {
        Location::Local(local(argument, path)?)
    } else if argument.as_bytes().starts_with(b"/") {
        return Ok(ArgumentForm::Absolute);
    } else {
        Location::Local(argument.into())
    };
    Ok(ArgumentForm::Certain(certain))
}

fn local(argument: &OsStr, path: &OsStr) -> anyhow::Result<PathBuf> {
    match path.is_empty() {
        true => Err(usage(format!("{} is an empty path", argument.display()))),
        false => Ok(path.into()),
    }
}

/// Decides the locations of the arguments of `cp`. `exists` tells whether a path exists on this
/// machine.
///
/// Beside a relative path, which is local, an absolute path is in the cluster. Beside a path with
/// the cluster's scheme, an absolute path is local. If both sides are absolute, both are in the
/// cluster; a path that could also be local is refused.
pub fn locations(
    sources: &[OsString],
    target: &OsStr,
    exists: impl Fn(&Path) -> bool,
) -> anyhow::Result<(Vec<Location>, Location)> {
    let read: anyhow::Result<Vec<ArgumentForm>> =
        sources.iter().map(|source| argument_form(source)).collect();
    let (read, target_written) = (read?, argument_form(target)?);
    let is_local = |argument_form: &ArgumentForm| {
        matches!(argument_form, ArgumentForm::Certain(Location::Local(_) | Location::Stream))
    };
    let is_in_cluster = |argument_form: &ArgumentForm| {
        matches!(argument_form, ArgumentForm::Certain(Location::Cluster(_)))
    };
    let target_place = match &target_written {
        ArgumentForm::Certain(place) => place.clone(),
        ArgumentForm::Absolute if read.iter().any(is_local) => in_cluster(target)?,
        ArgumentForm::Absolute if read.iter().any(is_in_cluster) => Location::Local(target.into()),
        ArgumentForm::Absolute => {
            let parent = Path::new(target).parent().filter(|parent| *parent != Path::new("/"));
            if exists(Path::new(target)) || parent.is_some_and(&exists) {
                return Err(unclear(target));
            }
            in_cluster(target)?
        }
    };
    let mut locations = Vec::new();
    for (source, argument_form) in sources.iter().zip(read) {
        let place = match (argument_form, &target_written, &target_place) {
            (ArgumentForm::Certain(place), ..) => place,
            (ArgumentForm::Absolute, _, Location::Local(_) | Location::Stream) => {
                in_cluster(source)?
            }
            (ArgumentForm::Absolute, ArgumentForm::Certain(_), Location::Cluster(_)) => {
                Location::Local(source.into())
            }
            (ArgumentForm::Absolute, ArgumentForm::Absolute, Location::Cluster(_)) => {
                if exists(Path::new(source)) {
                    return Err(unclear(source));
                }
                in_cluster(source)?
            }
        };
        if !matches!(target_place, Location::Cluster(_)) && !matches!(place, Location::Cluster(_)) {
            return Err(usage(format!(
                "{} and {} would both be on this machine; write {PREFIX}/PATH for the one in the \
                 cluster, or a target that begins with a slash",
                source.display(),
                target.display()
            )));
        }
        locations.push(place);
    }
    Ok((locations, target_place))
}

/// Returns the location of an argument of `put` or `get` that must be on this machine.
pub fn on_this_machine(argument: &OsStr) -> anyhow::Result<Location> {
    match argument_form(argument)? {
        ArgumentForm::Certain(Location::Cluster(path)) => Err(usage(format!(
            "{PREFIX}{path} is in the cluster, but this argument must be on this machine; to copy \
             inside the cluster, use `pario cp`"
        ))),
        ArgumentForm::Certain(place) => Ok(place),
        ArgumentForm::Absolute => Ok(Location::Local(argument.into())),
    }
}

/// Returns the location of an argument of `put` or `get` that must be in the cluster.
pub fn inside_cluster(argument: &OsStr) -> anyhow::Result<Location> {
    match argument_form(argument)? {
        ArgumentForm::Certain(place @ Location::Cluster(_)) => Ok(place),
        ArgumentForm::Certain(_) => Err(usage(format!(
            "{}: this argument must be a path in the cluster, which begins with a slash",
            argument.display()
        ))),
        ArgumentForm::Absolute => in_cluster(argument),
    }
}

fn in_cluster(argument: &OsStr) -> anyhow::Result<Location> {
    Ok(Location::Cluster(paths::in_cluster(argument)?))
}

fn unclear(argument: &OsStr) -> anyhow::Error {
    let shown = argument.display();
    usage(format!(
        "cp: {shown} could be a local or a cluster path\n       write {LOCAL_PREFIX}{shown} for the \
         local one, {PREFIX}{shown} for the cluster's"
    ))
}

fn usage(text: String) -> anyhow::Error {
    UsageError(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(place: &Location) -> String {
        match place {
            Location::Local(path) => format!("local {}", path.display()),
            Location::Cluster(path) => format!("cluster {path}"),
            Location::Stream => "stream".to_owned(),
        }
    }

    /// Describes what a line means on a machine that has `results.h5`, `/tmp/x` and `/home/ada`.
    fn meaning(line: &str) -> Result<String, String> {
        let mut arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let target = arguments.pop().unwrap();
        let known = ["results.h5", "/", "/tmp", "/tmp/x", "/home", "/home/ada"];
        let here = |path: &Path| known.iter().any(|known| path == Path::new(known));
        let (sources, target) =
            locations(&arguments, &target, here).map_err(|error| error.to_string())?;
        let sources: Vec<_> = sources.iter().map(word).collect();
        Ok(format!("{} > {}", sources.join(" + "), word(&target)))
    }

    #[test]
    fn a_scheme_makes_it_clear() {
        for (line, expected) in [
            ("pario:/a b", "cluster /a > local b"),
            ("pario:/a /tmp/b", "cluster /a > local /tmp/b"),
            ("a pario:/b", "local a > cluster /b"),
            ("/tmp/not-there pario:/b", "local /tmp/not-there > cluster /b"),
            ("pario:/a pario:/b", "cluster /a > cluster /b"),
            ("pario:/a -", "cluster /a > stream"),
            ("- pario:/a", "stream > cluster /a"),
            ("pario:/a pario:/b .", "cluster /a + cluster /b > local ."),
            ("file:/tmp/x /runs", "local /tmp/x > cluster /runs"),
            ("file:/tmp/x /home/ada/x", "local /tmp/x > cluster /home/ada/x"),
            ("/tmp/x file:/home/ada", "cluster /tmp/x > local /home/ada"),
            ("pario:/tmp/x pario:/home/ada", "cluster /tmp/x > cluster /home/ada"),
        ] {
            assert_eq!(meaning(line).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn a_relative_path_leaves_the_other_side_in_the_cluster() {
        for (line, expected) in [
            ("results.h5 /runs/", "local results.h5 > cluster /runs"),
            ("results.h5 /home/ada/", "local results.h5 > cluster /home/ada"),
            ("/runs/x copy", "cluster /runs/x > local copy"),
            ("/tmp/x copy", "cluster /tmp/x > local copy"),
            ("/runs/x .", "cluster /runs/x > local ."),
            ("/runs/x -", "cluster /runs/x > stream"),
            ("- /runs/x", "stream > cluster /runs/x"),
            ("results.h5 /runs/x /all", "local results.h5 + cluster /runs/x > cluster /all"),
            ("missing /runs", "local missing > cluster /runs"),
        ] {
            assert_eq!(meaning(line).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn two_absolute_paths_are_in_the_cluster_unless_one_could_be_local() {
        for (line, expected) in [
            ("/runs/x /runs/y", "cluster /runs/x > cluster /runs/y"),
            ("/runs/x /copy", "cluster /runs/x > cluster /copy"),
            ("/a /b /runs/", "cluster /a + cluster /b > cluster /runs"),
        ] {
            assert_eq!(meaning(line).as_deref(), Ok(expected), "{line}");
        }
        for (line, path) in [
            ("/small.txt /home/ada/", "/home/ada/"),
            ("/small.txt /home/ada/new", "/home/ada/new"),
            ("/small.txt /home", "/home"),
            ("/tmp/x /runs", "/tmp/x"),
            ("results.h5 /tmp/x /all", "/tmp/x"),
        ] {
            let refused = meaning(line).unwrap_err();
            let both =
                format!("write file:{path} for the local one, pario:{path} for the cluster's");
            assert!(refused.contains(&both), "{line}: {refused}");
        }
    }

    #[test]
    fn two_sides_on_this_machine_are_refused() {
        for line in ["results.h5 copy", "file:/tmp/x copy", "- copy", "- -", "pario:/a b c"] {
            let refused = meaning(line).unwrap_err();
            assert!(refused.contains("pario:/PATH"), "{line}: {refused}");
        }
        assert!(meaning("pario:a b").unwrap_err().contains("relative"));
        assert!(meaning(" /b").unwrap_err().contains("empty"));
        assert!(meaning("file: /b").unwrap_err().contains("empty"));
    }

    #[test]
    fn put_and_get_do_not_guess() {
        let local = |text: &str| on_this_machine(OsStr::new(text)).map(|place| word(&place));
        let cluster = |text: &str| inside_cluster(OsStr::new(text)).map(|place| word(&place));
        assert_eq!(local("/tmp/x").unwrap(), "local /tmp/x");
        assert_eq!(local("file:/runs").unwrap(), "local /runs");
        assert_eq!(local("-").unwrap(), "stream");
        assert!(local("pario:/runs").unwrap_err().to_string().contains("pario cp"));
        assert_eq!(cluster("/tmp/x").unwrap(), "cluster /tmp/x");
        assert_eq!(cluster("pario:/x").unwrap(), "cluster /x");
        for wrong in ["x", "file:/x", "-"] {
            assert!(cluster(wrong).unwrap_err().to_string().contains("slash"), "{wrong}");
        }
    }
}
