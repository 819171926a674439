//! Addresses of clusters, as users write them: a socket, a host, a port, a data directory.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use pario_net::Address;
use rustix::fs::OFlags;

use crate::error::Error;
use crate::host::{HostAndPort, not_an_address};

/// The longest address that a data directory may hold.
const NOTE_LIMIT_BYTES: u64 = 64 << 10;

/// The address of a cluster, as users write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterAddress {
    /// The address of a node.
    Node(Address),
    /// A TCP port of a host.
    Network(HostAndPort),
    /// A host by its name alone: the user's node if it is this machine, otherwise the default port.
    Host(HostAndPort),
}

/// Parses an address: `unix:PATH`, `tcp:HOST:PORT`, `HOST:PORT`, `HOST`, the path of a socket, the
/// data directory of a running node, or the full form that a node prints.
pub fn parse(text: &str) -> Result<ClusterAddress, Error> {
    let text = text.trim();
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(ClusterAddress::Node(Address::unix(absolute(path)?)));
    }
    if let Some(host) = text.strip_prefix("tcp:") {
        return host_and_port(host).map(ClusterAddress::Network);
    }
    if text.contains('=') {
        let address = text.parse().map_err(|error| Error::invalid(format!("{error}")));
        return address.map(ClusterAddress::Node);
    }
    let path = Path::new(text);
    if path.is_dir() {
        return of_data_directory(path).map(ClusterAddress::Node);
    }
    if text.contains('/') {
        return Ok(ClusterAddress::Node(Address::unix(absolute(text)?)));
    }
    host_and_port(text).map(|host| match host.port {
        Some(_) => ClusterAddress::Network(host),
        None => ClusterAddress::Host(host),
    })
}

fn host_and_port(text: &str) -> Result<HostAndPort, Error> {
    let why = "it names no host, or its port is no number";
    HostAndPort::parse(text).ok_or_else(|| not_an_address(text, why))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_a_port_or_a_host() {
        let host = |host: &str, port| HostAndPort { host: host.to_owned(), port };
        for (text, place) in [
            ("unix:/run/s", ClusterAddress::Node(Address::unix("/run/s"))),
            ("/run/s", ClusterAddress::Node(Address::unix("/run/s"))),
            ("tcp:sun17", ClusterAddress::Network(host("sun17", None))),
            ("tcp:sun17:9", ClusterAddress::Network(host("sun17", Some(9)))),
            ("sun17:9", ClusterAddress::Network(host("sun17", Some(9)))),
            (" sun17\n", ClusterAddress::Host(host("sun17", None))),
        ] {
            assert_eq!(parse(text).unwrap(), place, "{text}");
        }
        for text in ["", "tcp:", "sun17:many", "tcp=nonsense"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
