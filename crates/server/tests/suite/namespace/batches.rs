//! Calls that create, mark or remove many files in one transaction.

use pario_proto::{Access, Failure, SubfileIndex};
use pario_server::metadata::RedbStore;
use pario_server::namespace::SyncMark;

use super::*;

#[test]
fn many_names_cost_one_commit() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(RedbStore::open(&dir.path().join("names")).unwrap());
    let tree = TestTree::on(store.clone());
    let names: Vec<String> = (0..500).map(|number| format!("/f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let before = store.commits();
    let created = tree.create_many(&ann(), &names);
    assert_eq!(store.commits() - before, 1);
    let mark = |created: &Result<CreateOutcome, Failure>| match created {
        Ok(CreateOutcome::New(record)) => SyncMark {
            file: record.id,
            subfiles: vec![SubfileIndex(1)],
            is_description_pending: false,
        },
        other => panic!("{other:?}"),
    };
    let marks: Vec<SyncMark> = created.iter().map(mark).collect();
    let marked = wait(|done| tree.names.mark_synced_many(marks, done)).unwrap();
    assert!(marked.iter().all(Result::is_ok));
    assert_eq!(store.commits() - before, 2);
    assert!(tree.look(&ann(), "/f77", Access::READ).unwrap().is_first_synced(1));
    assert!(tree.remove_many(&ann(), &names).iter().all(|removed| *removed == Ok(true)));
    assert_eq!(store.commits() - before, 3);
    assert_eq!((tree.names_in("/"), tree.names.tombstones().unwrap().len()), (String::new(), 500));
    tree.check();
}

#[test]
fn one_bad_name_does_not_fail_the_others() {
    let tree = TestTree::new();
    tree.mkdir(&ann(), "/d", 0o777).unwrap();
    tree.set_rights(&root(), "/d", (Some(0o1777), None, None)).unwrap();
    tree.mkdir(&ann(), "/closed", 0o700).unwrap();
    let created = tree.create_many(&bob(), &["/d/a", "/no/b", "/closed/c", "/d/a", "/d/e", "/"]);
    assert!(matches!(created[0], Ok(CreateOutcome::New(_))));
    assert_eq!(created[1], Err(Failure::NotFound { path: path("/no") }));
    assert_denied(created[2].clone(), "/closed");
    let Ok(CreateOutcome::Existed(twice)) = &created[3] else { panic!("{:?}", created[3]) };
    assert_eq!(*twice, tree.look(&bob(), "/d/a", Access::LOOK).unwrap());
    assert!(matches!(created[4], Ok(CreateOutcome::New(_))));
    assert!(matches!(created[5], Ok(CreateOutcome::Existed(_))));
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
    // One call removes a directory after its entries.
    let removed = tree.remove_many(&ann(), &["/d/", "/d/hers", "/d/e", "/d", "/d/"]);
    assert_eq!(removed[0], Err(Failure::NotEmpty { path: path("/d") }));
    assert_eq!(removed[1..3], [Ok(true), Ok(true)]);
    assert_eq!(removed[3], Err(Failure::IsADirectory { path: path("/d") }));
    assert_eq!(removed[4], Ok(false));
    assert_eq!(tree.names_in("/"), "closed");
    tree.check();
}

/// The same changes one by one and in batches have the same results and leave the same tree.
#[test]
fn batches_do_what_single_calls_do() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let trees = [TestTree::new(), TestTree::new()];
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
                let kind = |created: Result<CreateOutcome, Failure>| {
                    created.map(|created| matches!(created, CreateOutcome::New(_)))
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
