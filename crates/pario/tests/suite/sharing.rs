//! Several clients and several threads on one file.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fastrand::Rng;

use crate::sites::{Over, over_every_transport};

/// Once a write of one client is acknowledged, the other client sees it, the size included.
#[test]
fn clients_see_each_others_writes_at_once() {
    over_every_transport(|site| {
        let other = site.another();
        let mine = site.cluster.options().read(true).write(true).create_new(true).unit(1000);
        let mine = mine.open("/shared").unwrap();
        let theirs = other.options().read(true).write(true).open("/shared").unwrap();
        let mut random = Rng::with_seed(11);
        let mut model: Vec<u8> = Vec::new();
        for round in 0..400 {
            let (writer, reader) = if round % 2 == 0 { (&mine, &theirs) } else { (&theirs, &mine) };
            if random.u32(0..8) == 0 {
                let len = random.usize(0..=model.len() + 5000);
                writer.set_len(len as u64).unwrap();
                model.resize(len, 0);
            } else {
                let (offset, len) = (random.usize(0..20_000), random.usize(1..9000));
                let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(len).collect();
                writer.write_at(&bytes, offset as u64).unwrap();
                model.resize(model.len().max(offset + len), 0);
                model[offset..offset + len].copy_from_slice(&bytes);
            }
            assert_eq!(reader.len().unwrap(), model.len() as u64);
            assert_eq!(other.metadata("/shared").unwrap().len, model.len() as u64);
            let mut bytes = vec![0xee; model.len() + 10];
            let count = reader.read_at(&mut bytes, 0).unwrap();
            assert!(bytes[..count] == model[..], "round {round}");
        }
        let listed = other.list("/").unwrap().next().unwrap().unwrap();
        assert_eq!(listed.measured.unwrap().len, model.len() as u64);
    });
}

/// Each thread writes records of its own, interleaved with those of the others, and reads back
/// what it and others have finished.
#[test]
fn eight_threads_use_one_file() {
    const THREADS: u64 = 8;
    const RECORDS: u64 = 60;
    const RECORD: usize = 47_008;
    over_every_transport(|site| {
        let file = site.cluster.create("/records").unwrap();
        let content = |thread: u64, number: u64| {
            let mut bytes = vec![0; RECORD];
            Rng::with_seed(thread << 32 | number).fill(&mut bytes);
            bytes
        };
        let offset = |thread: u64, number: u64| (number * THREADS + thread) * RECORD as u64;
        let slot = |thread: u64| usize::try_from(thread).unwrap();
        let done: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (file, done) = (&file, &done);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(thread);
                    for number in 0..RECORDS {
                        file.write_at(&content(thread, number), offset(thread, number)).unwrap();
                        done[slot(thread)].store(number + 1, Ordering::Release);
                        let other = random.u64(0..THREADS);
                        let finished = done[slot(other)].load(Ordering::Acquire);
                        if finished > 0 {
                            let number = random.u64(0..finished);
                            let mut bytes = vec![0; RECORD];
                            file.read_exact_at(&mut bytes, offset(other, number)).unwrap();
                            assert!(bytes == content(other, number));
                        }
                    }
                });
            }
        });
        assert_eq!(file.len().unwrap(), THREADS * RECORDS * RECORD as u64);
    });
}

/// A read during an append returns appended bytes or the end of the file, never zeros that no
/// client has written. (A record on two disks is written in two pieces; these records lie on one.)
#[test]
fn readers_of_a_growing_file_never_see_zeros() {
    over_every_transport(|site| {
        let options = site.cluster.options().read(true).write(true).create_new(true);
        let file = options.unit(500).open("/log").unwrap();
        let reader = site.another().open("/log").unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _over = Over(&is_over);
                for number in 0..3000 {
                    file.write_at(&[1; 100], number * 100).unwrap();
                }
            });
            let mut position = 0;
            let mut buffer = [0; 3000];
            loop {
                let was_over = is_over.load(Ordering::Acquire);
                let count = reader.read_at(&mut buffer, position).unwrap();
                let zero = buffer[..count].iter().position(|byte| *byte != 1);
                assert_eq!(zero, None, "{:?} at {position} of {count}", site.transport);
                position += count as u64;
                if was_over && count == 0 {
                    break;
                }
            }
            assert_eq!(position, 300_000);
        });
    });
}

/// A file can be used by threads that share its pointer: every byte is read by one of them.
#[test]
fn threads_that_share_the_pointer_get_different_bytes() {
    use std::io::Read as _;
    over_every_transport(|site| {
        let file = site.cluster.create("/numbers").unwrap();
        let bytes: Vec<u8> = (0..40_000u32).flat_map(u32::to_le_bytes).collect();
        file.write_at(&bytes, 0).unwrap();
        let read = |mut file: &pario::File| {
            let (mut numbers, mut record) = (Vec::new(), [0; 400]);
            while file.read(&mut record).unwrap() == 400 {
                let number = |four: &[u8]| u32::from_le_bytes(four.try_into().unwrap());
                numbers.extend(record.chunks(4).map(number));
            }
            numbers
        };
        let mut numbers: Vec<u32> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| read(&file))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..40_000));
    });
}
