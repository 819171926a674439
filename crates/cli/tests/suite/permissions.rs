//! Every command reports a missing permission or a wrong key in one sentence, with exit code 4.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Output};

use crate::command::{Sandbox, ServerProcess, stderr, stdout};
use serde_json::Value;

/// A user without permissions.
const OTHER: u32 = 65_534;

/// Returns the same command for another user. These tests act as two users.
fn as_other(command: &Command) -> Command {
    assert!(rustix::process::geteuid().is_root(), "only root can act as another user");
    let mut other = Command::new("setpriv");
    let id = OTHER.to_string();
    other.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    other.arg(command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        other.current_dir(dir);
    }
    other.env_remove("PARIO_CLUSTER").env_remove("XDG_RUNTIME_DIR");
    other
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn assert_refused(what: &str, output: &Output) {
    assert_eq!(output.status.code(), Some(4), "{what}: {}", stderr(output));
    let told = stderr(output);
    assert!(told.starts_with("pario: "), "{what}: {told}");
    assert_eq!(told.lines().count(), 1, "{what}: {told}");
    assert_eq!(stdout(output), "", "{what}");
}

/// Starts a cluster for all users, in which root owns everything.
fn cluster_for_all(sandbox: &Sandbox) -> ServerProcess {
    open_to_all(sandbox.path());
    let text = format!(
        "[nodes.a]\ndata = {:?}\ndisks = [{:?}]\nall_users = true\n",
        sandbox.file("data"),
        sandbox.file("disk")
    );
    fs::write(sandbox.file("cluster.toml"), text).unwrap();
    ServerProcess::start(sandbox.pario(&["serve", "--config", "cluster.toml", "--node", "a"]))
}

#[test]
fn every_command_says_that_it_is_not_permitted() {
    let sandbox = Sandbox::empty();
    let _node = cluster_for_all(&sandbox);
    fs::write(sandbox.file("x"), "secret").unwrap();
    fs::write(sandbox.file("x.pgm"), "P5 1 1 255\nx").unwrap();
    open_to_all(&sandbox.file("x"));
    fs::create_dir(sandbox.file("out")).unwrap();
    chown(sandbox.file("out"), Some(OTHER), Some(OTHER)).unwrap();
    let own = |arguments: &[&str]| {
        let all = [&["--cluster", "data"], arguments].concat();
        let output = sandbox.pario(&all).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    };
    own(&["mkdir", "/mine"]);
    own(&["cp", "x", "pario:/mine/x"]);
    own(&["cp", "x", "pario:/x"]);
    own(&["image", "import", "x.pgm", "/p"]);
    own(&["volume", "import", "--phantom", "8x8x8", "/v"]);
    for path in ["/x", "/p", "/v"] {
        own(&["chmod", "600", path]);
    }
    own(&["chmod", "700", "/mine"]);
    for line in [
        "ls /mine",
        "ls -l /mine/x",
        "mkdir /new",
        "rmdir /mine",
        "rm /x",
        "rm -r /mine",
        "mv /x /y",
        "cp pario:/x out/x",
        "cp x pario:/new",
        "cat /x",
        "stat /mine/x",
        "chmod 777 /x",
        "chown 65534 /x",
        "du /mine",
        "image export /p out/p.png",
        "image info /p",
        "image apply /p invert /q",
        "image import x.pgm /q",
        "volume import --phantom 8x8x8 /w",
        "volume info /v",
        "volume slice /v out/s.png",
        "volume bench /v",
        "view /v",
        "fsck --repair",
        "stop",
    ] {
        let mut arguments = vec!["--cluster", "unix:data/pario.sock"];
        arguments.extend(line.split(' '));
        let output = as_other(&sandbox.pario(&arguments)).output().unwrap();
        assert_refused(line, &output);
        arguments.push("--json");
        let output = as_other(&sandbox.pario(&arguments)).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{line}: {}", stderr(&output));
        let told: Value = serde_json::from_str(stderr(&output))
            .unwrap_or_else(|error| panic!("{line}: {error}: {}", stderr(&output)));
        assert_eq!(told["exit_code"], 4, "{line}");
        let whole = stdout(&output);
        assert!(
            whole.is_empty() || serde_json::from_str::<Value>(whole).is_ok(),
            "{line}: {whole}"
        );
    }
}

#[test]
fn a_node_and_a_directory_of_another_user_are_not_permitted() {
    let sandbox = Sandbox::empty();
    open_to_all(sandbox.path());
    let _node = ServerProcess::start(sandbox.pario(&["serve", "--data", "data"]));
    let output = as_other(&sandbox.pario(&["--cluster", "data", "ls"])).output().unwrap();
    assert_refused("its data directory", &output);
    let sockets = fs::read_dir(sandbox.runtime().join("pario")).unwrap().flatten();
    let socket =
        sockets.map(|entry| entry.path()).find(|path| path.extension() == Some("sock".as_ref()));
    let address = format!("unix:{}", socket.unwrap().display());
    let output = as_other(&sandbox.pario(&["--cluster", &address, "ls"])).output().unwrap();
    assert_refused("its socket", &output);

    fs::create_dir(sandbox.file("theirs")).unwrap();
    fs::set_permissions(sandbox.file("theirs"), fs::Permissions::from_mode(0o700)).unwrap();
    for arguments in [&["--data", "theirs", "ls"][..], &["--data", "theirs/new", "--create", "ls"]]
    {
        let output = as_other(&sandbox.pario(arguments)).output().unwrap();
        assert_refused("a directory", &output);
    }
    let mut serve = as_other(&sandbox.pario(&["serve", "--data", "theirs/new"]));
    assert_refused("serve", &serve.output().unwrap());
    let mut run = as_other(&sandbox.pario(&["run", "-n", "1", "--data", "theirs/new", "true"]));
    assert_refused("run", &run.output().unwrap());
}

#[test]
fn a_key_that_does_not_fit_is_named() {
    let sandbox = Sandbox::empty();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let key = |name: &str, text: &str, mode: u32| {
        fs::write(sandbox.file(name), text).unwrap();
        fs::set_permissions(sandbox.file(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    key("lab.key", &"07".repeat(32), 0o600);
    key("other.key", &"08".repeat(32), 0o600);
    key("open.key", &"07".repeat(32), 0o644);
    key("bad.key", "secret", 0o600);
    let text = format!(
        "key_file = {:?}\n[nodes.a]\nlisten = \"{address}\"\ndata = {:?}\ndisks = [{:?}]\n",
        sandbox.file("lab.key"),
        sandbox.file("data"),
        sandbox.file("disk"),
    );
    fs::write(sandbox.file("cluster.toml"), text).unwrap();
    let _node =
        ServerProcess::start(sandbox.pario(&["serve", "--config", "cluster.toml", "--node", "a"]));
    let address = format!("tcp:{address}");
    let ask = |key: Option<&str>| {
        let mut arguments = vec!["--cluster", address.as_str(), "ls"];
        arguments.extend(key.into_iter().flat_map(|key| ["--key", key]));
        sandbox.pario(&arguments).output().unwrap()
    };
    let output = ask(Some("lab.key"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for (key, code, told) in [
        (None, 4, "name the file that holds it with --key FILE or the variable PARIO_KEY"),
        (Some("other.key"), 4, "has another key than the one in other.key"),
        (Some("open.key"), 4, "open.key"),
        (Some("no.key"), 3, "no.key"),
        (Some("bad.key"), 2, "bad.key"),
    ] {
        let output = ask(key);
        assert_eq!(output.status.code(), Some(code), "{key:?}: {}", stderr(&output));
        let text = stderr(&output);
        assert!(text.starts_with("pario: ") && text.contains(told), "{key:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{key:?}: {text}");
    }
}
