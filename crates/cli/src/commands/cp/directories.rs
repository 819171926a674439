//! Directories of a copy: made before the files, finished after them.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use pario::Cluster;

use super::direction::Place;
use super::plan::Directory;

/// Permissions of a new directory in the cluster.
const NEW_MODE: u32 = 0o755;
/// What the owner needs until all files are there.
const WHILE_COPYING: u32 = 0o700;

/// Makes a directory with those above it; whether it was not there. Until all files are in it, its
/// owner can write to it.
pub fn make(cluster: &Cluster, directory: &Directory) -> anyhow::Result<bool> {
    let mode = directory.mode.map(|mode| mode | WHILE_COPYING);
    match &directory.to {
        Place::Stream => Ok(false),
        Place::Local(path) => {
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
        Place::Cluster(path) => {
            let is_new = match cluster.make_directory(path.as_str()) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
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

/// Gives a directory that was made the permissions of its source, and its time if that is kept.
pub fn finish(cluster: &Cluster, directory: &Directory, keeps_times: bool) -> anyhow::Result<()> {
    let changed_mode = directory.mode.filter(|mode| mode | WHILE_COPYING != *mode);
    let time = directory.modified_ns.filter(|_| keeps_times);
    match &directory.to {
        Place::Stream => {}
        Place::Local(path) => {
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
        Place::Cluster(path) => {
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
