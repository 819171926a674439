//! Creating, finding, listing and removing names.

use pario_proto::FileId;

use super::*;

#[test]
fn a_new_namespace_has_a_root_that_belongs_to_its_owner() {
    let tree = TestTree::new();
    let root = tree.look(&eve(), "/", Access::READ).unwrap();
    assert_eq!((root.id, root.uid, root.gid, root.mode), (FileId::ROOT, 1, 10, 0o755));
    assert_eq!(tree.names.count().unwrap(), 0);
    assert_eq!(tree.names.path_of(FileId::ROOT).unwrap(), Some(FilePath::root()));
    tree.check();
}

#[test]
fn a_file_is_created_once_and_found_by_path_and_id() {
    let tree = TestTree::new();
    assert_eq!(tree.names.check_create(&ann(), &path("/f")).unwrap(), None);
    tree.time.store(77, Ordering::Relaxed);
    let record = tree.create(&ann(), "/f", 0o640);
    assert_eq!(tree.look(&ann(), "/", Access::LOOK).unwrap().changed_ns, 77);
    assert_eq!(tree.look(&bob(), "/f", Access::READ).unwrap(), record);
    assert_eq!(tree.names.record(record.id).unwrap(), Some(record.clone()));
    assert_eq!(tree.names.path_of(record.id).unwrap(), Some(path("/f")));
    assert_eq!(tree.names.check_create(&eve(), &path("/f")).unwrap(), Some(record.clone()));
    assert_eq!(
        tree.try_create(&eve(), "/f", 0o600).unwrap(),
        CreateOutcome::Existed(record.clone())
    );
    assert!(matches!(tree.try_create(&ann(), "/", 0o600).unwrap(), CreateOutcome::Existed(_)));
    assert_eq!(tree.names.count().unwrap(), 1);
    // An id has one name.
    let again = wait(|done| tree.names.create(ann(), path("/g"), record, done));
    assert!(matches!(again, Err(Failure::Invalid(_))), "{again:?}");
    tree.check();
}

#[test]
fn a_failure_names_the_part_of_the_path_that_is_wrong() {
    let tree = TestTree::new();
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
fn a_directory_is_listed_in_pages_in_order() {
    let tree = TestTree::new();
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
fn only_empty_directories_are_removed_and_never_the_root() {
    let tree = TestTree::new();
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
    assert!(tree.names.tombstones().unwrap().len() == 1, "a directory has no subfiles");
    tree.check();
}

#[test]
fn a_removed_file_has_a_tombstone_until_that_is_removed() {
    let tree = TestTree::new();
    let record = tree.create(&ann(), "/f", 0o644);
    assert_eq!(tree.remove(&ann(), "/f").unwrap(), record);
    assert_eq!(tree.remove(&ann(), "/f"), Err(Failure::NotFound { path: path("/f") }));
    assert_eq!((tree.names.record(record.id).unwrap(), tree.names.count().unwrap()), (None, 0));
    assert_eq!(tree.names.path_of(record.id).unwrap(), None);
    let second = tree.create(&ann(), "/g", 0o644);
    tree.remove(&ann(), "/g").unwrap();
    assert_eq!(tree.names.tombstones().unwrap(), [record.clone(), second.clone()]);
    wait(|done| tree.names.remove_tombstones(vec![record.id, FileId(99)], done)).unwrap();
    assert_eq!(tree.names.tombstones().unwrap(), [second]);
    tree.check();
}

#[test]
fn files_and_directories_move_and_replace_their_like() {
    let tree = TestTree::new();
    for directory in ["/a", "/a/in", "/b", "/full", "/full/x"] {
        tree.mkdir(&ann(), directory, 0o755).unwrap();
    }
    let (f, g) = (tree.create(&ann(), "/a/in/f", 0o644), tree.create(&ann(), "/g", 0o644));
    assert_eq!(tree.rename(&ann(), "/a/in/f", "/a/in/f").unwrap(), None);
    assert_eq!(tree.rename(&ann(), "/a/in/f", "/g").unwrap(), Some(g.clone()));
    assert_eq!(tree.look(&ann(), "/g", Access::LOOK).unwrap(), f);
    assert_eq!(tree.names.tombstones().unwrap(), [g]);
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
fn a_refused_rename_changes_nothing() {
    let tree = TestTree::new();
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
