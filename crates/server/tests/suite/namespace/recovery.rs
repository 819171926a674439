//! Ids, numbers of disks, restored files, and damaged metadata.

use pario_proto::{FileId, KnownFile};
use pario_server::metadata::{RedbStore, Verdict};

use super::*;

#[test]
fn disks_keep_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let open = || TestTree::on(Arc::new(RedbStore::open(&dir.path().join("metadata")).unwrap()));
    let register =
        |tree: &TestTree, uuid| wait(|done| tree.names.register_disk(uuid, done)).unwrap();
    let tree = open();
    assert_eq!(register(&tree, 700), DiskId(0));
    assert_eq!(register(&tree, 500), DiskId(1));
    assert_eq!(register(&tree, 700), DiskId(0));
    drop(tree);
    let tree = open();
    assert_eq!(register(&tree, 500), DiskId(1));
    assert_eq!(tree.names.disks().unwrap(), [(500, DiskId(1)), (700, DiskId(0))]);
    // Numbers that layouts use are restored, and not assigned again.
    let restore = |uuid, id| wait(|done| tree.names.restore_disk(uuid, DiskId(id), done));
    restore(900, 6).unwrap();
    restore(900, 6).unwrap();
    assert!(restore(900, 5).is_err() && restore(901, 6).is_err());
    assert_eq!(register(&tree, 1), DiskId(7));
}

#[test]
fn ids_are_never_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let open = || TestTree::on(Arc::new(RedbStore::open(&dir.path().join("metadata")).unwrap()));
    let tree = open();
    let first = tree.names.new_file_id();
    assert!(first.0 >> 64 > 0 && tree.names.new_file_id() > first);
    drop(tree);
    let tree = open();
    assert!(tree.names.new_file_id().0 >> 64 > first.0 >> 64);
    // A namespace that is created later has other ids, though it knows nothing of the first one.
    let clock = WallClock::new(|| 1_000_000_000_000);
    let other = Namespace::open(Arc::new(MemoryStore::new()), "n0", &ann(), clock).unwrap();
    assert_eq!(other.new_file_id().0 >> 64, 1_000_000_000_000);
}

#[test]
fn a_tree_is_restored_from_descriptions() {
    let tree = TestTree::new();
    let restore = |at: &str, record: &FileRecord| {
        wait(|done| tree.names.restore(path(at), 0, record.clone(), done)).unwrap().to_string()
    };
    let found = |id| FileRecord { id: FileId(id), ..tree.record(&bob(), 0o640) };
    let f = found((9 << 64) + 5);
    assert_eq!(restore("/a/b/f", &f), "/a/b/f");
    assert_eq!(tree.look(&eve(), "/a/b", Access::LOOK).unwrap().uid, 2);
    assert!(tree.names.new_file_id() > f.id, "ids on the disks are not assigned again");
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
    // A restored file has no tombstone any more.
    let removed = tree.create(&ann(), "/again", 0o640);
    tree.remove(&ann(), "/again").unwrap();
    restore("/again", &removed);
    assert!(tree.names.tombstones().unwrap().is_empty());
    wait(|done| tree.names.reserve_ids_up_to(FileId(40 << 64), done)).unwrap();
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
    let tree = TestTree::new();
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
fn a_check_finds_violated_invariants() {
    let id_key = |letter: u8, id: FileId| [&[letter][..], &id.0.to_be_bytes()].concat();
    // A change past the namespace, and what the check says about it.
    type Damage = fn(&dyn Fn(u8, FileId) -> Vec<u8>, FileId, FileId) -> (Vec<u8>, Option<Vec<u8>>);
    let cases: [(Damage, &str); 5] = [
        (|key, _, file| (key(b'n', file), None), "which does not exist"),
        (|key, dir, _| ([key(b'e', dir), b"f".to_vec()].concat(), None), "has no entry \"f\""),
        (
            |key, dir, file| {
                let entry = [key(b'e', dir), b"g".to_vec()].concat();
                (entry, Some(file.0.to_be_bytes().to_vec()))
            },
            "which is elsewhere",
        ),
        (|key, _, file| (key(b'x', file), Some(Vec::new())), "has a tombstone and is in the tree"),
        (
            |_, _, _| (b"ccount\x01".to_vec(), Some(7u64.to_be_bytes().to_vec())),
            "the counters say 8",
        ),
    ];
    for (damage, part) in cases {
        let store = Arc::new(MemoryStore::new());
        let tree = TestTree::on(Arc::clone(&store) as Arc<dyn MetadataStore>);
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
fn metadata_of_another_release_and_damaged_metadata_are_refused() {
    let root_key = *b"n\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01";
    let cases: [(&[u8], Vec<u8>, &str); 2] = [
        (b"cformat", 9u64.to_be_bytes().to_vec(), "format 9"),
        (&root_key, vec![0xff; 3], "fsck --rebuild"),
    ];
    for (key, value, part) in cases {
        let store = Arc::new(MemoryStore::new());
        let key = key.to_vec();
        store.submit(
            Box::new(move |transaction| {
                transaction.put(&key, value.clone());
                Verdict::Commit
            }),
            Box::new(|outcome| assert!(outcome.is_ok())),
        );
        let opened = Namespace::open(store, "n0", &ann(), WallClock::system());
        let error = opened.err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}
