//! The measured node: a process of its own, as `pario serve` starts it, with four disks.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use pario::{Cluster, ClusterOptions};
use pario_net::{Address, Key};
use pario_server::Node;
use pario_server::config::Config;

use crate::net::Transport;
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole};

/// The process of the node.
pub const ROLE: PartnerRole = PartnerRole { name: "cluster-node", run: serve };

/// A node in a second process.
#[derive(Debug)]
pub struct NodeProcess {
    address: Address,
    key_file: PathBuf,
    _process: PartnerProcess,
}

impl NodeProcess {
    /// Starts a node whose data is in a directory, and waits until it is ready.
    pub fn start(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let key_file = dir.join("key");
        pario_net::write_private_file(&key_file, Key::random().to_hex())?;
        let word = dir.to_str().context("the directory has a readable name")?;
        let mut process = PartnerProcess::start(ROLE.name, &[word])?;
        let address = process.receive_line().context("starting a node")?.parse()?;
        Ok(Self { address, key_file, _process: process })
    }

    /// The address of its Unix socket.
    pub fn unix_address(&self) -> Result<String> {
        let path = self.address.unix.as_ref().context("the node has a Unix socket")?;
        Ok(format!("unix:{}", path.display()))
    }

    /// Connects as users do: over the Unix socket, with the short cut.
    pub fn connect(&self) -> Result<Cluster> {
        connect_near(&self.unix_address()?, "client")
    }

    /// Connects one of several clients of this process in the same way.
    pub fn connect_as(&self, client: u32) -> Result<Cluster> {
        connect_near(&self.unix_address()?, &format!("client {client}"))
    }

    /// Connects without the short cut.
    pub fn connect_over(&self, transport: Transport) -> Result<Cluster> {
        let address = match transport {
            Transport::Unix => self.unix_address()?,
            Transport::Tcp => {
                format!("tcp:{}", self.address.tcp.context("the node listens on TCP")?)
            }
        };
        let key_file = (transport == Transport::Tcp).then(|| self.key_file.clone());
        let options =
            ClusterOptions { short_cut: Some(false), key_file, ..ClusterOptions::default() };
        Ok(Cluster::connect_with(&address, options)?)
    }
}

/// Connects with the short cut, even if the environment disables it.
pub fn connect_near(address: &str, client: &str) -> Result<Cluster> {
    let client = Some(client.to_owned());
    let options = ClusterOptions { short_cut: Some(true), client, ..ClusterOptions::default() };
    Ok(Cluster::connect_with(address, options)?)
}

/// Runs the node, configured by a data directory only, and also on a port of loopback.
fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [dir] = words else {
        bail!("needs a directory");
    };
    let dir = Path::new(dir);
    let mut config = Config::alone(&dir.join("data"));
    config.key_file = Some(dir.join("key"));
    config.nodes[0].socket = dir.join("node.sock");
    config.nodes[0].listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let node = Node::start(&config, "local")?;
    parent.send_line(node.address())?;
    node.wait();
    Ok(())
}
