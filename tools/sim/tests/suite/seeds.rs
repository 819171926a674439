//! A fixed set of seeds; `cargo run --release -p pario-sim` runs any number.

use pario_sim::{CoordinationKind, FileRun, OpenersRun, TeamRun, run, run_openers, run_team};

fn run_all(kind: CoordinationKind) {
    let mut all = FileRun::default();
    for seed in 0..3_000 {
        all += run(seed, kind).unwrap_or_else(|error| panic!("{error:#}"));
    }
    assert!(all.steps > 300_000 && all.failures > 1_000 && all.bytes_read > 300_000, "{all:?}");
    assert!(all.lost > 100 && all.restarts > 100, "{all:?}");
}

#[test]
fn positions_and_contents_are_as_the_model_says_and_no_rank_waits_for_ever_at_a_node() {
    run_all(CoordinationKind::Node);
}

#[test]
fn positions_and_contents_are_as_the_model_says_and_no_rank_waits_for_ever_at_a_table() {
    run_all(CoordinationKind::Table);
}

#[test]
fn machines_of_a_team_meet_and_end_as_the_model_says_and_no_rank_waits_for_ever() {
    let mut all = TeamRun::default();
    for seed in 0..6_000 {
        all += run_team(seed).unwrap_or_else(|error| panic!("{error:#}"));
    }
    assert!(all.steps > 1_000_000 && all.rounds > 40_000 && all.failures > 10_000, "{all:?}");
    assert!(
        all.ranks_lost > 500 && all.machines_lost > 300 && all.coordinators_lost > 100,
        "{all:?}"
    );
    assert!(all.cuts > 100 && all.refused > 500, "{all:?}");
    assert!(all.locks > 10_000 && all.lock_failures > 20, "{all:?}");
}

#[test]
fn accesses_of_unrelated_processes_do_not_mix_and_none_waits_for_ever() {
    let mut all = OpenersRun::default();
    for seed in 0..20_000 {
        all += run_openers(seed).unwrap_or_else(|error| panic!("{error:#}"));
    }
    assert!(all.accesses > 300_000 && all.delegated > 50_000 && all.recalls > 10_000, "{all:?}");
    assert!(all.killed > 1_000 && all.stopped > 1_000 && all.restarts > 1_000, "{all:?}");
    assert!(all.resets > 1_000, "{all:?}");
}

#[test]
fn a_seed_gives_the_same_run() {
    for (seed, kind) in
        (0..50).flat_map(|seed| [(seed, CoordinationKind::Node), (seed, CoordinationKind::Table)])
    {
        assert_eq!(run(seed, kind).unwrap(), run(seed, kind).unwrap());
    }
    for seed in 0..50 {
        assert_eq!(run_team(seed).unwrap(), run_team(seed).unwrap());
        assert_eq!(run_openers(seed).unwrap(), run_openers(seed).unwrap());
    }
}
