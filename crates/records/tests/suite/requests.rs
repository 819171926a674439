//! Started accesses: complete when their request says so, and before their record is destroyed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use pario_records::RecordFile;

use crate::range::bytes;
use crate::ranks::{EVERY_DISTRIBUTION, Machines, spread, together};

#[test]
fn many_are_under_way_at_once() {
    EVERY_DISTRIBUTION.into_iter().for_each(start_many);
}

fn start_many(machines: Machines) {
    let dir = tempfile::tempdir().unwrap();
    spread(3, machines, |team| {
        let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
        let record = file.create_record(3 << 20).unwrap();
        let own = u64::from(team.rank()) << 20;
        // More than the queue of the pool holds.
        let writing: Vec<_> = (0..2000_u64)
            .map(|number| {
                let memory = vec![(number % 251) as u8; 500];
                file.start_write(memory, record, bytes(own + number * 500, 500)).unwrap()
            })
            .collect();
        file.wait_for_all();
        assert!(writing.iter().all(pario_records::Pending::is_done));
        writing.into_iter().for_each(|request| drop(request.wait().unwrap()));
        team.barrier().unwrap();
        let mut all = vec![0; 3 << 20];
        let len = all.len();
        file.read(&mut all, record, bytes(0, len)).unwrap();
        for rank in 0..3_usize {
            let found = &all[rank << 20..][..2000 * 500];
            assert!(found.chunks(500).enumerate().all(|(number, bytes)| {
                bytes.iter().all(|byte| usize::from(*byte) == number % 251)
            }));
        }
        file.close().unwrap();
    });
}

#[test]
fn destroying_a_record_waits_for_its_accesses() {
    [Machines::One, Machines::Of(1)].into_iter().for_each(destroy_while_used);
}

fn destroy_while_used(machines: Machines) {
    // In memory, where a sync waits for no write.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    spread(2, machines, |team| {
        let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
        for round in 0..5_u8 {
            let record = file.create_record(1 << 20).unwrap();
            // Enough writes to take longer than destroying the record.
            let writing: Vec<_> = (0..200)
                .map(|_| file.start_write(vec![7; 1 << 20], record, bytes(0, 1 << 20)).unwrap())
                .collect();
            // The writes end before another record gets the space.
            file.destroy_record(record).unwrap();
            assert!(writing.iter().all(pario_records::Pending::is_done));
            let next = file.create_record(1 << 20).unwrap();
            let mut found = vec![1; 1 << 20];
            file.read(&mut found, next, bytes(0, 1 << 20)).unwrap();
            assert!(found.iter().all(|byte| *byte == 0), "round {round}");
            writing.into_iter().for_each(|request| drop(request.wait().unwrap()));
            team.barrier().unwrap();
            file.destroy_record(next).unwrap();
        }
        file.close().unwrap();
    });
}

#[test]
fn a_dropped_request_is_over_and_an_awaited_one_gives_its_memory() {
    let dir = tempfile::tempdir().unwrap();
    together(1, |team| {
        let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
        let record = file.create_record(1 << 20).unwrap();
        for byte in 1..50 {
            drop(file.start_write(vec![byte; 1 << 20], record, bytes(0, 1 << 20)).unwrap());
            let mut found = [0; 2];
            file.read(&mut found, record, bytes((1 << 20) - 2, 2)).unwrap();
            assert_eq!(found, [byte; 2]);
        }
        file.wait_for_all();
        let mut pending = file.start_read(vec![0; 2], record, 7..9).unwrap();
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let found = loop {
            match Pin::new(&mut pending).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(found) => break found.unwrap(),
                Poll::Pending => std::thread::park(),
            }
        };
        assert_eq!(found, [49; 2]);
    });
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
