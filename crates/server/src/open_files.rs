//! Which files are open, by whom, and which of them were deleted meanwhile.
//!
//! The subfiles of a deleted file go when its last user has closed it, or is gone.

use std::collections::{BTreeSet, HashMap};

use pario_net::SpaceId;
use pario_proto::{Access, FileId, FilePath, FileRecord, Identity};
use parking_lot::Mutex;

use crate::limits::QuotaShare;

/// An open file.
#[derive(Clone, Debug)]
pub struct OpenFile {
    /// Who has it open.
    pub space: SpaceId,
    /// As whom.
    pub identity: Identity,
    /// Under which path.
    pub path: FilePath,
    /// What it is.
    pub record: FileRecord,
    /// What for.
    pub access: Access,
}

/// All open files.
#[derive(Debug)]
pub struct OpenFiles {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    handles: HashMap<u64, Handle>,
    /// The handles of each client.
    by_space: HashMap<SpaceId, BTreeSet<u64>>,
    users: HashMap<FileId, u64>,
    deleted: HashMap<FileId, FileRecord>,
}

#[derive(Debug)]
struct Handle {
    file: OpenFile,
    /// What it takes of its user's open files.
    _share: QuotaShare,
}

impl Default for OpenFiles {
    /// No file is open. Handles begin somewhere, whatever the clock says: one from before a restart
    /// of the node is not taken for another file's.
    fn default() -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *SpaceId::random().as_bytes();
        let next = u64::from_le_bytes([a, b, c, d, e, f, g, h]) >> 1;
        Self { state: Mutex::new(State { next, ..State::default() }) }
    }
}

impl OpenFiles {
    /// A file was opened; the answer is for closing it.
    pub fn open(&self, file: OpenFile, share: QuotaShare) -> u64 {
        self.state.lock().open(file, share)
    }

    /// A file was opened by several; the first handle, which the others follow.
    pub fn open_all(&self, files: impl IntoIterator<Item = (OpenFile, QuotaShare)>) -> u64 {
        let mut state = self.state.lock();
        let first = state.next + 1;
        for (file, share) in files {
            state.open(file, share);
        }
        first
    }

    /// The open file of a client.
    pub fn get(&self, handle: u64, space: SpaceId) -> Option<OpenFile> {
        self.state.lock().find(handle, space).cloned()
    }

    /// Which file a client has open, and what for.
    pub fn find(&self, handle: u64, space: SpaceId) -> Option<(FileId, Access)> {
        let state = self.state.lock();
        let file = state.find(handle, space)?;
        Some((file.record.id, file.access))
    }

    /// Whether a client has a file open.
    pub fn is_open(&self, file: FileId, space: SpaceId) -> bool {
        let state = self.state.lock();
        let mut handles = state.by_space.get(&space).into_iter().flatten();
        handles.any(|handle| state.find(*handle, space).is_some_and(|open| open.record.id == file))
    }

    /// A client has closed a file. If it was deleted and nobody else has it open: its record.
    pub fn close(&self, handle: u64, space: SpaceId) -> Option<FileRecord> {
        let mut state = self.state.lock();
        state.find(handle, space)?;
        state.forget(handle)
    }

    /// A client is gone. The records of files that were deleted and are open no more.
    pub fn leave(&self, space: SpaceId) -> Vec<FileRecord> {
        let mut state = self.state.lock();
        let handles = state.by_space.remove(&space).unwrap_or_default();
        handles.into_iter().filter_map(|handle| state.forget(handle)).collect()
    }

    /// A file was deleted. Its record comes back if nobody has it open.
    pub fn delete(&self, record: FileRecord) -> Option<FileRecord> {
        let mut state = self.state.lock();
        if !state.users.contains_key(&record.id) {
            return Some(record);
        }
        state.deleted.insert(record.id, record);
        None
    }

    /// Whether any client has the file open.
    pub fn is_in_use(&self, file: FileId) -> bool {
        self.state.lock().users.contains_key(&file)
    }

    /// Whether somebody has the file open though it was deleted.
    pub fn is_kept(&self, file: FileId) -> bool {
        self.state.lock().deleted.contains_key(&file)
    }

    /// How many files are open, over all clients.
    pub fn count(&self) -> u64 {
        self.state.lock().handles.len() as u64
    }

    /// How many files a client has open.
    pub fn count_of(&self, space: SpaceId) -> u64 {
        self.state.lock().by_space.get(&space).map_or(0, |handles| handles.len() as u64)
    }
}

impl State {
    fn open(&mut self, file: OpenFile, share: QuotaShare) -> u64 {
        self.next += 1;
        *self.users.entry(file.record.id).or_default() += 1;
        self.by_space.entry(file.space).or_default().insert(self.next);
        self.handles.insert(self.next, Handle { file, _share: share });
        self.next
    }

    fn find(&self, handle: u64, space: SpaceId) -> Option<&OpenFile> {
        let file = &self.handles.get(&handle)?.file;
        (file.space == space).then_some(file)
    }

    fn forget(&mut self, handle: u64) -> Option<FileRecord> {
        let file = self.handles.remove(&handle)?.file;
        if let Some(handles) = self.by_space.get_mut(&file.space) {
            handles.remove(&handle);
            if handles.is_empty() {
                self.by_space.remove(&file.space);
            }
        }
        let users = self.users.get_mut(&file.record.id)?;
        *users -= 1;
        if *users > 0 {
            return None;
        }
        self.users.remove(&file.record.id);
        self.deleted.remove(&file.record.id)
    }
}

#[cfg(test)]
mod tests {
    use pario_proto::FileKind;

    use super::*;
    use crate::limits::{Quotas, Resource};

    fn file(id: u128, space: SpaceId) -> OpenFile {
        let record = FileRecord {
            id: FileId(id),
            kind: FileKind::Flat,
            layout: None,
            uid: 0,
            gid: 0,
            mode: 0,
            created_ns: 0,
            changed_ns: 0,
            rights_version: 0,
            first_synced: Vec::new(),
        };
        let identity = Identity { uid: 0, gids: vec![0] };
        OpenFile { space, identity, path: FilePath::root(), record, access: Access::READ }
    }

    #[test]
    fn a_deleted_file_stays_until_its_last_user_is_gone() {
        let (a, b) = (SpaceId::from_bytes([1; 16]), SpaceId::from_bytes([2; 16]));
        let files = OpenFiles::default();
        let account = Quotas::new("alpha", 0).account(0);
        let share = || account.take(Resource::Handles, 1).unwrap();
        let first = files.open_all([(file(7, a), share()), (file(7, b), share())]);
        assert_eq!((files.count_of(a), files.is_open(FileId(7), b)), (1, true));
        let second = first + 1;
        assert_eq!(files.delete(file(8, a).record), Some(file(8, a).record));
        assert_eq!(files.delete(file(7, a).record), None);
        assert!(files.is_kept(FileId(7)));
        assert_eq!(files.close(first, b), None, "another client cannot close it");
        assert_eq!(files.count(), 2);
        assert_eq!(files.close(first, a), None);
        assert_eq!(files.leave(b).len(), 1);
        assert_eq!(files.close(second, b), None);
        assert!(!files.is_kept(FileId(7)));
        assert_eq!((files.count(), files.count_of(a)), (0, 0));
        assert_eq!(account.used(Resource::Handles), 0, "all shares were given back");
    }
}
