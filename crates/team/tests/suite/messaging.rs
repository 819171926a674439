//! Messages between ranks, and groups of ranks, on one machine and on several.

#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use crate::ranks::{EVERY_DISTRIBUTION, Machines, spread, together};
use pario_team::{CollectiveCall, Message, Reduction, TeamError};

const SIZE: u32 = 5;

/// Bytes that differ by rank and number.
fn bytes_of(rank: u32, number: u32, len: usize) -> Vec<u8> {
    (0..len).map(|place| (place as u32 * 31 + rank * 57 + number) as u8).collect()
}

#[test]
fn messages_of_all_sizes_arrive_in_order() {
    for machines in EVERY_DISTRIBUTION {
        spread(SIZE, machines, |team| {
            let messaging = team.messaging().unwrap();
            let own = team.rank();
            let lens = [0, 1, 1000, 100_000, 2_500_000];
            for (number, len) in (0..).zip(lens) {
                let bytes = bytes_of(own, number, len);
                (0..SIZE).for_each(|to| messaging.send(&bytes, to, 7).unwrap());
                messaging.send(&bytes, own, u64::from(number)).unwrap();
            }
            // In another order than they were sent.
            for from in (0..SIZE).rev() {
                for (number, len) in (0..).zip(lens) {
                    let message = messaging.receive(Some(from), 7).unwrap();
                    assert!(message.bytes == bytes_of(from, number, len), "{machines:?}");
                    assert_eq!(message.from, from);
                }
            }
            for (number, len) in (0..5_u32).zip(lens).rev() {
                let message = messaging.receive(None, u64::from(number)).unwrap();
                let bytes = bytes_of(own, number, len);
                assert_eq!(message, Message { from: own, bytes, queued: 0 });
            }
            team.barrier().unwrap();
        });
    }
}

#[test]
fn senders_wait_until_there_is_room() {
    together(2, |team| {
        let messaging = team.messaging().unwrap();
        let bytes = bytes_of(1, 0, 1 << 20);
        // More than a mailbox holds.
        if team.rank() == 1 {
            (0..40).for_each(|_| messaging.send(&bytes, 0, 1).unwrap());
        } else {
            assert!((0..40).all(|_| messaging.receive(None, 1).unwrap().bytes == bytes));
        }
        team.barrier().unwrap();
    });
}

#[test]
fn groups_make_collective_calls_without_the_others() {
    for machines in EVERY_DISTRIBUTION {
        spread(SIZE, machines, |team| {
            let messaging = team.messaging().unwrap();
            let own = team.rank();
            // Rank 2 is in both, rank 1 in none.
            for members in [vec![4, 0, 2], vec![2, 3]] {
                if !members.contains(&own) {
                    let error = messaging.group(&members).unwrap_err();
                    assert!(matches!(error, TeamError::Invalid(_)), "{error}");
                    continue;
                }
                let group = messaging.group(&members).unwrap();
                assert_eq!(members[group.rank() as usize], own);
                assert_eq!((group.members(), group.size()), (&members[..], members.len() as u32));
                group.barrier().unwrap();
                let mut bytes =
                    if group.rank() == 1 { bytes_of(9, 9, 200_000) } else { vec![0; 200_000] };
                group.broadcast(1, &mut bytes).unwrap();
                assert!(bytes == bytes_of(9, 9, 200_000));
                let len = |rank: u32| rank as usize * 40_000;
                let all = group.gather(&bytes_of(own, 1, len(own))).unwrap();
                for (member, bytes) in members.iter().zip(all) {
                    assert!(bytes == bytes_of(*member, 1, len(*member)));
                }
                let mut numbers: Vec<i64> =
                    (0..20_000).map(|place| place * i64::from(own)).collect();
                group.reduce(Reduction::Sum, &mut numbers).unwrap();
                let sum: i64 = members.iter().map(|member| i64::from(*member)).sum();
                assert!((0..).zip(numbers).all(|(place, number)| number == place * sum));
            }
            team.barrier().unwrap();
        });
    }
}

#[test]
fn groups_have_memory_of_their_own() {
    for machines in EVERY_DISTRIBUTION {
        spread(SIZE, machines, |team| {
            let messaging = team.messaging().unwrap();
            let own = team.rank();
            let members = [3, 1, 4];
            if members.contains(&own) {
                let group = messaging.group(&members).unwrap();
                for turn in 0..3 {
                    let segments = group.segments(100 * own as usize).unwrap();
                    for member in members {
                        assert_eq!(segments.len_of(member).unwrap(), 100 * member as usize);
                        segments.put(&[own as u8 + turn], member, own as usize).unwrap();
                        segments.fetch_add(u64::from(own), member, 8).unwrap();
                    }
                    assert_eq!(segments.len_of(0).unwrap(), 0);
                    assert!(
                        segments.put(b"x", 0, 0).is_err() && segments.put(b"x", 1, 100).is_err()
                    );
                    group.barrier().unwrap();
                    for member in members {
                        let mut bytes = [0; 16];
                        segments.get(&mut bytes, member, 0).unwrap();
                        assert_eq!((bytes[1], bytes[3], bytes[4]), (1 + turn, 3 + turn, 4 + turn));
                        assert_eq!(bytes[8], 1 + 3 + 4);
                    }
                    group.barrier().unwrap();
                }
                let error = group.segments(if own == 1 { usize::MAX / 4 } else { 8 }).unwrap_err();
                assert!(matches!(error, TeamError::Memory(_)), "{error}");
                group.barrier().unwrap();
            }
            // All ranks still allocate together.
            team.segments(8).unwrap().put(b"together", 0, 0).unwrap();
            team.barrier().unwrap();
        });
    }
}

#[test]
fn ranks_of_a_group_that_disagree_are_told_who_called_what() {
    together(3, |team| {
        let messaging = team.messaging().unwrap();
        if team.rank() > 0 {
            let group = messaging.group(&[2, 1]).unwrap();
            let error = match team.rank() {
                1 => group.barrier().unwrap_err(),
                _ => group.gather(b"two").unwrap_err(),
            };
            let calls =
                vec![(2, CollectiveCall::Gather { bytes: 3 }), (1, CollectiveCall::Barrier)];
            assert_eq!(error, TeamError::GroupDisagree { job: team.job().to_owned(), calls });
            assert!(error.to_string().contains("rank 1 called a barrier"), "{error}");
            group.barrier().unwrap();
        }
        team.barrier().unwrap();
    });
}

#[test]
fn every_reduction_is_what_one_process_would_compute() {
    spread(4, Machines::Of(2), |team| {
        let own = [3_i32, -8, 5, -2][team.rank() as usize];
        let expected = [
            (Reduction::Sum, -2),
            (Reduction::Product, 240),
            (Reduction::Smallest, -8),
            (Reduction::Largest, 5),
            (Reduction::SmallestMagnitude, 2),
            (Reduction::LargestMagnitude, 8),
            (Reduction::BitOr, 3 | -8 | 5 | -2),
        ];
        for (reduction, result) in expected {
            let mut whole = [own];
            team.reduce(reduction, &mut whole).unwrap();
            assert_eq!(whole, [result], "{reduction}");
            let mut real = [f64::from(own)];
            match team.reduce(reduction, &mut real) {
                Ok(()) => assert_eq!(real, [f64::from(result)], "{reduction}"),
                Err(error) => {
                    assert_eq!(reduction, Reduction::BitOr, "{error}");
                    assert!(error.to_string().contains("f64 have no bitwise or"), "{error}");
                }
            }
        }
        let mut lowest = [1_u64 << team.rank()];
        team.reduce(Reduction::BitOr, &mut lowest).unwrap();
        assert_eq!(lowest, [15]);
    });
}

#[test]
fn a_rank_that_has_left_is_named_to_those_that_wait_for_it() {
    for machines in [Machines::One, Machines::Of(1)] {
        spread(3, machines, |team| {
            let messaging = team.messaging().unwrap();
            let group = (team.rank() > 0).then(|| messaging.group(&[1, 2]).unwrap());
            if team.rank() == 2 {
                messaging.send(b"the last one", 0, 1).unwrap();
                return;
            }
            let error = match group {
                Some(group) => group.barrier().unwrap_err(),
                None => {
                    assert_eq!(messaging.receive(Some(2), 1).unwrap().bytes, b"the last one");
                    messaging.receive(Some(2), 1).unwrap_err()
                }
            };
            assert!(matches!(error, TeamError::Left { rank: 2, .. }), "{machines:?}: {error}");
        });
    }
}
