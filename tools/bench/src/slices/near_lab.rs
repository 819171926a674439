//! Five machines with cables of 1 Gbit/s: a node on each of four, and the caller on the fifth.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::{near_caller, node};
use crate::apart::text;
use crate::cables;
use crate::partner::{Partner, Role, Starter};

/// The first process of the lab.
pub const ROLE: Role = Role { name: "slices-near-lab", run: serve };

/// Nodes, each on a machine of its own.
pub const NODES: usize = 4;

/// What each cable carries, either way.
const BITS_PER_SECOND: u64 = 1_000_000_000;

const PORT: u16 = 4000;

fn serve(words: &[String]) -> Result<()> {
    let starter = Starter::listen();
    let [dir, width, height] = words else { bail!("needs a directory and a size") };
    // They live as long as this process.
    let (_nodes, mut caller) = match start_all(Path::new(dir), [width, height]) {
        Ok(started) => started,
        Err(error) => return starter.say(format!("{error:#}").replace('\n', " ")),
    };
    starter.say("ready")?;
    loop {
        let way = starter.hear()?;
        let before = cables::crossed_bytes()?;
        caller.tell(&way)?;
        let seconds: f64 = caller.hear_value()?;
        let crossed = cables::crossed_bytes()? - before;
        caller.tell("tidy")?;
        let tidied = caller.hear()?;
        ensure!(tidied == "done", "the caller said {tidied:?}");
        starter.say(format!("took {seconds} {crossed}"))?;
    }
}

fn start_all(dir: &Path, [width, height]: [&str; 2]) -> Result<(Vec<Partner>, Partner)> {
    let machines = NODES + 1;
    cables::lay(dir, machines)?;
    let config = configuration(dir)?;
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let mut command = cables::at(number, &[], node::ROLE.name)?;
        let mut node = Partner::spawn(command.args([text(&config)?, &cables::name(number)]))?;
        let said = node.hear().context("starting a node")?;
        ensure!(said == "ready", "a node said {said:?}");
        nodes.push(node);
    }
    let mut command = cables::at(NODES, &[], near_caller::ROLE.name)?;
    let address = format!("tcp:{}:{PORT}", cables::address(0));
    let key = dir.join("key");
    let mut caller = Partner::spawn(command.args([&*address, text(&key)?, width, height]))?;
    let said = caller.hear().context("starting the caller")?;
    ensure!(said == "ready", "the caller said {said:?}");
    // The image was made at the speed of the machine.
    cables::limit(machines, BITS_PER_SECOND)?;
    Ok((nodes, caller))
}

/// As `pario serve` has it from a file that says no more than where everything is.
fn configuration(dir: &Path) -> Result<PathBuf> {
    let place = dir.display();
    node::write_key(dir)?;
    let mut config = format!("name = \"near\"\nkey_file = \"{place}/key\"\n");
    for number in 0..NODES {
        let (name, address) = (cables::name(number), cables::address(number));
        config += &format!(
            "\n[nodes.{name}]\nlisten = \"{address}:{PORT}\"\nsocket = \"{place}/{name}.s\"\n\
             data = \"{place}/{name}\"\ndisks = [\"{place}/{name}/disk\"]\n"
        );
    }
    let path = dir.join("cluster.toml");
    fs::write(&path, config)?;
    Ok(path)
}
