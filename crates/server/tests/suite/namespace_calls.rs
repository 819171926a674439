//! Calls of a namespace that block, and records of files, for all tests.

use std::sync::mpsc;

use pario_proto::{FileId, FileKind, FilePath, FileRecord, Identity};

/// Parses a path.
pub fn path(text: &str) -> FilePath {
    FilePath::new(text).unwrap()
}

/// Starts a call and waits for its outcome.
pub fn wait<T: Send + 'static>(start: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> T {
    let (send, receive) = mpsc::channel();
    start(Box::new(move |outcome| send.send(outcome).unwrap()));
    receive.recv().unwrap()
}

/// The record of a flat file of a user, without a layout.
pub fn flat_file(id: FileId, who: &Identity, mode: u32) -> FileRecord {
    FileRecord {
        id,
        kind: FileKind::Flat,
        layout: None,
        uid: who.uid,
        gid: who.gids[0],
        mode,
        created_ns: 0,
        changed_ns: 0,
        rights_version: 0,
        first_synced: Vec::new(),
    }
}
