//! Calls of a namespace and their outcomes, in a form that can be compared.

use fastrand::Rng;
use pario_proto::{Access, Failure, FileId, FileKind, FileRecord, Identity};
use pario_server::metadata::Revision;
use pario_server::namespace::{CreateOutcome, Namespace, RightsUpdate};

use super::model::{ACCESSES, failure_text};
use super::recorder::{Trace, last_trace};
use crate::namespace_calls::{self, flat_file, path};

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
    Node(NodeFacts),
    Existed(NodeFacts),
    Replaced(Option<NodeFacts>),
    List(Vec<(String, NodeFacts)>),
}

/// A record without its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    pub id: FileId,
    pub kind: FileKind,
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    pub rights_version: u32,
}

impl NodeFacts {
    pub fn new(id: FileId, kind: FileKind, who: &Identity, mode: u32) -> NodeFacts {
        NodeFacts { id, kind, uid: who.uid, gid: who.gids[0], mode, rights_version: 0 }
    }

    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

pub fn facts(record: &FileRecord) -> NodeFacts {
    let FileRecord { id, kind, uid, gid, mode, rights_version, .. } = *record;
    NodeFacts { id, kind, uid, gid, mode, rights_version }
}

/// A finished call.
#[derive(Debug)]
pub struct FinishedCall {
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
            14 | 15 => Call::Lookup { path, want: ACCESSES[rng.usize(..3)] },
            // Directories of all users may have the sticky bit.
            _ => Call::SetMode { path, mode: [mode, mode, 0o1777, 0o1770][rng.usize(..4)] },
        }
    }

    /// Makes the call and waits for it.
    pub fn make(&self, names: &Namespace, who: &Identity) -> (Result<Outcome, String>, Trace) {
        let who = || who.clone();
        match self {
            Call::Create { path: at, id, mode } => {
                let record = flat_file(*id, &who(), *mode);
                wait(
                    |done| names.create(who(), path(at), record, done),
                    |created| match created {
                        CreateOutcome::New(record) => Outcome::Node(facts(&record)),
                        CreateOutcome::Existed(record) => Outcome::Existed(facts(&record)),
                    },
                )
            }
            Call::MakeDirectory { path: at, mode } => wait(
                |done| names.make_directory(who(), path(at), *mode, done),
                |record| Outcome::Node(facts(&record)),
            ),
            Call::Remove { path: at } => wait(
                |done| names.remove(who(), path(at), done),
                |record| Outcome::Node(facts(&record)),
            ),
            Call::RemoveDirectory { path: at } => {
                wait(|done| names.remove_directory(who(), path(at), done), |()| Outcome::Nothing)
            }
            Call::Rename { from, to } => wait(
                |done| names.rename(who(), path(from), path(to), done),
                |renamed| Outcome::Replaced(renamed.replaced.as_ref().map(facts)),
            ),
            Call::SetMode { path: at, mode } => {
                let update = RightsUpdate { mode: Some(*mode), ..RightsUpdate::default() };
                wait(
                    |done| names.set_rights(who(), path(at), update, done),
                    |changed| Outcome::Node(facts(&changed.after)),
                )
            }
            Call::List { path: at } => {
                let listed = names.list(&who(), &path(at), None, 1000);
                let outcome = listed.map(|(entries, _)| {
                    let entries = entries.into_iter();
                    Outcome::List(entries.map(|entry| (entry.name, facts(&entry.record))).collect())
                });
                (outcome.map_err(|failure| failure_text(&failure)), last_trace())
            }
            Call::Lookup { path: at, want } => {
                let outcome = names.lookup(&who(), &path(at), *want);
                let outcome = outcome.map(|record| Outcome::Node(facts(&record)));
                (outcome.map_err(|failure| failure_text(&failure)), last_trace())
            }
        }
    }
}

type DoneWith<T> = Box<dyn FnOnce(Result<T, Failure>) + Send>;

/// Starts a call and waits for it. The trace is that of the thread on which the call is done.
fn wait<T: Send + 'static>(
    start: impl FnOnce(DoneWith<T>),
    show: impl FnOnce(T) -> Outcome,
) -> (Result<Outcome, String>, Trace) {
    let (outcome, trace) = namespace_calls::wait(|done| {
        start(Box::new(move |outcome| done((outcome, last_trace()))));
    });
    (outcome.map(show).map_err(|failure| failure_text(&failure)), trace)
}
