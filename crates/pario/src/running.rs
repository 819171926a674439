//! The running nodes of this user, found by the notes that they have left.
//!
//! Invariant: only a note in a private directory of this user counts, and only a node that runs as
//! this user or as root. What does not count is reported, not used.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use pario_net::{Address, check_private_directory, connect_unix, read_private_file};
use pario_proto::{NOTE_EXTENSION, NOTES_DIRECTORY, NodeNote};
use rustix::fs::FlockOperation;

use crate::error::Error;

/// The time limit for finding the process that listens on a socket.
const LOOK_LIMIT: Duration = Duration::from_secs(1);

/// A node of this user that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningNode {
    /// Its name.
    pub name: String,
    /// Its data directory, by which it can be named: `--cluster DIR`.
    pub data: String,
    pub(crate) address: Address,
}

impl RunningNode {
    /// Whether a process still listens on the socket of the node.
    pub(crate) fn is_listening(&self) -> bool {
        self.address.unix.as_deref().is_some_and(|socket| user_of(socket).is_ok())
    }
}

/// What [`running_nodes`] has found.
#[derive(Clone, Debug, Default)]
pub struct RunningNodes {
    /// The nodes that run, ordered by their data directories.
    pub nodes: Vec<RunningNode>,
    /// The notes that are not used, each with the reason: a sentence each.
    pub ignored: Vec<String>,
}

/// Why a note does not lead to a node.
enum Unusable {
    /// The process that wrote it is gone.
    Gone,
    /// It must not be used.
    Ignored(String),
}

/// Finds the running nodes of this user. Removes the notes of nodes that are gone.
///
/// ```
/// for node in pario::status::running_nodes().nodes {
///     println!("{} serves {}", node.name, node.data);
/// }
/// ```
pub fn running_nodes() -> RunningNodes {
    running_in(&pario_net::runtime_directory())
}

fn running_in(runtime: &Path) -> RunningNodes {
    let mut running = RunningNodes::default();
    let notes = runtime.join(NOTES_DIRECTORY);
    for dir in [runtime, &notes] {
        match fs::symlink_metadata(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return running,
            _ => {}
        }
        if let Err(error) = check_private_directory(dir) {
            running.ignored.push(format!("nodes are not looked for in {error}"));
            return running;
        }
    }
    let entries = match fs::read_dir(&notes) {
        Ok(entries) => entries,
        Err(error) => {
            running.ignored.push(format!("{} cannot be listed: {error}", notes.display()));
            return running;
        }
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension() != Some(OsStr::new(NOTE_EXTENSION)) {
            continue;
        }
        match look_up(runtime, &path) {
            Ok(node) => running.nodes.push(node),
            Err(Unusable::Gone) => remove_note(runtime, &notes, &path),
            Err(Unusable::Ignored(why)) => running.ignored.push(why),
        }
    }
    running.nodes.sort_by(|one, other| one.data.cmp(&other.data));
    running.ignored.sort();
    running
}

impl RunningNodes {
    /// The node that runs, if it is the only one. Otherwise the error names all of them, or says
    /// how to start one, and names the ignored notes.
    pub fn only(&self) -> Result<&RunningNode, Error> {
        match &*self.nodes {
            [node] => Ok(node),
            [] => {
                let ignored: String = self.ignored.iter().map(|why| format!(" ({why})")).collect();
                Err(Error::NotRunning {
                    text: format!(
                        "no node of yours is running{ignored}: start a node with `pario serve`, or \
                         say where the cluster is with the variable PARIO_CLUSTER (unix:PATH or \
                         tcp:HOST:PORT)"
                    ),
                })
            }
            [RunningNode { data: first, .. }, ..] => {
                let known: Vec<_> = self.nodes.iter().map(|node| node.data.as_str()).collect();
                let (count, known) = (known.len(), known.join(", "));
                Err(Error::SeveralNodes {
                    text: format!(
                        "{count} nodes of yours are running, for {known}: choose one by its data \
                         directory, with `--cluster {first}` or the variable PARIO_CLUSTER={first}"
                    ),
                })
            }
        }
    }
}

/// The node that a note names, if it runs and may be used.
fn look_up(runtime: &Path, path: &Path) -> Result<RunningNode, Unusable> {
    let ignored = |why: String| Unusable::Ignored(format!("{} is not used: {why}", path.display()));
    let text = match read_private_file(path, false) {
        Ok(text) => text,
        // The node has stopped since the directory was listed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Unusable::Gone),
        Err(error) => return Err(Unusable::Ignored(format!("a note is not used: {error}"))),
    };
    let note = NodeNote::parse(&text).ok_or_else(|| ignored("it is damaged".to_owned()))?;
    let address: Address =
        note.address.parse().map_err(|error| ignored(format!("it is damaged: {error}")))?;
    let Some(socket) = &address.unix else {
        return Err(ignored("it names no socket".to_owned()));
    };
    // No other user can have put a socket there, so the node that answers now answers later too.
    if socket.parent() != Some(runtime) {
        let (socket, dir) = (socket.display(), runtime.display());
        return Err(ignored(format!("its socket {socket} does not lie in {dir}")));
    }
    let user = match user_of(socket) {
        Ok(user) => user,
        Err(error) if is_dead(&error) => return Err(Unusable::Gone),
        Err(error) => return Err(ignored(format!("{}: {error}", socket.display()))),
    };
    let own = rustix::process::geteuid().as_raw();
    if user != own && user != 0 {
        return Err(ignored(format!(
            "the node runs as user {user}, and a node that is not named must run as you or as root"
        )));
    }
    if !address.is_near() {
        return Err(ignored("its node runs in another container".to_owned()));
    }
    Ok(RunningNode { name: note.node, data: note.data, address })
}

/// The user of the process that listens on a socket.
fn user_of(socket: &Path) -> io::Result<u32> {
    let stream = connect_unix(socket, Instant::now() + LOOK_LIMIT)?;
    Ok(rustix::net::sockopt::socket_peercred(&stream)?.uid.as_raw())
}

/// Whether an attempt to connect shows that no process listens.
fn is_dead(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

/// Removes the note of a node that is gone. Nodes write their notes under the same lock, after
/// they have begun to listen; so this never removes the note of a node that was started again.
fn remove_note(runtime: &Path, notes: &Path, path: &Path) {
    let Ok(dir) = File::open(notes) else { return };
    if rustix::fs::flock(&dir, FlockOperation::LockExclusive).is_err() {
        return;
    }
    if matches!(look_up(runtime, path), Err(Unusable::Gone)) {
        // If this fails, the next caller tries again.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    fn runtime() -> (tempfile::TempDir, PathBuf) {
        let above = tempfile::tempdir().unwrap();
        let runtime = above.path().join("pario");
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700).recursive(true).create(runtime.join(NOTES_DIRECTORY)).unwrap();
        (above, runtime)
    }

    fn note(runtime: &Path, name: &str, socket: &Path) -> PathBuf {
        let path = runtime.join(NOTES_DIRECTORY).join(format!("{name}.{NOTE_EXTENSION}"));
        let address = format!("unix={}", socket.display());
        let note = NodeNote { address, node: "local".to_owned(), data: format!("/data/{name}") };
        fs::write(&path, note.to_text()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    #[test]
    fn one_node_is_used_several_are_named_and_dead_ones_are_forgotten() {
        let (_above, runtime) = runtime();
        assert!(matches!(running_in(&runtime).only(), Err(Error::NotRunning { .. })));
        let sockets = ["a", "b", "c"].map(|name| runtime.join(format!("{name}.sock")));
        let a = UnixListener::bind(&sockets[0]).unwrap();
        let b = UnixListener::bind(&sockets[1]).unwrap();
        let notes = ["a", "b", "c"].map(|n| note(&runtime, n, &runtime.join(format!("{n}.sock"))));

        // No process has ever listened on the third.
        let error = running_in(&runtime).only().unwrap_err();
        assert!(matches!(error, Error::SeveralNodes { .. }), "{error:?}");
        let told = error.to_string();
        for part in ["2 nodes", "/data/a, /data/b", "--cluster /data/a", "PARIO_CLUSTER=/data/a"] {
            assert!(told.contains(part), "{told}");
        }
        assert!(!notes[2].exists() && notes[0].exists() && notes[1].exists());

        drop(b);
        let running = running_in(&runtime);
        assert_eq!(running.only().unwrap().data, "/data/a");
        assert!(!notes[1].exists() && running.ignored.is_empty());
        drop(a);
        assert!(running_in(&runtime).nodes.is_empty());
    }

    #[test]
    fn what_may_not_be_used_is_reported_and_left_alone() {
        let (above, runtime) = runtime();
        let elsewhere = above.path().join("elsewhere.sock");
        let _listener = UnixListener::bind(&elsewhere).unwrap();
        let far = note(&runtime, "far", &elsewhere);
        let damaged = note(&runtime, "damaged", &elsewhere);
        fs::write(&damaged, "nonsense").unwrap();
        let open = note(&runtime, "open", &runtime.join("open.sock"));
        fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).unwrap();
        let running = running_in(&runtime);
        assert!(running.nodes.is_empty());
        let told = running.only().unwrap_err().to_string();
        for part in ["does not lie in", "it is damaged", "other users can change it (mode 0666)"] {
            assert!(told.contains(part), "{told}");
        }
        assert!([far, damaged, open].iter().all(|path| path.exists()));

        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
        let told = running_in(&runtime).only().unwrap_err().to_string();
        assert!(told.contains("other users can enter it (mode 0755)"), "{told}");
    }
}
