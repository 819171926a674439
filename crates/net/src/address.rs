//! Where a space can be reached.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::error::AddressError;
use crate::key::SpaceId;

/// Where a space can be reached: what others pass to [`join`](crate::SpaceBuilder::join).
///
/// As text it can be given to other processes:
///
/// ```
/// use pario_net::Address;
///
/// let address: Address = "tcp=127.0.0.1:4000".parse().unwrap();
/// assert_eq!(address.to_string(), "tcp=127.0.0.1:4000");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Path of a Unix socket.
    pub unix: Option<PathBuf>,
    /// Address of a TCP socket.
    pub tcp: Option<SocketAddr>,
    /// The machine on which the Unix socket is; if it is missing, it is this one.
    pub machine: Option<u64>,
    /// The space, for others in the same process.
    pub space: Option<SpaceId>,
}

impl Address {
    /// A Unix socket on this machine.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self { unix: Some(path.into()), ..Self::default() }
    }

    /// A TCP socket.
    pub fn tcp(address: SocketAddr) -> Self {
        Self { tcp: Some(address), ..Self::default() }
    }

    /// Whether it is on this machine and can be reached without a network.
    pub fn is_near(&self) -> bool {
        self.unix_here().is_some()
    }

    /// The path of the Unix socket, if it is on this machine.
    pub(crate) fn unix_here(&self) -> Option<&PathBuf> {
        self.unix.as_ref().filter(|_| self.machine.is_none_or(|machine| machine == *MACHINE))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(unix) = &self.unix {
            parts.push(format!("unix={}", unix.display()));
        }
        if let Some(tcp) = &self.tcp {
            parts.push(format!("tcp={tcp}"));
        }
        if let Some(machine) = &self.machine {
            parts.push(format!("machine={machine:016x}"));
        }
        if let Some(space) = &self.space {
            parts.push(format!("space={space}"));
        }
        f.write_str(&parts.join(";"))
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = |reason| AddressError { text: text.to_owned(), reason };
        let mut address = Self::default();
        for part in text.trim().split(';') {
            let Some((name, value)) = part.split_once('=') else {
                return Err(wrong("expected unix=PATH, tcp=IP:PORT, or both with `;` between"));
            };
            match name {
                "unix" => address.unix = Some(value.into()),
                "tcp" => {
                    let tcp = value.parse().map_err(|_| wrong("tcp= needs IP:PORT"))?;
                    address.tcp = Some(tcp);
                }
                "machine" => {
                    let machine = u64::from_str_radix(value, 16);
                    address.machine = Some(machine.map_err(|_| wrong("machine= needs a number"))?);
                }
                "space" => {
                    let space = value.parse().map_err(|_| wrong("space= needs an id"))?;
                    address.space = Some(space);
                }
                _ => return Err(wrong("parts are unix, tcp, machine and space")),
            }
        }
        Ok(address)
    }
}

/// A number that two processes share exactly if they can reach each other's Unix sockets: it is
/// made of the boot of the machine, its network and its file systems.
pub(crate) static MACHINE: LazyLock<u64> = LazyLock::new(|| {
    let mut hasher = blake3::Hasher::new();
    if let Ok(boot) = std::fs::read("/proc/sys/kernel/random/boot_id") {
        hasher.update(&boot);
    }
    for namespace in ["/proc/self/ns/net", "/proc/self/ns/mnt"] {
        if let Ok(link) = std::fs::read_link(namespace) {
            hasher.update(link.as_os_str().as_encoded_bytes());
        }
    }
    hasher.update(rustix::system::uname().nodename().to_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_and_read() {
        let address = Address {
            unix: Some("/run/pario.socket".into()),
            tcp: Some("[::1]:80".parse().unwrap()),
            machine: Some(*MACHINE),
            space: Some(SpaceId::random()),
        };
        assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
        assert!(address.unix_here().is_some());
        let other = Address { machine: Some(!*MACHINE), ..address };
        assert!(other.unix_here().is_none());
        for text in ["", "x", "tcp=nobody", "tcp=localhost", "udp=127.0.0.1:3", "machine=zz"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
