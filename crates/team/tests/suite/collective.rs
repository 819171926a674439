//! Collective calls, against what one process would compute alone.

#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use std::time::{Duration, Instant};

use crate::ranks::{EVERY_DISTRIBUTION, Machines, new_job, spread, together};
use pario_team::{CollectiveCall, Reduction, Team, TeamError, TeamOptions};
use proptest::prelude::*;

/// A collective call with its data.
#[derive(Clone, Debug)]
enum Step {
    Barrier,
    Broadcast { root: u32, bytes: usize },
    Gather { lens: Vec<usize> },
    Sum { count: usize },
    Largest { count: usize },
}

const SIZE: u32 = 5;

fn step() -> impl Strategy<Value = Step> {
    // Around what fits into one round as well.
    let len =
        prop_oneof![Just(0_usize), 1..300_usize, (65_530..65_540_usize), (131_000..131_100_usize)];
    prop_oneof![
        Just(Step::Barrier),
        (0..SIZE, len.clone()).prop_map(|(root, bytes)| Step::Broadcast { root, bytes }),
        prop::collection::vec(len, SIZE as usize).prop_map(|lens| Step::Gather { lens }),
        (0..20_000_usize).prop_map(|count| Step::Sum { count }),
        (0..20_000_usize).prop_map(|count| Step::Largest { count }),
    ]
}

/// Bytes that differ by rank and place.
fn bytes_of(rank: u32, len: usize) -> Vec<u8> {
    (0..len).map(|place| (place.wrapping_mul(31) as u8) ^ (rank as u8 * 57)).collect()
}

fn number_of(rank: u32, place: usize) -> i64 {
    (place as i64 * 7919 + i64::from(rank) * 104_729) % 1000 - 500
}

fn run(team: &Team, step: &Step) {
    let rank = team.rank();
    match step {
        Step::Barrier => team.barrier().unwrap(),
        Step::Broadcast { root, bytes } => {
            let mut ours = if rank == *root { bytes_of(rank, *bytes) } else { vec![0; *bytes] };
            team.broadcast(*root, &mut ours).unwrap();
            assert!(ours == bytes_of(*root, *bytes));
        }
        Step::Gather { lens } => {
            let all = team.gather(&bytes_of(rank, lens[rank as usize])).unwrap();
            for (other, (bytes, len)) in all.iter().zip(lens).enumerate() {
                assert!(*bytes == bytes_of(other as u32, *len));
            }
        }
        Step::Sum { count } => {
            let mut numbers: Vec<i64> = (0..*count).map(|place| number_of(rank, place)).collect();
            team.reduce(Reduction::Sum, &mut numbers).unwrap();
            for (place, number) in numbers.iter().enumerate() {
                assert_eq!(*number, (0..SIZE).map(|rank| number_of(rank, place)).sum::<i64>());
            }
        }
        Step::Largest { count } => {
            let mut numbers: Vec<f64> =
                (0..*count).map(|place| number_of(rank, place) as f64).collect();
            team.reduce(Reduction::Largest, &mut numbers).unwrap();
            for (place, number) in numbers.iter().enumerate() {
                let largest = (0..SIZE).map(|rank| number_of(rank, place)).max().unwrap();
                assert_eq!(*number, largest as f64);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn calls_one_after_the_other_give_what_they_should(
        steps in prop::collection::vec(step(), 1..12),
        distribution in 0..EVERY_DISTRIBUTION.len(),
    ) {
        let machines = EVERY_DISTRIBUTION[distribution];
        spread(SIZE, machines, |team| steps.iter().for_each(|step| run(&team, step)));
    }
}

#[test]
fn sixty_four_ranks_meet_a_thousand_times() {
    let sums = together(64, |team| {
        let mut sum = 0;
        for round in 0..1000_u64 {
            let mut numbers = [round + u64::from(team.rank())];
            team.reduce(Reduction::Sum, &mut numbers).unwrap();
            sum += numbers[0];
        }
        sum
    });
    let right = (0..1000_u64).map(|round| 64 * round + 63 * 32).sum::<u64>();
    assert!(sums.iter().all(|sum| *sum == right));
}

#[test]
fn ranks_that_disagree_learn_who_called_what_and_go_on() {
    EVERY_DISTRIBUTION.into_iter().for_each(disagree);
}

fn disagree(machines: Machines) {
    let errors = spread(3, machines, |team| {
        let error = if team.rank() == 1 {
            team.barrier().unwrap_err()
        } else {
            team.broadcast(2, &mut [0; 5]).unwrap_err()
        };
        team.barrier().unwrap();
        error
    });
    let broadcast = CollectiveCall::Broadcast { root: 2, bytes: 5 };
    for error in errors {
        let TeamError::Disagree { calls, .. } = error else { panic!("{error}") };
        assert_eq!(calls, [broadcast, CollectiveCall::Barrier, broadcast]);
    }
    // No rank may give another number of bytes, or of numbers.
    spread(2, machines, |team| {
        let mut bytes = vec![0; 3 + team.rank() as usize];
        let error = team.broadcast(0, &mut bytes).unwrap_err();
        assert!(matches!(error, TeamError::Disagree { .. }), "{error}");
        let mut numbers = vec![0_i32; 1 + team.rank() as usize];
        let error = team.reduce(Reduction::Sum, &mut numbers).unwrap_err().to_string();
        assert!(error.contains("sum of 2 numbers of type i32"), "{error}");
    });
}

/// A collective call, as its ranks make it.
type RankCall = fn(&Team) -> Result<(), TeamError>;

/// Every collective call.
const EVERY_CALL: [RankCall; 9] = [
    |team| team.barrier(),
    |team| team.broadcast(0, &mut [0; 5]),
    |team| team.broadcast(1, &mut vec![0; 200_000]),
    |team| team.gather(&vec![1; 200_000]).map(drop),
    |team| team.reduce(Reduction::Sum, &mut [1_i32; 3]),
    |team| team.segments(100).map(drop),
    |team| team.mutexes(2).map(drop),
    |team| team.raw_array(1000, 8).map(drop),
    |team| team.callback(|_| Ok(Vec::new())).map(drop),
];

#[test]
fn a_call_that_one_rank_cannot_make_fails_on_all_and_the_next_one_works() {
    for machines in EVERY_DISTRIBUTION {
        spread(3, machines, |team| {
            for (number, call) in EVERY_CALL.iter().enumerate() {
                let failing = number as u32 % 3;
                let why = format!("argument {number} is wrong");
                let error = if team.rank() == failing {
                    team.fail_call(&why)
                } else {
                    call(&team).unwrap_err()
                };
                let job = team.job().to_owned();
                assert_eq!(error, TeamError::RankFailed { job, rank: failing, why });
                call(&team).unwrap();
            }
        });
    }
}

#[test]
fn a_broadcast_from_a_rank_that_does_not_exist_fails_on_all() {
    let errors = together(3, |team| {
        let root = if team.rank() == 2 { 7 } else { 0 };
        let error = team.broadcast(root, &mut [0; 5]).unwrap_err();
        team.barrier().unwrap();
        error.to_string()
    });
    assert!(errors.iter().all(|error| error.contains("a broadcast from rank 7")), "{errors:?}");
    assert!(errors[0].contains("rank 2 could not make the call"), "{errors:?}");
}

#[test]
fn a_wait_for_a_rank_that_has_left_fails() {
    for machines in EVERY_DISTRIBUTION {
        let errors =
            spread(3, machines, |team| (team.rank() != 1).then(|| team.barrier().unwrap_err()));
        for error in errors.into_iter().flatten() {
            assert!(matches!(error, TeamError::Left { rank: 1, .. }), "{machines:?}: {error}");
        }
    }
}

#[test]
fn a_name_can_be_used_again_as_soon_as_the_last_team_has_gone() {
    let job = &new_job();
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for rank in 0..3 {
                scope.spawn(move || Team::meet(job, 3, rank).unwrap().barrier().unwrap());
            }
        });
    }
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let options = &TeamOptions { timeout: Duration::from_millis(300), ..TeamOptions::default() };
    let job = &new_job();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for rank in [0, 2] {
            scope.spawn(move || {
                let error = Team::meet_with(job, 4, rank, options).unwrap_err().to_string();
                assert!(error.contains("ranks 1, 3 are of 4 not here after 0 s"), "{error}");
            });
        }
    });
    let error = Team::meet_with(&new_job(), 2, 1, options).unwrap_err().to_string();
    assert!(error.contains("rank 0 is of 2 not here"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn what_cannot_be_a_team_is_refused() {
    let error = Team::meet("x", 2, 2).unwrap_err().to_string();
    assert!(error.contains("rank 2 of 2 is not possible"), "{error}");
    // Both say how many there are, and it is not the same.
    let job = &new_job();
    let options = &TeamOptions { timeout: Duration::from_secs(2), ..TeamOptions::default() };
    std::thread::scope(|scope| {
        scope.spawn(move || Team::meet_with(job, 2, 0, options).unwrap_err());
        scope.spawn(move || {
            let error = Team::meet_with(job, 3, 1, options).unwrap_err().to_string();
            assert!(error.contains("says that the job has 2 processes"), "{error}");
        });
    });
    let alone = Team::meet(&new_job(), 1, 0).unwrap();
    assert!(alone.broadcast(1, &mut []).is_err());
}

/// The last job of this name may be about to end, so that a process waits for its rank at first.
#[test]
fn a_second_process_with_a_rank_learns_which_process_has_it() {
    let job = &new_job();
    let (here, over) = (&std::sync::Barrier::new(3), &std::sync::Barrier::new(3));
    std::thread::scope(|scope| {
        for rank in 0..2 {
            scope.spawn(move || {
                let team = Team::meet(job, 2, rank).unwrap();
                here.wait();
                over.wait();
                drop(team);
            });
        }
        here.wait();
        let options = TeamOptions { timeout: Duration::from_millis(50), multi_machine: None };
        let told = [0, 1].map(|rank| Team::meet_with(job, 2, rank, &options).map(drop));
        // The ranks go on before anything is judged: they must not be left waiting.
        over.wait();
        for (rank, told) in told.into_iter().enumerate() {
            let told = told.unwrap_err().to_string();
            let process = format!("process {} (", std::process::id());
            assert_eq!(told.matches(&process).count(), 2, "{told}");
            for part in [&format!("cannot be rank {rank} of job {job}: "), " on host ", "PARIO_JOB"]
            {
                assert!(told.contains(part), "{told}");
            }
        }
    });
}
