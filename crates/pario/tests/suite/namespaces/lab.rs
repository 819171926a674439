//! Network namespaces with an address each, joined by a switch. They go when the lab does.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const PORT: u16 = 7777;

/// Machines that are joined.
pub struct Lab {
    name: String,
    machines: u32,
}

impl Lab {
    /// Creates `machines` namespaces; `None` where the system does not allow that.
    pub fn new(machines: u32) -> Option<Self> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let lab = Self { name: format!("pario-t{}-{number}", std::process::id()), machines };
        if let Err(reason) = lab.lay_cables() {
            eprintln!("SKIPPED, nothing was tested: network namespaces are impossible: {reason}");
            return None;
        }
        Some(lab)
    }

    fn lay_cables(&self) -> Result<(), String> {
        let switch = format!("{}-switch", self.name);
        ip(&format!("netns add {switch}"))?;
        ip(&format!("-n {switch} link add hub type bridge"))?;
        ip(&format!("-n {switch} link set hub up"))?;
        for machine in 0..self.machines {
            let (namespace, host) = (self.namespace(machine), host(machine));
            ip(&format!("netns add {namespace}"))?;
            ip(&format!(
                "link add port{machine} netns {switch} type veth peer name cable netns {namespace}"
            ))?;
            ip(&format!("-n {switch} link set port{machine} master hub"))?;
            ip(&format!("-n {switch} link set port{machine} up"))?;
            ip(&format!("-n {namespace} address add {host}/24 dev cable"))?;
            ip(&format!("-n {namespace} link set cable up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
            // Whether processes can be started there is part of the question.
            ip(&format!("netns exec {namespace} true"))?;
        }
        Ok(())
    }

    /// The namespace of a machine.
    pub fn namespace(&self, machine: u32) -> String {
        format!("{}-{machine}", self.name)
    }

    /// The machine of a rank: they are dealt out.
    pub fn machine_of(&self, rank: u32) -> u32 {
        rank % self.machines
    }

    /// The rendezvous of the machines, on the first one.
    pub fn meeting(&self) -> SocketAddr {
        SocketAddr::new(host(0).into(), PORT)
    }
}

fn host(machine: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 79, 0, 1).to_bits() + machine)
}

impl Drop for Lab {
    fn drop(&mut self) {
        // With a namespace its end of a cable goes, and with that the whole cable.
        for machine in 0..self.machines {
            let _ = ip(&format!("netns delete {}", self.namespace(machine)));
        }
        let _ = ip(&format!("netns delete {}-switch", self.name));
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    let output = output.map_err(|error| format!("ip {arguments}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
