//! Memory of all ranks, against one vector for each of them.

#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use crate::ranks::{EVERY_DISTRIBUTION, Machines, spread, together};
use pario_team::{SegmentPiece, Segments, Strided, TeamError};
use proptest::prelude::*;

const SIZE: u32 = 4;

/// An access of a rank to the segment of another.
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
        (target.clone(), 0..LEN, 0..20_000_usize).prop_map(|(target, offset, len)| Access::Put {
            target,
            offset,
            len
        }),
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
        (target.clone(), 0..LEN, 0..9000_usize, -3..4).prop_map(
            |(target, offset, count, factor)| Access::Add {
                target,
                offset: offset / 4 * 4,
                count,
                factor
            }
        ),
        (target, 0..LEN, 1..10_usize, 1..10_usize, 0..10_usize).prop_map(
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

impl Access {
    fn target(&self) -> u32 {
        match self {
            Self::Put { target, .. }
            | Self::PutStrided { target, .. }
            | Self::PutList { target, .. }
            | Self::Add { target, .. }
            | Self::AddStrided { target, .. } => *target,
        }
    }

    /// Where bytes go, in the order in which they lie in own memory.
    fn pieces(&self) -> Vec<SegmentPiece> {
        match self {
            Self::Put { offset, len, .. } => vec![SegmentPiece { offset: *offset, len: *len }],
            Self::PutStrided { offset, row, counts, gaps, .. } => {
                let there = strides(*row, counts, gaps);
                // By nested counting, the last dimension outermost.
                let places = (0..counts.iter().product::<usize>()).map(|number| {
                    let (mut rest, mut place) = (number, *offset);
                    for (count, stride) in counts.iter().zip(&there) {
                        place += rest % count * stride;
                        rest /= count;
                    }
                    SegmentPiece { offset: place, len: *row }
                });
                places.collect()
            }
            Self::PutList { pieces, .. } => {
                pieces.iter().map(|&(offset, len)| SegmentPiece { offset, len }).collect()
            }
            Self::Add { offset, count, .. } => {
                vec![SegmentPiece { offset: *offset, len: count * 4 }]
            }
            Self::AddStrided { offset, row, rows, gap, .. } => (0..*rows)
                .map(|number| SegmentPiece {
                    offset: offset + number * (row + gap) * 4,
                    len: row * 4,
                })
                .collect(),
        }
    }

    /// The factor of numbers that are added; none if bytes are put.
    fn factor(&self) -> Option<i32> {
        match self {
            Self::Add { factor, .. } => Some(*factor),
            Self::AddStrided { .. } => Some(1),
            _ => None,
        }
    }

    /// Does it in a model; nothing if it does not fit.
    fn follow(&self, model: &mut [Vec<u8>], seed: usize) -> bool {
        let (memory, pieces) = (&mut model[self.target() as usize], self.pieces());
        if pieces.iter().any(|piece| piece.offset + piece.len > memory.len()) {
            return false;
        }
        let bytes = bytes_of(seed, pieces.iter().map(|piece| piece.len).sum());
        let mut rest = &bytes[..];
        for SegmentPiece { offset, len } in pieces {
            let (now, later) = rest.split_at(len);
            let place = &mut memory[offset..offset + len];
            match self.factor() {
                None => place.copy_from_slice(now),
                Some(factor) => {
                    for (old, new) in place.chunks_mut(4).zip(numbers_of(now)) {
                        let sum = number(old).wrapping_add(new.wrapping_mul(factor));
                        old.copy_from_slice(&sum.to_ne_bytes());
                    }
                }
            }
            rest = later;
        }
        true
    }

    /// Does it with the segment of another rank, and reads back what it has put.
    fn perform(&self, segments: &Segments, seed: usize) -> Result<(), TeamError> {
        let target = self.target();
        let pieces = self.pieces();
        let bytes = bytes_of(seed, pieces.iter().map(|piece| piece.len).sum());
        let mut back = vec![0; bytes.len()];
        match self {
            Self::Put { offset, .. } => {
                segments.put(&bytes, target, *offset)?;
                segments.get(&mut back, target, *offset)?;
            }
            Self::PutStrided { offset, row, counts, gaps, .. } => {
                let there = strides(*row, counts, gaps);
                let here = strides(*row, counts, &vec![0; counts.len()]);
                let region = Strided { row: *row, counts, here: &here, there: &there };
                segments.put_strided(&bytes, target, *offset, &region)?;
                segments.get_strided(&mut back, target, *offset, &region)?;
            }
            Self::PutList { .. } => {
                segments.put_list(&bytes, target, &pieces)?;
                // Pieces may overlap, so that a later one counts.
                segments.get_list(&mut back, target, &pieces)?;
                back.clone_from(&bytes);
            }
            Self::Add { offset, factor, .. } => {
                return segments.accumulate(&numbers_of(&bytes), *factor, target, *offset);
            }
            Self::AddStrided { offset, row, rows, gap, .. } => {
                let (here, there) = ([row * 4], [(row + gap) * 4]);
                let counts = [*rows];
                let region = Strided { row: row * 4, counts: &counts, here: &here, there: &there };
                let numbers = numbers_of(&bytes);
                return segments.accumulate_strided(&numbers, 1, target, *offset, &region);
            }
        }
        assert!(back == bytes, "a get returns the bytes of the put");
        Ok(())
    }
}

fn number(bytes: &[u8]) -> i32 {
    i32::from_ne_bytes(bytes.try_into().unwrap())
}

fn numbers_of(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks(4).map(number).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Ranks take turns, so that every rank finds the bytes of the model in memory.
    #[test]
    fn accesses_in_turn_are_those_of_a_model(
        sizes in prop::collection::vec(prop_oneof![Just(0), 1..LEN], SIZE as usize),
        turns in prop::collection::vec((0..SIZE, access()), 1..25),
        distribution in 0..EVERY_DISTRIBUTION.len(),
    ) {
        spread(SIZE, EVERY_DISTRIBUTION[distribution], |team| {
            let rank = team.rank();
            let segments = team.segments(sizes[rank as usize]).unwrap();
            let mut model: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size]).collect();
            for (seed, (whose, access)) in turns.iter().enumerate() {
                let fits = access.follow(&mut model, seed);
                if *whose == rank {
                    assert_eq!(access.perform(&segments, seed).is_ok(), fits, "{access:?}");
                }
                team.barrier().unwrap();
                for (target, memory) in (0..SIZE).zip(&model) {
                    let mut bytes = vec![0; memory.len()];
                    segments.get(&mut bytes, target, 0).unwrap();
                    assert!(bytes == *memory, "rank {rank} sees another memory of rank {target}");
                }
                team.barrier().unwrap();
            }
        });
    }
}

#[test]
fn nothing_is_lost_when_all_accumulate_at_one_place() {
    EVERY_DISTRIBUTION.into_iter().for_each(accumulate_at_one_place);
}

fn accumulate_at_one_place(machines: Machines) {
    let times = if machines == Machines::One { 2000 } else { 100 };
    spread(8, machines, |team| {
        let segments = team.segments(64).unwrap();
        for _ in 0..times {
            segments.accumulate(&[1.0_f64, 2.0], 1.0, 3, 8).unwrap();
            segments.accumulate(&[1_i64], 3, 3, 32).unwrap();
            segments.accumulate(&[0.5_f32], 2.0, 3, 44).unwrap();
        }
        team.barrier().unwrap();
        let mut bytes = [0; 64];
        segments.get(&mut bytes, 3, 0).unwrap();
        let real = |at: usize| f64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let all = f64::from(8 * times);
        assert_eq!((real(8), real(16)), (all, 2.0 * all));
        assert_eq!(i64::from_ne_bytes(bytes[32..40].try_into().unwrap()), 24 * i64::from(times));
        assert_eq!(f32::from_ne_bytes(bytes[44..48].try_into().unwrap()), all as f32);
    });
}

#[test]
fn each_number_is_drawn_once() {
    EVERY_DISTRIBUTION.into_iter().for_each(draw_numbers);
}

fn draw_numbers(machines: Machines) {
    let each: u64 = if machines == Machines::One { 5000 } else { 100 };
    let drawn = spread(8, machines, |team| {
        let segments = team.segments(16).unwrap();
        let drawn: Vec<u64> = (0..each).map(|_| segments.fetch_add(1_u64, 5, 8).unwrap()).collect();
        team.barrier().unwrap();
        // The last value is passed from hand to hand.
        let swapped = segments.swap(team.rank() as i32 + 1, 5, 0).unwrap();
        team.barrier().unwrap();
        let mut last = [0; 4];
        segments.get(&mut last, 5, 0).unwrap();
        (drawn, swapped, i32::from_ne_bytes(last))
    });
    let mut all: Vec<u64> = drawn.iter().flat_map(|(drawn, ..)| drawn.clone()).collect();
    all.sort_unstable();
    assert!(all == (0..8 * each).collect::<Vec<_>>());
    let mut passed: Vec<i32> = drawn.iter().map(|(_, swapped, _)| *swapped).collect();
    passed.push(drawn[0].2);
    passed.sort_unstable();
    assert_eq!(passed, (0..=8).collect::<Vec<_>>());
}

#[test]
fn a_mutex_lets_one_in_at_a_time() {
    EVERY_DISTRIBUTION.into_iter().for_each(lock_and_unlock);
}

fn lock_and_unlock(machines: Machines) {
    let times: u64 = if machines == Machines::One { 500 } else { 30 };
    spread(6, machines, |team| {
        let mutexes = team.mutexes(team.rank() % 3).unwrap();
        let segments = team.segments(8).unwrap();
        for _ in 0..times {
            let unlock = mutexes.lock(2, 1).unwrap();
            let mut bytes = [0; 8];
            segments.get(&mut bytes, 0, 0).unwrap();
            let next = u64::from_ne_bytes(bytes) + 1;
            segments.put(&next.to_ne_bytes(), 0, 0).unwrap();
            drop(unlock);
        }
        team.barrier().unwrap();
        let mut bytes = [0; 8];
        segments.get(&mut bytes, 0, 0).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 6 * times);
        let error = mutexes.unlock(2, 1).unwrap_err().to_string();
        assert_eq!(error, "mutex 1 of rank 2 is not locked by this process");
        assert!(mutexes.lock(2, 2).is_err() && mutexes.lock(9, 0).is_err());
    });
}

#[test]
fn places_outside_are_refused_and_named() {
    EVERY_DISTRIBUTION.into_iter().for_each(ask_for_places_outside);
}

fn ask_for_places_outside(machines: Machines) {
    spread(2, machines, |team| {
        let segments = team.segments(100 * (team.rank() as usize + 1)).unwrap();
        assert_eq!((segments.len_of(0).unwrap(), segments.len_of(1).unwrap()), (100, 200));
        let text = |error: TeamError| error.to_string();
        let error = text(segments.put(&[0; 6], 0, 95).unwrap_err());
        assert_eq!(error, "6 bytes at byte 95 are not in the segment of rank 0, which has 100");
        let error = text(segments.get(&mut [], 2, 0).unwrap_err());
        assert_eq!(error, "there are 2 ranks, and so no rank 2");
        let error = text(segments.fetch_add(1_u64, 1, 4).unwrap_err());
        assert_eq!(error, "a number of 8 bytes cannot be at byte 4: that is no multiple of 8");
        assert!(segments.put(&[0; 2], 1, usize::MAX).is_err());
        assert!(segments.accumulate(&[1_i32], 1, 0, 97).is_err());
        let piece = SegmentPiece { offset: 0, len: 3 };
        assert!(segments.put_list(&[0; 5], 0, &[piece, piece]).is_err());
        assert!(segments.accumulate_list(&[], 1, 0, &[piece]).is_err());
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
        small.put(b"0123456789", team.rank(), 0).unwrap();
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
        segments.accumulate(&[1_u64], 1, 1, last).unwrap();
        team.barrier().unwrap();
        assert_eq!(segments.fetch_add(0_u64, 1, last).unwrap(), 2);
        assert_eq!(segments.local().len(), 4_000_000_000);
        assert!(!segments.local().is_empty() && !segments.local().pointer().is_null());
    });
}

#[test]
fn memory_that_is_taken_at_once_is_zero_and_shared_by_all() {
    for machines in EVERY_DISTRIBUTION {
        spread(SIZE, machines, |team| {
            let own = 300_000 + team.rank() as usize;
            let segments = team.segments(own).unwrap();
            segments.prefault().unwrap();
            let next = (team.rank() + 1) % SIZE;
            let mut bytes = vec![1; segments.len_of(next).unwrap()];
            segments.get(&mut bytes, next, 0).unwrap();
            assert!(bytes.iter().all(|byte| *byte == 0));
            team.barrier().unwrap();
            let place = 1 + 70_000 * team.rank() as usize;
            segments.fill(&vec![7; 65_537], next, place).unwrap();
            segments.fill(b"!", next, 299_999).unwrap();
            assert!(segments.fill(&[1; 20], next, 299_999).is_err());
            team.barrier().unwrap();
            let mut bytes = vec![0; own];
            segments.get(&mut bytes, team.rank(), 0).unwrap();
            let before = 1 + 70_000 * ((team.rank() + SIZE - 1) % SIZE) as usize;
            assert!(bytes[before..before + 65_537].iter().all(|byte| *byte == 7));
            assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 65_538);
            assert_eq!(bytes[299_999], b'!');
        });
    }
}
