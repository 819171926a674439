//! How commands find the running nodes of their user, and ignore what another user has planted.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Sandbox, ServerProcess, stderr, stdout};
use tempfile::TempDir;

/// The attacking user.
const OTHER: u32 = 65_534;

#[test]
fn all_nodes_of_a_user_are_found_and_the_choice_is_named() {
    let sandbox = Sandbox::empty();
    let start = |data: &str| ServerProcess::start(sandbox.pario(&["serve", "--data", data]));
    let list = || sandbox.pario(&["ls"]).output().unwrap();
    let first = start("one");
    assert_eq!(list().status.code(), Some(0), "{}", stderr(&list()));
    let second = start("two");
    let output = list();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let told = stderr(&output);
    for data in ["one", "two"] {
        assert!(told.contains(sandbox.file(data).to_str().unwrap()), "{told}");
    }
    assert!(told.contains("--cluster") && told.contains("PARIO_CLUSTER"), "{told}");
    let chosen = sandbox.pario(&["--cluster", "two", "stop"]).output().unwrap();
    assert_eq!(chosen.status.code(), Some(0), "{}", stderr(&chosen));
    assert_eq!(second.wait().0.code(), Some(0));
    // The first node is found again.
    assert_eq!(list().status.code(), Some(0), "{}", stderr(&list()));
    // The note of a killed node hides no other node.
    let second = start("two");
    second.signal(rustix::process::Signal::KILL);
    second.wait();
    assert_eq!(list().status.code(), Some(0), "{}", stderr(&list()));
    let stopped = sandbox.pario(&["stop"]).output().unwrap();
    assert_eq!(stdout(&stopped), "node \"local\" is stopping\n", "{}", stderr(&stopped));
    assert_eq!(first.wait().0.code(), Some(0));
    let output = list();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
}

#[test]
fn a_node_that_is_started_again_stays_visible_while_clients_look_for_it() {
    let sandbox = Sandbox::empty();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    sandbox.pario(&["ls"]).output().unwrap();
                }
            });
        }
        for _ in 0..8 {
            let node = ServerProcess::start(sandbox.pario(&["serve", "--data", "data"]));
            let output = sandbox.pario(&["ls"]).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            node.signal(rustix::process::Signal::KILL);
            node.wait();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Directories that two users share: every user can write to the first, as to `/tmp`.
struct Machine {
    tmp: TempDir,
}

impl Machine {
    /// Returns `None`, with a loud line, if the test cannot act as another user.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can act as another user");
            return None;
        }
        let can_switch = Command::new("setpriv").arg("--version").output();
        if !can_switch.is_ok_and(|output| output.status.success()) {
            println!("skipped: setpriv (util-linux) is missing");
            return None;
        }
        let tmp = tempfile::tempdir().unwrap();
        fs::set_permissions(tmp.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        Some(Self { tmp })
    }

    /// Creates a directory of one of the users.
    fn directory(&self, name: &str, owner: u32) -> PathBuf {
        let path = self.tmp.path().join(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        chown(&path, Some(owner), Some(owner)).unwrap();
        path
    }

    /// Returns the runtime directory of root.
    fn runtime(&self) -> PathBuf {
        self.tmp.path().join("pario-0")
    }

    /// Returns a command of root, or of the other user.
    fn pario(&self, as_other: bool, arguments: &[&str]) -> Command {
        let pario = env!("CARGO_BIN_EXE_pario");
        let mut command = if as_other {
            let mut command = Command::new("setpriv");
            let other = OTHER.to_string();
            command.args(["--reuid", &other, "--regid", &other, "--clear-groups", pario]);
            command
        } else {
            Command::new(pario)
        };
        command
            .current_dir(self.tmp.path())
            .env("TMPDIR", self.tmp.path())
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("PARIO_CLUSTER")
            .env_remove("PARIO_LOG")
            .stdin(std::process::Stdio::null())
            .args(arguments);
        command
    }

    /// Starts a node of the other user that serves every user at a socket.
    fn fake_node(&self, socket: &Path) -> ServerProcess {
        let home = self.directory("fake", OTHER);
        let (config, root) = (self.tmp.path().join("fake.toml"), home.display());
        let text = format!(
            "[nodes.local]\nsocket = {:?}\ndata = \"{root}/data\"\ndisks = [\"{root}/disk\"]\n\
             all_users = true\n",
            socket.display().to_string()
        );
        fs::write(&config, text).unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
        let serve = ["serve", "--config", config.to_str().unwrap(), "--node", "local"];
        ServerProcess::start(self.pario(true, &serve))
    }

    /// Returns the address in the note of the fake node.
    fn fake_address(&self) -> String {
        fs::read_to_string(self.tmp.path().join("fake/data/address")).unwrap()
    }

    /// Runs a command of root that must find no node, and returns its error.
    fn finds_nothing(&self) -> String {
        let output = self.pario(false, &["mkdir", "/trapped"]).output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{}{}", stdout(&output), stderr(&output));
        stderr(&output).to_owned()
    }
}

fn write_note(dir: &Path, address: &str, owner: u32) -> PathBuf {
    let path = dir.join("0123456789ab.address");
    fs::write(&path, format!("{address}\nlocal\n/trap\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    chown(&path, Some(owner), Some(owner)).unwrap();
    path
}

#[test]
fn a_runtime_directory_of_another_user_leads_nowhere() {
    let Some(machine) = Machine::new() else { return };
    let squatted = machine.directory("pario-0", OTHER);
    let _node = machine.fake_node(&squatted.join("trap.sock"));
    let notes = machine.directory("pario-0/nodes", OTHER);
    write_note(&notes, &machine.fake_address(), OTHER);
    // A fallback path of earlier versions.
    fs::write(squatted.join("address"), machine.fake_address()).unwrap();
    for mode in [0o700, 0o755, 0o777] {
        fs::set_permissions(&squatted, fs::Permissions::from_mode(mode)).unwrap();
        let told = machine.finds_nothing();
        assert!(told.contains("pario-0: it belongs to user 65534, not to you"), "{told}");
    }
    // A node does not create its socket there, and says what to do.
    let output = machine.pario(false, &["serve", "--data", "data"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let told = stderr(&output);
    assert!(told.contains("belongs to user 65534") && told.contains("XDG_RUNTIME_DIR"), "{told}");
    assert_eq!(stdout(&output), "");

    // The same with a variable that names a directory of another user.
    let of_other = machine.directory("run", OTHER);
    fs::rename(&squatted, of_other.join("pario")).unwrap();
    let mut list = machine.pario(false, &["ls"]);
    let output = list.env("XDG_RUNTIME_DIR", &of_other).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stdout(&output));
    assert!(stderr(&output).contains("belongs to user 65534"), "{}", stderr(&output));
}

#[test]
fn links_and_notes_of_another_user_lead_nowhere() {
    let Some(machine) = Machine::new() else { return };
    let trap = machine.directory("trap", OTHER);
    let _node = machine.fake_node(&trap.join("trap.sock"));
    let trapped = machine.directory("trap/nodes", OTHER);
    write_note(&trapped, &machine.fake_address(), OTHER);

    // The directory is a link to one of the other user, or to one of root.
    symlink(&trap, machine.runtime()).unwrap();
    assert!(machine.finds_nothing().contains("it is not a directory"));
    fs::remove_file(machine.runtime()).unwrap();
    symlink(machine.directory("mine", 0), machine.runtime()).unwrap();
    assert!(machine.finds_nothing().contains("it is not a directory"));
    let output = machine.pario(false, &["serve", "--data", "data"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("it is not a directory"), "{}", stderr(&output));
    fs::remove_file(machine.runtime()).unwrap();

    // The directory of notes is a link.
    let own = machine.directory("pario-0", 0);
    symlink(&trapped, own.join("nodes")).unwrap();
    assert!(machine.finds_nothing().contains("nodes: it is not a directory"));
    fs::remove_file(own.join("nodes")).unwrap();

    // The note belongs to the other user, or is a link to a note of the other user.
    let notes = machine.directory("pario-0/nodes", 0);
    let note = write_note(&notes, &machine.fake_address(), OTHER);
    assert!(machine.finds_nothing().contains("it belongs to user 65534, not to you"));
    fs::remove_file(&note).unwrap();
    symlink(trapped.join("0123456789ab.address"), &note).unwrap();
    assert!(machine.finds_nothing().contains("it is a symbolic link"));
    fs::remove_file(&note).unwrap();

    // The note is root's own, but leads out of the runtime directory.
    write_note(&notes, &machine.fake_address(), 0);
    assert!(machine.finds_nothing().contains("does not lie in"));
}

#[test]
fn a_node_of_another_user_counts_only_if_it_is_named() {
    let Some(machine) = Machine::new() else { return };
    // The directory belonged to the other user when its node began to listen.
    let own = machine.directory("pario-0", OTHER);
    let socket = own.join("trap.sock");
    let _node = machine.fake_node(&socket);
    let own = machine.directory("pario-0", 0);
    let note = write_note(&machine.directory("pario-0/nodes", 0), &machine.fake_address(), 0);
    assert!(machine.finds_nothing().contains("the node runs as user 65534"));
    assert!(note.exists(), "what is not understood is not removed");

    // A node of root beside it is found, and the other one is reported.
    let _mine = ServerProcess::start(machine.pario(false, &["serve", "--data", "data"]));
    let output = machine.pario(false, &["ls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.starts_with("pario: warning: ") && told.contains("user 65534"), "{told}");

    // Root may name the node of the other user.
    for name in [socket.to_str().unwrap(), "fake/data"] {
        let output = machine.pario(false, &["--cluster", name, "ls"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
    }
    // So may every user that the node serves, but not through a note that a third user has written.
    fs::set_permissions(&own, fs::Permissions::from_mode(0o711)).unwrap();
    let output = machine.pario(true, &["--cluster", socket.to_str().unwrap(), "ls"]).output();
    assert_eq!(output.unwrap().status.code(), Some(0));
    chown(machine.tmp.path().join("fake/data/address"), Some(1), None).unwrap();
    let output = machine.pario(false, &["--cluster", "fake/data", "ls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("it belongs to user 1"), "{}", stderr(&output));
}

#[test]
fn a_node_of_root_is_found_by_no_other_user() {
    let Some(machine) = Machine::new() else { return };
    let _node = ServerProcess::start(machine.pario(false, &["serve", "--data", "data"]));
    let output = machine.pario(true, &["ls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stdout(&output));
    assert!(stderr(&output).contains("no node of yours is running"), "{}", stderr(&output));
}
