//! First-synced subfiles and pending descriptions.

use pario_proto::{FileId, SubfileIndex};
use pario_server::metadata::RedbStore;
use pario_server::namespace::SyncMark;

use super::*;

fn mark_synced(
    tree: &TestTree,
    file: FileId,
    subfiles: &[u32],
    is_description_pending: bool,
) -> Result<(), Failure> {
    let subfiles = subfiles.iter().copied().map(SubfileIndex).collect();
    let mark = SyncMark { file, subfiles, is_description_pending };
    wait(|done| tree.names.mark_synced(mark, done))
}

#[test]
fn first_synced_subfiles_are_marked_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(RedbStore::open(&dir.path().join("metadata")).unwrap());
    let tree = TestTree::on(Arc::clone(&store) as Arc<dyn MetadataStore>);
    let record = tree.create(&ann(), "/f", 0o644);
    let mark = |id, subfiles: &[u32]| mark_synced(&tree, id, subfiles, false);
    mark(record.id, &[1]).unwrap();
    let commits = store.commits();
    mark(record.id, &[1, 1]).unwrap();
    mark(FileId(12345), &[0]).unwrap();
    assert_eq!(store.commits(), commits, "nothing was new");
    mark(record.id, &[0, 1]).unwrap();
    let after = tree.look(&ann(), "/f", Access::LOOK).unwrap();
    assert!(after.is_first_synced(0) && after.is_first_synced(1));
    assert_eq!(after.rights_version, 0);
    assert!(matches!(mark(record.id, &[2]), Err(Failure::Invalid(_))), "there are two");
    tree.remove(&ann(), "/f").unwrap();
    mark(record.id, &[0]).unwrap();
    tree.check();
}

/// After a rename the new path is pending; a delivery from before the rename does not end that.
#[test]
fn paths_are_pending_until_all_disks_have_them() {
    let tree = TestTree::new();
    let file = tree.create(&ann(), "/a", 0o644).id;
    tree.create(&ann(), "/replaced", 0o644);
    tree.mkdir(&ann(), "/d", 0o755).unwrap();
    let pending = || {
        let files = tree.names.pending_descriptions(None, 100).unwrap().into_iter();
        files.map(|file| (file.path.unwrap().to_string(), file.path_version)).collect::<Vec<_>>()
    };
    let known = || tree.names.known_file(file).unwrap().unwrap();
    tree.rename(&ann(), "/a", "/a").unwrap();
    assert_eq!(pending(), [], "nothing has moved");
    tree.rename(&ann(), "/a", "/d/b").unwrap();
    let first = known();
    assert_eq!(pending(), [("/d/b".to_owned(), 1)]);
    tree.rename(&ann(), "/d/b", "/replaced").unwrap();
    wait(|done| tree.names.mark_described(vec![first.clone()], done)).unwrap();
    assert_eq!(pending(), [("/replaced".to_owned(), 2)]);
    wait(|done| tree.names.mark_described(vec![known()], done)).unwrap();
    assert_eq!(pending(), []);
    // Files in a directory that moves keep their descriptions; the next change brings the path.
    tree.rename(&ann(), "/replaced", "/d/b").unwrap();
    wait(|done| tree.names.mark_described(vec![known()], done)).unwrap();
    tree.rename(&ann(), "/d", "/e").unwrap();
    assert_eq!(pending(), []);
    tree.set_rights(&ann(), "/e/b", (Some(0o600), None, None)).unwrap();
    assert_eq!(pending(), [("/e/b".to_owned(), 3)]);
    // A removal deletes the counter of renames; a restored file continues from the disks' count.
    tree.remove(&ann(), "/e/b").unwrap();
    let record = FileRecord { id: file, ..tree.record(&ann(), 0o600) };
    wait(|done| tree.names.restore(path("/e/b"), 7, record, done)).unwrap();
    assert_eq!(pending(), [("/e/b".to_owned(), 8)]);
    tree.check();
}

/// A change of a description is pending until all disks have it, and no longer.
#[test]
fn descriptions_are_pending_until_all_disks_have_them() {
    let dir = tempfile::tempdir().unwrap();
    let open = || TestTree::on(Arc::new(RedbStore::open(&dir.path().join("metadata")).unwrap()));
    let tree = open();
    let pending = |tree: &TestTree| tree.names.pending_descriptions(None, 100).unwrap();
    let files = ["/a", "/b", "/c"].map(|path| tree.create(&ann(), path, 0o644).id);
    assert_eq!(pending(&tree), [], "a new subfile has a current description");
    tree.mkdir(&ann(), "/d", 0o755).unwrap();
    tree.set_rights(&ann(), "/d", (Some(0o700), None, None)).unwrap();
    assert_eq!(pending(&tree), [], "directories are not on the disks");
    let known = |tree: &TestTree| tree.names.known_file(files[0]).unwrap().unwrap();
    tree.set_rights(&ann(), "/a", (Some(0o600), None, None)).unwrap();
    let first = known(&tree);
    mark_synced(&tree, files[1], &[0], true).unwrap();
    mark_synced(&tree, files[2], &[0], false).unwrap();
    drop(tree);
    let tree = open();
    assert_eq!(pending(&tree).iter().map(|file| file.record.id).collect::<Vec<_>>(), files[..2]);
    assert_eq!(tree.names.pending_descriptions(Some(files[0]), 100).unwrap().len(), 1);
    // A change during the delivery of the first one stays pending.
    tree.set_rights(&ann(), "/a", (Some(0o640), None, None)).unwrap();
    let second = known(&tree);
    wait(|done| tree.names.mark_described(vec![first], done)).unwrap();
    assert_eq!(pending(&tree).len(), 2);
    mark_synced(&tree, files[0], &[1], true).unwrap();
    wait(|done| tree.names.mark_described(vec![second], done)).unwrap();
    assert_eq!(pending(&tree).len(), 2, "the sync is not in that record");
    let third = known(&tree);
    wait(|done| tree.names.mark_described(vec![third], done)).unwrap();
    assert_eq!(pending(&tree).len(), 1);
    tree.remove(&ann(), "/b").unwrap();
    assert_eq!(pending(&tree), [], "a removed file needs no description");
    // An upgrade visits all files; those that it could not describe become pending.
    assert_eq!(tree.names.description_cursor().unwrap(), None, "it is new");
    wait(|done| tree.names.set_description_cursor(Some(files[0]), vec![files[0]], done)).unwrap();
    assert_eq!(tree.names.description_cursor().unwrap(), Some(files[0]));
    assert_eq!(pending(&tree).len(), 1);
    wait(|done| tree.names.set_description_cursor(None, Vec::new(), done)).unwrap();
    assert_eq!(tree.names.description_cursor().unwrap(), None);
    tree.check();
}
