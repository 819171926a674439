//! Files and directories of a node that only its user can reach.
//!
//! A node may be embedded in a program of the user, whose umask it must not change. So every file
//! and directory is created with an explicit mode.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The mode of a file that only its user can read and write.
const PRIVATE_FILE: u32 = 0o600;
/// The mode of a directory that only its user can enter.
const PRIVATE_DIRECTORY: u32 = 0o700;

/// Creates a directory and the missing ones above it, all of mode 0700. A directory that exists
/// keeps its mode.
pub fn create_directories(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(dir)
}

/// Opens a file for reading and writing, of mode 0600; creates it if it is missing.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(PRIVATE_FILE);
    let file = options.open(path)?;
    restrict(&file)?;
    Ok(file)
}

/// Replaces the content of a file, as a whole or not at all. The file has mode 0600 afterwards.
/// `making` is the path of the new file until it is complete; no two writers may share it.
pub fn replace(path: &Path, making: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(PRIVATE_FILE);
    let mut file = options.open(making)?;
    restrict(&file)?;
    file.write_all(content)?;
    drop(file);
    fs::rename(making, path)
}

/// Takes the rights of other users from a file that an earlier version may have created.
fn restrict(file: &File) -> io::Result<()> {
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(PRIVATE_FILE))?;
    }
    Ok(())
}
