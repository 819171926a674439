//! The runtime directory: sockets of a user and notes about running processes.
//!
//! Invariant: no other user can place, replace or rename anything in a directory that
//! [`private_runtime_directory`] returns. Every check looks at the entry itself and never follows
//! a symbolic link.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The most bytes read of a private file: addresses and keys are short.
const PRIVATE_FILE_LIMIT_BYTES: u64 = 64 << 10;

/// The path of this user's runtime directory: `$XDG_RUNTIME_DIR/pario`, or `pario-UID` in the
/// directory for temporary files. The directory need not exist; [`private_runtime_directory`]
/// creates and checks it.
pub fn runtime_directory() -> PathBuf {
    let dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_dir());
    match dir {
        Some(dir) => dir.join("pario"),
        None => std::env::temp_dir().join(format!("pario-{}", own_uid())),
    }
}

/// Creates this user's runtime directory if it is missing and returns its path. Fails if another
/// user owns it, can enter it or can replace it.
pub fn private_runtime_directory() -> io::Result<PathBuf> {
    let dir = runtime_directory();
    make_private_directory(&dir)?;
    Ok(dir)
}

/// Creates a directory of mode 0700 if it is missing. Fails if it is not a directory, if another
/// user owns it, can enter it or can replace it.
pub fn make_private_directory(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(private_error(dir, &format!("it cannot be created: {error}"))),
    }
    check_private_directory(dir)
}

/// Checks that a directory belongs to this user, that no other user can enter it, and that no
/// other user can rename or replace it.
pub fn check_private_directory(dir: &Path) -> io::Result<()> {
    let found =
        fs::symlink_metadata(dir).map_err(|error| private_error(dir, &error.to_string()))?;
    if !found.is_dir() {
        return Err(private_error(dir, "it is not a directory; remove it"));
    }
    if found.uid() != own_uid() {
        return Err(private_error(dir, &format!("it belongs to user {}, not to you", found.uid())));
    }
    if found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o777;
        return Err(private_error(
            dir,
            &format!("other users can enter it (mode {mode:04o}); chmod 700 it"),
        ));
    }
    let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    let above = fs::metadata(parent).map_err(|error| private_error(parent, &error.to_string()))?;
    if above.uid() != own_uid() && above.uid() != 0 {
        return Err(private_error(
            dir,
            &format!("user {} owns the directory above it", above.uid()),
        ));
    }
    // Where others may write, the sticky bit keeps them from renaming what is not theirs.
    if above.mode() & 0o022 != 0 && above.mode() & 0o1000 == 0 {
        return Err(private_error(dir, "other users can write to the directory above it"));
    }
    Ok(())
}

/// Reads a small text file that no other user can have written: this user or root owns it, and
/// no other user may write to it. With `secret`, other users must not be able to read it either.
pub fn read_private_file(path: &Path, secret: bool) -> io::Result<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(private_error(
                path,
                "it is a symbolic link, and links are not followed here",
            ));
        }
        Err(error) => return Err(error),
    };
    check_private_file(path, &file.metadata()?, secret)?;
    read_bounded(path, file)
}

/// Writes a file that only this user can read and write, whatever the umask: creates it with mode
/// 0600, or replaces the content of an existing file and takes the rights of other users from it.
pub fn write_private_file(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(flags);
    let mut file = options.open(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    file.write_all(content.as_ref())
}

fn check_private_file(path: &Path, found: &Metadata, secret: bool) -> io::Result<()> {
    if !found.is_file() {
        return Err(private_error(path, "it is not a regular file"));
    }
    if found.uid() != own_uid() && found.uid() != 0 {
        return Err(private_error(
            path,
            &format!("it belongs to user {}, not to you", found.uid()),
        ));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o022 != 0 {
        return Err(private_error(path, &format!("other users can change it (mode {mode:04o})")));
    }
    if secret && mode & 0o077 != 0 {
        return Err(private_error(
            path,
            &format!("other users can read it (mode {mode:04o}); chmod 600 it"),
        ));
    }
    Ok(())
}

fn read_bounded(path: &Path, file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(PRIVATE_FILE_LIMIT_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > PRIVATE_FILE_LIMIT_BYTES {
        return Err(private_error(path, "it is too long"));
    }
    Ok(text)
}

fn private_error(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{}: {why}", path.display()))
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn why<T: std::fmt::Debug>(result: io::Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_directory_is_private_whatever_the_umask_or_refused() {
        let above = tempfile::tempdir().unwrap();
        let dir = above.path().join("pario");
        make_private_directory(&dir).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        make_private_directory(&dir).unwrap();
        chmod(&dir, 0o755);
        assert!(why(make_private_directory(&dir)).contains("other users can enter it (mode 0755)"));
        chmod(&dir, 0o700);
        chmod(above.path(), 0o777);
        assert!(why(make_private_directory(&dir)).contains("can write to the directory above"));
        chmod(above.path(), 0o1777);
        make_private_directory(&dir).unwrap();
    }

    #[test]
    fn links_and_files_are_no_directories() {
        let above = tempfile::tempdir().unwrap();
        let (real, link) = (above.path().join("real"), above.path().join("link"));
        make_private_directory(&real).unwrap();
        symlink(&real, &link).unwrap();
        assert!(why(make_private_directory(&link)).contains("not a directory"));
    }

    #[test]
    fn files_that_others_can_change_or_read_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("address");
        fs::write(&path, "here").unwrap();
        chmod(&path, 0o644);
        assert_eq!(read_private_file(&path, false).unwrap(), "here");
        assert!(why(read_private_file(&path, true)).contains("can read it (mode 0644)"));
        chmod(&path, 0o620);
        assert!(why(read_private_file(&path, false)).contains("can change it"));
        chmod(&path, 0o600);
        assert_eq!(read_private_file(&path, true).unwrap(), "here");
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(why(read_private_file(&link, false)).contains("symbolic link"));
        fs::write(&path, vec![b'x'; 70_000]).unwrap();
        assert!(why(read_private_file(&path, false)).contains("too long"));
    }

    #[test]
    fn a_written_file_is_private_also_if_it_was_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, "something long").unwrap();
        chmod(&path, 0o666);
        write_private_file(&path, "short").unwrap();
        assert_eq!(read_private_file(&path, true).unwrap(), "short");
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(write_private_file(&link, "through a link").is_err());
    }

    #[test]
    fn files_and_directories_of_another_user_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (file, inner) = (dir.path().join("address"), dir.path().join("inner"));
        fs::write(&file, "there").unwrap();
        make_private_directory(&inner).unwrap();
        for path in [&file, &inner] {
            if let Err(error) = std::os::unix::fs::chown(path, Some(65_534), None) {
                println!("skipped: only root can give files to another user ({error})");
                return;
            }
        }
        assert!(why(read_private_file(&file, false)).contains("belongs to user 65534"));
        assert!(why(make_private_directory(&inner)).contains("belongs to user 65534"));
    }
}
