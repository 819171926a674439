//! Checks that the program exists and is executable, before anything is started.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Fails if the program does not exist or cannot be run.
pub fn check(program: &OsStr) -> io::Result<()> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    check_in(program, std::env::split_paths(&search))
}

fn check_in(program: &OsStr, mut search: impl Iterator<Item = PathBuf>) -> io::Result<()> {
    let shown = program.display();
    if !program.as_bytes().contains(&b'/') {
        return if search.any(|dir| !program.is_empty() && is_runnable(&dir.join(program))) {
            Ok(())
        } else {
            let text = format!(
                "there is no program {shown} in the directories of PATH; write ./{shown} for one \
                 in this directory"
            );
            Err(io::Error::new(io::ErrorKind::NotFound, text))
        };
    }
    let path = Path::new(program);
    if is_runnable(path) {
        return Ok(());
    }
    let (kind, why) = match path.metadata() {
        Ok(found) if found.is_dir() => {
            (io::ErrorKind::PermissionDenied, "it is a directory, not a program".to_owned())
        }
        Ok(_) => {
            let why = "it is not executable; make it so with `chmod +x`";
            (io::ErrorKind::PermissionDenied, why.to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (error.kind(), "there is no such program".to_owned())
        }
        Err(error) => (error.kind(), error.to_string()),
    };
    Err(io::Error::new(kind, format!("{shown}: {why}")))
}

fn is_runnable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_is_there_and_may_be_run() {
        let dir = tempfile::tempdir().unwrap();
        let plain = dir.path().join("plain");
        std::fs::write(&plain, "#!/bin/sh\n").unwrap();
        let check = |program: &OsStr| check_in(program, [dir.path().to_owned()].into_iter());
        let refused = |program: &OsStr, kind, told: &str| {
            let error = check(program).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(told), "{error}");
        };
        refused(plain.as_os_str(), io::ErrorKind::PermissionDenied, "chmod +x");
        refused("plain".as_ref(), io::ErrorKind::NotFound, "PATH");
        refused("".as_ref(), io::ErrorKind::NotFound, "PATH");
        refused(dir.path().as_os_str(), io::ErrorKind::PermissionDenied, "directory");
        refused(dir.path().join("x").as_os_str(), io::ErrorKind::NotFound, "no such program");
        std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o755)).unwrap();
        check(plain.as_os_str()).unwrap();
        check("plain".as_ref()).unwrap();
    }
}
