//! `pario mv`

use std::ffi::OsString;
use std::io;

use clap::Args;
use pario::{Cluster, FilePath};
use serde_json::json;

use crate::arguments::Global;
use crate::exit::Usage;
use crate::{paths, reach, terminal};

/// Lines for the help.
pub const EXAMPLES: &str = "pario mv /runs/7 /runs/8\n  pario mv /a /b /directory/";

/// What it takes.
#[derive(Args, Debug)]
pub struct Options {
    /// What to rename or move, and last its new path or the directory it goes into
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Does it.
pub fn run(global: &Global, options: &Options) -> anyhow::Result<()> {
    let Some((target, sources)) = options.paths.split_last() else {
        return Err(Usage("give what to move, and where to".to_owned()).into());
    };
    let must_be_directory = sources.len() > 1 || paths::is_marked_directory(target);
    let (sources, target) = (paths::all_in_cluster(sources)?, paths::in_cluster(target)?);
    let cluster = reach::cluster(global)?;
    let is_directory = is_directory(&cluster, &target)?;
    if must_be_directory && !is_directory {
        let text = format!("{target}: this is not a directory that something could be moved into");
        return Err(Usage(text).into());
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
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where something comes to lie in a directory. The root goes nowhere; the cluster will say so.
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
