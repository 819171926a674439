//! Files and directories of a node that only its user can reach.
//!
//! A node may be embedded in a program of the user, whose umask it must not change. So the node creates
//! every file and directory with an explicit mode.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use pario_net::write_private_file;

/// The mode of a file that only its user can read and write.
const PRIVATE_FILE: u32 = 0o600;
/// The mode of a directory that only its user can enter.
const PRIVATE_DIRECTORY: u32 = 0o700;
/// The mode of a directory that all users can pass through, but only its user can list.
const PASSABLE_DIRECTORY: u32 = 0o711;

/// Creates a directory and the missing ones above it, all of mode 0700. A directory that exists
/// keeps its mode.
pub fn create_directories(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(dir)
}

/// Creates a directory for a socket and the missing ones above it. If all users may use the socket,
/// they can pass through the new directories, but cannot list them.
pub fn create_socket_directory(dir: &Path, all_users: bool) -> io::Result<()> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<_> = dir.ancestors().take_while(is_missing).collect();
    create_directories(dir)?;
    for created in missing.into_iter().filter(|_| all_users) {
        fs::set_permissions(created, Permissions::from_mode(PASSABLE_DIRECTORY))?;
    }
    Ok(())
}

/// Creates and opens a file of mode 0600 for reading and writing.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(PRIVATE_FILE).open(path)
}

/// Replaces the content of a file atomically and durably. The file has mode 0600 afterwards.
/// `temporary` is the path of the new file until it is complete; no two writers may share it.
pub fn replace(path: &Path, temporary: &Path, content: &[u8]) -> io::Result<()> {
    write_private_file(temporary, content)?;
    File::open(temporary)?.sync_all()?;
    fs::rename(temporary, path)
}

/// Removes the rights of other users from a file that an earlier version may have created.
pub fn restrict(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(PRIVATE_FILE))?;
    }
    Ok(())
}
