//! Virtual machines of the network: network namespaces, connected by a switch. Both sides of a
//! figure across machines use cables of the same kind.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result};

use crate::namespaces::{run, text};

/// In new namespaces: creates a network for each machine, and a switch to which this process is
/// connected as well. Afterwards machines have names in this process.
pub fn create(dir: &Path, machines: usize) -> Result<()> {
    run("mount", &["-t", "tmpfs", "tmpfs", "/run"])?;
    let line = |number| format!("{} {}\n", address(number), name(number));
    let lines: String = (0..machines).map(line).collect();
    let hosts = dir.join("hosts");
    fs::write(&hosts, format!("127.0.0.1 localhost\n{lines}"))?;
    run("mount", &["--bind", text(&hosts)?, "/etc/hosts"])?;
    let ip = |words: String| run("ip", &words.split(' ').collect::<Vec<_>>());
    ip("link set lo up".to_owned())?;
    ip("link add hub type bridge".to_owned())?;
    ip("address add 10.79.0.100/24 dev hub".to_owned())?;
    ip("link set hub up".to_owned())?;
    for number in 0..machines {
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

/// Limits the cable of each machine to a number of bits per second, in each direction.
pub fn limit(machines: usize, bits_per_second: u64) -> Result<()> {
    // A burst is what the cable carries in two milliseconds; packets that would wait longer than 20
    // ms are dropped.
    let burst = bits_per_second / 8 / 500;
    let words = format!("root tbf rate {bits_per_second}bit burst {burst} latency 20ms");
    let tc = |words: String| run("tc", &words.split(' ').collect::<Vec<_>>());
    for number in 0..machines {
        tc(format!("qdisc add dev port{number} {words}"))?;
        tc(format!("-n {} qdisc add dev cable {words}", name(number)))?;
    }
    Ok(())
}

/// Bytes that machines have sent so far, each counted once.
pub fn crossed_bytes() -> Result<u64> {
    let table =
        fs::read_to_string("/proc/net/dev").context("reading the counters of the switch")?;
    Ok(received_at_ports(&table))
}

/// The first number behind the name of a port counts the received bytes.
fn received_at_ports(table: &str) -> u64 {
    let lines = table.lines().filter_map(|line| line.trim_start().strip_prefix("port"));
    let first = |line: &str| line.split_once(':')?.1.split_whitespace().next()?.parse::<u64>().ok();
    lines.filter_map(first).sum()
}

/// The name of a machine.
pub fn name(number: usize) -> String {
    format!("m{number}")
}

/// The address of a machine.
pub fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 79, 0, u8::try_from(number + 1).unwrap_or(u8::MAX))
}

/// The command that runs this program in a role on the network of a machine; `through` are programs
/// that start the next one.
pub fn at(number: usize, through: &[&str], role: &str) -> Result<Command> {
    let program = env::current_exe().context("finding this program")?;
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{}", name(number))).args(through);
    command.arg(program).args(["--partner", role]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ports_have_received_is_added_up() {
        let table = "Inter-|   Receive        |  Transmit\n face |bytes    packets |bytes\n\
                     \x20   lo: 7 1 0 7 1\n port0: 100 3 0 50 2\n port1:   20 1 0 9\n  hub: 5 5\n";
        assert_eq!(received_at_ports(table), 120);
        assert_eq!(received_at_ports(""), 0);
    }
}
