//! Some seeds, every time; `cargo run --release -p pario-sim` runs as many as are wanted.

use pario_sim::{Run, Where, run};

fn run_all(place: Where) {
    let mut all = Run::default();
    for seed in 0..5_000 {
        let one = run(seed, place).unwrap_or_else(|error| panic!("{error:#}"));
        all.steps += one.steps;
        all.failures += one.failures;
        all.lost += one.lost;
    }
    assert!(all.steps > 100_000 && all.lost > 100 && all.failures > 1_000, "{all:?}");
}

#[test]
fn positions_are_as_the_model_says_and_nobody_waits_for_ever_at_a_node() {
    run_all(Where::Node);
}

#[test]
fn positions_are_as_the_model_says_and_nobody_waits_for_ever_at_a_table() {
    run_all(Where::Table);
}

#[test]
fn a_seed_gives_the_same_run() {
    for place in [Where::Node, Where::Table] {
        assert_eq!(run(77, place).unwrap(), run(77, place).unwrap());
    }
}
