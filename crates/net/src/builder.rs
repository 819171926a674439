//! Making a space that has links.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::address::Address;
use crate::error::SpaceError;
use crate::key::Key;
use crate::space::{Options, Space};

/// Makes a [`Space`] with links. Either [`host`](Self::host) or [`join`](Self::join) must be
/// called.
#[derive(Clone, Debug)]
pub struct SpaceBuilder {
    pub(crate) name: String,
    pub(crate) unix: Option<PathBuf>,
    pub(crate) tcp: Option<SocketAddr>,
    pub(crate) key: Option<Key>,
    pub(crate) directory: Option<DirectoryChoice>,
    pub(crate) links: LinkChoice,
    pub(crate) options: Options,
}

#[derive(Clone, Debug)]
pub(crate) enum DirectoryChoice {
    Host,
    Join(Address),
}

/// Which links a space opens, where there is a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkChoice {
    /// Memory in the same process, Unix sockets on the same machine, TCP otherwise.
    #[default]
    Nearest,
    /// Unix sockets also in the same process, TCP where there is none.
    Unix,
    /// TCP where the peer listens on TCP.
    Tcp,
}

impl SpaceBuilder {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            unix: None,
            tcp: None,
            key: None,
            directory: None,
            links: LinkChoice::default(),
            options: Options::default(),
        }
    }

    /// Listens on a Unix socket at this path, instead of one whose name the system forgets with
    /// the process.
    pub fn listen_unix(mut self, path: impl Into<PathBuf>) -> Self {
        self.unix = Some(path.into());
        self
    }

    /// Listens on TCP too; port 0 lets the system choose. An address that is not loopback needs a
    /// key.
    pub fn listen_tcp(mut self, address: SocketAddr) -> Self {
        self.tcp = Some(address);
        self
    }

    /// The key that all spaces of the program share.
    pub fn key(mut self, key: Key) -> Self {
        self.key = Some(key);
        self
    }

    /// Hosts the directory.
    pub fn host(mut self) -> Self {
        self.directory = Some(DirectoryChoice::Host);
        self
    }

    /// Joins the directory that is hosted at this address.
    pub fn join(mut self, address: &Address) -> Self {
        self.directory = Some(DirectoryChoice::Join(address.clone()));
        self
    }

    /// Uses TCP also on the same machine.
    pub fn prefer_tcp(self, prefer: bool) -> Self {
        self.links(if prefer { LinkChoice::Tcp } else { LinkChoice::Nearest })
    }

    /// Which links to open, where there is a choice.
    pub fn links(mut self, links: LinkChoice) -> Self {
        self.links = links;
        self
    }

    /// Everything else.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Makes the space.
    pub fn build(self) -> Result<Space, SpaceError> {
        Err(SpaceError::NoDirectory { space: self.name })
    }
}
