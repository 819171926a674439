//! A hundred thousand files in one directory.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pario_proto::{FileKind, FilePath, FileRecord, Identity};
use pario_server::metadata::{MetadataStore, Redb};
use pario_server::namespace::{Clock, Created, Namespace};

const FILES: usize = 100_000;
/// Far more than it takes, and far less than anything that grows with the square.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn a_hundred_thousand_files_are_created_listed_and_removed() {
    let started = Instant::now();
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Redb::open(&dir.path().join("metadata")).unwrap());
    let user = Identity { uid: 1, gids: vec![1] };
    let shared = Arc::clone(&store) as Arc<dyn MetadataStore>;
    let names = Namespace::open(shared, "n0", &user, Clock::system()).unwrap();
    let directory = FilePath::new("/many").unwrap();
    let (send, receive) = mpsc::channel();
    names.make_directory(user.clone(), directory.clone(), 0o755, |done| drop(done.unwrap()));
    // Names come in an order that is not theirs.
    let path = |number: usize| directory.join(&format!("f{:06}", number * 7919 % FILES)).unwrap();
    for number in 0..FILES {
        let record = FileRecord {
            id: names.new_file_id(),
            kind: FileKind::Flat,
            layout: None,
            uid: 1,
            gid: 1,
            mode: 0o644,
            created_ns: 0,
            changed_ns: 0,
            rights_version: 0,
            first_synced: Vec::new(),
        };
        let send = send.clone();
        names.create(user.clone(), path(number), record, move |done| {
            send.send(matches!(done, Ok(Created::New(_)))).unwrap();
        });
    }
    assert!(receive.iter().take(FILES).all(|is_new| is_new));
    assert!(store.commits() < 2_000, "{} syncs", store.commits());
    assert_eq!(names.count().unwrap(), FILES as u64 + 1);
    println!("created after {:?} with {} syncs", started.elapsed(), store.commits());

    let (mut after, mut listed) = (None::<String>, 0);
    loop {
        let (page, is_more) = names.list(&user, &directory, after.as_deref(), 1000).unwrap();
        for entry in &page {
            assert_eq!(entry.name, format!("f{listed:06}"));
            listed += 1;
        }
        after = page.last().map(|entry| entry.name.clone());
        if !is_more {
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
    let doomed = names.doomed().unwrap();
    assert_eq!((names.count().unwrap(), doomed.len()), (1, FILES));
    let (forgotten, receive) = mpsc::channel();
    let done = move |done: Result<_, _>| forgotten.send(done).unwrap();
    names.forget_doomed(doomed.iter().map(|file| file.id).collect(), done);
    receive.recv().unwrap().unwrap();
    assert!(names.doomed().unwrap().is_empty());
    names.remove_directory(user, directory, |done| done.unwrap());
    assert_eq!(names.problems().unwrap(), Vec::<String>::new());
    assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
}
