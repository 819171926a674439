//! Four machines: network namespaces, joined by a switch. Both sides of a figure across machines have
//! machines of their own, with cables of the same kind.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result};

use super::contest::PROCESSES;
use crate::apart::{run, text};

/// Within new namespaces: makes a network for each machine, and a switch, at which this process is as
/// well. From here on machines have names here.
pub fn lay(dir: &Path) -> Result<()> {
    run("mount", &["-t", "tmpfs", "tmpfs", "/run"])?;
    let line = |number| format!("{} {}\n", address(number), name(number));
    let lines: String = (0..PROCESSES).map(line).collect();
    let hosts = dir.join("hosts");
    fs::write(&hosts, format!("127.0.0.1 localhost\n{lines}"))?;
    run("mount", &["--bind", text(&hosts)?, "/etc/hosts"])?;
    let ip = |words: String| run("ip", &words.split(' ').collect::<Vec<_>>());
    ip("link set lo up".to_owned())?;
    ip("link add hub type bridge".to_owned())?;
    ip("address add 10.79.0.100/24 dev hub".to_owned())?;
    ip("link set hub up".to_owned())?;
    for number in 0..PROCESSES {
        let name = name(number);
        ip(format!("netns add {name}"))?;
        ip(format!("link add port{number} type veth peer name cable netns {name}"))?;
        ip(format!("link set port{number} master hub"))?;
        ip(format!("link set port{number} up"))?;
        ip(format!("-n {name} address add {}/24 dev cable", address(number)))?;
        ip(format!("-n {name} link set cable up"))?;
        ip(format!("-n {name} link set lo up"))?;
    }
    Ok(())
}

/// How a machine is called.
pub fn name(number: usize) -> String {
    format!("m{number}")
}

/// Where a machine is.
pub fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 79, 0, u8::try_from(number + 1).unwrap_or(u8::MAX))
}

/// This program in a role, on the network of a machine; `through` are programs that start the next.
pub fn at(number: usize, through: &[&str], role: &str) -> Result<Command> {
    let program = env::current_exe().context("finding this program")?;
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{}", name(number))).args(through);
    command.arg(program).args(["--partner", role]);
    Ok(command)
}
