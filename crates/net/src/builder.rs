//! Builds a space with links.

use std::fs::Permissions;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::address::{Address, MACHINE};
use crate::core::{Core, SPACES};
use crate::directory::{self, PortDirectory};
use crate::error::{ConnectError, SpaceError};
use crate::exchange::DirectoryRole;
use crate::io_thread;
use crate::key::{Key, SpaceId};
use crate::listener::{Listener, TCP_LISTENER, UNIX_LISTENER};
use crate::poller::Poller;
use crate::private_socket::{listen_anywhere, lock_directory};
use crate::space::{Options, Space};

/// Connections that may wait to be accepted. Beyond that the system delays each by a second, honest
/// ones too.
const BACKLOG: i32 = 4096;

/// Builds a [`Space`] with links. Call either [`host`](Self::host) or [`join`](Self::join).
#[derive(Clone, Debug)]
pub struct SpaceBuilder {
    name: String,
    unix: Option<PathBuf>,
    tcp: Option<SocketAddr>,
    key: Option<Key>,
    directory: Option<DirectoryChoice>,
    links: LinkChoice,
    listens: bool,
    admits_any_user: bool,
    connects_to_any_user: bool,
    options: Options,
}

#[derive(Clone, Debug)]
enum DirectoryChoice {
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
            listens: true,
            admits_any_user: false,
            connects_to_any_user: false,
            options: Options::default(),
        }
    }

    /// Listens on a Unix socket at this path, instead of one in the private runtime directory of
    /// this user, which no other user can reach.
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

    /// Opens no listening socket: this space makes links, and no other process can make one to it.
    /// Replies come over the links it has made, so an [`RpcClient`](crate::RpcClient) needs no
    /// listener. Only this process can reach its input ports.
    ///
    /// ```
    /// use pario_net::Space;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = Space::builder("node").host().build()?;
    /// let client = Space::builder("client").listen_nowhere().join(&node.address()).build()?;
    /// assert_eq!((client.address().unix, client.address().tcp), (None, None));
    /// # Ok(())
    /// # }
    /// ```
    pub fn listen_nowhere(mut self) -> Self {
        self.listens = false;
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

    /// Whether every user of this machine may make links to this space through the socket of
    /// [`listen_unix`](Self::listen_unix). Otherwise only the same user and root may. This is not
    /// the right to make links to spaces of other users; that is
    /// [`connect_to_any_user`](Self::connect_to_any_user).
    ///
    /// The receiver knows each sender: [`Sender::user`](crate::Sender::user) comes from the kernel,
    /// while a space chooses its own name. A port that serves every user must check the user of
    /// each sender. Other users cannot announce ports here. A [`key`](Self::key) is required as
    /// before.
    ///
    /// Every user can then open the file of [`listen_unix`](Self::listen_unix).
    ///
    /// ```
    /// use pario_net::Space;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("server");
    /// let server = Space::builder("server").listen_unix(&path).admit_any_user(true).host();
    /// let server = server.build()?;
    /// let orders = server.input::<String>("orders")?;
    /// # orders.output().send("two of them".into())?;
    /// let (order, sender) = orders.recv_from()?;
    /// if sender.user.as_ref().is_some_and(|user| user.groups.contains(&100)) {
    ///     println!("{order} for {}", sender.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn admit_any_user(mut self, admit: bool) -> Self {
        self.admits_any_user = admit;
        self
    }

    /// Whether this space may make links to Unix sockets on which another user listens. Otherwise
    /// it connects only to processes of its own user and of root, and so does a space of root.
    pub fn connect_to_any_user(mut self, connect: bool) -> Self {
        self.connects_to_any_user = connect;
        self
    }

    /// All other options.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Builds the space.
    pub fn build(self) -> Result<Space, SpaceError> {
        let name = self.name.clone();
        if name.is_empty() || name.len() > 255 {
            return Err(SpaceError::BadName { space: name });
        }
        let Some(directory) = self.directory.clone() else {
            return Err(SpaceError::NoDirectory { space: name });
        };
        let system = |error: rustix::io::Errno| SpaceError::System {
            space: name.clone(),
            error: error.into(),
        };
        let mut core = Core::new(&name, self.options.clone());
        core.key = self.key.clone();
        core.links_choice = self.links;
        core.admits_any_user = self.admits_any_user;
        core.connects_to_any_user = self.connects_to_any_user;
        let poller = Poller::new().map_err(system)?;
        let (listener, address) = self.listen(core.id())?;
        if let Some(unix) = &listener.unix {
            poller.add(unix, UNIX_LISTENER).map_err(system)?;
        }
        if let Some(tcp) = &listener.tcp {
            poller.add(tcp, TCP_LISTENER).map_err(system)?;
        }
        core.poller = Some(poller);
        *core.listener.lock() = listener;
        *core.address.lock() = address.clone();
        let core = Arc::new(core);
        if matches!(directory, DirectoryChoice::Host) {
            let mut hosted = PortDirectory::default();
            let _ = hosted.join(directory::OWN, core.id(), &name, address);
            *core.role.lock() = DirectoryRole::Host(hosted);
        }
        SPACES.lock().insert(core.id(), Arc::downgrade(&core));
        let space = Space::from_core(core.clone());
        start_io_thread(&core)
            .map_err(|error| SpaceError::System { space: name.clone(), error })?;
        if let DirectoryChoice::Join(address) = &directory {
            join(&core, address)?;
        }
        Ok(space)
    }

    /// Opens the listening sockets.
    fn listen(&self, id: SpaceId) -> Result<(Listener, Address), SpaceError> {
        let space = self.name.clone();
        let failed = |address: String| {
            let space = space.clone();
            move |error| SpaceError::Listen { space, address, error }
        };
        let mut listener = Listener::default();
        let mut address =
            Address { machine: Some(*MACHINE), space: Some(id), ..Address::default() };
        if !self.listens {
            return Ok((listener, address));
        }
        let unix = match &self.unix {
            Some(path) => {
                let failed = || failed(path.display().to_string());
                let socket = listen_at(path).map_err(failed())?;
                if self.admits_any_user {
                    let everybody = Permissions::from_mode(0o666);
                    std::fs::set_permissions(path, everybody).map_err(failed())?;
                }
                listener.path = Some(path.clone());
                address.unix = Some(path.clone());
                socket
            }
            None => {
                let what = "a socket in the runtime directory of this user".to_owned();
                let (socket, path) = listen_anywhere(id).map_err(failed(what))?;
                address.unix = Some(path.clone());
                listener.path = Some(path);
                UnixListener::from(socket)
            }
        };
        unix.set_nonblocking(true).map_err(failed("its Unix socket".to_owned()))?;
        let _ = rustix::net::listen(&unix, BACKLOG);
        listener.unix = Some(unix);
        if let Some(wanted) = self.tcp {
            if self.key.is_none() && !wanted.ip().is_loopback() {
                return Err(SpaceError::KeyNeeded { space, address: wanted.to_string() });
            }
            let socket = TcpListener::bind(wanted).map_err(failed(wanted.to_string()))?;
            socket.set_nonblocking(true).map_err(failed(wanted.to_string()))?;
            let _ = rustix::net::listen(&socket, BACKLOG);
            address.tcp = Some(socket.local_addr().map_err(failed(wanted.to_string()))?);
            listener.tcp = Some(socket);
        }
        Ok((listener, address))
    }
}

/// Listens at a path. Replaces a socket without a listener. Two processes that listen at the same
/// path do so one after the other, if they may read its directory.
pub(crate) fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let _lock = lock_directory(path);
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if UnixStream::connect(path).is_ok() {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        result => result,
    }
}

fn start_io_thread(core: &Arc<Core>) -> io::Result<()> {
    let own = core.clone();
    let thread = std::thread::Builder::new()
        .name("net io".to_owned())
        .spawn(move || io_thread::run(&own))?;
    if let Some(poller) = &core.poller {
        poller.set_io_thread(thread.thread().clone());
    }
    *core.io_thread.lock() = Some(thread);
    Ok(())
}

/// Joins the directory at an address.
pub(crate) fn join(core: &Arc<Core>, address: &Address) -> Result<(), SpaceError> {
    let space = || core.name().to_owned();
    let link = core.connect(address).map_err(|error| SpaceError::Join { space: space(), error })?;
    core.join(&link).map_err(|owner| match owner {
        Some(owner) => SpaceError::NameTaken { space: space(), owner },
        None => SpaceError::Join {
            space: space(),
            error: ConnectError::Unreachable {
                address: address.to_string(),
                error: io::Error::new(
                    io::ErrorKind::TimedOut,
                    "it did not answer in time, or was lost",
                ),
            },
        },
    })
}
