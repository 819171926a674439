//! Arrays over the memory of all ranks, against one vector.
#![expect(clippy::cast_possible_truncation, reason = "the numbers are small")]

use crate::ranks::{EVERY_DISTRIBUTION, Machines, spread, together};
use pario_team::{Array, TeamError};
use proptest::prelude::*;

const SIZE: u32 = 4;
/// Some pages of each rank, and the last one not full.
const LEN: u64 = 9 * 8192 + 77;

/// An access of a rank to the array.
#[derive(Clone, Debug)]
enum Access {
    Put { first: u64, count: usize },
    Scatter { indices: Vec<u64> },
    Add { first: u64, count: usize },
    AddAt { indices: Vec<u64> },
}

fn indices() -> impl Strategy<Value = Vec<u64>> {
    // Some far apart, some neighbours, some twice.
    let some = prop_oneof![
        (0..LEN).prop_map(|index| vec![index]),
        (0..LEN - 20, 1..20_u64).prop_map(|(first, count)| (first..first + count).collect()),
        (0..LEN, 1..4_usize).prop_map(|(index, times)| vec![index; times]),
    ];
    prop::collection::vec(some, 0..20).prop_map(|lists| lists.concat())
}

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![
        (0..LEN, 0..30_000_usize).prop_map(|(first, count)| Access::Put { first, count }),
        indices().prop_map(|indices| Access::Scatter { indices }),
        (0..LEN, 0..30_000_usize).prop_map(|(first, count)| Access::Add { first, count }),
        indices().prop_map(|indices| Access::AddAt { indices }),
    ]
}

fn number(seed: usize, place: usize) -> i64 {
    ((place + 1) * (seed + 3) * 7919 % 100_003) as i64 - 50_000
}

impl Access {
    fn indices(&self) -> Vec<u64> {
        match self {
            Self::Put { first, count } | Self::Add { first, count } => {
                (*first..(*first + *count as u64).min(LEN)).collect()
            }
            Self::Scatter { indices } | Self::AddAt { indices } => indices.clone(),
        }
    }

    fn make(&self, seed: usize, array: &Array<i64>) -> Result<(), TeamError> {
        let indices = self.indices();
        let numbers: Vec<i64> = (0..indices.len()).map(|place| number(seed, place)).collect();
        match self {
            Self::Put { first, .. } => array.put(&numbers, *first),
            Self::Scatter { .. } => array.scatter(&numbers, &indices),
            Self::Add { first, .. } => array.accumulate(&numbers, *first),
            Self::AddAt { .. } => array.accumulate_at(&numbers, &indices),
        }
    }

    fn model(&self, seed: usize, model: &mut [i64]) {
        for (place, index) in self.indices().into_iter().enumerate() {
            let (one, number) = (&mut model[index as usize], number(seed, place));
            match self {
                Self::Put { .. } | Self::Scatter { .. } => *one = number,
                Self::Add { .. } | Self::AddAt { .. } => *one += number,
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// One rank after the other writes, in any order; then all ranks read everything by each call.
    #[test]
    fn accesses_in_turn_are_those_of_a_vector(
        accesses in prop::collection::vec((0..SIZE, access()), 1..12),
        asked in indices(),
        distribution in 0..EVERY_DISTRIBUTION.len(),
    ) {
        let mut model = vec![0; LEN as usize];
        for (seed, (_, access)) in accesses.iter().enumerate() {
            access.model(seed, &mut model);
        }
        let (model, asked) = (&model, &asked);
        spread(SIZE, EVERY_DISTRIBUTION[distribution], |team| {
            let array = team.array::<i64>(LEN).unwrap();
            for (seed, (rank, access)) in accesses.iter().enumerate() {
                if team.rank() == *rank {
                    access.make(seed, &array).unwrap();
                }
                team.barrier().unwrap();
            }
            let mut all = vec![1; LEN as usize];
            array.get(&mut all, 0).unwrap();
            assert!(all == *model);
            let mut some = vec![1; asked.len()];
            array.gather(&mut some, asked).unwrap();
            let right: Vec<i64> = asked.iter().map(|index| model[*index as usize]).collect();
            assert_eq!(some, right);
            for page in array.local() {
                for place in 0..page.len() {
                    // SAFETY: `place` is below the length of the page, and no rank writes any more.
                    let one = unsafe { page.pointer().add(place).read() };
                    let index = page.first() + place as u64;
                    assert_eq!(one, model[index as usize]);
                    assert_eq!(array.owner(index).unwrap(), team.rank());
                }
            }
        });
    }

    /// Elements of any size, put by all at the same time at places of their own.
    #[test]
    fn elements_of_any_size_are_kept(
        element in 1..2000_usize, len in 0..3000_u64, distribution in 0..EVERY_DISTRIBUTION.len(),
    ) {
        spread(3, EVERY_DISTRIBUTION[distribution], |team| {
            let array = team.raw_array(len, element).unwrap();
            let bytes = |index: u64| vec![(index * 31 + 7) as u8; element];
            let own: Vec<u64> = (0..len).filter(|index| index % 3 == u64::from(team.rank())).collect();
            let all: Vec<u8> = own.iter().flat_map(|index| bytes(*index)).collect();
            array.scatter(&all, &own).unwrap();
            team.barrier().unwrap();
            let mut got = vec![0; len as usize * element];
            array.get(&mut got, 0).unwrap();
            assert!(got == (0..len).flat_map(bytes).collect::<Vec<u8>>());
        });
    }
}

#[test]
fn nothing_that_all_add_at_once_is_lost() {
    EVERY_DISTRIBUTION.into_iter().for_each(all_add_at_once);
}

fn all_add_at_once(machines: Machines) {
    let sums = spread(8, machines, |team| {
        let array = team.array::<f64>(100_000).unwrap();
        let mut random = fastrand::Rng::with_seed(u64::from(team.rank()));
        for _ in 0..200 {
            let indices: Vec<u64> = (0..100).map(|_| random.u64(..5) * 20_000).collect();
            array.accumulate_at(&[1.0; 100], &indices).unwrap();
            array.accumulate(&[1.0; 5], 8190).unwrap();
        }
        team.barrier().unwrap();
        let mut all = vec![0.0; 100_000];
        array.get(&mut all, 0).unwrap();
        all.iter().sum::<f64>()
    });
    assert!(sums.iter().all(|sum| *sum == 8.0 * 200.0 * 105.0), "{sums:?}");
}

#[test]
fn a_thousand_million_elements_cost_what_is_used_of_them() {
    EVERY_DISTRIBUTION.into_iter().for_each(use_little);
}

fn use_little(machines: Machines) {
    spread(SIZE, machines, |team| {
        let len = 1_000_000_000_u64;
        let array = team.array::<u32>(len).unwrap();
        let own = u64::from(team.rank()) * 250_000_000 + 7;
        array.put(&[team.rank() + 1; 3], own).unwrap();
        array.accumulate_at(&[1, 2], &[0, len - 1]).unwrap();
        team.barrier().unwrap();
        let indices = [0, 7, 8, 250_000_009, 500_000_007, 750_000_009, 750_000_010, len - 1];
        let mut got = [9; 8];
        array.gather(&mut got, &indices).unwrap();
        assert_eq!(got, [SIZE, 1, 1, 2, 3, 4, 0, 2 * SIZE]);
    });
}

#[test]
fn arrays_come_and_go() {
    EVERY_DISTRIBUTION.into_iter().for_each(come_and_go);
}

fn come_and_go(machines: Machines) {
    spread(SIZE, machines, |team| {
        let first = team.array::<i32>(10).unwrap();
        for round in 0..50_u64 {
            let array = team.array::<u64>(round * 1000 + 1).unwrap();
            array.accumulate(&[round], round * 1000).unwrap();
            first.accumulate_at(&[1], &[9]).unwrap();
            team.barrier().unwrap();
            let mut last = [0];
            array.get(&mut last, round * 1000).unwrap();
            assert_eq!(last, [u64::from(SIZE) * round]);
            // Some are dropped while others still use them.
        }
        team.barrier().unwrap();
        let mut all = [0; 10];
        first.get(&mut all, 0).unwrap();
        assert_eq!(all, [0, 0, 0, 0, 0, 0, 0, 0, 0, 50 * SIZE.cast_signed()]);
    });
}

#[test]
fn what_is_not_there_is_named_and_nothing_is_changed() {
    together(2, |team| {
        let array = team.array::<u64>(1000).unwrap();
        let says = |result: Result<(), TeamError>, what: &str| {
            let text = result.unwrap_err().to_string();
            assert!(text.contains(what), "{text}");
        };
        let none = "the array of 1000 u64 has no element 1000: its indices go from 0 to below 1000";
        says(array.scatter(&[1, 1], &[0, 1000]), none);
        says(array.gather(&mut [0], &[1000]), none);
        says(array.accumulate_at(&[1, 1], &[5, 1000]), none);
        says(array.put(&[1], 1000), none);
        says(array.put(&[1, 2], 999), "has no 2 elements from 999 on: it ends at index 1000");
        says(array.get(&mut [1, 2], u64::MAX), "has no element 18446744073709551615");
        says(array.gather(&mut [0], &[1, 2]), "2 indices, and 1 elements for them");
        says(array.raw().put(&[0; 9], 0), "9 bytes are no whole number of elements");
        says(array.raw().accumulate(&[1_u32], 0), "have 8 bytes, and the numbers to add 4");
        assert!(array.owner(1000).is_err());
        array.get(&mut [], 5000).unwrap();
        let mut all = [1; 1000];
        array.get(&mut all, 0).unwrap();
        assert_eq!(all, [0; 1000]);
        assert!(team.array::<f64>(u64::MAX).is_err());
        assert!(team.raw_array(1, 0).is_err());
        team.barrier().unwrap();
    });
}

#[test]
fn ranks_that_create_different_arrays_get_an_error() {
    together(2, |team| {
        let error = if team.rank() == 0 {
            team.array::<u64>(10).unwrap_err()
        } else {
            team.raw_array(10, 24).unwrap_err()
        };
        let text = error.to_string();
        assert!(
            text.contains("rank 0 called a creation of an array of 10 numbers of type u64"),
            "{text}"
        );
        assert!(
            text.contains("rank 1 called a creation of an array of 10 elements of 24 bytes"),
            "{text}"
        );
        team.barrier().unwrap();
    });
}
