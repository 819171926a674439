//! Four machines with a node and a rank of ours on each.
//!
//! A node has one disk, on the measured file system. A rank reaches the node of its own namespace
//! over its Unix socket and the others over TCP with a key; no rank is on the machine of all disks,
//! so there is no short cut, and the group coordinates by messages. The first process of the lab
//! creates the network, starts everything, and creates and reads files for the measuring process.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use pario::Cluster;
use pario_net::Key;
use pario_server::Node;
use pario_server::config::{Config, DiskConfig, NodeConfig};

use super::contest::PROCESSES;
use super::member::{self, MemberWords};
use super::turn_processes::{TurnListener, TurnProcesses};
use crate::cluster::content::Content;
use crate::cluster::measured_file::MeasuredFile;
use crate::namespaces::{self, text};
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole, next_word};
use crate::virtual_network;

/// The first process of the lab.
pub const ROLE: PartnerRole = PartnerRole { name: "modes-lab", run: serve };
/// A node in the lab.
pub const NODE_ROLE: PartnerRole = PartnerRole { name: "modes-node", run: serve_node };

const PORT: u16 = 4000;

/// A running lab.
#[derive(Debug)]
pub struct NodeLab {
    partner: PartnerProcess,
}

impl NodeLab {
    /// Starts everything in a directory; the inner error says why that is impossible here.
    pub fn start(dir: &Path) -> Result<Result<(Self, TurnProcesses), String>> {
        fs::create_dir_all(dir)?;
        pario_net::write_private_file(&dir.join("key"), Key::random().to_hex())?;
        let listener = TurnListener::open(dir, "sock")?;
        let mut partner = namespaces::start(ROLE.name, &[text(dir)?, listener.path()?])?;
        match partner.receive_line() {
            Ok(said) if said == "ready" => {}
            Ok(why) => return Ok(Err(format!("no namespaces: {why}"))),
            Err(_) => return Ok(Err("namespaces are not possible here".to_owned())),
        }
        let team = listener.gather(PROCESSES, Vec::new())?;
        Ok(Ok((Self { partner }, team)))
    }

    /// Creates a file of this many blocks.
    pub fn fill(&mut self, name: &str, piece_bytes: usize, blocks: u64) -> Result<()> {
        self.order(&format!("fill {name} {piece_bytes} {blocks}"))
    }

    /// Copies a file to a plain one.
    pub fn copy(&mut self, name: &str, to: &Path) -> Result<()> {
        self.order(&format!("copy {name} {}", text(to)?))
    }

    fn order(&mut self, line: &str) -> Result<()> {
        self.partner.send_line(line)?;
        let said = self.partner.receive_line()?;
        ensure!(said == "done", "the lab sent the line {said:?}");
        Ok(())
    }
}

fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [dir, listener] = words else { bail!("needs a directory and a socket") };
    let dir = Path::new(dir);
    // They live as long as this process.
    let (cluster, _nodes, _members) = match start_all(dir, listener) {
        Ok(started) => started,
        Err(error) => return parent.send_line(format!("{error:#}").replace('\n', " ")),
    };
    parent.send_line("ready")?;
    loop {
        let line = parent.receive_line()?;
        let mut words = line.split_whitespace();
        let words = &mut words;
        let what: String = next_word(words)?;
        let path = format!("/{}", next_word::<String>(words)?);
        match what.as_str() {
            "fill" => {
                let (piece_bytes, blocks): (usize, u64) = (next_word(words)?, next_word(words)?);
                let file = MeasuredFile::create_ours(&cluster, &path)?;
                file.ensure_short_cut(false)?;
                file.fill(&Content::new(piece_bytes), blocks * piece_bytes as u64)?;
            }
            "copy" => {
                let file = cluster.open(&path)?;
                let mut bytes = vec![0; usize::try_from(file.len()?)?];
                file.read_exact_at(&mut bytes, 0)?;
                fs::write(next_word::<String>(words)?, bytes)?;
            }
            _ => bail!("cannot {what}"),
        }
        parent.send_line("done")?;
    }
}

/// Creates the network, and starts nodes and ranks.
fn start_all(
    dir: &Path,
    listener: &str,
) -> Result<(Cluster, Vec<PartnerProcess>, Vec<PartnerProcess>)> {
    virtual_network::create(dir, PROCESSES)?;
    let start_node = |number: usize| {
        let mut node =
            start_in(number, NODE_ROLE.name, &[text(dir)?.to_owned(), number.to_string()])?;
        let said = node.receive_line().context("starting a node")?;
        ensure!(said == "ready", "a node sent the line {said:?}");
        Ok(node)
    };
    let nodes = (0..PROCESSES).map(start_node).collect::<Result<_>>()?;
    let key = dir.join("key");
    let cluster = member::connect(&format!("tcp:{}", address(0)), &key)?;
    let start_member = |rank: usize| {
        let socket = format!("unix:{}", socket_name(dir, rank)?);
        let (address, key) = (&*socket, text(&key)?);
        let member = MemberWords { listener, address, key, job: "across", size: PROCESSES, rank };
        start_in(rank, member::ROLE.name, &member.words())
    };
    let members = (0..PROCESSES).map(start_member).collect::<Result<_>>()?;
    Ok((cluster, nodes, members))
}

/// Starts this program on a machine, in a role.
fn start_in(number: usize, role: &str, words: &[String]) -> Result<PartnerProcess> {
    PartnerProcess::spawn(virtual_network::at(number, &[], role)?.args(words))
}

fn serve_node(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [dir, number] = words else { bail!("needs a directory and a number") };
    let node = Node::start(&config(Path::new(dir)), &virtual_network::name(number.parse()?))?;
    parent.send_line("ready")?;
    node.wait();
    Ok(())
}

/// The configuration that `pario serve` reads from a file with only the locations of nodes and
/// disks.
fn config(dir: &Path) -> Config {
    let alone = Config::alone(dir);
    let node = |number: usize| {
        let name = virtual_network::name(number);
        let data = dir.join(&name);
        NodeConfig {
            listen: Some(address(number)),
            socket: dir.join(format!("{name}.sock")),
            disks: vec![DiskConfig::at(data.join("disk"))],
            data,
            name,
            ..alone.nodes[0].clone()
        }
    };
    let nodes: Vec<NodeConfig> = (0..PROCESSES).map(node).collect();
    Config { name: "lab".to_owned(), key_file: Some(dir.join("key")), nodes, ..alone }
}

fn socket_name(dir: &Path, number: usize) -> Result<String> {
    let name = virtual_network::name(number);
    Ok(text(&dir.join(format!("{name}.sock")))?.to_owned())
}

fn address(number: usize) -> SocketAddr {
    SocketAddr::new(virtual_network::address(number).into(), PORT)
}
