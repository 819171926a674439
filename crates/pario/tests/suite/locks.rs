//! Locks of records, by several clients, each with a connection of its own as processes have.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pario::status::LOCK_END;
use pario::{Cluster, Error, Failure, File, LockKind};

use crate::sites::{Site, Transport, until};

const SHARED: LockKind = LockKind::Shared;
const ALONE: LockKind = LockKind::Exclusive;

/// Runs a test over every transport that admits several clients.
fn over_every_transport(test: impl Fn(&Site)) {
    for transport in [Transport::ShortCut, Transport::Socket, Transport::Tcp, Transport::TwoNodes] {
        println!("{transport:?}");
        test(&Site::new(transport));
    }
}

fn open(cluster: &Cluster, path: &str) -> File {
    cluster.options().read(true).write(true).create(true).open(path).unwrap()
}

/// Waits until `count` processes wait for locks.
fn until_waiting(cluster: &Cluster, count: usize) {
    until("they wait", || cluster.lock_waits().unwrap().len() == count);
}

#[test]
fn nothing_that_is_counted_under_a_lock_is_lost() {
    over_every_transport(|site| {
        open(&site.cluster, "/counter").write_at(&[0; 8], 0).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let file = open(&site.another(), "/counter");
                    for _ in 0..100 {
                        file.lock(0..8, ALONE).unwrap();
                        let mut count = [0; 8];
                        file.read_exact_at(&mut count, 0).unwrap();
                        std::thread::yield_now();
                        let count = u64::from_le_bytes(count) + 1;
                        file.write_at(&count.to_le_bytes(), 0).unwrap();
                        file.unlock(0..8).unwrap();
                    }
                });
            }
        });
        let mut count = [0; 8];
        open(&site.cluster, "/counter").read_exact_at(&mut count, 0).unwrap();
        assert_eq!(u64::from_le_bytes(count), 400);
    });
}

#[test]
fn locks_belong_to_the_process_as_long_as_it_has_the_file_open() {
    over_every_transport(|site| {
        let (first, again) = (open(&site.cluster, "/f"), open(&site.cluster, "/f"));
        let other = open(&site.another(), "/f");
        assert!(first.try_lock(10..20, ALONE).unwrap());
        assert!(again.try_lock(15..30, SHARED).unwrap(), "it is the same process");
        assert!(!other.try_lock(14.., SHARED).unwrap());
        let held = other.test_lock(15.., ALONE).unwrap().unwrap();
        assert_eq!((held.range.from, held.range.to, held.kind), (15, 30, SHARED));
        assert_eq!(held.pid, std::process::id());
        assert!(other.try_lock(25..=27, SHARED).unwrap());
        assert!(!first.try_lock(.., ALONE).unwrap());
        again.unlock(12..14).unwrap();
        assert!(other.try_lock(12..14, ALONE).unwrap());
        drop(first);
        assert!(!other.try_lock(14..15, ALONE).unwrap(), "it has the file open once more");
        drop(again);
        other.lock(.., ALONE).unwrap();
        let all = other.test_lock(.., ALONE).unwrap();
        assert!(all.is_none(), "a process does not conflict with itself");
        // A closed file holds no lock.
        let third = open(&site.another(), "/f");
        assert_eq!(third.test_lock(5..6, ALONE).unwrap().unwrap().range.to, LOCK_END);
        drop(other);
        third.lock(.., ALONE).unwrap();
    });
}

#[test]
fn waiting_processes_are_listed_served_in_order_and_can_give_up() {
    over_every_transport(|site| {
        let holder = open(&site.cluster, "/f");
        holder.lock(.., ALONE).unwrap();
        let (one, two) = (site.another(), site.another());
        let (one, two) = (open(&one, "/f"), open(&two, "/f"));
        let first = one.start_lock(3..5, ALONE).unwrap();
        until_waiting(&site.cluster, 1);
        let second = two.start_lock(4.., SHARED).unwrap();
        until_waiting(&site.cluster, 2);
        let waits = site.cluster.lock_waits().unwrap();
        assert_eq!(waits[0].range.to, 5);
        assert!(
            waits[0].to_string().contains(" waits for bytes 3 to 4 of /f (exclusive), locked by")
        );
        let given_up = one.start_lock(9..10, ALONE).unwrap();
        assert!(given_up.cancel().unwrap().is_none());
        drop(one.start_lock(9..10, ALONE).unwrap());
        until_waiting(&site.cluster, 2);
        let mut second = pin!(second);
        let context = &mut Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(context).is_pending());
        holder.unlock(..).unwrap();
        first.wait().unwrap();
        assert!(second.as_mut().poll(context).is_pending(), "the other one came before");
        one.unlock(..).unwrap();
        until("it is locked", || match second.as_mut().poll(context) {
            Poll::Ready(locked) => {
                locked.unwrap();
                true
            }
            Poll::Pending => false,
        });
        assert!(holder.start_lock(..4, ALONE).unwrap().cancel().is_ok());
    });
}

#[test]
fn circles_are_refused_over_all_files() {
    over_every_transport(|site| {
        let other = site.another();
        let (mine, theirs) = (open(&site.cluster, "/a"), open(&other, "/b"));
        mine.lock(.., ALONE).unwrap();
        theirs.lock(.., SHARED).unwrap();
        let (wanted_by_me, wanted_by_them) = (open(&site.cluster, "/b"), open(&other, "/a"));
        let waiting = wanted_by_me.start_lock(7.., ALONE).unwrap();
        until_waiting(&site.cluster, 1);
        let error = wanted_by_them.lock(0..1, SHARED).unwrap_err();
        let is_deadlock = matches!(&error, Error::File { failure: Failure::Deadlock { .. }, path } if path == "/a");
        assert!(is_deadlock, "{error}");
        assert_eq!(error.kind(), pario::ErrorKind::Deadlock);
        theirs.unlock(..).unwrap();
        waiting.wait().unwrap();
    });
}

#[test]
fn rights_and_ranges_are_checked() {
    over_every_transport(|site| {
        open(&site.cluster, "/f");
        let reading = site.cluster.open("/f").unwrap();
        assert!(reading.try_lock(.., ALONE).unwrap_err().to_string().contains("for writing"));
        assert!(reading.try_lock(.., SHARED).unwrap());
        let writing = site.cluster.options().write(true).open("/f").unwrap();
        assert!(writing.lock(.., SHARED).unwrap_err().to_string().contains("for reading"));
        writing.lock(.., ALONE).unwrap();
        writing.unlock(LOCK_END - 1..).unwrap();
        for (from, to) in [(3, 3), (4, 3), (0, LOCK_END + 1), (u64::MAX, u64::MAX)] {
            let error = writing.try_lock(from..to, ALONE).unwrap_err();
            assert_eq!(error.kind(), pario::ErrorKind::Invalid, "{error}");
        }
        assert!(writing.try_lock(..=u64::MAX, ALONE).is_err());
    });
}

/// A restarted node has forgotten the locks: accesses of a file that had locks fail.
#[test]
fn lost_locks_are_reported() {
    for transport in [Transport::ShortCut, Transport::Socket] {
        let mut site = Site::new(transport);
        let file = open(&site.cluster, "/f");
        let plain = open(&site.cluster, "/g");
        file.write_at(b"abc", 0).unwrap();
        plain.write_at(b"abc", 0).unwrap();
        file.lock(0..3, ALONE).unwrap();
        drop(site.nodes.pop());
        let config = crate::sites::alone(site.dir.path());
        site.nodes.push(pario_server::Node::start(&config, "local").unwrap());
        let lost = |result: Result<(), Error>| {
            assert!(matches!(result, Err(Error::LocksLost { .. })), "{result:?}");
        };
        until("it is noticed", || file.read_at(&mut [0; 3], 0).is_err());
        lost(file.read_at(&mut [0; 3], 0).map(|_| ()));
        lost(file.write_at(b"xyz", 0));
        lost(file.lock(0..3, ALONE));
        let error = file.unlock(..).unwrap_err();
        assert!(
            matches!(&error, Error::File { failure: Failure::StaleHandle { .. }, .. }),
            "{error}"
        );
        plain.write_at(b"xyz", 0).unwrap();
        // Closing still syncs the bytes that were written before.
        file.close().unwrap();
        let file = open(&site.cluster, "/f");
        file.lock(0..3, ALONE).unwrap();
        let mut bytes = [0; 3];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"abc");
    }
}
