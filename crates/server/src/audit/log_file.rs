//! A log file of bounded size, and its predecessor.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The size at which `audit.log` replaces `audit.log.1`, and a new file begins.
pub const FILE_LIMIT_BYTES: u64 = 8 << 20;

/// An append-only log file.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    limit_bytes: u64,
    file: File,
    len_bytes: u64,
}

impl LogFile {
    /// Opens the file, and creates it if it is missing. Only its user can read it.
    pub fn open(path: &Path, limit_bytes: u64) -> io::Result<Self> {
        let file = open(path)?;
        let len_bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), limit_bytes, file, len_bytes })
    }

    /// Appends a line; begins a new file first if the line would exceed the limit.
    pub fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let len = line.len() as u64;
        if self.len_bytes > 0 && self.len_bytes + len > self.limit_bytes {
            let mut before = self.path.clone().into_os_string();
            before.push(".1");
            fs::rename(&self.path, before)?;
            self.file = open(&self.path)?;
            self.len_bytes = 0;
        }
        self.file.write_all(line)?;
        self.len_bytes += len;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let no_link = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let file = options.append(true).create(true).mode(0o600).custom_flags(no_link).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    Ok(file)
}
