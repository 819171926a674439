//! Five machines with cables of 1 Gbit/s: a node on each of four, and the caller on the fifth.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::{near_caller, node};
use crate::namespaces::text;
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole};
use crate::virtual_network;

/// The first process of the lab.
pub const ROLE: PartnerRole = PartnerRole { name: "slices-near-lab", run: serve };

/// Nodes, each on a machine of its own.
pub const NODES: usize = 4;

/// The bandwidth of each cable, in each direction.
const BITS_PER_SECOND: u64 = 1_000_000_000;

const PORT: u16 = 4000;

fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [dir, width, height] = words else { bail!("needs a directory and a size") };
    // They live as long as this process.
    let (_nodes, mut caller) = match start_all(Path::new(dir), [width, height]) {
        Ok(started) => started,
        Err(error) => return parent.send_line(format!("{error:#}").replace('\n', " ")),
    };
    parent.send_line("ready")?;
    loop {
        let way = parent.receive_line()?;
        let before = virtual_network::crossed_bytes()?;
        caller.send_line(&way)?;
        let seconds: f64 = caller.receive_value()?;
        let crossed = virtual_network::crossed_bytes()? - before;
        caller.send_line("tidy")?;
        let tidied = caller.receive_line()?;
        ensure!(tidied == "done", "the caller sent the line {tidied:?}");
        parent.send_line(format!("took {seconds} {crossed}"))?;
    }
}

fn start_all(
    dir: &Path,
    [width, height]: [&str; 2],
) -> Result<(Vec<PartnerProcess>, PartnerProcess)> {
    let machines = NODES + 1;
    virtual_network::create(dir, machines)?;
    let config = configuration(dir)?;
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let mut command = virtual_network::at(number, &[], node::ROLE.name)?;
        let mut node =
            PartnerProcess::spawn(command.args([text(&config)?, &virtual_network::name(number)]))?;
        let said = node.receive_line().context("starting a node")?;
        ensure!(said == "ready", "a node sent the line {said:?}");
        nodes.push(node);
    }
    let mut command = virtual_network::at(NODES, &[], near_caller::ROLE.name)?;
    let address = format!("tcp:{}:{PORT}", virtual_network::address(0));
    let key = dir.join("key");
    let mut caller = PartnerProcess::spawn(command.args([&*address, text(&key)?, width, height]))?;
    let said = caller.receive_line().context("starting the caller")?;
    ensure!(said == "ready", "the caller sent the line {said:?}");
    // The image is created before the cables are limited.
    virtual_network::limit(machines, BITS_PER_SECOND)?;
    Ok((nodes, caller))
}

/// The configuration that `pario serve` reads from a file with only the locations of nodes and
/// disks.
fn configuration(dir: &Path) -> Result<PathBuf> {
    let place = dir.display();
    node::write_key(dir)?;
    let mut config = format!("name = \"near\"\nkey_file = \"{place}/key\"\n");
    for number in 0..NODES {
        let (name, address) = (virtual_network::name(number), virtual_network::address(number));
        config += &format!(
            "\n[nodes.{name}]\nlisten = \"{address}:{PORT}\"\nsocket = \"{place}/{name}.s\"\n\
             data = \"{place}/{name}\"\ndisks = [\"{place}/{name}/disk\"]\n"
        );
    }
    let path = dir.join("cluster.toml");
    fs::write(&path, config)?;
    Ok(path)
}
