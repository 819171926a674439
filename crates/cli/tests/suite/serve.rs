//! Nodes as processes: start, stop, crash and restart.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::command::{Sandbox, ServerProcess, stderr, stdout};
use rustix::process::Signal;

#[test]
fn a_node_says_where_it_listens_and_how_to_use_it() {
    let mut sandbox = Sandbox::served();
    let node = sandbox.node();
    let start = "pario: node \"local\", 4 disks in data, listening on unix";
    assert!(node.lines[0].starts_with(start), "{:?}", node.lines);
    assert!(node.lines[0].ends_with(".sock"), "{:?}", node.lines);
    let try_this = "pario: try   pario cp FILE /   |   pario top   |   pario stop";
    assert_eq!(node.lines[1], try_this);
}

#[test]
fn the_data_directory_has_a_default_name() {
    let sandbox = Sandbox::empty();
    let node = ServerProcess::start(sandbox.pario(&["serve"]));
    assert!(node.lines[0].contains("4 disks in ./pario-data, "), "{:?}", node.lines);
    assert!(sandbox.file("pario-data").is_dir());
}

#[test]
fn signals_stop_a_node_in_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut sandbox = Sandbox::served();
        sandbox.write("x", 100_000, 1);
        sandbox.ok(&["cp", "x", "/x"]);
        let node = sandbox.node();
        node.signal(signal);
        let (status, rest) = node.wait();
        assert_eq!(status.code(), Some(0), "{signal:?}");
        assert_eq!(rest, "pario: node \"local\" has stopped\n");
        // The directory is free again.
        assert_eq!(sandbox.ok(&["ls"]), "x\n");
    }
}

#[test]
fn stop_stops_it_and_a_second_stop_finds_nothing() {
    let mut sandbox = Sandbox::served();
    assert_eq!(sandbox.ok(&["stop"]), "node \"local\" is stopping\n");
    let (status, rest) = sandbox.node().wait();
    assert_eq!(status.code(), Some(0));
    assert_eq!(rest, "pario: node \"local\" has stopped\n");
    let output = sandbox.pario(&["--cluster", "data", "stop"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
}

#[test]
fn a_node_can_be_named() {
    let mut sandbox = Sandbox::served();
    let refused = sandbox.refused(2, &["stop", "b"]);
    assert!(refused.contains('b') && refused.contains("local"), "{refused}");
    sandbox.ok(&["stop", "local"]);
    assert_eq!(sandbox.node().wait().0.code(), Some(0));
}

#[test]
fn what_was_copied_survives_the_kill_of_the_node() {
    let mut sandbox = Sandbox::served();
    let bytes = sandbox.write("x", 3_000_000, 1);
    sandbox.ok(&["mkdir", "/runs"]);
    sandbox.ok(&["cp", "x", "/runs/x"]);
    let node = sandbox.node();
    node.signal(Signal::KILL);
    assert_eq!(node.wait().0.code(), None);

    let site_again = ServerProcess::start(sandbox.pario(&["serve", "--data", "data"]));
    let output = sandbox.pario(&["--cluster", "data", "cat", "/runs/x"]).output().unwrap();
    assert!(output.stdout == bytes, "{}", stderr(&output));
    drop(site_again);
}

#[test]
fn a_directory_that_a_node_holds_is_not_used_beside_it() {
    let sandbox = Sandbox::served();
    let output = sandbox.pario(&["--data", "data", "ls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).starts_with("pario: "), "{}", stderr(&output));
    assert!(stderr(&output).contains("data"), "{}", stderr(&output));

    let output = sandbox.pario(&["serve", "--data", "data"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");

    let output = sandbox.pario(&["--data", "data", "stop"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--cluster"), "{}", stderr(&output));
}

#[test]
fn the_environment_and_the_running_node_are_found() {
    let sandbox = Sandbox::served();
    sandbox.ok(&["mkdir", "/here"]);
    let output = sandbox.pario(&["ls"]).env("PARIO_CLUSTER", "data").output().unwrap();
    assert_eq!(stdout(&output), "here/\n", "{}", stderr(&output));
    let output = sandbox.pario(&["ls"]).output().unwrap();
    assert_eq!(stdout(&output), "here/\n", "{}", stderr(&output));
}

#[test]
fn where_nothing_runs_both_ways_to_get_a_cluster_are_told() {
    let sandbox = Sandbox::empty();
    let output = sandbox.pario(&["ls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("pario serve"), "{}", stderr(&output));
    assert!(stderr(&output).contains("PARIO_CLUSTER"), "{}", stderr(&output));
    for (address, code) in [("unix:nowhere.sock", 5), ("tcp:127.0.0.1:1", 5), ("nowhere", 2)] {
        let output = sandbox.pario(&["--cluster", address, "ls"]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{address}: {}", stderr(&output));
        assert!(stderr(&output).starts_with("pario: "), "{}", stderr(&output));
    }
}

#[test]
fn every_mistake_in_a_configuration_is_told() {
    let sandbox = Sandbox::empty();
    let text = "[nodes.a]\ndata = \"/tmp/a\"\ndisks = []\n[nodes.b]\ndata = \"b\"\n\
                disks = [\"/tmp/b\"]\n";
    std::fs::write(sandbox.file("cluster.toml"), text).unwrap();
    let serve = ["serve", "--config", "cluster.toml", "--node", "a"];
    let output = sandbox.pario(&serve).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    let told = stderr(&output);
    for expected in [
        "cluster.toml:1: node \"a\": it has no disks",
        "cluster.toml:5: node \"b\": data \"b\" must be an absolute path",
        "cluster.toml:4: node \"b\": it has no listen address",
    ] {
        assert!(told.lines().any(|line| line.starts_with(expected)), "{told}");
    }
    std::fs::write(sandbox.file("cluster.toml"), configuration(&sandbox, &["a"])).unwrap();
    let output =
        sandbox.pario(&["serve", "--config", "cluster.toml", "--node", "c"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("its nodes are \"a\""), "{}", stderr(&output));
    let both = ["--data", "data", "serve", "--config", "cluster.toml", "--node", "a"];
    assert_eq!(sandbox.pario(&both).output().unwrap().status.code(), Some(2));
    let elsewhere = ["serve", "--cluster", "data"];
    assert_eq!(sandbox.pario(&elsewhere).output().unwrap().status.code(), Some(2));
}

#[test]
fn a_configuration_is_checked_without_starting() {
    let sandbox = Sandbox::empty();
    std::fs::write(sandbox.file("cluster.toml"), configuration(&sandbox, &["a", "b"])).unwrap();
    let check = |arguments: &[&str]| {
        let all = [&["serve", "--check"], arguments].concat();
        sandbox.pario(&all).output().unwrap()
    };
    let config = ["--config", "cluster.toml"];
    let output = check(&config);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let fine = stdout(&output);
    assert!(
        fine.starts_with("cluster.toml is fine: cluster ") && fine.contains("2 nodes"),
        "{fine}"
    );
    let output = check(&[&config[..], &["--node", "b"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!sandbox.file("a").exists() && !sandbox.file("b").exists(), "nothing is created");

    // The directories of a node on this machine are checked, too.
    std::fs::write(sandbox.file("b"), "").unwrap();
    let output = check(&[&config[..], &["--node", "b"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("node \"b\": data directory "), "{}", stderr(&output));
    let output = check(&[&config[..], &["--node", "c"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("its nodes are"), "{}", stderr(&output));

    // All mistakes are reported at once.
    std::fs::write(sandbox.file("cluster.toml"), "[nodes.a]\nport = 1\ndisks = 7\n").unwrap();
    let output = check(&config);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(told.lines().count() >= 3, "{told}");
    assert!(told.lines().all(|line| line.starts_with("cluster.toml:")), "{told}");
    let output = check(&[&config[..], &["--json"]].concat());
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), ""));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["fine"], false);
    assert_eq!(json["mistakes"].as_array().unwrap().len(), told.lines().count());

    let output = check(&["--data", "new"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!sandbox.file("new").exists());
}

#[test]
fn an_unknown_log_level_is_reported() {
    let sandbox = Sandbox::empty();
    let output = sandbox.pario(&["serve"]).env("PARIO_LOG", "loud").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("debug"), "{}", stderr(&output));
}

#[test]
fn a_node_that_hangs_does_not_keep_status_from_answering() {
    let sandbox = Sandbox::empty();
    std::fs::write(sandbox.file("cluster.toml"), configuration(&sandbox, &["a", "b"])).unwrap();
    let start = |name| {
        ServerProcess::start(sandbox.pario(&["serve", "--config", "cluster.toml", "--node", name]))
    };
    let (_a, b) = (start("a"), start("b"));
    let status = || {
        let began = Instant::now();
        let output = sandbox.pario(&["--cluster", "a/pario.sock", "status"]).output().unwrap();
        (output, began.elapsed())
    };
    let (output, _) = status();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("b/b-disk0"), "{}", stdout(&output));

    b.signal(Signal::STOP);
    let (output, took) = status();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(stdout(&output).contains("node b is down"), "{}", stdout(&output));
    assert!(stdout(&output).contains("a/a-disk0"), "{}", stdout(&output));
    b.signal(Signal::CONT);
}

/// Writes a configuration of nodes on this machine, each with two disks.
fn configuration(sandbox: &Sandbox, names: &[&str]) -> String {
    let key = sandbox.file("lab.key");
    std::fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    // Bind all ports at once, so that they differ.
    let ports: Vec<_> = names.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let mut text = format!("name = \"lab\"\nkey_file = {:?}\n", key);
    for (name, port) in names.iter().zip(&ports) {
        let (address, root) = (port.local_addr().unwrap(), sandbox.path().display());
        text += &format!(
            "[nodes.{name}]\nlisten = \"{address}\"\ndata = \"{root}/{name}\"\n\
             disks = [\"{root}/{name}-disk0\", \"{root}/{name}-disk1\"]\n"
        );
    }
    text
}
