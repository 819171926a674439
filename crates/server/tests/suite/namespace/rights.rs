//! Permissions, the sticky bit, changes of rights, and revocations.

use super::*;

#[test]
fn owner_group_and_others_are_judged_by_their_own_bits() {
    let tree = TestTree::new();
    tree.create(&ann(), "/f", 0o426);
    let can = |who, want| tree.look(&who, "/f", want).is_ok();
    assert!(can(ann(), Access::READ) && !can(ann(), Access::WRITE), "the owner");
    assert!(!can(bob(), Access::READ) && can(bob(), Access::WRITE), "the group");
    assert!(can(eve(), Access::READ_WRITE), "others");
    assert!(!can(ann(), Access::READ_WRITE) && can(ann(), Access::LOOK));
    assert!(can(root(), Access::READ_WRITE), "root");
}

#[test]
fn names_change_only_where_the_directory_is_writable() {
    let tree = TestTree::new();
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
fn only_permitted_users_change_rights() {
    let tree = TestTree::new();
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

/// In a directory with the sticky bit only the owner of an entry, the owner of the directory and root
/// may remove the entry.
#[test]
fn the_sticky_bit_keeps_entries_from_other_users() {
    let tree = TestTree::new();
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
fn revocations_are_recorded_with_their_cause_and_kept_for_a_lifetime() {
    use pario_proto::{GRANT_LIFETIME_EPOCHS, REMOVED_RIGHTS_VERSION};
    let store = Arc::new(MemoryStore::new());
    let tree = TestTree::on(store.clone());
    let begin =
        |tree: &TestTree, epoch| wait(|done| tree.names.begin_grant_epoch(epoch, done)).unwrap();
    assert_eq!(tree.names.grant_epoch().unwrap(), 1);
    let changed = tree.create(&ann(), "/changed", 0o644).id;
    let removed = tree.create(&ann(), "/removed", 0o644).id;
    let replaced = tree.create(&ann(), "/replaced", 0o644).id;
    let moved = tree.create(&ann(), "/moved", 0o644).id;
    tree.mkdir(&ann(), "/directory", 0o755).unwrap();
    let known = |tree: &TestTree| -> Vec<_> {
        let known = tree.names.revocations().unwrap();
        known.iter().map(|known| (known.file, known.first_valid, known.epoch)).collect()
    };
    tree.set_rights(&ann(), "/changed", (Some(0o644), None, None)).unwrap();
    tree.set_rights(&ann(), "/directory", (Some(0o700), None, None)).unwrap();
    assert_eq!(known(&tree), [], "no user has lost a right");
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
    // All of it survives a restart, which begins an epoch.
    drop(tree);
    let tree = TestTree::on(store.clone());
    assert_eq!(tree.names.grant_epoch().unwrap(), 4);
    assert_eq!(known(&tree), expected);
    begin(&tree, 1 + GRANT_LIFETIME_EPOCHS);
    assert_eq!(known(&tree), expected);
    begin(&tree, 2 + GRANT_LIFETIME_EPOCHS);
    assert_eq!(known(&tree), expected[2..]);
    // A restored file is not deleted any more, and gets a new rights version.
    let record = tree.record(&ann(), 0o600);
    let record = FileRecord { id: removed, ..record };
    wait(|done| tree.names.restore(path("/removed"), 0, record, done)).unwrap();
    assert_eq!(known(&tree), []);
    let version = tree.look(&ann(), "/removed", Access::LOOK).unwrap().rights_version;
    assert_eq!(u64::from(version), 2 + GRANT_LIFETIME_EPOCHS);
    assert_eq!(tree.look(&ann(), "/replaced", Access::LOOK).unwrap().id, moved);
    tree.check();
}
