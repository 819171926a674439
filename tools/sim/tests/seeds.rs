//! Some seeds, every time; `cargo run --release -p pario-sim` runs as many as are wanted.

use pario_sim::{Run, run};

#[test]
fn positions_are_as_the_model_says_and_nobody_waits_for_ever() {
    let mut all = Run::default();
    for seed in 0..5_000 {
        let one = run(seed).unwrap_or_else(|error| panic!("{error:#}"));
        all.steps += one.steps;
        all.failures += one.failures;
        all.lost += one.lost;
    }
    assert!(all.steps > 100_000 && all.lost > 100 && all.failures > 1_000, "{all:?}");
}

#[test]
fn a_seed_gives_the_same_run() {
    assert_eq!(run(77).unwrap(), run(77).unwrap());
}
