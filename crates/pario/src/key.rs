//! The cluster's key, which clients on other machines need: where it is, and how it is made.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pario_net::{Key, write_private_file};

use crate::error::Error;

/// The variable with the key, or with the path of the file that holds it.
pub const KEY_VARIABLE: &str = "PARIO_KEY";

/// Where the key of the user lies, below the directory for configurations.
const USER_KEY: &str = "pario/key";

/// A key, and where it was found.
#[derive(Clone, Debug)]
pub struct FoundKey {
    pub key: Key,
    /// A file or a variable, for messages.
    pub source: String,
}

/// Returns the file of the user's key: `pario/key` in `$XDG_CONFIG_HOME`, or in `~/.config`. It
/// serves all clusters of the user that `pario serve --listen` has started. `None` if the environment
/// has no home directory.
///
/// ```
/// if let Some(file) = pario::user_key_file() {
///     assert!(file.ends_with("pario/key"));
/// }
/// ```
pub fn user_key_file() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".config"));
    absolute("XDG_CONFIG_HOME").or_else(home).map(|dir| dir.join(USER_KEY))
}

/// Creates a file with a new key that only this user can read, unless the file exists. Returns
/// whether it has created it. Several processes may do so at the same time: all of them find the same
/// key.
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// let file = dir.path().join("lab/key");
/// assert!(pario::create_key_file(&file)?);
/// assert!(!pario::create_key_file(&file)?); // it stays as it is
/// # Ok(())
/// # }
/// ```
pub fn create_key_file(path: &Path) -> Result<bool, Error> {
    let failed = |error: std::io::Error| Error::KeyFile {
        kind: error.kind(),
        text: format!("no key can be made in {}: {error}", path.display()),
    };
    if fs::symlink_metadata(path).is_ok() {
        return Ok(false);
    }
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    }
    // No two processes or threads write the same file.
    let key = Key::random();
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.new", &key.for_purpose("the name of a file").to_hex()[..16]));
    let unfinished = PathBuf::from(unfinished);
    let made = write_private_file(&unfinished, format!("{}\n", key.to_hex()))
        .and_then(|()| File::open(&unfinished)?.sync_all())
        .and_then(|()| fs::hard_link(&unfinished, path));
    // What is left over in case of an error is no key that anything uses.
    let _ = fs::remove_file(&unfinished);
    match made {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// Finds the key for a cluster: in the file that the caller names, in the variable PARIO_KEY, or, for
/// a cluster that is reached over the network, in the file of the user's key.
pub fn find(named: Option<&Path>, is_far: bool) -> Result<Option<FoundKey>, Error> {
    if let Some(file) = named {
        return read(file).map(Some);
    }
    if let Some(value) = std::env::var_os(KEY_VARIABLE).filter(|value| !value.is_empty()) {
        return from_variable(value.as_ref()).map(Some);
    }
    match user_key_file().filter(|file| is_far && file.exists()) {
        Some(file) => read(&file).map(Some),
        None => Ok(None),
    }
}

/// Returns the key that the variable holds, or that is in the file which it names.
pub fn from_variable(value: &Path) -> Result<FoundKey, Error> {
    let digits = value.to_str().and_then(|text| Key::from_hex(text).ok());
    match digits {
        Some(key) => Ok(FoundKey { key, source: format!("the variable {KEY_VARIABLE}") }),
        None => read(value),
    }
}

fn read(path: &Path) -> Result<FoundKey, Error> {
    let wrong = |kind, why: String| Error::KeyFile {
        kind,
        text: format!("the key in {}: {why}", path.display()),
    };
    let text = match pario_net::read_private_file(path, true) {
        Ok(text) => text,
        // The error names the file already.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let text = format!("the key cannot be used: {error}");
            return Err(Error::KeyFile { kind: ErrorKind::PermissionDenied, text });
        }
        Err(error) => return Err(wrong(error.kind(), error.to_string())),
    };
    let key = Key::from_hex(&text);
    let key = key.map_err(|error| wrong(ErrorKind::InvalidInput, error.to_string()))?;
    Ok(FoundKey { key, source: path.display().to_string() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config/pario/key");
        let made: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| create_key_file(&file).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.contains(&true), "{made:?}");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        assert_eq!(
            fs::read_dir(file.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left over"
        );
        let key = read(&file).unwrap().key.to_hex();
        assert!(!create_key_file(&file).unwrap());
        assert_eq!(read(&file).unwrap().key.to_hex(), key);
    }

    #[test]
    fn the_variable_holds_the_key_or_names_its_file() {
        let (dir, key) = (tempfile::tempdir().unwrap(), Key::random());
        let file = dir.path().join("key");
        write_private_file(&file, key.to_hex()).unwrap();
        for value in [file.to_str().unwrap(), key.to_hex().as_str()] {
            assert_eq!(from_variable(value.as_ref()).unwrap().key.to_hex(), key.to_hex());
        }
        let missing = from_variable(&dir.path().join("nothing")).unwrap_err();
        assert!(missing.to_string().contains("nothing: "), "{missing}");
    }
}
