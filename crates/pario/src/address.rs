//! Where a cluster is: what users write.

use std::fs;
use std::io::{self, Read as _};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use pario_net::Address;
use rustix::fs::OFlags;

use crate::error::Error;

/// The longest address that a data directory may hold.
const NOTE_LIMIT_BYTES: u64 = 64 << 10;

/// What users write: `unix:PATH`, `tcp:HOST:PORT`, `HOST:PORT`, the path of a socket, the data
/// directory of a running node, or the full form that a node prints.
pub fn parse(text: &str) -> Result<Address, Error> {
    let text = text.trim();
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Address::unix(absolute(path)?));
    }
    if let Some(host) = text.strip_prefix("tcp:") {
        return resolve(host).map(Address::tcp);
    }
    if text.contains('=') {
        return text.parse().map_err(|error| Error::invalid(format!("{error}")));
    }
    let path = Path::new(text);
    if path.is_dir() {
        return of_data_directory(path);
    }
    if text.contains('/') {
        return Ok(Address::unix(absolute(text)?));
    }
    resolve(text).map(Address::tcp)
}

/// The node that serves a data directory says where it is in a file there. The owner of the
/// directory must have written that file: the caller has named the directory, and with it its
/// owner.
pub fn of_data_directory(data: &Path) -> Result<Address, Error> {
    let file = data.join("address");
    match read_note(data, &file) {
        Ok(text) => {
            text.parse().map_err(|error| Error::other(format!("{}: {error}", file.display())))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::NotRunning {
            text: format!(
                "no node serves {0}: start one with `pario serve --data {0}`, or use the directory \
                 without one with `--data {0}`",
                data.display()
            ),
        }),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(Error::Refused {
            text: format!(
                "you may not read {}, where the node that serves {} says where it listens \
                 ({error}): if the node admits all users, name its socket, as in \
                 unix:{1}/pario.sock",
                file.display(),
                data.display(),
            ),
        }),
        Err(error) => Err(Error::NotRunning {
            text: format!(
                "the address of the node that serves {} cannot be read: {}: {error}; name its \
                 socket instead, as in unix:PATH",
                data.display(),
                file.display(),
            ),
        }),
    }
}

/// Reads the address that a node has noted in its data directory.
fn read_note(data: &Path, path: &Path) -> io::Result<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let (found, owner) = (file.metadata()?, fs::metadata(data)?.uid());
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if found.uid() != owner && found.uid() != 0 {
        let uid = found.uid();
        let why = format!("it belongs to user {uid}, not to user {owner}, who owns the directory");
        return Err(io::Error::other(why));
    }
    let mut text = String::new();
    file.take(NOTE_LIMIT_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn absolute(path: &str) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|error| Error::invalid(format!("{path}: {error}")))
}

fn resolve(host: &str) -> Result<SocketAddr, Error> {
    let wrong = |why: String| {
        Error::invalid(format!(
            "{host:?} is not the address of a cluster ({why}): write unix:PATH, tcp:HOST:PORT, or \
             the data directory of a node"
        ))
    };
    let mut found = host.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("the host has no address".to_owned()))
}
