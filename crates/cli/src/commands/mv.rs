//! `pario mv`: renames files and directories.

use std::ffi::OsString;

use clap::Args;
use pario::{Cluster, FilePath};
use serde_json::json;

use crate::arguments::GlobalOptions;
use crate::exit::UsageError;
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario mv /runs/7 /runs/8\n  pario mv /a /b /directory/";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The files or directories to move, and last the new path or the directory to move into
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let Some((target, sources)) = options.paths.split_last() else {
        return Err(UsageError("give the paths to move and, last, the target".to_owned()).into());
    };
    let must_be_directory = sources.len() > 1 || paths::is_marked_directory(target);
    let (sources, target) = (paths::all_in_cluster(sources)?, paths::in_cluster(target)?);
    let cluster = reach::cluster(global)?;
    let is_directory = is_directory(&cluster, &target)?;
    if must_be_directory && !is_directory {
        let text = format!(
            "{target}: this is not a directory; several paths, or a target with a slash, need one"
        );
        return Err(UsageError(text).into());
    }
    let mut moved = Vec::new();
    for source in &sources {
        let to = if is_directory { inside(&target, source)? } else { target.clone() };
        cluster.rename(source.as_str(), to.as_str())?;
        moved.push(json!({ "from": source, "to": to }));
    }
    if global.json {
        terminal::print_json(&json!({ "moved": moved }))?;
    }
    Ok(())
}

fn is_directory(cluster: &Cluster, path: &FilePath) -> Result<bool, pario::Error> {
    match cluster.metadata(path.as_str()) {
        Ok(known) => Ok(known.is_directory()),
        Err(error) if error.kind() == pario::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the path of a source inside a directory. For the root, the cluster reports the error.
fn inside(directory: &FilePath, source: &FilePath) -> Result<FilePath, pario::PathError> {
    match source.name() {
        Some(name) => directory.join(name),
        None => Ok(directory.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_in_a_directory() {
        let path = |text| FilePath::new(text).unwrap();
        assert_eq!(inside(&path("/runs"), &path("/a/b")).unwrap(), path("/runs/b"));
        assert_eq!(inside(&path("/"), &path("/a/b")).unwrap(), path("/b"));
        assert_eq!(inside(&path("/runs"), &path("/")).unwrap(), path("/runs"));
    }
}
