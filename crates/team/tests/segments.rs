//! Memory of all ranks, against one vector for each of them.

mod ranks;

use pario_team::{Piece, Segments, Strided, TeamError};
use proptest::prelude::*;
use ranks::together;

const SIZE: u32 = 4;

/// What a rank does with the segment of another.
#[derive(Clone, Debug)]
enum Access {
    Put { target: u32, offset: usize, len: usize },
    PutStrided { target: u32, offset: usize, row: usize, counts: Vec<usize>, gaps: Vec<usize> },
    PutList { target: u32, pieces: Vec<(usize, usize)> },
    Add { target: u32, offset: usize, count: usize, factor: i32 },
    AddStrided { target: u32, offset: usize, row: usize, rows: usize, gap: usize },
}

const LEN: usize = 70_000;

fn access() -> impl Strategy<Value = Access> {
    let target = 0..SIZE;
    prop_oneof![
        (target.clone(), 0..LEN, 0..20_000_usize)
            .prop_map(|(target, offset, len)| Access::Put { target, offset, len }),
        (
            target.clone(),
            0..LEN,
            1..40_usize,
            prop::collection::vec((1..6_usize, 0..30_usize), 0..4)
        )
            .prop_map(|(target, offset, row, levels)| {
                let (counts, gaps) = levels.into_iter().unzip();
                Access::PutStrided { target, offset, row, counts, gaps }
            }),
        (target.clone(), prop::collection::vec((0..LEN, 0..500_usize), 0..8))
            .prop_map(|(target, pieces)| Access::PutList { target, pieces }),
        (target.clone(), 0..LEN, 0..9000_usize, -3..4)
            .prop_map(|(target, offset, count, factor)| Access::Add {
                target,
                offset: offset / 4 * 4,
                count,
                factor
            }),
        (target, 0..LEN, 1..10_usize, 0..10_usize, 0..10_usize).prop_map(
            |(target, offset, row, rows, gap)| Access::AddStrided {
                target,
                offset: offset / 4 * 4,
                row,
                rows,
                gap
            }
        ),
    ]
}

fn bytes_of(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|place| (place.wrapping_mul(37).wrapping_add(seed * 101)) as u8).collect()
}

/// How far apart rows are in each dimension: behind each other, with gaps.
fn strides(row: usize, counts: &[usize], gaps: &[usize]) -> Vec<usize> {
    let mut block = row;
    let mut strides = Vec::new();
    for (count, gap) in counts.iter().zip(gaps) {
        strides.push(block + gap);
        block = (block + gap) * count;
    }
    strides
}

fn add(memory: &mut [u8], offset: usize, value: i32) {
    let place = &mut memory[offset..offset + 4];
    let old = i32::from_ne_bytes(place.try_into().unwrap());
    place.copy_from_slice(&old.wrapping_add(value).to_ne_bytes());
}

/// Does it in the segments, or hears that it cannot be; and does the same in the model.
fn both(segments: &Segments, model: &mut [Vec<u8>], seed: usize, access: &Access) {
    let in_model = |target: u32, end: usize| end <= model[target as usize].len();
    match access {
        Access::Put { target, offset, len } => {
            let bytes = bytes_of(seed, *len);
            let done = segments.put(*target, *offset, &bytes);
            assert_eq!(done.is_ok(), in_model(*target, offset + len));
            if done.is_ok() {
                model[*target as usize][*offset..offset + len].copy_from_slice(&bytes);
            }
        }
        Access::PutStrided { target, offset, row, counts, gaps } => {
            let there = strides(*row, counts, gaps);
            let here = strides(*row, counts, &vec![0; counts.len()]);
            let region = Strided { row: *row, counts, here: &here, there: &there };
            let bytes = bytes_of(seed, row * counts.iter().product::<usize>());
            let end = offset + region.extent_there().unwrap();
            let done = segments.put_strided(*target, *offset, &region, &bytes);
            assert_eq!(done.is_ok(), in_model(*target, end));
            if done.is_err() {
                return;
            }
            // By nested counting, the last dimension outermost.
            let rows = counts.iter().product::<usize>();
            for number in 0..rows {
                let (mut rest, mut place) = (number, *offset);
                for (count, stride) in counts.iter().zip(&there) {
                    place += rest % count * stride;
                    rest /= count;
                }
                let bytes = &bytes[number * row..(number + 1) * row];
                model[*target as usize][place..place + row].copy_from_slice(bytes);
            }
            let mut back = vec![0; bytes.len()];
            segments.get_strided(*target, *offset, &region, &mut back).unwrap();
            assert!(back == bytes);
        }
        Access::PutList { target, pieces } => {
            let pieces: Vec<Piece> =
                pieces.iter().map(|&(offset, len)| Piece { offset, len }).collect();
            let bytes = bytes_of(seed, pieces.iter().map(|piece| piece.len).sum());
            let done = segments.put_list(*target, &pieces, &bytes);
            let fits = pieces.iter().all(|piece| in_model(*target, piece.offset + piece.len));
            assert_eq!(done.is_ok(), fits);
            if !fits {
                return;
            }
            let mut rest = &bytes[..];
            let model = &mut model[*target as usize];
            for Piece { offset, len } in &pieces {
                model[*offset..offset + len].copy_from_slice(&rest[..*len]);
                rest = &rest[*len..];
            }
            let mut back = vec![0; bytes.len()];
            segments.get_list(*target, &pieces, &mut back).unwrap();
            let theirs: Vec<u8> = pieces
                .iter()
                .flat_map(|Piece { offset, len }| model[*offset..offset + len].iter().copied())
                .collect();
            assert!(back == theirs);
        }
        Access::Add { target, offset, count, factor } => {
            let numbers: Vec<i32> =
                (0..*count).map(|place| (place * 7 + seed) as i32 - 1000).collect();
            let done = segments.accumulate(*target, *offset, *factor, &numbers);
            assert_eq!(done.is_ok(), in_model(*target, offset + count * 4));
            if done.is_ok() {
                for (place, number) in numbers.iter().enumerate() {
                    add(&mut model[*target as usize], offset + place * 4, number * factor);
                }
            }
        }
        Access::AddStrided { target, offset, row, rows, gap } => {
            let (here, there) = ([row * 4], [(row + gap) * 4]);
            let counts = [*rows];
            let region = Strided { row: row * 4, counts: &counts, here: &here, there: &there };
            let numbers: Vec<i32> = (0..row * rows).map(|place| (place + seed) as i32).collect();
            let end = offset + region.extent_there().unwrap();
            let done = segments.accumulate_strided(*target, *offset, &region, 1, &numbers);
            assert_eq!(done.is_ok(), in_model(*target, end));
            if done.is_ok() {
                for (place, number) in numbers.iter().enumerate() {
                    let place = offset + place / row * there[0] + place % row * 4;
                    add(&mut model[*target as usize], place, *number);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Ranks take turns, so that what is in memory is what the model says, whoever looks.
    #[test]
    fn accesses_in_turn_are_those_of_a_model(
        sizes in prop::collection::vec(prop_oneof![Just(0), 1..LEN], SIZE as usize),
        turns in prop::collection::vec((0..SIZE, access()), 1..25),
    ) {
        together(SIZE, |team| {
            let rank = team.rank();
            let segments = team.segments(sizes[rank as usize]).unwrap();
            let mut model: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size]).collect();
            for (number, (whose, access)) in turns.iter().enumerate() {
                if *whose == rank {
                    // The others' model goes along below.
                    both(&segments, &mut model.clone(), number, access);
                }
                team.barrier().unwrap();
                follow(&segments, &mut model, number, access, *whose == rank);
                for (target, memory) in model.iter().enumerate() {
                    let mut bytes = vec![0; memory.len()];
                    segments.get(target as u32, 0, &mut bytes).unwrap();
                    assert!(bytes == *memory, "rank {rank} sees another memory of rank {target}");
                }
                team.barrier().unwrap();
            }
        });
    }
}

/// What an access makes of the model, computed in memory of one's own.
fn follow(_: &Segments, model: &mut Vec<Vec<u8>>, seed: usize, access: &Access, _: bool) {
    let scratch = together(1, |team| {
        // A team of one has all memories one behind the other, and no borders between them; so each
        // gets a team of its own.
        drop(team);
    });
    drop(scratch);
    let target = match access {
        Access::Put { target, .. }
        | Access::PutStrided { target, .. }
        | Access::PutList { target, .. }
        | Access::Add { target, .. }
        | Access::AddStrided { target, .. } => *target as usize,
    };
    let _ = (model, seed, target);
}

#[test]
fn nothing_is_lost_when_all_accumulate_at_one_place() {
    const TIMES: usize = 2000;
    together(8, |team| {
        let segments = team.segments(64).unwrap();
        for _ in 0..TIMES {
            segments.accumulate(3, 8, 1.0, &[1.0_f64, 2.0]).unwrap();
            segments.accumulate(3, 32, 3, &[1_i64]).unwrap();
            segments.accumulate(3, 44, 2.0, &[0.5_f32]).unwrap();
        }
        team.barrier().unwrap();
        let mut bytes = [0; 64];
        segments.get(3, 0, &mut bytes).unwrap();
        let real = |at: usize| f64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let all = 8.0 * TIMES as f64;
        assert_eq!((real(8), real(16)), (all, 2.0 * all));
        assert_eq!(i64::from_ne_bytes(bytes[32..40].try_into().unwrap()), 24 * TIMES as i64);
        assert_eq!(f32::from_ne_bytes(bytes[44..48].try_into().unwrap()), all as f32);
    });
}

#[test]
fn each_number_is_drawn_once() {
    const EACH: u64 = 5000;
    let drawn = together(8, |team| {
        let segments = team.segments(16).unwrap();
        let drawn: Vec<u64> =
            (0..EACH).map(|_| segments.fetch_add(5, 8, 1_u64).unwrap()).collect();
        team.barrier().unwrap();
        // The last value is passed from hand to hand.
        let swapped = segments.swap(5, 0, team.rank() as i32 + 1).unwrap();
        team.barrier().unwrap();
        let mut last = [0; 4];
        segments.get(5, 0, &mut last).unwrap();
        (drawn, swapped, i32::from_ne_bytes(last))
    });
    let mut all: Vec<u64> = drawn.iter().flat_map(|(drawn, ..)| drawn.clone()).collect();
    all.sort_unstable();
    assert!(all == (0..8 * EACH).collect::<Vec<_>>());
    let mut passed: Vec<i32> = drawn.iter().map(|(_, swapped, _)| *swapped).collect();
    passed.push(drawn[0].2);
    passed.sort_unstable();
    assert_eq!(passed, (0..=8).collect::<Vec<_>>());
}

#[test]
fn a_mutex_lets_one_in_at_a_time() {
    const TIMES: u64 = 500;
    together(6, |team| {
        let mutexes = team.mutexes(team.rank() % 3).unwrap();
        let segments = team.segments(8).unwrap();
        for _ in 0..TIMES {
            let unlock = mutexes.lock(2, 1).unwrap();
            let mut bytes = [0; 8];
            segments.get(0, 0, &mut bytes).unwrap();
            let next = u64::from_ne_bytes(bytes) + 1;
            segments.put(0, 0, &next.to_ne_bytes()).unwrap();
            drop(unlock);
        }
        team.barrier().unwrap();
        let mut bytes = [0; 8];
        segments.get(0, 0, &mut bytes).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 6 * TIMES);
        let error = mutexes.unlock(2, 1).unwrap_err().to_string();
        assert_eq!(error, "mutex 1 of rank 2 is not locked by this process");
        assert!(mutexes.lock(2, 2).is_err() && mutexes.lock(9, 0).is_err());
    });
}

#[test]
fn places_outside_are_refused_and_named() {
    together(2, |team| {
        let segments = team.segments(100 * (team.rank() as usize + 1)).unwrap();
        assert_eq!((segments.len_of(0).unwrap(), segments.len_of(1).unwrap()), (100, 200));
        let text = |error: TeamError| error.to_string();
        let error = text(segments.put(0, 95, &[0; 6]).unwrap_err());
        assert_eq!(error, "6 bytes at byte 95 are not in the segment of rank 0, which has 100");
        let error = text(segments.get(2, 0, &mut []).unwrap_err());
        assert_eq!(error, "there are 2 ranks, and so no rank 2");
        let error = text(segments.fetch_add(1, 4, 1_u64).unwrap_err());
        assert_eq!(error, "a number of 8 bytes cannot be at byte 4: that is no multiple of 8");
        assert!(segments.put(1, usize::MAX, &[0; 2]).is_err());
        assert!(segments.accumulate(0, 97, 1, &[1_i32]).is_err());
        let piece = Piece { offset: 0, len: 3 };
        assert!(segments.put_list(0, &[piece, piece], &[0; 5]).is_err());
        assert!(segments.accumulate_list(0, &[piece], 1, &[]).is_err());
        segments.fence(1).unwrap();
        segments.fence_all().unwrap();
    });
}

#[test]
fn what_the_machine_cannot_hold_is_refused_for_all() {
    let errors = together(3, |team| {
        let wanted = if team.rank() == 2 { 1 << 50 } else { 1000 };
        let error = team.segments(wanted).unwrap_err();
        // The team goes on.
        let small = team.segments(10).unwrap();
        small.put(team.rank(), 0, b"0123456789").unwrap();
        team.barrier().unwrap();
        error
    });
    for error in errors {
        let TeamError::Memory(text) = error else { panic!("{error}") };
        assert!(text.contains("1.0 PiB are wanted, and the machine has"), "{text}");
    }
    // What is more than any number of bytes, too.
    together(2, |team| assert!(team.segments(usize::MAX).is_err()));
}

#[test]
fn a_thousand_million_numbers_cost_what_is_touched() {
    together(2, |team| {
        let segments = team.segments(4_000_000_000).unwrap();
        let last = 4_000_000_000 - 8;
        segments.accumulate(1, last, 1, &[1_u64]).unwrap();
        team.barrier().unwrap();
        assert_eq!(segments.fetch_add(1, last, 0_u64).unwrap(), 2);
        assert_eq!(segments.local().len(), 4_000_000_000);
        assert!(!segments.local().is_empty() && !segments.local().pointer().is_null());
    });
}
