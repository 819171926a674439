//! Only its user can reach what a node creates, independent of the umask.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Sandbox, ServerProcess, stderr};

/// Returns the command with umask 000.
fn with_open_umask(command: &Command) -> Command {
    let mut open = Command::new("sh");
    open.args(["-c", "umask 000; exec \"$@\"", "sh"]).arg(command.get_program());
    open.args(command.get_args()).current_dir(command.get_current_dir().expect("a directory"));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => open.env(name, value),
            None => open.env_remove(name),
        };
    }
    open.stdin(std::process::Stdio::null());
    open
}

fn run(sandbox: &Sandbox, arguments: &[&str]) {
    let output = with_open_umask(&sandbox.pario(arguments)).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
}

/// Makes a node write all kinds of files: flat, extents, directories, changed rights, a deleted
/// file.
fn work(sandbox: &Sandbox, to: [&str; 2]) {
    sandbox.write("x", 3_000_000, 1);
    let pario = |arguments: &[&str]| run(sandbox, &[&to, arguments].concat());
    pario(&["mkdir", "/dir"]);
    pario(&["cp", "x", "/dir/x"]);
    pario(&["cp", "x", "/dir/y"]);
    pario(&["chmod", "666", "/dir/x"]);
    pario(&["rm", "/dir/y"]);
    pario(&["volume", "import", "--phantom", "40x40x30", "/dir/body"]);
    pario(&["fsck", "--deep"]);
}

/// Lists a directory and everything below it.
fn walk(dir: &Path, into: &mut Vec<PathBuf>) {
    into.push(dir.to_owned());
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            walk(&path, into);
        } else {
            into.push(path);
        }
    }
}

/// Asserts that nothing below a directory gives other users any right, except as `is_open` allows.
fn assert_private(dir: &Path, is_open: impl Fn(&Path, u32) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(dir, &mut found);
    for path in &found {
        let known = fs::symlink_metadata(path).unwrap();
        let mode = known.mode() & 0o7777;
        let private = if known.is_dir() { 0o700 } else { 0o600 };
        assert!(mode == private || is_open(path, mode), "{} has mode {mode:04o}", path.display());
    }
    found
}

fn has(found: &[PathBuf], name: &str) -> bool {
    found.iter().any(|path| path.to_str().unwrap().contains(name))
}

#[test]
fn a_node_creates_nothing_that_others_can_reach() {
    let sandbox = Sandbox::empty();
    let node =
        ServerProcess::start(with_open_umask(&sandbox.pario(&["serve", "--data", "above/data"])));
    work(&sandbox, ["--cluster", "above/data"]);
    let found = assert_private(&sandbox.file("above"), |_, _| false);
    for name in ["namespace.redb", "grants.key", "leases", "cluster.map", "disks", "address"] {
        assert!(has(&found, name), "{name}: {found:?}");
    }
    for name in [".flat", "pario.disk", ".extents/index", ".extents/data", ".extents/journal"] {
        assert!(has(&found, name), "{name}: {found:?}");
    }
    let found = assert_private(&sandbox.runtime().join("pario"), |_, _| false);
    assert!(has(&found, ".sock") && has(&found, "nodes/"), "{found:?}");
    let is_socket = |path: &&PathBuf| fs::metadata(path).unwrap().file_type().is_socket();
    assert_eq!(found.iter().filter(is_socket).count(), 2, "{found:?}");
    drop(node);
}

#[test]
fn an_embedded_cluster_creates_nothing_that_others_can_reach() {
    let sandbox = Sandbox::empty();
    work(&sandbox, ["--data=data", "--create"]);
    let found = assert_private(&sandbox.file("data"), |_, _| false);
    assert!(has(&found, "namespace.redb") && has(&found, ".flat"), "{found:?}");
}

#[test]
fn a_node_for_all_users_opens_its_sockets_and_nothing_else() {
    let sandbox = Sandbox::empty();
    let root = sandbox.file("node");
    let text = format!(
        "[nodes.a]\ndata = {:?}\ndisks = [{:?}]\nall_users = true\n",
        root.join("data"),
        root.join("disk"),
    );
    fs::write(sandbox.file("cluster.toml"), text).unwrap();
    let serve = ["serve", "--config", "cluster.toml", "--node", "a"];
    let node = ServerProcess::start(with_open_umask(&sandbox.pario(&serve)));
    work(&sandbox, ["--cluster", "node/data"]);
    let way = [root.clone(), root.join("data")];
    let found = assert_private(&root, |path, mode| {
        let is_socket = fs::metadata(path).unwrap().file_type().is_socket();
        // Other users can pass through to the sockets, and list nothing.
        (is_socket && mode == 0o666) || (way.contains(&path.to_owned()) && mode == 0o711)
    });
    assert!(has(&found, "data/pario.sock"), "{found:?}");
    drop(node);
}

#[test]
fn files_of_an_earlier_version_become_private() {
    let sandbox = Sandbox::empty();
    work(&sandbox, ["--data=data", "--create"]);
    let open = |name: &str| {
        let path = sandbox.file("data").join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    };
    let files = ["namespace.redb", "cluster.map", "disks", "grants.key", "leases"].map(open);
    run(&sandbox, &["--data", "data", "ls"]);
    for path in files {
        let mode = fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
}

#[test]
fn keys_that_others_can_read_are_refused() {
    let sandbox = Sandbox::served();
    let key = sandbox.file("lab.key");
    fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
    for mode in [0o644, 0o640, 0o604] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let told = sandbox.refused(4, &["--key", "lab.key", "ls"]);
        assert!(told.contains("lab.key: other users can read it"), "{told}");
        assert!(told.contains("chmod 600"), "{told}");
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let config = format!(
        "key_file = {key:?}\n[nodes.a]\ndata = {:?}\ndisks = [{:?}]\n",
        sandbox.file("a"),
        sandbox.file("a-disk")
    );
    fs::write(sandbox.file("cluster.toml"), config).unwrap();
    let serve = ["serve", "--config", "cluster.toml", "--node", "a"];
    let node = ServerProcess::start(sandbox.pario(&serve));
    drop(node);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let output = sandbox.pario(&serve).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("chmod 600"), "{}", stderr(&output));
}
