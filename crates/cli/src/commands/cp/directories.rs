//! Creates the directories of a copy before its files, and sets their permissions and times after
//! them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use pario::Cluster;

use super::direction::Location;
use super::plan::PlannedDirectory;

/// Permissions of a new directory in the cluster.
const NEW_MODE: u32 = 0o755;
/// Permissions that the owner needs until all files are copied.
const WHILE_COPYING: u32 = 0o700;

/// Creates a directory and its parents; returns whether it is new. The owner can write to it until
/// all files are in it.
pub fn make(cluster: &Cluster, directory: &PlannedDirectory) -> anyhow::Result<bool> {
    let mode = directory.mode.map(|mode| mode | WHILE_COPYING);
    match &directory.to {
        Location::Stream => Ok(false),
        Location::Local(path) => {
            let shown = || path.display().to_string();
            if path.is_dir() {
                return Ok(false);
            }
            fs::create_dir_all(path).with_context(shown)?;
            if let Some(mode) = mode {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).with_context(shown)?;
            }
            Ok(true)
        }
        Location::Cluster(path) => {
            let is_new = match cluster.make_directory(path.as_str()) {
                Ok(()) => true,
                Err(error) if error.kind() == pario::ErrorKind::AlreadyExists => false,
                Err(error) if error.kind() == pario::ErrorKind::NotFound => {
                    cluster.make_directories(path.as_str())?;
                    true
                }
                Err(error) => return Err(error.into()),
            };
            if !is_new && !cluster.metadata(path.as_str())?.is_directory() {
                anyhow::bail!("{}: this is a file, not a directory", directory.to);
            }
            if let Some(mode) = mode.filter(|mode| is_new && *mode != NEW_MODE) {
                cluster.set_mode(path.as_str(), mode)?;
            }
            Ok(is_new)
        }
    }
}

/// Gives a new directory the permissions of its source, and the time if times are kept.
pub fn finish(
    cluster: &Cluster,
    directory: &PlannedDirectory,
    keeps_times: bool,
) -> anyhow::Result<()> {
    let changed_mode = directory.mode.filter(|mode| mode | WHILE_COPYING != *mode);
    let time = directory.modified_ns.filter(|_| keeps_times);
    match &directory.to {
        Location::Stream => {}
        Location::Local(path) => {
            let shown = || path.display().to_string();
            if let Some(time) = time {
                let opened = fs::File::open(path).with_context(shown)?;
                let time = UNIX_EPOCH + Duration::from_nanos(time);
                opened.set_modified(time).with_context(shown)?;
            }
            if let Some(mode) = changed_mode {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).with_context(shown)?;
            }
        }
        Location::Cluster(path) => {
            if let Some(mode) = changed_mode {
                cluster.set_mode(path.as_str(), mode)?;
            }
            if let Some(time) = time {
                cluster.set_directory_time(path.as_str(), time)?;
            }
        }
    }
    Ok(())
}
