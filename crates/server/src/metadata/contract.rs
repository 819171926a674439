//! The contract suite of metadata stores, run on all of them; and tests of the store in a file.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::*;

/// Runs a transaction and waits for it.
fn run(
    store: &dyn MetadataStore,
    mut work: impl FnMut(&mut dyn Transaction) -> Verdict + Send + 'static,
) -> Result<Revision, MetadataError> {
    let (send, receive) = mpsc::channel();
    let done = Box::new(move |outcome| send.send(outcome).unwrap());
    store.submit(Box::new(move |transaction| work(transaction)), done);
    receive.recv().unwrap()
}

fn put(store: &dyn MetadataStore, key: &str, value: &str) -> Result<Revision, MetadataError> {
    let (key, value) = (key.to_owned(), value.to_owned());
    run(store, move |transaction| {
        transaction.put(key.as_bytes(), value.clone().into_bytes());
        Verdict::Commit
    })
}

fn look<T>(store: &dyn MetadataStore, body: impl Fn(&dyn Snapshot) -> T) -> T {
    let mut outcome = None;
    store.read(&mut |state| outcome = Some(body(state))).unwrap();
    outcome.unwrap()
}

fn get(store: &dyn MetadataStore, key: &str) -> Option<String> {
    let value = look(store, |state| state.get(key.as_bytes()).unwrap());
    value.map(|value| String::from_utf8(value).unwrap())
}

fn keys(pairs: Vec<KeyValue>) -> String {
    let keys = pairs.into_iter().map(|(key, _)| String::from_utf8(key).unwrap());
    keys.collect::<Vec<_>>().join(" ")
}

fn with_every_store(test: impl Fn(Arc<dyn MetadataStore>)) {
    test(Arc::new(MemoryStore::new()));
    let turns = AtomicU64::new(0);
    test(Arc::new(MemoryStore::with_hook(move |step| {
        let is_third = turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(3);
        if step == StoreStep::Commit && is_third {
            StepDecision::Conflict
        } else {
            StepDecision::Go
        }
    })));
    let dir = tempfile::tempdir().unwrap();
    test(Arc::new(RedbStore::open(&dir.path().join("metadata")).unwrap()));
}

#[test]
fn a_commit_is_visible_and_an_abort_leaves_no_trace() {
    with_every_store(|store| {
        let first = put(&*store, "a", "1").unwrap();
        let second = run(&*store, |transaction| {
            transaction.put(b"a", b"2".to_vec());
            transaction.put(b"b", b"2".to_vec());
            assert_eq!(transaction.get(b"a").unwrap().unwrap(), b"2", "its own change");
            transaction.delete(b"a");
            assert_eq!(transaction.get(b"a").unwrap(), None);
            Verdict::Abort
        });
        assert_eq!(second.unwrap(), first, "nothing new was made");
        assert_eq!((get(&*store, "a"), get(&*store, "b")), (Some("1".to_owned()), None));
        let third = run(&*store, |transaction| {
            transaction.delete(b"a");
            transaction.put(b"b", b"3".to_vec());
            Verdict::Commit
        })
        .unwrap();
        assert!(third > first);
        assert_eq!((get(&*store, "a"), get(&*store, "b")), (None, Some("3".to_owned())));
        assert_eq!(look(&*store, |state| state.revision()), third);
    });
}

#[test]
fn ranges_are_in_order_and_contain_the_transactions_own_changes() {
    with_every_store(|store| {
        assert!(look(&*store, |state| state.range(b"", b"~", 9).unwrap().is_empty()), "it is new");
        assert_eq!(look(&*store, |state| state.get(b"").unwrap()), None);
        for key in ["b", "d", "a", "c", "e", "ab"] {
            put(&*store, key, "x").unwrap();
        }
        let range = |from: &str, until: &str, limit| {
            keys(look(&*store, |s| s.range(from.as_bytes(), until.as_bytes(), limit).unwrap()))
        };
        assert_eq!(range("a", "e", 100), "a ab b c d");
        assert_eq!(range("aa", "e", 2), "ab b");
        assert_eq!(
            (range("e", "a", 9), range("b", "b", 9), range("a", "z", 0)),
            Default::default()
        );
        run(&*store, |transaction| {
            transaction.delete(b"a");
            transaction.delete(b"b");
            transaction.put(b"bb", b"new".to_vec());
            transaction.put(b"z", b"outside".to_vec());
            assert_eq!(keys(transaction.range(b"a", b"e", 3).unwrap()), "ab bb c");
            assert_eq!(keys(transaction.range(b"a", b"zz", 100).unwrap()), "ab bb c d e z");
            assert_eq!(keys(transaction.range(b"z", b"a", 100).unwrap()), "");
            Verdict::Abort
        })
        .unwrap();
        assert_eq!(range("", "~", 100), "a ab b c d e");
    });
}

#[test]
fn concurrent_counting_loses_nothing_and_each_revision_occurs_once() {
    with_every_store(|store| {
        let revisions: Vec<Revision> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let count = |transaction: &mut dyn Transaction| {
                            let value = transaction.get(b"count").unwrap();
                            let count: u64 =
                                value.map_or(0, |v| String::from_utf8(v).unwrap().parse().unwrap());
                            transaction.put(b"count", (count + 1).to_string().into_bytes());
                            Verdict::Commit
                        };
                        (0..50).map(|_| run(&*store, count).unwrap()).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(get(&*store, "count").as_deref(), Some("400"));
        let mut sorted = revisions;
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 400);
    });
}

#[test]
fn a_snapshot_does_not_change() {
    with_every_store(|store| {
        put(&*store, "a", "old").unwrap();
        store
            .read(&mut |state| {
                put(&*store, "a", "new").unwrap();
                assert_eq!(state.get(b"a").unwrap().unwrap(), b"old");
            })
            .unwrap();
        assert_eq!(get(&*store, "a").as_deref(), Some("new"));
    });
}

#[test]
fn a_callback_may_submit_transactions() {
    with_every_store(|store| {
        let (send, receive) = mpsc::channel();
        let inner = Arc::clone(&store);
        store.submit(
            Box::new(|_| Verdict::Abort),
            Box::new(move |_| {
                for number in 0..10_000 {
                    let send = send.clone();
                    inner.submit(
                        Box::new(move |transaction| {
                            transaction.put(format!("{number}").as_bytes(), Vec::new());
                            Verdict::Commit
                        }),
                        Box::new(move |outcome| send.send(outcome).unwrap()),
                    );
                }
            }),
        );
        drop(store);
        assert_eq!(receive.iter().filter(|outcome| outcome.is_ok()).count(), 10_000);
    });
}

#[test]
fn concurrent_transactions_share_their_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let store = RedbStore::open(&dir.path().join("metadata")).unwrap();
    let before = store.commits();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let store = &store;
            scope.spawn(move || {
                (0..100).for_each(|n| assert!(put(store, &format!("{thread} {n}"), "x").is_ok()));
            });
        }
    });
    let commits = store.commits() - before;
    assert!(commits < 800, "1600 transactions took {commits} commits");
    assert_eq!(look(&store, |state| state.range(b"", b"~", 9999).unwrap().len()), 1600);
    // A transaction without changes takes no commit.
    run(&store, |_| Verdict::Commit).unwrap();
    assert_eq!(store.commits() - before, commits);
}

#[test]
fn commits_survive_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metadata");
    let store = RedbStore::open(&path).unwrap();
    let first = put(&store, "a", "1").unwrap();
    // Closing the store finishes a transaction that was only submitted.
    store.submit(
        Box::new(|transaction| {
            transaction.put(b"b", b"2".to_vec());
            Verdict::Commit
        }),
        Box::new(|outcome| assert!(outcome.is_ok())),
    );
    drop(store);
    let store = RedbStore::open(&path).unwrap();
    assert_eq!((get(&store, "a").as_deref(), get(&store, "b").as_deref()), (Some("1"), Some("2")));
    assert!(put(&store, "c", "3").unwrap() > first, "revisions go on");
}

#[test]
fn a_file_in_use_or_damaged_or_unreachable_is_reported_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metadata");
    let store = RedbStore::open(&path).unwrap();
    for number in 0..100 {
        put(&store, &format!("key {number}"), &"value".repeat(100)).unwrap();
    }
    let open = |path: &Path| RedbStore::open(path).err().map(|error| error.to_string());
    let error = open(&path).unwrap();
    assert!(error.contains("in use") && error.contains("pario stop"), "{error}");
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let damaged = dir.path().join("damaged");
    let mut beginning = whole.clone();
    beginning[..64].fill(0x5a);
    let short = whole[..whole.len() / 3].to_vec();
    for bytes in [beginning, short, b"not at all".to_vec(), Vec::new()] {
        std::fs::write(&damaged, bytes).unwrap();
        let error = open(&damaged).unwrap();
        assert!(error.contains("damaged") && error.contains("fsck --rebuild"), "{error}");
        assert!(error.contains(damaged.to_str().unwrap()), "{error}");
    }
    let error = open(&dir.path().join("no/such/directory")).unwrap();
    assert!(error.contains("cannot be opened") && error.contains("no/such"), "{error}");
}

#[test]
fn several_stores_can_create_the_same_file_at_once() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metadata");
        let opened: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| RedbStore::open(&path))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let stores: Vec<RedbStore> = opened.into_iter().filter_map(Result::ok).collect();
        assert!(stores.len() <= 1, "a file belongs to one");
        drop(stores);
        put(&RedbStore::open(&path).unwrap(), "a", "1").unwrap();
    }
}

#[test]
fn damage_inside_is_an_error_and_never_a_panic_of_the_caller() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metadata");
    let store = RedbStore::open(&path).unwrap();
    for number in 0..50 {
        put(&store, &format!("key {number:02}"), &"value".repeat(100)).unwrap();
    }
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let used: Vec<usize> = (4096..whole.len()).filter(|&at| whole[at] != 0).collect();
    let mut refused = 0;
    for turn in 0..60 {
        let at = used[turn * used.len() / 60];
        let mut bytes = whole.clone();
        let end = (at + 2000).min(bytes.len());
        bytes[at..end].fill(0xa5);
        std::fs::write(&path, bytes).unwrap();
        let outcome = RedbStore::open(&path).and_then(|store| {
            let mut found = Ok(Vec::new());
            store.read(&mut |state| found = state.range(b"", b"~", 100))?;
            found
        });
        refused += u32::from(outcome.is_err());
    }
    assert!(refused > 0);
}

/// A file on a disk that fails on demand.
#[derive(Debug)]
struct FailingBackend {
    file: FileBackend,
    writes: Arc<AtomicBool>,
    syncs: Arc<AtomicBool>,
}

impl StorageBackend for FailingBackend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        match self.syncs.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the disk does not respond")),
            false => self.file.sync_data(),
        }
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self.writes.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.file.write(offset, data),
        }
    }
}

#[test]
fn after_a_failed_commit_the_store_refuses_everything_until_it_is_reopened() {
    for is_sync in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metadata");
        drop(RedbStore::open(&path).unwrap());
        let (writes, syncs) = (Arc::new(AtomicBool::default()), Arc::new(AtomicBool::default()));
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let file = FileBackend::new(file).unwrap();
        let backend =
            FailingBackend { file, writes: Arc::clone(&writes), syncs: Arc::clone(&syncs) };
        let store = RedbStore::open_on(backend, &path).unwrap();
        put(&store, "before", "1").unwrap();
        let broken = if is_sync { &syncs } else { &writes };
        broken.store(true, Ordering::Relaxed);
        let error = put(&store, "during", "1").unwrap_err();
        assert!(matches!(error, MetadataError::Commit { .. }), "{error}");
        // The disk works again, but its content is unknown.
        broken.store(false, Ordering::Relaxed);
        let error = put(&store, "after", "1").unwrap_err();
        assert!(matches!(error, MetadataError::Poisoned { .. }), "{error}");
        let error = store.read(&mut |_| panic!("nothing is shown")).unwrap_err();
        assert!(error.to_string().contains("start the node again"), "{error}");
        drop(store);
        let store = RedbStore::open(&path).unwrap();
        assert_eq!(get(&store, "before").as_deref(), Some("1"));
        assert_eq!(get(&store, "after"), None);
        put(&store, "again", "1").unwrap();
    }
}

#[test]
fn a_body_that_panics_fails_and_leaves_no_caller_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let store = RedbStore::open(&dir.path().join("metadata")).unwrap();
    let error = run(&store, |_| panic!("a bug")).unwrap_err();
    assert!(error.to_string().contains("a bug"), "{error}");
    assert!(put(&store, "a", "1").is_err());
}
