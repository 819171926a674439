//! A hundred thousand files in one directory.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pario_proto::{FilePath, Identity};
use pario_server::metadata::{MetadataStore, RedbStore};
use pario_server::namespace::{CreateOutcome, Namespace, WallClock};

use crate::namespace_calls::flat_file;

const FILES: usize = 100_000;
/// Far more than the test takes, and far less than quadratic work would take.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn a_hundred_thousand_files_are_created_listed_and_removed() {
    let started = Instant::now();
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(RedbStore::open(&dir.path().join("metadata")).unwrap());
    let user = Identity { uid: 1, gids: vec![1] };
    let shared = Arc::clone(&store) as Arc<dyn MetadataStore>;
    let names = Namespace::open(shared, "n0", &user, WallClock::system()).unwrap();
    let directory = FilePath::new("/many").unwrap();
    let (send, receive) = mpsc::channel();
    names.make_directory(user.clone(), directory.clone(), 0o755, |done| drop(done.unwrap()));
    // The names are not created in their own order.
    let path = |number: usize| directory.join(&format!("f{:06}", number * 7919 % FILES)).unwrap();
    for number in 0..FILES {
        let record = flat_file(names.new_file_id(), &user, 0o644);
        let send = send.clone();
        names.create(user.clone(), path(number), record, move |done| {
            send.send(matches!(done, Ok(CreateOutcome::New(_)))).unwrap();
        });
    }
    assert!(receive.iter().take(FILES).all(|is_new| is_new));
    assert!(store.commits() < 2_000, "{} syncs", store.commits());
    assert_eq!(names.count().unwrap(), FILES as u64 + 1);
    println!("created after {:?} with {} syncs", started.elapsed(), store.commits());

    let (mut after, mut listed) = (None::<String>, 0);
    loop {
        let (page, has_more) = names.list(&user, &directory, after.as_deref(), 1000).unwrap();
        for entry in &page {
            assert_eq!(entry.name, format!("f{listed:06}"));
            listed += 1;
        }
        after = page.last().map(|entry| entry.name.clone());
        if !has_more {
            break;
        }
    }
    assert_eq!(listed, FILES);
    println!("listed after {:?}", started.elapsed());

    for number in 0..FILES {
        let send = send.clone();
        let done = move |done: Result<_, _>| send.send(done.is_ok()).unwrap();
        names.remove(user.clone(), path(number), done);
    }
    assert!(receive.iter().take(FILES).all(|is_removed| is_removed));
    println!("removed after {:?}", started.elapsed());
    let tombstones = names.tombstones().unwrap();
    assert_eq!((names.count().unwrap(), tombstones.len()), (1, FILES));
    let (removed, receive) = mpsc::channel();
    let done = move |done: Result<_, _>| removed.send(done).unwrap();
    names.remove_tombstones(tombstones.iter().map(|file| file.id).collect(), done);
    receive.recv().unwrap().unwrap();
    assert!(names.tombstones().unwrap().is_empty());
    names.remove_directory(user, directory, |done| done.unwrap());
    assert_eq!(names.problems().unwrap(), Vec::<String>::new());
    assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
}
