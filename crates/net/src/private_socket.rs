//! Listening Unix sockets in the private runtime directory.
//!
//! Invariants: no other user can connect to such a socket, bind its name first or replace it,
//! because no other user can enter the directory. A live socket is never replaced: a process that
//! binds, probes or removes a name holds the lock of the directory, and binds and listens under one
//! hold of that lock. A listener removes its name before it stops listening.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::key::SpaceId;
use crate::runtime_directory::{make_private_directory, runtime_directory};

/// Bytes that the path of a Unix socket may have.
const PATH_LIMIT_BYTES: usize = 107;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
/// Directory entries that one process checks for dead sockets.
const CLEANED_AT_ONCE: usize = 256;
/// Age from which sockets of unknown processes are probed.
const PROBED_AFTER: Duration = Duration::from_secs(3600);

/// A listening Unix socket that only processes of this user and root can reach. Dropping it
/// removes its name.
#[derive(Debug)]
pub struct PrivateListener {
    socket: OwnedFd,
    path: PathBuf,
}

impl PrivateListener {
    /// Returns the path at which processes of this user with the same purpose and name find each
    /// other, within one network namespace.
    pub fn rendezvous_path(purpose: &str, name: &str) -> io::Result<PathBuf> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(namespace("net").as_bytes());
        hasher.update(rustix::system::uname().nodename().to_bytes());
        hasher.update(b"\0");
        hasher.update(name.as_bytes());
        let hash = hasher.finalize().to_hex();
        private_path(&format!("{purpose}-{}", &hash[..24]))
    }

    /// Listens at a path of [`rendezvous_path`](Self::rendezvous_path); none if another process
    /// listens there. Replaces the socket of a killed process.
    pub fn bind(path: &Path, kind: SocketType) -> io::Result<Option<Self>> {
        let socket = listen_locked(path, kind)?;
        Ok(socket.map(|socket| Self { socket, path: path.to_owned() }))
    }
}

impl AsFd for PrivateListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for PrivateListener {
    fn drop(&mut self) {
        // The socket still listens, so that the name is certainly its own.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listens under a unique name; returns the socket and its path.
pub(crate) fn listen_anywhere(id: SpaceId) -> io::Result<(OwnedFd, PathBuf)> {
    let [a, b, c, d, e, f, ..] = *id.as_bytes();
    let number = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    let path =
        private_path(&format!("s-{}-{}-{number:012x}", namespace("pid"), std::process::id()))?;
    static CLEANED: Once = Once::new();
    CLEANED.call_once(|| remove_dead(path.parent().unwrap_or(Path::new("/"))));
    match listen_locked(&path, SocketType::STREAM)? {
        Some(socket) => Ok((socket, path)),
        None => Err(Errno::ADDRINUSE.into()),
    }
}

/// Returns the path of a file in the private runtime directory, which it creates if it is missing.
/// Where that path is too long for a socket, the directory is `pario-UID` in `/tmp`.
fn private_path(file: &str) -> io::Result<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let mut dirs = vec![runtime_directory(), PathBuf::from(format!("/tmp/pario-{uid}"))];
    dirs.dedup();
    let mut failure = None;
    for dir in dirs {
        let path = dir.join(file);
        if path.as_os_str().as_bytes().len() > PATH_LIMIT_BYTES {
            continue;
        }
        match make_private_directory(&dir) {
            Ok(()) => return Ok(path),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| {
        let text = "the path of the runtime directory is too long for a socket; set \
                    XDG_RUNTIME_DIR to a shorter directory of your own";
        io::Error::new(io::ErrorKind::InvalidInput, text)
    }))
}

/// Binds and listens; none if another process listens at this path.
fn listen_locked(path: &Path, kind: SocketType) -> io::Result<Option<OwnedFd>> {
    let address = SocketAddrUnix::new(path)?;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    let _lock = lock_directory(path)?;
    match rustix::net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            if is_alive(path, kind) {
                return Ok(None);
            }
            std::fs::remove_file(path)?;
            rustix::net::bind(&socket, &address)?;
        }
        result => result?,
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(Some(socket))
}

/// Locks the directory of a path until the returned file is dropped.
pub(crate) fn lock_directory(path: &Path) -> io::Result<File> {
    let dir = File::open(path.parent().unwrap_or(Path::new("/")))?;
    loop {
        match flock(&dir, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            result => return Ok(result.map(|()| dir)?),
        }
    }
}

/// Whether a process listens at this path, be its queue full or not.
fn is_alive(path: &Path, kind: SocketType) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None);
    let (Ok(probe), Ok(address)) = (probe, SocketAddrUnix::new(path)) else { return true };
    !matches!(rustix::net::connect(&probe, &address), Err(Errno::CONNREFUSED | Errno::NOENT))
}

/// Removes sockets of dead processes among a bounded number of entries.
fn remove_dead(dir: &Path) {
    let Ok(_lock) = lock_directory(&dir.join("any")) else { return };
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten().take(CLEANED_AT_ONCE) {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_socket()) && is_dead(&path) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether a socket is one of this module and its process has ended. Looks up a process of the same
/// pid namespace; probes any other socket, but only when it is old, so that probes do not disturb
/// live processes.
fn is_dead(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let mut parts = name.split('-');
    let kind = match (parts.next(), parts.next(), parts.next()) {
        (Some("s"), Some(space), Some(pid)) if space == namespace("pid") => {
            return pid
                .parse::<u32>()
                .is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        }
        (Some("s"), ..) | (Some("flow"), Some(_), None) => SocketType::STREAM,
        (Some("team"), Some(_), None) => SocketType::SEQPACKET,
        _ => return false,
    };
    let changed = std::fs::symlink_metadata(path).and_then(|found| found.modified());
    let is_old = changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > PROBED_AFTER));
    is_old && !is_alive(path, kind)
}

/// The number of a namespace of this process; 0 if the system does not say.
fn namespace(kind: &str) -> String {
    let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
    let digits = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect::<String>();
    format!("{:x}", digits.parse::<u64>().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_while_its_socket_lives_and_replaced_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("team-1");
        let bind = || PrivateListener::bind(&path, SocketType::SEQPACKET).unwrap();
        let first = bind().unwrap();
        assert!(bind().is_none(), "it listens");
        drop(first);
        assert!(!path.exists());
        // A killed process leaves the name of a socket on which no process listens.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(bind().is_some(), "a dead socket is replaced");
    }

    #[test]
    fn only_dead_sockets_of_this_module_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let own = namespace("pid");
        let socket = |name: &str| {
            let path = dir.path().join(name);
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
            path
        };
        // No process has this number: the limit of Linux is 2^22.
        let dead = socket(&format!("s-{own}-4194305-00"));
        let live = socket(&format!("s-{own}-{}-00", std::process::id()));
        let (elsewhere, foreign) = (socket("s-1-4194305-00"), socket("node.socket"));
        let team = socket("team-0123");
        remove_dead(dir.path());
        assert!(!dead.exists());
        for kept in [&live, &elsewhere, &foreign, &team] {
            assert!(kept.exists(), "{}", kept.display());
        }
    }
}
