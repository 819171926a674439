//! The rules of the tree, one by one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use pario_proto::{
    Access, DiskId, Disks, Failure, FileId, FileKind, FilePath, FileRecord, Identity, KnownFile,
    Removal, Striped, SubfileIndex,
};
use pario_server::metadata::{Memory, MetadataStore, Redb, Verdict};
use pario_server::namespace::{Clock, Created, Namespace, SyncMark};

/// Two users who share group 10, one of whom is in group 20 too, and a stranger.
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

fn path(text: &str) -> FilePath {
    FilePath::new(text).unwrap()
}

/// A namespace whose calls wait, at a time that the test sets.
struct Tree {
    names: Namespace,
    time: Arc<AtomicU64>,
}

fn wait<T: Send + 'static>(start: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> T {
    let (send, receive) = mpsc::channel();
    start(Box::new(move |outcome| send.send(outcome).unwrap()));
    receive.recv().unwrap()
}

impl Tree {
    fn new() -> Tree {
        Tree::on(Arc::new(Memory::new()))
    }

    /// The root belongs to Ann.
    fn on(store: Arc<dyn MetadataStore>) -> Tree {
        let time = Arc::new(AtomicU64::new(1));
        let now = Arc::clone(&time);
        let clock = Clock::new(move || now.load(Ordering::Relaxed));
        Tree { names: Namespace::open(store, "n0", &ann(), clock).unwrap(), time }
    }

    fn record(&self, who: &Identity, mode: u32) -> FileRecord {
        let disks = Disks::new([DiskId(0), DiskId(1)]).unwrap();
        FileRecord {
            id: self.names.new_file_id(),
            kind: FileKind::Flat,
            layout: Some(Striped::new(65_536, disks).unwrap().into()),
            uid: who.uid,
            gid: who.gids[0],
            mode,
            created_ns: 0,
            changed_ns: 0,
            rights_version: 0,
            first_synced: Vec::new(),
        }
    }

    fn try_create(&self, who: &Identity, at: &str, mode: u32) -> Result<Created, Failure> {
        let record = self.record(who, mode);
        wait(|done| self.names.create(who.clone(), path(at), record, done))
    }

    fn create(&self, who: &Identity, at: &str, mode: u32) -> FileRecord {
        match self.try_create(who, at, mode).unwrap() {
            Created::New(record) => record,
            Created::Existed(record) => panic!("{at} is {record:?}"),
        }
    }

    fn create_many(&self, who: &Identity, at: &[&str]) -> Vec<Result<Created, Failure>> {
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
        wait(|done| self.names.set_rights(who.clone(), path(at), mode, uid, gid, done))
    }

    fn look(&self, who: &Identity, at: &str, want: Access) -> Result<FileRecord, Failure> {
        self.names.lookup(who, &path(at), want)
    }

    fn names_in(&self, at: &str) -> String {
        let (entries, _) = self.names.list(&root(), &path(at), None, 1000).unwrap();
        entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>().join(" ")
    }

    fn check(&self) {
        assert_eq!(self.names.problems().unwrap(), Vec::<String>::new());
    }
}

/// That a call was denied because of what is at a path.
#[track_caller]
fn assert_denied<T: std::fmt::Debug>(outcome: Result<T, Failure>, at: &str) {
    let is_denied = matches!(&outcome, Err(Failure::Denied { path, .. }) if path.as_str() == at);
    assert!(is_denied, "{outcome:?}");
}

#[test]
fn a_new_namespace_has_a_root_that_belongs_to_its_owner() {
    let tree = Tree::new();
    let root = tree.look(&eve(), "/", Access::READ).unwrap();
    assert_eq!((root.id, root.uid, root.gid, root.mode), (FileId::ROOT, 1, 10, 0o755));
    assert_eq!(tree.names.count().unwrap(), 0);
    assert_eq!(tree.names.path_of(FileId::ROOT).unwrap(), Some(FilePath::root()));
    tree.check();
}

#[test]
fn a_file_is_created_once_and_found_by_path_and_id() {
    let tree = Tree::new();
    assert_eq!(tree.names.check_create(&ann(), &path("/f")).unwrap(), None);
    tree.time.store(77, Ordering::Relaxed);
    let record = tree.create(&ann(), "/f", 0o640);
    assert_eq!(tree.look(&ann(), "/", Access::LOOK).unwrap().changed_ns, 77);
    assert_eq!(tree.look(&bob(), "/f", Access::READ).unwrap(), record);
    assert_eq!(tree.names.record(record.id).unwrap(), Some(record.clone()));
    assert_eq!(tree.names.path_of(record.id).unwrap(), Some(path("/f")));
    assert_eq!(tree.names.check_create(&eve(), &path("/f")).unwrap(), Some(record.clone()));
    assert_eq!(tree.try_create(&eve(), "/f", 0o600).unwrap(), Created::Existed(record.clone()));
    assert!(matches!(tree.try_create(&ann(), "/", 0o600).unwrap(), Created::Existed(_)));
    assert_eq!(tree.names.count().unwrap(), 1);
    // An id has one name.
    let again = wait(|done| tree.names.create(ann(), path("/g"), record, done));
    assert!(matches!(again, Err(Failure::Invalid(_))), "{again:?}");
    tree.check();
}

#[test]
fn a_failure_names_the_part_of_the_path_that_is_wrong() {
    let tree = Tree::new();
    tree.create(&ann(), "/file", 0o644);
    tree.mkdir(&ann(), "/private", 0o700).unwrap();
    tree.mkdir(&ann(), "/private/deep", 0o777).unwrap();
    let missing = Err(Failure::NotFound { path: path("/no") });
    assert_eq!(tree.look(&ann(), "/no/such/file", Access::LOOK), missing);
    assert_eq!(tree.names.check_create(&ann(), &path("/no/file")), missing.clone().map(Some));
    assert_eq!(tree.mkdir(&ann(), "/no/dir", 0o755), missing);
    let file = Err(Failure::NotADirectory { path: path("/file") });
    assert_eq!(tree.look(&ann(), "/file/a/b", Access::LOOK), file);
    assert_eq!(tree.remove(&ann(), "/file/a"), file);
    assert_eq!(tree.names.list(&ann(), &path("/file"), None, 1).map(|_| ()), file.map(|_| ()));
    assert_denied(tree.look(&bob(), "/private/deep/x", Access::LOOK), "/private");
    assert_denied(tree.remove(&bob(), "/private/deep/x"), "/private");
    tree.look(&root(), "/private/deep", Access::READ_WRITE).unwrap();
    let failure = tree.look(&bob(), "/private/deep", Access::LOOK).unwrap_err().to_string();
    assert!(failure.contains("user 2 may not") && failure.contains("mode 0700"), "{failure}");
}

#[test]
fn owner_group_and_others_are_judged_by_their_own_bits() {
    let tree = Tree::new();
    tree.create(&ann(), "/f", 0o426);
    let can = |who, want| tree.look(&who, "/f", want).is_ok();
    assert!(can(ann(), Access::READ) && !can(ann(), Access::WRITE), "the owner");
    assert!(!can(bob(), Access::READ) && can(bob(), Access::WRITE), "the group");
    assert!(can(eve(), Access::READ_WRITE), "others");
    assert!(!can(ann(), Access::READ_WRITE) && can(ann(), Access::LOOK));
    assert!(can(root(), Access::READ_WRITE), "root");
}

#[test]
fn names_come_and_go_only_where_the_directory_is_writable() {
    let tree = Tree::new();
    let made = tree.mkdir(&ann(), "/d", 0o7757).unwrap();
    assert_eq!((made.mode, made.uid, made.gid), (0o757, 1, 10));
    tree.create(&ann(), "/d/f", 0o666);
    assert_denied(tree.names.check_create(&bob(), &path("/d/g")), "/d");
    assert_denied(tree.try_create(&bob(), "/d/g", 0o600), "/d");
    assert_denied(tree.mkdir(&bob(), "/d/g", 0o700), "/d");
    assert_denied(tree.remove(&bob(), "/d/f"), "/d");
    assert_denied(tree.rename(&bob(), "/d/f", "/d/g"), "/d");
    assert_eq!(tree.mkdir(&bob(), "/d/f", 0o700), Err(Failure::Exists { path: path("/d/f") }));
    tree.create(&eve(), "/d/g", 0o600);
    assert_denied(tree.rename(&eve(), "/d/g", "/g"), "/");
    tree.remove(&eve(), "/d/f").unwrap();
    tree.create(&root(), "/d/h", 0o600);
    assert_eq!(tree.names_in("/d"), "g h");
    tree.check();
}

#[test]
fn a_removed_file_is_doomed_until_it_is_forgotten() {
    let tree = Tree::new();
    let record = tree.create(&ann(), "/f", 0o644);
    assert_eq!(tree.remove(&ann(), "/f").unwrap(), record);
    assert_eq!(tree.remove(&ann(), "/f"), Err(Failure::NotFound { path: path("/f") }));
    assert_eq!((tree.names.record(record.id).unwrap(), tree.names.count().unwrap()), (None, 0));
    assert_eq!(tree.names.path_of(record.id).unwrap(), None);
    let second = tree.create(&ann(), "/g", 0o644);
    tree.remove(&ann(), "/g").unwrap();
    assert_eq!(tree.names.doomed().unwrap(), [record.clone(), second.clone()]);
    wait(|done| tree.names.forget_doomed(vec![record.id, FileId(99)], done)).unwrap();
    assert_eq!(tree.names.doomed().unwrap(), [second]);
    tree.check();
}

#[test]
fn only_empty_directories_are_removed_and_never_the_root() {
    let tree = Tree::new();
    tree.mkdir(&ann(), "/d", 0o755).unwrap();
    tree.create(&ann(), "/d/f", 0o644);
    assert_eq!(tree.rmdir(&ann(), "/d"), Err(Failure::NotEmpty { path: path("/d") }));
    assert_eq!(tree.rmdir(&ann(), "/d/f"), Err(Failure::NotADirectory { path: path("/d/f") }));
    assert_eq!(tree.remove(&ann(), "/d"), Err(Failure::IsADirectory { path: path("/d") }));
    tree.remove(&ann(), "/d/f").unwrap();
    assert_denied(tree.rmdir(&bob(), "/d"), "/");
    tree.rmdir(&ann(), "/d").unwrap();
    assert_eq!(tree.rmdir(&ann(), "/d"), Err(Failure::NotFound { path: path("/d") }));
    assert_eq!(tree.rmdir(&root(), "/"), Err(Failure::Root));
    assert_eq!(tree.remove(&root(), "/"), Err(Failure::Root));
    assert_eq!(tree.mkdir(&root(), "/", 0o755), Err(Failure::Exists { path: path("/") }));
    assert!(tree.names.doomed().unwrap().len() == 1, "a directory has no subfiles");
    tree.check();
}

#[test]
fn files_and_directories_move_and_replace_their_like() {
    let tree = Tree::new();
    for directory in ["/a", "/a/in", "/b", "/full", "/full/x"] {
        tree.mkdir(&ann(), directory, 0o755).unwrap();
    }
    let (f, g) = (tree.create(&ann(), "/a/in/f", 0o644), tree.create(&ann(), "/g", 0o644));
    assert_eq!(tree.rename(&ann(), "/a/in/f", "/a/in/f").unwrap(), None);
    assert_eq!(tree.rename(&ann(), "/a/in/f", "/g").unwrap(), Some(g.clone()));
    assert_eq!(tree.look(&ann(), "/g", Access::LOOK).unwrap(), f);
    assert_eq!(tree.names.doomed().unwrap(), [g]);
    tree.rename(&ann(), "/g", "/a/in/h").unwrap();
    assert_eq!(tree.names.path_of(f.id).unwrap(), Some(path("/a/in/h")));
    let is = |at| Err(Failure::IsADirectory { path: path(at) });
    assert_eq!(tree.rename(&ann(), "/a/in/h", "/b"), is("/b"));
    assert_eq!(tree.rename(&ann(), "/a/in/h", "/a"), is("/a"));
    let file = Err(Failure::NotADirectory { path: path("/a/in/h") });
    assert_eq!(tree.rename(&ann(), "/b", "/a/in/h"), file);
    assert_eq!(tree.rename(&ann(), "/a/in/h", "/a/in/h/x"), file);
    let full = |at| Err(Failure::NotEmpty { path: path(at) });
    assert_eq!(tree.rename(&ann(), "/a", "/full"), full("/full"));
    assert_eq!(tree.rename(&ann(), "/full/x", "/full"), full("/full"));
    assert_eq!(tree.rename(&ann(), "/a", "/full/x").unwrap(), None, "over an empty directory");
    assert_eq!(tree.look(&ann(), "/full/x/in/h", Access::LOOK).unwrap(), f);
    assert_eq!(tree.names.path_of(f.id).unwrap(), Some(path("/full/x/in/h")));
    assert_eq!((tree.names_in("/").as_str(), tree.names.count().unwrap()), ("b full", 5));
    tree.check();
}

#[test]
fn what_cannot_move_stays_where_it_is() {
    let tree = Tree::new();
    tree.mkdir(&ann(), "/a", 0o755).unwrap();
    tree.mkdir(&ann(), "/a/b", 0o755).unwrap();
    for to in ["/a/x", "/a/b", "/a/b/c"] {
        let failure = Failure::IntoItself { from: path("/a"), to: path(to) };
        assert_eq!(tree.rename(&ann(), "/a", to), Err(failure));
    }
    // A name that begins alike is another one.
    tree.rename(&ann(), "/a", "/ab").unwrap();
    tree.rename(&ann(), "/ab", "/a").unwrap();
    assert_eq!(tree.rename(&root(), "/", "/a/c"), Err(Failure::Root));
    assert_eq!(tree.rename(&root(), "/a", "/"), Err(Failure::Root));
    let missing = |at| Err(Failure::NotFound { path: path(at) });
    assert_eq!(tree.rename(&ann(), "/no", "/no"), missing("/no"));
    assert_eq!(tree.rename(&ann(), "/a", "/no/a"), missing("/no"));
    tree.mkdir(&ann(), "/theirs", 0o755).unwrap();
    tree.set_rights(&root(), "/theirs", (None, Some(2), None)).unwrap();
    assert_denied(tree.rename(&ann(), "/a", "/theirs/a"), "/theirs");
    assert_eq!(tree.names_in("/"), "a theirs");
    tree.check();
}

#[test]
fn a_directory_is_listed_in_pages_in_order() {
    let tree = Tree::new();
    tree.mkdir(&ann(), "/d", 0o711).unwrap();
    for name in ["b", "a", "é", "ab", "a.b", "z"] {
        tree.create(&ann(), &format!("/d/{name}"), 0o644);
    }
    tree.mkdir(&ann(), "/d/sub", 0o755).unwrap();
    tree.create(&ann(), "/d/sub/inside", 0o644);
    let page = |after, limit| {
        let (entries, more) = tree.names.list(&ann(), &path("/d"), after, limit).unwrap();
        (entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>().join(" "), more)
    };
    assert_eq!(page(None, 3), ("a a.b ab".to_owned(), true));
    assert_eq!(page(Some("ab"), 3), ("b sub z".to_owned(), true));
    assert_eq!(page(Some("z"), 3), ("é".to_owned(), false));
    assert_eq!(page(Some("az"), 1), ("b".to_owned(), true), "a name that is not there");
    assert!(!page(None, 7).1);
    assert_eq!(page(None, 0), (String::new(), true));
    assert_denied(tree.names.list(&eve(), &path("/d"), None, 9), "/d");
    tree.look(&eve(), "/d/a", Access::READ).unwrap();
    let missing = tree.names.list(&ann(), &path("/no"), None, 9);
    assert_eq!(missing, Err(Failure::NotFound { path: path("/no") }));
}

#[test]
fn rights_are_changed_by_those_who_may() {
    let tree = Tree::new();
    tree.create(&ann(), "/f", 0o644);
    tree.time.store(5, Ordering::Relaxed);
    let change = |who, wish| tree.set_rights(&who, "/f", wish);
    let record = change(ann(), (Some(0o117_600), None, None)).unwrap();
    assert_eq!((record.mode, record.rights_version, record.changed_ns), (0o7600, 1, 5));
    assert_eq!(tree.look(&ann(), "/f", Access::LOOK).unwrap(), record);
    assert_eq!(change(ann(), (None, None, Some(20))).unwrap().gid, 20);
    assert_eq!(change(ann(), (None, Some(1), Some(20))).unwrap().rights_version, 2, "no change");
    assert_denied(change(ann(), (None, None, Some(30))), "/f");
    assert_denied(change(ann(), (None, Some(2), None)), "/f");
    assert_denied(change(bob(), (Some(0o777), None, None)), "/f");
    assert_denied(change(bob(), (None, Some(2), None)), "/f");
    assert_denied(change(bob(), (None, None, Some(10))), "/f");
    let record = change(root(), (Some(0o600), Some(2), Some(77))).unwrap();
    assert_eq!((record.uid, record.gid, record.mode, record.rights_version), (2, 77, 0o600, 3));
    tree.look(&bob(), "/f", Access::READ_WRITE).unwrap();
    assert_denied(tree.look(&ann(), "/f", Access::READ), "/f");
    let missing = tree.set_rights(&root(), "/no", (Some(0), None, None));
    assert_eq!(missing, Err(Failure::NotFound { path: path("/no") }));
    tree.set_rights(&ann(), "/", (Some(0o700), None, None)).unwrap();
    assert_denied(tree.look(&bob(), "/f", Access::LOOK), "/");
}

#[test]
fn settled_subfiles_are_noted_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Redb::open(&dir.path().join("metadata")).unwrap());
    let tree = Tree::on(Arc::clone(&store) as Arc<dyn MetadataStore>);
    let record = tree.create(&ann(), "/f", 0o644);
    let settle = |id, subfiles: &[u32]| {
        let subfiles = subfiles.iter().copied().map(SubfileIndex).collect();
        wait(|done| tree.names.settle(id, subfiles, false, done))
    };
    settle(record.id, &[1]).unwrap();
    let commits = store.commits();
    settle(record.id, &[1, 1]).unwrap();
    settle(FileId(12345), &[0]).unwrap();
    assert_eq!(store.commits(), commits, "nothing was new");
    settle(record.id, &[0, 1]).unwrap();
    let after = tree.look(&ann(), "/f", Access::LOOK).unwrap();
    assert!(after.is_first_synced(0) && after.is_first_synced(1));
    assert_eq!(after.rights_version, 0);
    assert!(matches!(settle(record.id, &[2]), Err(Failure::Invalid(_))), "there are two");
    tree.remove(&ann(), "/f").unwrap();
    settle(record.id, &[0]).unwrap();
    tree.check();
}

/// A rename owes the new path. What was sent before the rename does not settle that.
#[test]
fn paths_are_owed_until_all_disks_have_them() {
    let tree = Tree::new();
    let file = tree.create(&ann(), "/a", 0o644).id;
    tree.create(&ann(), "/replaced", 0o644);
    tree.mkdir(&ann(), "/d", 0o755).unwrap();
    let owed = || {
        let files = tree.names.owed(None, 100).unwrap().into_iter();
        files.map(|file| (file.path.unwrap().to_string(), file.path_version)).collect::<Vec<_>>()
    };
    let known = || tree.names.known_file(file).unwrap().unwrap();
    tree.rename(&ann(), "/a", "/a").unwrap();
    assert_eq!(owed(), [], "nothing has moved");
    tree.rename(&ann(), "/a", "/d/b").unwrap();
    let first = known();
    assert_eq!(owed(), [("/d/b".to_owned(), 1)]);
    tree.rename(&ann(), "/d/b", "/replaced").unwrap();
    wait(|done| tree.names.forget_owed(vec![first.clone()], done)).unwrap();
    assert_eq!(owed(), [("/replaced".to_owned(), 2)]);
    wait(|done| tree.names.forget_owed(vec![known()], done)).unwrap();
    assert_eq!(owed(), []);
    // Files in a directory that moves keep their descriptions; the next change brings the path.
    tree.rename(&ann(), "/replaced", "/d/b").unwrap();
    wait(|done| tree.names.forget_owed(vec![known()], done)).unwrap();
    tree.rename(&ann(), "/d", "/e").unwrap();
    assert_eq!(owed(), []);
    tree.set_rights(&ann(), "/e/b", (Some(0o600), None, None)).unwrap();
    assert_eq!(owed(), [("/e/b".to_owned(), 3)]);
    // The number goes with the file, and goes on where the disks are.
    tree.remove(&ann(), "/e/b").unwrap();
    let record = FileRecord { id: file, ..tree.record(&ann(), 0o600) };
    wait(|done| tree.names.restore(path("/e/b"), 7, record, done)).unwrap();
    assert_eq!(owed(), [("/e/b".to_owned(), 8)]);
    tree.check();
}

/// What the disks have to be told is remembered until all have it, and not longer.
#[test]
fn descriptions_are_owed_until_all_disks_have_them() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Tree::on(Arc::new(Redb::open(&dir.path().join("metadata")).unwrap()));
    let tree = open();
    let owed = |tree: &Tree| tree.names.owed(None, 100).unwrap();
    let files = ["/a", "/b", "/c"].map(|path| tree.create(&ann(), path, 0o644).id);
    assert_eq!(owed(&tree), [], "a subfile is made with what is known then");
    tree.mkdir(&ann(), "/d", 0o755).unwrap();
    tree.set_rights(&ann(), "/d", (Some(0o700), None, None)).unwrap();
    assert_eq!(owed(&tree), [], "directories are not on the disks");
    let known = |tree: &Tree| tree.names.known_file(files[0]).unwrap().unwrap();
    tree.set_rights(&ann(), "/a", (Some(0o600), None, None)).unwrap();
    let first = known(&tree);
    wait(|done| tree.names.settle(files[1], vec![SubfileIndex(0)], true, done)).unwrap();
    wait(|done| tree.names.settle(files[2], vec![SubfileIndex(0)], false, done)).unwrap();
    drop(tree);
    let tree = open();
    assert_eq!(owed(&tree).iter().map(|file| file.record.id).collect::<Vec<_>>(), files[..2]);
    assert_eq!(tree.names.owed(Some(files[0]), 100).unwrap().len(), 1);
    // A change that comes while the first one is on its way is owed still.
    tree.set_rights(&ann(), "/a", (Some(0o640), None, None)).unwrap();
    let second = known(&tree);
    wait(|done| tree.names.forget_owed(vec![first], done)).unwrap();
    assert_eq!(owed(&tree).len(), 2);
    wait(|done| tree.names.settle(files[0], vec![SubfileIndex(1)], true, done)).unwrap();
    wait(|done| tree.names.forget_owed(vec![second], done)).unwrap();
    assert_eq!(owed(&tree).len(), 2, "the sync is not in that record");
    let third = known(&tree);
    wait(|done| tree.names.forget_owed(vec![third], done)).unwrap();
    assert_eq!(owed(&tree).len(), 1);
    tree.remove(&ann(), "/b").unwrap();
    assert_eq!(owed(&tree), [], "a file that is gone needs no description");
    // After an upgrade the files are walked through, with those owed that could not be described.
    assert_eq!(tree.names.describe_after().unwrap(), None, "it is new");
    wait(|done| tree.names.set_describe_after(Some(files[0]), vec![files[0]], done)).unwrap();
    assert_eq!(tree.names.describe_after().unwrap(), Some(files[0]));
    assert_eq!(owed(&tree).len(), 1);
    wait(|done| tree.names.set_describe_after(None, Vec::new(), done)).unwrap();
    assert_eq!(tree.names.describe_after().unwrap(), None);
    tree.check();
}

#[test]
fn disks_keep_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Tree::on(Arc::new(Redb::open(&dir.path().join("metadata")).unwrap()));
    let register = |tree: &Tree, uuid| wait(|done| tree.names.register_disk(uuid, done)).unwrap();
    let tree = open();
    assert_eq!(register(&tree, 700), DiskId(0));
    assert_eq!(register(&tree, 500), DiskId(1));
    assert_eq!(register(&tree, 700), DiskId(0));
    drop(tree);
    let tree = open();
    assert_eq!(register(&tree, 500), DiskId(1));
    assert_eq!(tree.names.disks().unwrap(), [(500, DiskId(1)), (700, DiskId(0))]);
    // Numbers that are found in layouts are taken over, and not given out again.
    let restore = |uuid, id| wait(|done| tree.names.restore_disk(uuid, DiskId(id), done));
    restore(900, 6).unwrap();
    restore(900, 6).unwrap();
    assert!(restore(900, 5).is_err() && restore(901, 6).is_err());
    assert_eq!(register(&tree, 1), DiskId(7));
}

#[test]
fn ids_are_never_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Tree::on(Arc::new(Redb::open(&dir.path().join("metadata")).unwrap()));
    let tree = open();
    let first = tree.names.new_file_id();
    assert!(first.0 >> 64 > 0 && tree.names.new_file_id() > first);
    drop(tree);
    let tree = open();
    assert!(tree.names.new_file_id().0 >> 64 > first.0 >> 64);
    // A namespace that is made later has other ids, even if it knows nothing of the first one.
    let clock = Clock::new(|| 1_000_000_000_000);
    let other = Namespace::open(Arc::new(Memory::new()), "n0", &ann(), clock).unwrap();
    assert_eq!(other.new_file_id().0 >> 64, 1_000_000_000_000);
}

#[test]
fn a_tree_is_restored_from_what_the_disks_say() {
    let tree = Tree::new();
    let restore = |at: &str, record: &FileRecord| {
        wait(|done| tree.names.restore(path(at), 0, record.clone(), done)).unwrap().to_string()
    };
    let found = |id| FileRecord { id: FileId(id), ..tree.record(&bob(), 0o640) };
    let f = found((9 << 64) + 5);
    assert_eq!(restore("/a/b/f", &f), "/a/b/f");
    assert_eq!(tree.look(&eve(), "/a/b", Access::LOOK).unwrap().uid, 2);
    assert!(tree.names.new_file_id() > f.id, "ids that were found are not given out again");
    assert_eq!(restore("/a/b/f", &f), "/a/b/f", "a second time");
    assert_eq!(restore("/elsewhere", &f), "/a/b/f");
    assert_eq!(restore("/a/b/f", &found(90)), "/a/b/f.recovered-1");
    assert_eq!(restore("/a/b/f", &found(91)), "/a/b/f.recovered-2");
    assert_eq!(restore("/a/b", &found(92)), "/a/b.recovered-1");
    assert_eq!(restore("/a/b/f/g", &found(93)), "/a/b/f.recovered-3/g");
    assert_eq!(restore("/a/b/f/h", &found(94)), "/a/b/f.recovered-3/h");
    let long = format!("/{}é", "x".repeat(253));
    assert_eq!(restore(&long, &found(95)), long);
    assert_eq!(restore(&long, &found(96)), format!("/{}.recovered-1", "x".repeat(243)));
    // What was doomed and is restored is not doomed any more.
    let doomed = tree.create(&ann(), "/again", 0o640);
    tree.remove(&ann(), "/again").unwrap();
    restore("/again", &doomed);
    assert!(tree.names.doomed().unwrap().is_empty());
    wait(|done| tree.names.pass_id(FileId(40 << 64), done)).unwrap();
    assert_eq!(tree.names.new_file_id().0 >> 64, 41);
    let files = |after, limit| -> Vec<(String, u128)> {
        let files = tree.names.all_files(after, limit).unwrap();
        files.into_iter().map(|file| (file.path.unwrap().to_string(), file.record.id.0)).collect()
    };
    let all = files(None, 100);
    assert_eq!(all.len(), 9);
    assert!(all.is_sorted_by_key(|file| file.1));
    assert_eq!(all[0], ("/a/b/f.recovered-1".to_owned(), 90));
    assert_eq!([files(None, 4), files(Some(FileId(93)), 100)].concat(), all);
    tree.check();
}

#[test]
fn a_path_that_became_too_long_does_not_hide_its_file() {
    let tree = Tree::new();
    let name = "n".repeat(250);
    let deep = |names: usize| format!("/{name}").repeat(names);
    for names in 1..=10 {
        tree.mkdir(&ann(), &deep(names), 0o755).unwrap();
    }
    tree.mkdir(&ann(), "/other", 0o755).unwrap();
    for names in 1..=10 {
        tree.mkdir(&ann(), &format!("/other{}", deep(names)), 0o755).unwrap();
    }
    let record = tree.create(&ann(), &format!("/other{}/f", deep(10)), 0o644);
    tree.rename(&ann(), "/other", &format!("{}/x", deep(10))).unwrap();
    assert_eq!(tree.names.path_of(record.id).unwrap(), None);
    let known = KnownFile { path: None, path_version: 0, record };
    assert_eq!(tree.names.all_files(None, 10).unwrap(), [known]);
    tree.check();
}

#[test]
fn a_check_finds_what_contradicts_itself() {
    let id_key = |letter: u8, id: FileId| [&[letter][..], &id.0.to_be_bytes()].concat();
    // What is changed behind the back of the namespace, and what the check says.
    type Damage = fn(&dyn Fn(u8, FileId) -> Vec<u8>, FileId, FileId) -> (Vec<u8>, Option<Vec<u8>>);
    let cases: [(Damage, &str); 5] = [
        (|key, _, file| (key(b'n', file), None), "which is not"),
        (|key, dir, _| ([key(b'e', dir), b"f".to_vec()].concat(), None), "has no entry \"f\""),
        (
            |key, dir, file| {
                let entry = [key(b'e', dir), b"g".to_vec()].concat();
                (entry, Some(file.0.to_be_bytes().to_vec()))
            },
            "which is elsewhere",
        ),
        (|key, _, file| (key(b'x', file), Some(Vec::new())), "doomed and in the tree"),
        (|_, _, _| (b"ccount\x01".to_vec(), Some(7u64.to_be_bytes().to_vec())), "not 8"),
    ];
    for (damage, part) in cases {
        let store = Arc::new(Memory::new());
        let tree = Tree::on(Arc::clone(&store) as Arc<dyn MetadataStore>);
        let dir = tree.mkdir(&ann(), "/d", 0o755).unwrap();
        let file = tree.create(&ann(), "/d/f", 0o644);
        tree.check();
        let (key, value) = damage(&id_key, dir.id, file.id);
        store.submit(
            Box::new(move |transaction| {
                match value.clone() {
                    Some(value) => transaction.put(&key, value),
                    None => transaction.delete(&key),
                }
                Verdict::Commit
            }),
            Box::new(|outcome| assert!(outcome.is_ok())),
        );
        let problems = tree.names.problems().unwrap();
        assert!(problems.iter().any(|text| text.contains(part)), "{part}: {problems:?}");
    }
}

#[test]
fn what_another_release_wrote_or_makes_no_sense_is_refused() {
    let root_key = *b"n\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01";
    let cases: [(&[u8], Vec<u8>, &str); 2] = [
        (b"cformat", 9u64.to_be_bytes().to_vec(), "format 9"),
        (&root_key, vec![0xff; 3], "fsck --rebuild"),
    ];
    for (key, value, part) in cases {
        let store = Arc::new(Memory::new());
        let key = key.to_vec();
        store.submit(
            Box::new(move |transaction| {
                transaction.put(&key, value.clone());
                Verdict::Commit
            }),
            Box::new(|outcome| assert!(outcome.is_ok())),
        );
        let opened = Namespace::open(store, "n0", &ann(), Clock::system());
        let error = opened.err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// In a directory with the sticky bit an entry is for its owner, for that of the directory, and for
/// root.
#[test]
fn the_sticky_bit_keeps_entries_from_other_users() {
    let tree = Tree::new();
    tree.mkdir(&ann(), "/sticky", 0o777).unwrap();
    tree.set_rights(&ann(), "/sticky", (Some(0o1777), None, None)).unwrap();
    tree.mkdir(&ann(), "/free", 0o777).unwrap();
    for (name, owner) in [("bob", bob()), ("bob2", bob()), ("bob3", bob()), ("eve", eve())] {
        tree.create(&owner, &format!("/sticky/{name}"), 0o666);
        tree.create(&owner, &format!("/free/{name}"), 0o666);
    }
    tree.mkdir(&bob(), "/sticky/directory", 0o777).unwrap();
    tree.mkdir(&eve(), "/sticky/other", 0o777).unwrap();

    assert_denied(tree.remove(&eve(), "/sticky/bob"), "/sticky");
    assert_denied(tree.rename(&eve(), "/sticky/bob", "/sticky/mine"), "/sticky");
    assert_denied(tree.rename(&eve(), "/sticky/bob", "/free/mine"), "/sticky");
    assert_denied(tree.rename(&eve(), "/sticky/eve", "/sticky/bob"), "/sticky");
    assert_denied(tree.rename(&eve(), "/free/eve", "/sticky/bob"), "/sticky");
    assert_denied(tree.rmdir(&eve(), "/sticky/directory"), "/sticky");
    assert_denied(tree.rename(&eve(), "/sticky/other", "/sticky/directory"), "/sticky");
    assert_denied(tree.rename(&eve(), "/sticky/directory", "/sticky/moved"), "/sticky");
    assert_eq!(tree.names_in("/sticky"), "bob bob2 bob3 directory eve other");

    // The bit concerns neither a user's own entries nor the directory that carries it.
    tree.rename(&eve(), "/sticky/eve", "/sticky/own").unwrap();
    tree.rename(&eve(), "/free/bob", "/sticky/brought").unwrap();
    tree.remove(&eve(), "/free/bob2").unwrap();
    tree.create(&eve(), "/sticky/directory/inside", 0o600);
    assert_denied(tree.remove(&eve(), "/sticky/brought"), "/sticky");
    tree.remove(&bob(), "/sticky/bob").unwrap();
    // The owner of the directory, and root.
    tree.remove(&ann(), "/sticky/bob2").unwrap();
    tree.rename(&root(), "/sticky/bob3", "/sticky/own").unwrap();
    // A directory whose owner has no write permission stays as it is.
    tree.set_rights(&ann(), "/sticky", (Some(0o1555), None, None)).unwrap();
    assert_denied(tree.remove(&ann(), "/sticky/own"), "/sticky");
    tree.check();
}

/// A revocation is recorded with the change of rights, and kept for the lifetime of grants.
#[test]
fn revocations_are_recorded_with_what_revokes_and_kept_for_a_lifetime() {
    use pario_proto::{GRANT_LIFETIME_EPOCHS, REMOVED_RIGHTS_VERSION};
    let store = Arc::new(Memory::new());
    let tree = Tree::on(store.clone());
    let begin =
        |tree: &Tree, epoch| wait(|done| tree.names.begin_grant_epoch(epoch, done)).unwrap();
    assert_eq!(tree.names.grant_epoch().unwrap(), 1);
    let changed = tree.create(&ann(), "/changed", 0o644).id;
    let removed = tree.create(&ann(), "/removed", 0o644).id;
    let replaced = tree.create(&ann(), "/replaced", 0o644).id;
    let moved = tree.create(&ann(), "/moved", 0o644).id;
    tree.mkdir(&ann(), "/directory", 0o755).unwrap();
    let known = |tree: &Tree| -> Vec<_> {
        let known = tree.names.revocations().unwrap();
        known.iter().map(|known| (known.file, known.first_valid, known.epoch)).collect()
    };
    tree.set_rights(&ann(), "/changed", (Some(0o644), None, None)).unwrap();
    tree.set_rights(&ann(), "/directory", (Some(0o700), None, None)).unwrap();
    assert_eq!(known(&tree), [], "nothing was taken from anybody");
    tree.set_rights(&ann(), "/changed", (Some(0o600), None, None)).unwrap();
    tree.rename(&ann(), "/moved", "/replaced").unwrap();
    assert_eq!(begin(&tree, 2), 2);
    assert_eq!(begin(&tree, 2), 3, "an epoch never begins twice");
    tree.remove(&ann(), "/removed").unwrap();
    let expected = [
        (changed, 1, 1),
        (replaced, REMOVED_RIGHTS_VERSION, 1),
        (removed, REMOVED_RIGHTS_VERSION, 3),
    ];
    assert_eq!(known(&tree), expected);
    // All of it is there after a restart, which is an epoch of its own.
    drop(tree);
    let tree = Tree::on(store.clone());
    assert_eq!(tree.names.grant_epoch().unwrap(), 4);
    assert_eq!(known(&tree), expected);
    begin(&tree, 1 + GRANT_LIFETIME_EPOCHS);
    assert_eq!(known(&tree), expected);
    begin(&tree, 2 + GRANT_LIFETIME_EPOCHS);
    assert_eq!(known(&tree), expected[2..]);
    // A file that the disks bring back is not deleted any more, and gets new rights.
    let record = tree.record(&ann(), 0o600);
    let record = FileRecord { id: removed, ..record };
    wait(|done| tree.names.restore(path("/removed"), 0, record, done)).unwrap();
    assert_eq!(known(&tree), []);
    let version = tree.look(&ann(), "/removed", Access::LOOK).unwrap().rights_version;
    assert_eq!(u64::from(version), 2 + GRANT_LIFETIME_EPOCHS);
    assert_eq!(tree.look(&ann(), "/replaced", Access::LOOK).unwrap().id, moved);
    tree.check();
}

#[test]
fn many_names_cost_one_commit() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Redb::open(&dir.path().join("names")).unwrap());
    let tree = Tree::on(store.clone());
    let names: Vec<String> = (0..500).map(|number| format!("/f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let before = store.commits();
    let created = tree.create_many(&ann(), &names);
    assert_eq!(store.commits() - before, 1);
    let mark = |created: &Result<Created, Failure>| match created {
        Ok(Created::New(record)) => {
            SyncMark { file: record.id, subfiles: vec![SubfileIndex(1)], is_owed: false }
        }
        other => panic!("{other:?}"),
    };
    let marks: Vec<SyncMark> = created.iter().map(mark).collect();
    let marked = wait(|done| tree.names.mark_synced(marks, done)).unwrap();
    assert!(marked.iter().all(Result::is_ok));
    assert_eq!(store.commits() - before, 2);
    assert!(tree.look(&ann(), "/f77", Access::READ).unwrap().is_first_synced(1));
    assert!(tree.remove_many(&ann(), &names).iter().all(|removed| *removed == Ok(true)));
    assert_eq!(store.commits() - before, 3);
    assert_eq!((tree.names_in("/"), tree.names.doomed().unwrap().len()), (String::new(), 500));
    tree.check();
}

#[test]
fn one_bad_name_does_not_fail_the_others() {
    let tree = Tree::new();
    tree.mkdir(&ann(), "/d", 0o777).unwrap();
    tree.set_rights(&root(), "/d", (Some(0o1777), None, None)).unwrap();
    tree.mkdir(&ann(), "/closed", 0o700).unwrap();
    let created = tree.create_many(&bob(), &["/d/a", "/no/b", "/closed/c", "/d/a", "/d/e", "/"]);
    assert!(matches!(created[0], Ok(Created::New(_))));
    assert_eq!(created[1], Err(Failure::NotFound { path: path("/no") }));
    assert_denied(created[2].clone(), "/closed");
    let Ok(Created::Existed(twice)) = &created[3] else { panic!("{:?}", created[3]) };
    assert_eq!(*twice, tree.look(&bob(), "/d/a", Access::LOOK).unwrap());
    assert!(matches!(created[4], Ok(Created::New(_))));
    assert!(matches!(created[5], Ok(Created::Existed(_))));
    tree.check();
    // In a directory with the sticky bit, each entry is judged by its own owner.
    tree.create(&ann(), "/d/hers", 0o666);
    let removed = tree.remove_many(&bob(), &["/d/hers", "/d/a", "/d/a", "/d/e/", "/d", "/d/"]);
    assert_denied(removed[0].clone(), "/d");
    assert_eq!(removed[1], Ok(true));
    assert_eq!(removed[2], Err(Failure::NotFound { path: path("/d/a") }));
    assert_eq!(removed[3], Err(Failure::NotADirectory { path: path("/d/e") }));
    assert_denied(removed[4].clone(), "/");
    assert_eq!(tree.names_in("/d"), "e hers");
    // A directory goes after what is in it, in the same call.
    let removed = tree.remove_many(&ann(), &["/d/", "/d/hers", "/d/e", "/d", "/d/"]);
    assert_eq!(removed[0], Err(Failure::NotEmpty { path: path("/d") }));
    assert_eq!(removed[1..3], [Ok(true), Ok(true)]);
    assert_eq!(removed[3], Err(Failure::IsADirectory { path: path("/d") }));
    assert_eq!(removed[4], Ok(false));
    assert_eq!(tree.names_in("/"), "closed");
    tree.check();
}

/// The same changes one by one and in calls of many leave the same tree and the same results.
#[test]
fn calls_of_many_do_what_single_calls_do() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let trees = [Tree::new(), Tree::new()];
        for tree in &trees {
            tree.mkdir(&ann(), "/d", 0o777).unwrap();
            tree.mkdir(&ann(), "/d/e", 0o755).unwrap();
        }
        for _ in 0..12 {
            let who = [ann(), bob(), root()][random.usize(0..3)].clone();
            let places = ["/", "/d/", "/d/e/", "/no/"];
            let count = random.usize(0..8);
            let mut name = || {
                let at = places[random.usize(0..places.len())];
                format!("{at}{}", random.u8(b'a'..b'e') as char)
            };
            let names: Vec<String> = (0..count).map(|_| name()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            if random.bool() {
                let kind = |created: Result<Created, Failure>| {
                    created.map(|created| matches!(created, Created::New(_)))
                };
                let single = names.iter().map(|at| kind(trees[0].try_create(&who, at, 0o644)));
                let single: Vec<_> = single.collect();
                let many = trees[1].create_many(&who, &names).into_iter().map(kind);
                assert_eq!(single, many.collect::<Vec<_>>(), "seed {seed}");
            } else {
                let single = names.iter().map(|at| trees[0].remove(&who, at).map(|_| true));
                let single: Vec<_> = single.collect();
                assert_eq!(single, trees[1].remove_many(&who, &names), "seed {seed}");
            }
            for tree in &trees {
                tree.check();
            }
            for at in ["/", "/d", "/d/e"] {
                assert_eq!(trees[0].names_in(at), trees[1].names_in(at), "seed {seed}");
            }
        }
    }
}
