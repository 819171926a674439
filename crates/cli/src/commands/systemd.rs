//! `pario systemd`: prints systemd units.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use pario_server::config::{Config, NodeConfig};

use super::serve::parse_metrics_address;
use crate::arguments::GlobalOptions;
use crate::exit::UsageError;
use crate::terminal;

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario systemd > /etc/systemd/system/pario@.service\n  \
                            pario systemd --node a > /etc/systemd/system/pario-a.service\n  \
                            pario systemd --data /mnt/ssd/pario --metrics 127.0.0.1\n  \
                            pario systemd --user > ~/.config/systemd/user/pario.service";

/// Default path of the configuration.
const DEFAULT_CONFIG: &str = "/etc/pario/cluster.toml";

/// Descriptors for 8,192 clients and the subfiles of up to seven disks, as docs/limits.md counts
/// them.
const LEAST_DESCRIPTORS: u64 = 65_536;

/// Additional descriptors per disk: 1,024 subfiles with four descriptors each, and as many for
/// sockets.
const DESCRIPTORS_PER_DISK: u64 = 8_192;

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Print a user unit, for `systemctl --user`
    #[arg(long)]
    user: bool,

    /// The configuration of the cluster [default: /etc/pario/cluster.toml]
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    config: Option<PathBuf>,

    /// Print a unit for this node alone, which may write to its directories only [default: a
    /// template for all nodes]
    #[arg(long, value_name = "NAME", conflicts_with = "data")]
    node: Option<String>,

    /// Serve /metrics and /health at this address
    #[arg(long, value_name = "ADDRESS", value_parser = parse_metrics_address)]
    metrics: Option<SocketAddr>,

    /// The user that runs the node
    #[arg(long, value_name = "USER", default_value = "pario", conflicts_with = "user")]
    run_as: String,

    /// The `pario` program [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// The node that a unit runs.
#[derive(Debug)]
enum Service {
    /// Any node of a configuration, named by the unit instance.
    AnyNode {
        /// The configuration.
        config: PathBuf,
    },
    /// One node of a configuration.
    OneNode {
        /// The configuration.
        config: PathBuf,
        /// The node in it.
        node: Box<NodeConfig>,
    },
    /// A node without a configuration.
    Alone {
        /// Its directory; `None` means the state directory of the service.
        data: Option<PathBuf>,
    },
}

/// Prints a unit.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let service = options.service(global.data.as_deref())?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().context("cannot find the path of this program")?,
    };
    let program = std::path::absolute(program)?;
    let unit = options.unit(&service, &program);
    let mut out = terminal::output();
    out.write_all(unit.as_bytes())?;
    Ok(out.flush()?)
}

impl Options {
    fn service(&self, data: Option<&Path>) -> anyhow::Result<Service> {
        if let Some(data) = data {
            return Ok(Service::Alone { data: Some(std::path::absolute(data)?) });
        }
        if self.user && self.config.is_none() && self.node.is_none() {
            return Ok(Service::Alone { data: None });
        }
        let config = self.config.as_deref().unwrap_or(Path::new(DEFAULT_CONFIG));
        let config = std::path::absolute(config)?;
        let Some(name) = &self.node else { return Ok(Service::AnyNode { config }) };
        let node = Config::load(&config)?;
        let node = node.node(name).map_err(|error| UsageError(error.to_string()))?.clone();
        Ok(Service::OneNode { config, node: Box::new(node) })
    }

    fn unit(&self, service: &Service, program: &Path) -> String {
        let mut unit = String::new();
        let mut line = |text: &str| {
            unit.write_str(text)
                .and_then(|()| unit.write_char('\n'))
                .expect("a String accepts all text");
        };
        let file = service.file_name();
        let directory = if self.user { "~/.config/systemd/user" } else { "/etc/systemd/system" };
        let control = if self.user { "systemctl --user" } else { "systemctl" };
        line(&format!("# Save as {directory}/{file}; then: {control} daemon-reload"));
        line(&format!("# and {control} enable --now {}", service.example_instance()));
        line("[Unit]");
        line(&format!("Description=Pario node {}", service.described()));
        line("Documentation=man:pario-serve(1)");
        if !self.user {
            line("Wants=network-online.target");
            line("After=network-online.target local-fs.target remote-fs.target");
        }
        let paths = service.paths();
        if !paths.is_empty() {
            line(&format!("RequiresMountsFor={}", paths.join(" ")));
        }
        line("");
        line("[Service]");
        line("Type=notify");
        line(&format!("ExecStart={}", self.command(service, program)));
        line("Environment=PARIO_LOG=info");
        let environment = if self.user { "%h/.config/pario/environment" } else { ENVIRONMENT };
        line(&format!("# PARIO_SERVE_OPTIONS and other variables; see {environment}"));
        line(&format!("EnvironmentFile=-{environment}"));
        line("Restart=on-failure");
        line("RestartSec=2");
        line("# Exit code 2, wrong usage: a restart would not help.");
        line("RestartPreventExitStatus=2");
        line("# Recovery time depends on the disks.");
        line("TimeoutStartSec=infinity");
        line("TimeoutStopSec=60");
        if !self.user || matches!(service, Service::Alone { data: None }) {
            line("StateDirectory=pario");
            line("StateDirectoryMode=0700");
        }
        if !self.user {
            let user = &self.run_as;
            line(&format!("User={user}"));
            line("RuntimeDirectory=pario");
            line("RuntimeDirectoryMode=0755");
            line("RuntimeDirectoryPreserve=yes");
            if matches!(service, Service::Alone { .. }) {
                line("Environment=XDG_RUNTIME_DIR=/run/pario");
            }
            line(&format!("LimitNOFILE={}", service.descriptors()));
        }
        line("");
        HARDENING.iter().for_each(|text| line(text));
        if !self.user {
            SYSTEM_HARDENING.iter().for_each(|text| line(text));
            if service.is_in_home() {
                line("ProtectHome=no");
            } else {
                line("ProtectHome=yes");
            }
            if paths.is_empty() {
                // A template cannot name the directories of its nodes.
                line("ProtectSystem=full");
            } else {
                line("ProtectSystem=strict");
                line(&format!("ReadWritePaths={}", paths.join(" ")));
            }
        }
        line("");
        line("[Install]");
        let target = if self.user { "default.target" } else { "multi-user.target" };
        line(&format!("WantedBy={target}"));
        unit
    }

    /// Returns the command line of the unit.
    fn command(&self, service: &Service, program: &Path) -> String {
        let mut command = format!("{} serve", quoted(program));
        let mut add = |text: &str| {
            command.push(' ');
            command.push_str(text);
        };
        match service {
            Service::AnyNode { config } => {
                add(&format!("--config {} --node %i", quoted(config)));
            }
            Service::OneNode { config, node } => {
                add(&format!("--config {} --node {}", quoted(config), node.name));
            }
            Service::Alone { data: Some(data) } => add(&format!("--data {}", quoted(data))),
            Service::Alone { data: None } => add("--data %S/pario"),
        }
        if let Some(metrics) = self.metrics {
            add(&format!("--metrics {metrics}"));
        }
        add("$PARIO_SERVE_OPTIONS");
        command
    }
}

/// Variables of system units.
const ENVIRONMENT: &str = "/etc/pario/environment";

/// Restrictions that also work in a user's service manager.
const HARDENING: [&str; 8] = [
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
];

/// Restrictions that only the system's service manager can apply.
const SYSTEM_HARDENING: [&str; 13] = [
    "AmbientCapabilities=",
    "CapabilityBoundingSet=",
    "PrivateDevices=yes",
    "PrivateTmp=yes",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "RemoveIPC=yes",
    "RestrictNamespaces=yes",
    "UMask=0077",
];

impl Service {
    fn file_name(&self) -> String {
        match self {
            Service::AnyNode { .. } => "pario@.service".to_owned(),
            Service::OneNode { node, .. } => format!("pario-{}.service", node.name),
            Service::Alone { .. } => "pario.service".to_owned(),
        }
    }

    /// Returns an example of a unit name to start.
    fn example_instance(&self) -> String {
        match self {
            Service::AnyNode { .. } => "pario@NODE".to_owned(),
            Service::OneNode { node, .. } => format!("pario-{}", node.name),
            Service::Alone { .. } => "pario".to_owned(),
        }
    }

    fn described(&self) -> String {
        match self {
            Service::AnyNode { .. } => "%i".to_owned(),
            Service::OneNode { node, .. } => node.name.clone(),
            Service::Alone { .. } => "local".to_owned(),
        }
    }

    /// Returns the directories that the node writes to, as far as they are known and are not the
    /// service's own.
    fn paths(&self) -> Vec<String> {
        match self {
            Service::AnyNode { .. } | Service::Alone { data: None } => Vec::new(),
            Service::Alone { data: Some(data) } => vec![quoted(data)],
            Service::OneNode { node, .. } => {
                let disks = node.disks.iter().map(|disk| disk.path.as_path());
                let mut paths: Vec<_> = [node.data.as_path()].into_iter().chain(disks).collect();
                paths.sort();
                paths.dedup();
                // A directory inside another one is covered by that one.
                let all = paths.clone();
                let is_outermost = |path: &&Path| {
                    !all.iter().any(|other| other != path && path.starts_with(other))
                };
                paths.retain(is_outermost);
                paths.into_iter().map(quoted).collect()
            }
        }
    }

    fn is_in_home(&self) -> bool {
        let is_home = |path: &String| {
            let path = path.trim_matches('"');
            ["/home/", "/root/", "/run/user/"].iter().any(|home| path.starts_with(home))
        };
        self.paths().iter().any(is_home)
    }

    fn descriptors(&self) -> u64 {
        let disks = match self {
            Service::OneNode { node, .. } => node.disks.len() as u64,
            _ => 0,
        };
        LEAST_DESCRIPTORS.max((disks + 1) * DESCRIPTORS_PER_DISK)
    }
}

/// Quotes a path for a unit, where `%` and `$` are special and blanks separate.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string().replace('%', "%%").replace('$', "$$");
    let is_plain = |c: char| !c.is_whitespace() && !"\"'\\;".contains(c);
    if text.chars().all(is_plain) {
        return text;
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_as_systemd_reads_them() {
        assert_eq!(quoted(Path::new("/mnt/d0")), "/mnt/d0");
        assert_eq!(quoted(Path::new("/mnt/my disk")), "\"/mnt/my disk\"");
        assert_eq!(quoted(Path::new("/mnt/100%$x")), "/mnt/100%%$$x");
        assert_eq!(quoted(Path::new("/a \"b\\")), "\"/a \\\"b\\\\\"");
    }
}
