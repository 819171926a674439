//! Started accesses: waited for, awaited and dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use pario_team::{Pending, TeamError};

use crate::ranks::{EVERY_DISTRIBUTION, spread};

const SIZE: u32 = 4;
/// More than one request holds.
const LEN: usize = 3 << 20;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Awaits a request in this thread.
fn block_on<T>(mut pending: Pending<T>) -> Result<T, TeamError> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match Pin::new(&mut pending).poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "only the low bits count")]
fn content(rank: u32) -> Vec<u8> {
    (0..LEN).map(|place| (place as u32 ^ place as u32 >> 8).wrapping_add(rank) as u8).collect()
}

#[test]
fn started_accesses_end_the_same_way_however_they_are_finished() {
    for machines in EVERY_DISTRIBUTION {
        spread(SIZE, machines, |team| {
            let segments = team.segments(SIZE as usize * LEN).unwrap();
            let own = content(team.rank());
            let place = team.rank() as usize * LEN;
            // One is waited for, one awaited, the others dropped: all are in place afterwards.
            let mut puts: Vec<Pending<()>> =
                (0..SIZE).map(|target| segments.start_put(&own, target, place).unwrap()).collect();
            puts.pop().unwrap().wait().unwrap();
            block_on(puts.pop().unwrap()).unwrap();
            drop(puts);
            team.barrier().unwrap();
            for target in 0..SIZE {
                let gets: Vec<Pending<Vec<u8>>> = (0..SIZE as usize)
                    .map(|rank| segments.start_get(vec![0; LEN], target, rank * LEN).unwrap())
                    .collect();
                for (rank, pending) in (0..).zip(gets) {
                    let found = match rank % 2 {
                        0 => block_on(pending).unwrap(),
                        _ => pending.wait().unwrap(),
                    };
                    assert!(found == content(rank), "{machines:?}: {target}");
                }
            }
            let mut memory = vec![0; LEN];
            // SAFETY: the memory outlives the request, which is over when it is dropped.
            let pending = unsafe {
                segments.start_get_into(memory.as_mut_ptr(), LEN, (team.rank() + 1) % SIZE, place)
            };
            drop(pending.unwrap());
            assert!(memory == own);
            team.barrier().unwrap();
            let numbers = vec![1_u32; LEN / 4];
            drop(segments.start_accumulate(&numbers, 1, 0, 0).unwrap());
            team.barrier().unwrap();
            let first = segments.start_get(vec![0; 4], 0, 0).unwrap().wait().unwrap();
            let before = u32::from_ne_bytes(content(0)[..4].try_into().unwrap());
            assert_eq!(u32::from_ne_bytes(first[..].try_into().unwrap()), before + SIZE);
            team.barrier().unwrap();
        });
    }
}

#[test]
fn started_accesses_of_arrays_cross_pages_and_machines() {
    const COUNT: u64 = 100_000;
    for machines in EVERY_DISTRIBUTION {
        spread(SIZE, machines, |team| {
            let array = team.array::<u64>(COUNT).unwrap();
            let own = COUNT / u64::from(SIZE) * u64::from(team.rank());
            let numbers: Vec<u64> = (own..own + COUNT / u64::from(SIZE)).collect();
            array.start_put(&numbers, own).unwrap().wait().unwrap();
            team.barrier().unwrap();
            drop(array.start_accumulate(&[1; 20_000], 8000).unwrap());
            team.barrier().unwrap();
            let all = vec![0; usize::try_from(COUNT).unwrap()];
            let found = block_on(array.start_get(all, 0).unwrap()).unwrap();
            for (index, number) in (0..).zip(found) {
                let added = if (8000..28_000).contains(&index) { u64::from(SIZE) } else { 0 };
                assert_eq!(number, index + added);
            }
            let raw = array.raw().start_get(vec![0; 8], COUNT - 1).unwrap().wait().unwrap();
            assert_eq!(raw, (COUNT - 1).to_ne_bytes());
            assert!(array.start_get(vec![0; 2], COUNT - 1).is_err());
            team.barrier().unwrap();
        });
    }
}
