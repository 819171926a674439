//! The rules of the namespace, one by one.

mod batches;
mod descriptions;
mod paths;
mod recovery;
mod rights;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_proto::{
    Access, DiskId, Disks, Failure, FilePath, FileRecord, Identity, Removal, Striped,
};
use pario_server::metadata::{MemoryStore, MetadataStore};
use pario_server::namespace::{CreateOutcome, Namespace, RightsUpdate, WallClock};

use crate::namespace_calls::{flat_file, path, wait};

/// Two users in group 10, the first also in group 20; a user outside of both groups; and root.
fn ann() -> Identity {
    Identity { uid: 1, gids: vec![10, 20] }
}
fn bob() -> Identity {
    Identity { uid: 2, gids: vec![10] }
}
fn eve() -> Identity {
    Identity { uid: 3, gids: vec![30] }
}
fn root() -> Identity {
    Identity { uid: 0, gids: vec![0] }
}

/// A namespace with blocking calls, at a time that the test sets.
struct TestTree {
    names: Namespace,
    time: Arc<AtomicU64>,
}

impl TestTree {
    fn new() -> TestTree {
        TestTree::on(Arc::new(MemoryStore::new()))
    }

    /// Opens a namespace whose root belongs to Ann.
    fn on(store: Arc<dyn MetadataStore>) -> TestTree {
        let time = Arc::new(AtomicU64::new(1));
        let now = Arc::clone(&time);
        let clock = WallClock::new(move || now.load(Ordering::Relaxed));
        TestTree { names: Namespace::open(store, "n0", &ann(), clock).unwrap(), time }
    }

    fn record(&self, who: &Identity, mode: u32) -> FileRecord {
        let disks = Disks::new([DiskId(0), DiskId(1)]).unwrap();
        let layout = Some(Striped::new(65_536, disks).unwrap().into());
        FileRecord { layout, ..flat_file(self.names.new_file_id(), who, mode) }
    }

    fn try_create(&self, who: &Identity, at: &str, mode: u32) -> Result<CreateOutcome, Failure> {
        let record = self.record(who, mode);
        wait(|done| self.names.create(who.clone(), path(at), record, done))
    }

    fn create(&self, who: &Identity, at: &str, mode: u32) -> FileRecord {
        match self.try_create(who, at, mode).unwrap() {
            CreateOutcome::New(record) => record,
            CreateOutcome::Existed(record) => panic!("{at} is {record:?}"),
        }
    }

    fn create_many(&self, who: &Identity, at: &[&str]) -> Vec<Result<CreateOutcome, Failure>> {
        let file = |at: &&str| (path(at), self.record(who, 0o644));
        let files = at.iter().map(file).collect();
        wait(|done| self.names.create_many(who.clone(), files, done)).unwrap()
    }

    fn remove_many(&self, who: &Identity, at: &[&str]) -> Vec<Result<bool, Failure>> {
        // A directory ends with a slash.
        let removal = |at: &&str| {
            let is_directory = at.ends_with('/');
            Removal { path: path(at.trim_end_matches('/')), is_directory }
        };
        let entries = at.iter().map(removal).collect();
        let removed = wait(|done| self.names.remove_many(who.clone(), entries, done)).unwrap();
        removed.into_iter().map(|removed| removed.map(|record| record.is_some())).collect()
    }

    fn mkdir(&self, who: &Identity, at: &str, mode: u32) -> Result<FileRecord, Failure> {
        wait(|done| self.names.make_directory(who.clone(), path(at), mode, done))
    }

    fn rmdir(&self, who: &Identity, at: &str) -> Result<(), Failure> {
        wait(|done| self.names.remove_directory(who.clone(), path(at), done))
    }

    fn remove(&self, who: &Identity, at: &str) -> Result<FileRecord, Failure> {
        wait(|done| self.names.remove(who.clone(), path(at), done))
    }

    fn rename(&self, who: &Identity, a: &str, b: &str) -> Result<Option<FileRecord>, Failure> {
        let renamed = wait(|done| self.names.rename(who.clone(), path(a), path(b), done));
        renamed.map(|renamed| renamed.replaced)
    }

    fn set_rights(
        &self,
        who: &Identity,
        at: &str,
        (mode, uid, gid): (Option<u32>, Option<u32>, Option<u32>),
    ) -> Result<FileRecord, Failure> {
        let update = RightsUpdate { mode, uid, gid };
        let changed = wait(|done| self.names.set_rights(who.clone(), path(at), update, done));
        changed.map(|changed| changed.after)
    }

    fn look(&self, who: &Identity, at: &str, want: Access) -> Result<FileRecord, Failure> {
        self.names.lookup(who, &path(at), want)
    }

    fn names_in(&self, at: &str) -> String {
        let (entries, _) = self.names.list(&root(), &path(at), None, 1000).unwrap();
        entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>().join(" ")
    }

    /// Fails the test if an invariant of the tree is violated.
    fn check(&self) {
        assert_eq!(self.names.problems().unwrap(), Vec::<String>::new());
    }
}

/// Fails the test unless a call was denied because of what is at a path.
#[track_caller]
fn assert_denied<T: std::fmt::Debug>(outcome: Result<T, Failure>, at: &str) {
    let is_denied = matches!(&outcome, Err(Failure::Denied { path, .. }) if path.as_str() == at);
    assert!(is_denied, "{outcome:?}");
}
