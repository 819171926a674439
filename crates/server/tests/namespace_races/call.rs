//! Calls of a namespace and what comes of them, in a form that can be compared.

use std::sync::mpsc;

use fastrand::Rng;
use pario_proto::{Access, Failure, FileId, FileKind, FilePath, FileRecord, Identity};
use pario_server::metadata::Revision;
use pario_server::namespace::{Created, Namespace};

use crate::model::{WANTS, told};
use crate::recorder::{Trace, last_trace};

#[derive(Clone, Debug)]
pub enum Call {
    Create { path: String, id: FileId, mode: u32 },
    MakeDirectory { path: String, mode: u32 },
    Remove { path: String },
    RemoveDirectory { path: String },
    Rename { from: String, to: String },
    List { path: String },
    Lookup { path: String, want: Access },
    SetMode { path: String, mode: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Nothing,
    Node(Shown),
    Existed(Shown),
    Replaced(Option<Shown>),
    List(Vec<(String, Shown)>),
}

/// A record without its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub id: FileId,
    pub kind: FileKind,
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    pub rights_version: u32,
}

impl Shown {
    pub fn new(id: FileId, kind: FileKind, who: &Identity, mode: u32) -> Shown {
        Shown { id, kind, uid: who.uid, gid: who.gids[0], mode, rights_version: 0 }
    }

    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

pub fn shown(record: &FileRecord) -> Shown {
    let FileRecord { id, kind, uid, gid, mode, rights_version, .. } = *record;
    Shown { id, kind, uid, gid, mode, rights_version }
}

/// A call that was made.
#[derive(Debug)]
pub struct Made {
    pub who: Identity,
    pub call: Call,
    pub outcome: Result<Outcome, String>,
    pub trace: Trace,
    /// The highest revision of the calls that had ended before this one began.
    pub not_before: Revision,
}

/// A path of one to three names out of three.
fn some_path(rng: &mut Rng) -> String {
    let names = [1, 1, 2, 2, 2, 3][rng.usize(..6)];
    (0..names).map(|_| ["/a", "/b", "/c"][rng.usize(..3)]).collect()
}

pub fn some_identity(rng: &mut Rng) -> Identity {
    match rng.u8(..5) {
        0 => Identity { uid: 0, gids: vec![0] },
        1 => Identity { uid: 2, gids: vec![10, 20] },
        _ => Identity { uid: 1, gids: vec![10] },
    }
}

impl Call {
    pub fn random(names: &Namespace, rng: &mut Rng) -> Call {
        let path = some_path(rng);
        // Most modes let the owner work, so that much happens.
        let mode = [0o777, 0o777, 0o777, 0o755, 0o770, 0o700, 0o370][rng.usize(..7)];
        match rng.u8(..17) {
            0..=2 => Call::Create { path, id: names.new_file_id(), mode },
            3..=5 => Call::MakeDirectory { path, mode },
            6 | 7 => Call::Remove { path },
            8 | 9 => Call::RemoveDirectory { path },
            10..=12 => Call::Rename { from: path, to: some_path(rng) },
            13 if rng.bool() => Call::List { path: "/".to_owned() },
            13 => Call::List { path },
            14 | 15 => Call::Lookup { path, want: WANTS[rng.usize(..3)] },
            // Directories of all users may have the sticky bit.
            _ => Call::SetMode { path, mode: [mode, mode, 0o1777, 0o1770][rng.usize(..4)] },
        }
    }

    /// Makes the call and waits for it.
    pub fn make(&self, names: &Namespace, who: &Identity) -> (Result<Outcome, String>, Trace) {
        let path = |text: &str| FilePath::new(text).unwrap();
        let who = || who.clone();
        match self {
            Call::Create { path: at, id, mode } => {
                let record = FileRecord {
                    id: *id,
                    kind: FileKind::Flat,
                    layout: None,
                    uid: who().uid,
                    gid: who().gids[0],
                    mode: *mode,
                    created_ns: 0,
                    changed_ns: 0,
                    rights_version: 0,
                    first_synced: Vec::new(),
                };
                wait(
                    |done| names.create(who(), path(at), record, done),
                    |created| match created {
                        Created::New(record) => Outcome::Node(shown(&record)),
                        Created::Existed(record) => Outcome::Existed(shown(&record)),
                    },
                )
            }
            Call::MakeDirectory { path: at, mode } => wait(
                |done| names.make_directory(who(), path(at), *mode, done),
                |record| Outcome::Node(shown(&record)),
            ),
            Call::Remove { path: at } => wait(
                |done| names.remove(who(), path(at), done),
                |record| Outcome::Node(shown(&record)),
            ),
            Call::RemoveDirectory { path: at } => {
                wait(|done| names.remove_directory(who(), path(at), done), |()| Outcome::Nothing)
            }
            Call::Rename { from, to } => wait(
                |done| names.rename(who(), path(from), path(to), done),
                |renamed| Outcome::Replaced(renamed.replaced.as_ref().map(shown)),
            ),
            Call::SetMode { path: at, mode } => wait(
                |done| names.set_rights(who(), path(at), Some(*mode), None, None, done),
                |record| Outcome::Node(shown(&record)),
            ),
            Call::List { path: at } => {
                let listed = names.list(&who(), &path(at), None, 1000);
                let outcome = listed.map(|(entries, _)| {
                    let entries = entries.into_iter();
                    Outcome::List(entries.map(|entry| (entry.name, shown(&entry.record))).collect())
                });
                (outcome.map_err(|failure| told(&failure)), last_trace())
            }
            Call::Lookup { path: at, want } => {
                let outcome = names.lookup(&who(), &path(at), *want);
                let outcome = outcome.map(|record| Outcome::Node(shown(&record)));
                (outcome.map_err(|failure| told(&failure)), last_trace())
            }
        }
    }
}

type DoneWith<T> = Box<dyn FnOnce(Result<T, Failure>) + Send>;

/// Starts a call and waits for it; the trace is that of the thread in which it is done.
fn wait<T: Send + 'static>(
    start: impl FnOnce(DoneWith<T>),
    show: impl FnOnce(T) -> Outcome,
) -> (Result<Outcome, String>, Trace) {
    let (send, receive) = mpsc::channel();
    start(Box::new(move |outcome| send.send((outcome, last_trace())).unwrap()));
    let (outcome, trace) = receive.recv().unwrap();
    (outcome.map(show).map_err(|failure| told(&failure)), trace)
}
