//! Accesses that are started and waited for later: several under way, dropped, cut off by a close.

use std::future::Future;
use std::io::SeekFrom;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use pario::Mode;

use super::{CONNECTED, LOCAL, content, over_every_transport, together};
use crate::sites::{Site, Transport};

/// More rounds are begun than a table has room for.
#[test]
fn many_rounds_are_under_way() {
    for transport in LOCAL {
        let site = Site::new(transport);
        together(&site, 3, |files| {
            let file = files.create("/f", Mode::Sync).unwrap();
            let begun: Vec<_> = (0..100u8)
                .map(|round| {
                    file.start_write(vec![round; files.job().rank() as usize + 1]).unwrap()
                })
                .collect();
            begun.into_iter().for_each(|write| write.wait().unwrap());
            file.close().unwrap();
        });
        let expected: Vec<u8> = (0..100).flat_map(|round| [round; 6]).collect();
        assert_eq!(content(&site.cluster, "/f"), expected);
    }
}

/// Requests are dropped, their file is dropped before them or closed before them: every write is in
/// the file all the same.
#[test]
fn started_writes_are_done_whatever_becomes_of_their_requests() {
    const LEN: usize = 200_000;
    for transport in LOCAL {
        let site = Site::new(transport);
        for ending in 0..4 {
            let path = format!("/f{ending}");
            together(&site, 1, |files| {
                let file = files.create(&path, Mode::Log).unwrap();
                let begun: Vec<_> =
                    (0..20u8).map(|round| file.start_write(vec![round; LEN]).unwrap()).collect();
                match ending {
                    0 => {
                        drop(begun);
                        file.close().unwrap();
                    }
                    1 => {
                        file.close().unwrap();
                        assert!(begun.iter().all(pario::Pending::is_done));
                        begun.into_iter().for_each(|write| write.wait().unwrap());
                    }
                    2 => {
                        drop(file);
                        begun.into_iter().for_each(|write| write.wait().unwrap());
                    }
                    _ => {
                        drop(file);
                        drop(begun);
                    }
                }
            });
            let expected: Vec<u8> = (0..20).flat_map(|round| vec![round; LEN]).collect();
            assert!(content(&site.cluster, &path) == expected, "{transport:?}, {ending}");
        }
    }
}

/// A rank drops the file while its collective write waits for the others, which do not call: the
/// write fails, and neither waiting for it nor dropping it takes forever.
#[test]
fn a_collective_write_of_a_dropped_file_ends_with_an_error() {
    for transport in LOCAL {
        let site = Site::new(transport);
        for is_dropped in [false, true] {
            let path = format!("/f{is_dropped}");
            together(&site, 2, |files| {
                let file = files.create(&path, Mode::Sync).unwrap();
                if files.job().rank() == 0 {
                    let (first, second) =
                        (file.start_write(&b"one"[..]).unwrap(), file.start_write(&b"two"[..]));
                    drop(file);
                    drop(second.unwrap());
                    match is_dropped {
                        true => drop(first),
                        false => assert!(first.wait().is_err()),
                    }
                }
                files.barrier().unwrap();
            });
        }
    }
}

/// A task that the thread of the file wakes runs on that thread, and waits there for later accesses
/// and for the close: the thread performs them itself.
#[test]
fn a_task_on_the_thread_of_the_file_may_wait_for_the_file() {
    struct Inline(Mutex<Option<Box<dyn FnOnce() + Send>>>);

    impl Wake for Inline {
        fn wake(self: Arc<Self>) {
            let work = self.0.lock().unwrap().take();
            work.into_iter().for_each(|work| work());
        }
    }

    let site = Site::new(Transport::ShortCut);
    for _ in 0..20 {
        together(&site, 1, |files| {
            let file = files.create("/f", Mode::Log).unwrap();
            let mut first = file.start_write(vec![1; 4 << 20]).unwrap();
            let second = file.start_write(vec![2; 1000]).unwrap();
            let third = file.start_write(vec![3; 1000]).unwrap();
            let unread = file.start_read(10).unwrap();
            let (done, over) = std::sync::mpsc::channel();
            let work = move || {
                drop(second);
                third.wait().unwrap();
                file.close().unwrap();
                assert!(unread.is_done());
                done.send(()).unwrap();
            };
            let inline = Arc::new(Inline(Mutex::new(Some(Box::new(work)))));
            let waker = Waker::from(inline.clone());
            if let Poll::Ready(written) =
                Pin::new(&mut first).poll(&mut Context::from_waker(&waker))
            {
                written.unwrap();
                inline.wake();
            }
            over.recv().unwrap();
        });
        assert_eq!(content(&site.cluster, "/f").len(), (4 << 20) + 2000);
    }
}

#[test]
fn several_accesses_are_under_way_and_have_their_places() {
    over_every_transport(|site| {
        for mode in [Mode::Sync, Mode::Record, Mode::Log, Mode::Global] {
            let path = format!("/started-{mode}");
            together(site, 3, |files| {
                let file = files.create(&path, mode).unwrap();
                let bytes = |round: u8| vec![round; 500];
                let writes: Vec<_> =
                    (0..10).map(|round| file.start_write(bytes(round)).unwrap()).collect();
                for write in writes {
                    write.wait().unwrap();
                }
                if mode == Mode::Log {
                    files.barrier().unwrap();
                    if files.job().rank() == 0 {
                        file.seek(SeekFrom::Start(0)).unwrap();
                    }
                    files.barrier().unwrap();
                } else {
                    file.seek(SeekFrom::Start(0)).unwrap();
                }
                let reads: Vec<_> = (0..10).map(|_| file.start_read(500).unwrap()).collect();
                for (round, read) in (0..10).zip(reads) {
                    let read = read.wait().unwrap();
                    assert_eq!(read.len(), 500, "{mode}");
                    assert!(mode == Mode::Log || read[..] == bytes(round), "{mode} {round}");
                }
                file.close().unwrap();
            });
        }
    });
}

#[test]
fn started_reads_go_to_memory_of_the_caller() {
    for transport in CONNECTED {
        eprintln!("{transport:?}");
        let site = Site::new(transport);
        let content: Vec<u8> = (0..500_000u32).map(|at| (at % 251) as u8).collect();
        site.cluster.create("/lent").unwrap().write_at(&content, 0).unwrap();
        together(&site, 2, |files| {
            for mode in [Mode::Unix, Mode::Sync, Mode::Global, Mode::Record] {
                let file = files.open("/lent", mode).unwrap();
                let mut memory = vec![vec![0; 100_000]; 3];
                let reads: Vec<_> = memory
                    .iter_mut()
                    .map(|part| {
                        // SAFETY: the memory is left alone until all were waited for.
                        unsafe { file.start_read_into(part.as_mut_ptr(), part.len()) }.unwrap()
                    })
                    .collect();
                let counts: Vec<_> = reads.into_iter().map(|read| read.wait().unwrap()).collect();
                for (number, (part, count)) in memory.iter().zip(counts).enumerate() {
                    let place = match mode {
                        Mode::Unix | Mode::Global => number,
                        _ => number * 2 + files.job().rank() as usize,
                    } * 100_000;
                    let expected = &content[place.min(500_000)..(place + 100_000).min(500_000)];
                    assert_eq!(count, expected.len(), "{mode} {number}");
                    assert!(part[..count] == *expected, "{mode} {number}");
                }
                file.close().unwrap();
            }
        });
    }
}

/// Another process cuts the file between a started read and its end: the pointer is at the new end,
/// so that the next write leaves no hole.
#[test]
fn a_started_read_of_a_file_that_was_cut_leaves_the_pointer_at_its_end() {
    for transport in CONNECTED {
        for mode in [Mode::Unix, Mode::Async] {
            let site = Site::new(transport);
            let other = site.another();
            let options = || other.options().read(true).write(true);
            let cut = |len| options().open("/f").unwrap().set_len(len).unwrap();
            together(&site, 1, |files| {
                let file = files.create("/f", mode).unwrap();
                file.write(&[7; 1000]).unwrap();
                file.seek(SeekFrom::Start(0)).unwrap();
                assert_eq!(file.start_read(10).unwrap().wait().unwrap().len(), 10);
                cut(20);
                let reads = [file.start_read(50).unwrap(), file.start_read(50).unwrap()];
                let found = reads.map(|read| read.wait().unwrap().len());
                assert_eq!((found, file.position().unwrap()), ([10, 0], 20), "{mode}");
                file.write(&[8; 5]).unwrap();
                assert_eq!(file.len().unwrap(), 25);
                // A pointer that was moved since stays where it is.
                file.seek(SeekFrom::Start(0)).unwrap();
                file.start_read(1).unwrap().wait().unwrap();
                cut(3);
                let read = file.start_read(20).unwrap();
                file.seek(SeekFrom::Start(18)).unwrap();
                assert_eq!((read.wait().unwrap().len(), file.position().unwrap()), (2, 18));
                file.close().unwrap();
            });
        }
    }
}
