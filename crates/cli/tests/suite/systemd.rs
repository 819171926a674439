//! Nodes as services: the units that `pario systemd` prints, and notifications to the service
//! manager.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use crate::command::{Sandbox, ServerProcess, stderr, stdout};
use rustix::process::Signal;

/// Returns the value of a setting in a unit.
fn setting<'a>(unit: &'a str, name: &str) -> &'a str {
    let mut values = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let value = values.next().unwrap_or_else(|| panic!("{name} is not set:\n{unit}"));
    assert_eq!(values.next(), None, "{name} is set twice:\n{unit}");
    value
}

fn printed(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.pario(&[&["systemd"], arguments].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    stdout(&output).to_owned()
}

/// Asserts that systemd's own check finds nothing wrong with a unit.
fn verify(sandbox: &Sandbox, name: &str, unit: &str, options: &[&str]) {
    let path = sandbox.file(name);
    fs::write(&path, unit).unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", "--generators=no", "--recursive-errors=no"]);
    let output =
        command.args(options).arg(&path).env("XDG_RUNTIME_DIR", sandbox.runtime()).output();
    let output = output.expect("systemd-analyze is there: apt-get install systemd");
    let told = format!("{}{}", stdout(&output), stderr(&output));
    assert!(!told.contains(name), "{told}\n{unit}");
    assert_eq!(output.status.code(), Some(0), "{told}\n{unit}");
}

#[test]
fn units_are_valid_and_hardened() {
    let sandbox = Sandbox::empty();
    fs::create_dir(sandbox.file("my disk")).unwrap();
    let dir = sandbox.path().display();
    let config = format!(
        "[nodes.a]\ndata = \"{dir}/state\"\ndisks = [\"{dir}/state/disk0\", \"{dir}/my disk\"]\n"
    );
    fs::write(sandbox.file("cluster.toml"), config).unwrap();

    let template = printed(&sandbox, &[]);
    assert!(template.starts_with("# Save as /etc/systemd/system/pario@.service"), "{template}");
    assert!(
        setting(&template, "ExecStart").ends_with(
            "/pario serve --config /etc/pario/cluster.toml --node %i $PARIO_SERVE_OPTIONS"
        )
    );
    assert_eq!(setting(&template, "User"), "pario");
    assert_eq!(setting(&template, "ProtectSystem"), "full");
    let one = printed(&sandbox, &["--config", "cluster.toml", "--node", "a"]);
    assert_eq!(setting(&one, "ProtectSystem"), "strict");
    let paths = format!("\"{dir}/my disk\" {dir}/state");
    assert_eq!(setting(&one, "ReadWritePaths"), paths);
    assert_eq!(setting(&one, "RequiresMountsFor"), paths);
    let alone = printed(&sandbox, &["--data", "/srv/pario", "--metrics", "127.0.0.1"]);
    let command = setting(&alone, "ExecStart");
    assert!(command.contains(" serve --data /srv/pario --metrics 127.0.0.1:7412 "), "{command}");
    for (name, unit) in
        [("pario@a.service", &template), ("pario-a.service", &one), ("pario.service", &alone)]
    {
        for (setting_name, value) in [
            ("Type", "notify"),
            ("Restart", "on-failure"),
            ("StateDirectory", "pario"),
            ("NoNewPrivileges", "yes"),
            ("LimitNOFILE", "65536"),
            ("CapabilityBoundingSet", ""),
            ("ProtectHome", "yes"),
            ("WantedBy", "multi-user.target"),
        ] {
            assert_eq!(setting(unit, setting_name), value, "{name}");
        }
        // The user may be missing on the machine that prints the unit.
        let unit = unit.replace("User=pario", "User=root");
        verify(&sandbox, name, &unit, &[]);
    }
    let own = printed(&sandbox, &["--user"]);
    assert!(own.starts_with("# Save as ~/.config/systemd/user/pario.service"), "{own}");
    assert!(setting(&own, "ExecStart").contains(" serve --data %S/pario "), "{own}");
    assert_eq!(setting(&own, "WantedBy"), "default.target");
    assert!(!own.contains("User=") && !own.contains("ProtectSystem"), "{own}");
    verify(&sandbox, "pario-own.service", &own, &["--user"]);
}

#[test]
fn a_unit_for_many_disks_has_descriptors_for_them() {
    let sandbox = Sandbox::empty();
    let disks: Vec<_> = (0..20).map(|number| format!("\"/srv/d{number}\"")).collect();
    let config = format!("[nodes.a]\ndata = \"/srv/a\"\ndisks = [{}]\n", disks.join(", "));
    fs::write(sandbox.file("cluster.toml"), config).unwrap();
    let unit = printed(&sandbox, &["--config", "cluster.toml", "--node", "a"]);
    assert_eq!(setting(&unit, "LimitNOFILE"), (21 * 8192).to_string());
    let output =
        sandbox.pario(&["systemd", "--config", "cluster.toml", "--node", "b"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn a_node_tells_the_service_manager_when_it_is_ready_and_when_it_stops() {
    let sandbox = Sandbox::empty();
    let path = sandbox.file("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let mut command = sandbox.pario(&["serve", "--data", "data"]);
    command.env("NOTIFY_SOCKET", &path);
    let node = ServerProcess::start(command);
    let mut bytes = [0; 256];
    let mut told = || {
        let len = manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    assert_eq!(told(), "READY=1\nSTATUS=node local, 4 disks\n");
    node.signal(Signal::TERM);
    assert_eq!(told(), "STOPPING=1\nSTATUS=finishing requests under way\n");
    assert_eq!(node.wait().0.code(), Some(0));
}
