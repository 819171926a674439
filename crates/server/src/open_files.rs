//! The open files of all clients, and which of them are deleted.
//!
//! The subfiles of a deleted file are removed when its last client has closed it or is lost.

use std::collections::{BTreeSet, HashMap, HashSet};

use pario_net::SpaceId;
use pario_proto::{Access, FileId, FilePath, FileRecord, Identity};
use parking_lot::Mutex;

use crate::limits::QuotaShare;

/// An open file.
#[derive(Clone, Debug)]
pub struct OpenFile {
    /// The client that has it open.
    pub space: SpaceId,
    /// The identity of the client.
    pub identity: Identity,
    /// The path under which it was opened.
    pub path: FilePath,
    /// The record of the file.
    pub record: FileRecord,
    /// The access.
    pub access: Access,
}

/// All open files.
#[derive(Debug)]
pub struct OpenFiles {
    state: Mutex<OpenFilesState>,
}

#[derive(Debug, Default)]
struct OpenFilesState {
    next: u64,
    handles: HashMap<u64, Handle>,
    /// The handles of each client.
    by_space: HashMap<SpaceId, BTreeSet<u64>>,
    users: HashMap<FileId, u64>,
    deleted: HashMap<FileId, FileRecord>,
    /// Files that their only client replaces by new ones.
    replaced: HashSet<FileId>,
}

#[derive(Debug)]
struct Handle {
    file: OpenFile,
    /// The handle's share of its user's open files.
    _share: QuotaShare,
}

impl Default for OpenFiles {
    /// Starts without open files. Handles begin at a random number, so that a handle from before a
    /// restart of the node does not name another file.
    fn default() -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *SpaceId::random().as_bytes();
        let next = u64::from_le_bytes([a, b, c, d, e, f, g, h]) >> 1;
        Self { state: Mutex::new(OpenFilesState { next, ..OpenFilesState::default() }) }
    }
}

impl OpenFiles {
    /// Registers an open file. Returns its handle.
    pub fn open(&self, file: OpenFile, share: QuotaShare) -> u64 {
        self.state.lock().open(file, share)
    }

    /// Registers a file that several clients have opened. Returns the first handle; the others
    /// follow it.
    pub fn open_all(&self, files: impl IntoIterator<Item = (OpenFile, QuotaShare)>) -> u64 {
        let mut state = self.state.lock();
        let first = state.next + 1;
        for (file, share) in files {
            state.open(file, share);
        }
        first
    }

    /// Returns the open file of a handle.
    pub fn get(&self, handle: u64, space: SpaceId) -> Option<OpenFile> {
        self.state.lock().find(handle, space).cloned()
    }

    /// Returns the file and the access of a handle.
    pub fn find(&self, handle: u64, space: SpaceId) -> Option<(FileId, Access)> {
        let state = self.state.lock();
        let file = state.find(handle, space)?;
        Some((file.record.id, file.access))
    }

    /// Returns whether a client has a file open.
    pub fn is_open(&self, file: FileId, space: SpaceId) -> bool {
        let state = self.state.lock();
        let mut handles = state.by_space.get(&space).into_iter().flatten();
        handles.any(|handle| state.find(*handle, space).is_some_and(|open| open.record.id == file))
    }

    /// Closes a handle. Returns the record of the file if it is deleted and no other client has it
    /// open.
    pub fn close(&self, handle: u64, space: SpaceId) -> Option<FileRecord> {
        let mut state = self.state.lock();
        state.find(handle, space)?;
        state.forget(handle)
    }

    /// Closes all handles of a client. Returns the records of deleted files that no client has open
    /// now.
    pub fn close_all_of(&self, space: SpaceId) -> Vec<FileRecord> {
        let mut state = self.state.lock();
        let handles = state.by_space.remove(&space).unwrap_or_default();
        handles.into_iter().filter_map(|handle| state.forget(handle)).collect()
    }

    /// Notes that a file is deleted. Returns its record if no client has it open.
    pub fn delete(&self, record: FileRecord) -> Option<FileRecord> {
        let mut state = self.state.lock();
        if !state.users.contains_key(&record.id) {
            return Some(record);
        }
        state.deleted.insert(record.id, record);
        None
    }

    /// Returns whether any client has the file open.
    pub fn is_in_use(&self, file: FileId) -> bool {
        self.state.lock().users.contains_key(&file)
    }

    /// Returns whether the file is deleted and a client has it open.
    pub fn is_deleted_but_open(&self, file: FileId) -> bool {
        self.state.lock().deleted.contains_key(&file)
    }

    /// Marks a file that its client replaces by a new one. Returns false if the file has more than
    /// one handle, or is being replaced. The mark ends with the last handle.
    pub fn begin_replacement(&self, file: FileId) -> bool {
        let mut state = self.state.lock();
        state.users.get(&file) == Some(&1) && state.replaced.insert(file)
    }

    /// Removes the mark of a file that was not replaced.
    pub fn end_replacement(&self, file: FileId) {
        self.state.lock().replaced.remove(&file);
    }

    /// Returns whether its client replaces a file by a new one.
    pub fn is_being_replaced(&self, file: FileId) -> bool {
        self.state.lock().replaced.contains(&file)
    }

    /// Returns the number of open handles of all clients.
    pub fn count(&self) -> u64 {
        self.state.lock().handles.len() as u64
    }

    /// Returns the number of open handles of a client.
    pub fn count_of(&self, space: SpaceId) -> u64 {
        self.state.lock().by_space.get(&space).map_or(0, |handles| handles.len() as u64)
    }
}

impl OpenFilesState {
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
        self.replaced.remove(&file.record.id);
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
    fn only_the_sole_handle_of_a_file_replaces_it() {
        let (a, b) = (SpaceId::from_bytes([1; 16]), SpaceId::from_bytes([2; 16]));
        let files = OpenFiles::default();
        let account = Quotas::new("alpha", 0).account(0);
        let share = || account.take(Resource::Handles, 1).unwrap();
        let own = files.open(file(7, a), share());
        let other = files.open(file(7, b), share());
        assert!(!files.begin_replacement(FileId(7)), "two clients have it open");
        files.close(other, b);
        assert!(files.begin_replacement(FileId(7)) && files.is_being_replaced(FileId(7)));
        assert!(!files.begin_replacement(FileId(7)), "it is being replaced");
        files.end_replacement(FileId(7));
        assert!(!files.is_being_replaced(FileId(7)) && files.begin_replacement(FileId(7)));
        files.close(own, a);
        assert!(!files.is_being_replaced(FileId(7)), "the mark ends with the last handle");
        assert!(!files.begin_replacement(FileId(7)), "no client has it open");
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
        assert!(files.is_deleted_but_open(FileId(7)));
        assert_eq!(files.close(first, b), None, "another client cannot close it");
        assert_eq!(files.count(), 2);
        assert_eq!(files.close(first, a), None);
        assert_eq!(files.close_all_of(b).len(), 1);
        assert_eq!(files.close(second, b), None);
        assert!(!files.is_deleted_but_open(FileId(7)));
        assert_eq!((files.count(), files.count_of(a)), (0, 0));
        assert_eq!(account.used(Resource::Handles), 0, "all shares were given back");
    }
}
