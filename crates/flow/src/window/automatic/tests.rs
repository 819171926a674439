//! The automatic window on pipelines simulated in virtual time.
#![allow(clippy::cast_possible_truncation, reason = "times and windows are small")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::{AutomaticWindow, TripReport};

const MS: u64 = 1_000_000;

/// A stage: threads with a common queue.
struct Stage {
    threads: usize,
    /// The service time of the next token.
    time_ns: Box<dyn FnMut(u64) -> u64>,
    /// The transfer time to this stage.
    wire_ns: u64,
}

struct SimulationResult {
    time_ns: u64,
    most_under_way: usize,
    last_window: usize,
}

fn stage(time_ns: u64) -> Stage {
    Stage { threads: 1, time_ns: Box::new(move |_| time_ns), wire_ns: 0 }
}

/// The queued tokens and the busy threads of a stage.
#[derive(Default)]
struct StageQueue {
    queue: VecDeque<(usize, u64)>,
    busy: usize,
}

/// Sends `tokens` tokens through the stages, as many at once as `control` allows.
fn simulate(
    stages: &mut [Stage],
    tokens: usize,
    control: &mut dyn WindowControl,
) -> SimulationResult {
    simulate_from(0, stages, tokens, control)
}

fn simulate_from(
    start_ns: u64,
    stages: &mut [Stage],
    tokens: usize,
    control: &mut dyn WindowControl,
) -> SimulationResult {
    let mut trips = vec![(TripReport::default(), 0u32); tokens];
    let mut queues: Vec<StageQueue> = stages.iter().map(|_| StageQueue::default()).collect();
    // Tokens that arrive at a stage (false) or leave it (true), in order of time.
    let mut events = BinaryHeap::new();
    let (mut split, mut merged, mut most, mut sequence) = (0, 0, 0, 0u64);
    let mut now = start_ns;
    while merged < tokens {
        while split < tokens && split - merged < control.window() {
            trips[split].0.split_ns = now;
            events.push(Reverse((now + stages[0].wire_ns, sequence, false, 0, split)));
            sequence += 1;
            split += 1;
        }
        if split < tokens {
            control.note_full();
        }
        most = most.max(split - merged);
        let Some(Reverse((time, _, leaves, at, token))) = events.pop() else {
            panic!("tokens are lost");
        };
        now = time;
        if leaves {
            queues[at].busy -= 1;

            if at + 1 < stages.len() {
                events.push(Reverse((
                    now + stages[at + 1].wire_ns,
                    sequence,
                    false,
                    at + 1,
                    token,
                )));
                sequence += 1;
            } else {
                merged += 1;
                control.merged(trips[token].0, now);
            }
        } else {
            queues[at].queue.push_back((token, now));
        }
        while queues[at].busy < stages[at].threads {
            let Some((token, queued)) = queues[at].queue.pop_front() else { break };
            let (trip, hops) = &mut trips[token];
            if now > queued {
                trip.waited_ns += now - queued;
                trip.waits |= 1 << (*hops % 64);
            }
            *hops += 1;
            queues[at].busy += 1;
            let done = now + (stages[at].time_ns)(now);
            events.push(Reverse((done, sequence, true, at, token)));
            sequence += 1;
        }
    }
    SimulationResult {
        time_ns: now - start_ns,
        most_under_way: most,
        last_window: control.window(),
    }
}

trait WindowControl {
    fn window(&self) -> usize;
    fn note_full(&mut self);
    fn merged(&mut self, trip: TripReport, now_ns: u64);
}

impl WindowControl for AutomaticWindow {
    fn window(&self) -> usize {
        self.window()
    }
    fn note_full(&mut self) {
        self.note_full();
    }
    fn merged(&mut self, trip: TripReport, now_ns: u64) {
        self.merged(trip, now_ns);
    }
}

/// Always the same window.
impl WindowControl for usize {
    fn window(&self) -> usize {
        *self
    }
    fn note_full(&mut self) {}
    fn merged(&mut self, _: TripReport, _: u64) {}
}

fn five_stages() -> Vec<Stage> {
    [5, 16, 20, 10, 15].into_iter().map(|ms| stage(ms * MS)).collect()
}

#[test]
fn the_simulation_agrees_with_the_equations() {
    let times: Vec<u64> = [1, 2, 3, 4, 10]
        .map(|mut window| simulate(&mut five_stages(), 200, &mut window).time_ns / MS)
        .into();
    assert_eq!(times, [200 * 66, 20 + 100 * 66, 20 + 67 * 66, 66 + 199 * 20, 66 + 199 * 20]);
}

#[test]
fn the_five_stages_get_four_tokens() {
    let mut control = AutomaticWindow::new(256);
    let outcome = simulate(&mut five_stages(), 200, &mut control);
    let best = (66 + 199 * 20) * MS;
    assert_eq!(outcome.last_window, 4);
    assert!(outcome.most_under_way <= 5, "{} under way", outcome.most_under_way);
    assert!(outcome.time_ns as f64 <= best as f64 * 1.01, "{} ms", outcome.time_ns / MS);
}

#[test]
fn a_serial_stage_behind_a_long_wire_gets_the_tokens_that_fill_the_wire() {
    let mut stages = vec![stage(MS / 10), stage(MS)];
    stages[1].wire_ns = 30 * MS;
    let mut control = AutomaticWindow::new(256);
    let outcome = simulate(&mut stages, 5_000, &mut control);
    assert!((32..=36).contains(&outcome.last_window), "window {}", outcome.last_window);
    assert!(outcome.time_ns < 5_300 * MS, "{} ms", outcome.time_ns / MS);
}

#[test]
fn a_pool_gets_a_token_for_each_of_its_threads() {
    let mut stages = vec![stage(MS / 100), stage(10 * MS)];
    stages[1].threads = 12;
    let mut control = AutomaticWindow::new(256);
    let outcome = simulate(&mut stages, 10_000, &mut control);
    assert!((12..=16).contains(&outcome.last_window), "window {}", outcome.last_window);
    assert!(outcome.time_ns < 10_000 / 12 * 10 * MS * 102 / 100, "{} ms", outcome.time_ns / MS);
}

#[test]
fn stages_of_varying_length_are_kept_busy() {
    for seed in 0..10 {
        let varying = |mean_ms: u64, seed: u64| {
            let mut random = fastrand::Rng::with_seed(seed);
            // Exponentially distributed: as irregular as service times usually get.
            let time = move |_| (-(1.0 - random.f64()).ln() * (mean_ms * MS) as f64) as u64;
            Stage { threads: 1, time_ns: Box::new(time), wire_ns: 0 }
        };
        let stages = || -> Vec<Stage> {
            (0u64..).zip([5, 16, 20, 10, 15]).map(|(at, ms)| varying(ms, seed * 10 + at)).collect()
        };
        let mut control = AutomaticWindow::new(256);
        let outcome = simulate(&mut stages(), 5_000, &mut control);
        let best = simulate(&mut stages(), 5_000, &mut 256).time_ns;
        let ratio = best as f64 / outcome.time_ns as f64;
        assert!(ratio > 0.9, "seed {seed}: {ratio:.3} with window {}", outcome.last_window);
        assert!(outcome.most_under_way <= 64, "seed {seed}: {}", outcome.most_under_way);
    }
}

#[test]
fn tokens_that_overtake_each_other_change_nothing() {
    // A disk that answers in any order: eight requests at once, each between 1 and 19 ms.
    let stages = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let disk = move |_| random.u64(MS..19 * MS);
        vec![stage(MS / 10), Stage { threads: 8, time_ns: Box::new(disk), wire_ns: 0 }, stage(MS)]
    };
    for seed in 0..5 {
        let mut control = AutomaticWindow::new(256);
        let outcome = simulate(&mut stages(seed), 5_000, &mut control);
        let best = simulate(&mut stages(seed), 5_000, &mut 256).time_ns;
        let ratio = best as f64 / outcome.time_ns as f64;
        assert!(ratio > 0.95, "seed {seed}: {ratio:.3} with window {}", outcome.last_window);
        assert!(outcome.most_under_way <= 40, "seed {seed}: {}", outcome.most_under_way);
    }
}

#[test]
fn the_window_follows_when_conditions_change() {
    // The second of two equal stages is ten times as fast after ten seconds: two tokens are enough
    // then, and after twenty seconds the wire to it becomes long.
    let mut stages = vec![stage(2 * MS), stage(0)];
    stages[1].time_ns = Box::new(|now| if now < 10_000 * MS { 20 * MS } else { 2 * MS });
    let mut control = AutomaticWindow::new(256);
    simulate(&mut stages, 8_000, &mut control);
    assert!(control.window() <= 3, "window {}", control.window());

    stages[1].wire_ns = 50 * MS;
    let outcome = simulate_from(1_000_000 * MS, &mut stages, 8_000, &mut control);
    assert!(outcome.last_window >= 27, "window {}", outcome.last_window);
    stages[1].wire_ns = 0;
    let outcome = simulate_from(2_000_000 * MS, &mut stages, 8_000, &mut control);
    assert!(outcome.last_window <= 4, "window {}", outcome.last_window);
}

#[test]
fn a_slow_split_needs_no_window() {
    // The window never holds a token back, so it does not change.
    let mut control = AutomaticWindow::new(256);
    for token in 0..1_000u64 {
        control
            .merged(TripReport { split_ns: token * MS, waited_ns: 0, waits: 0 }, token * MS + MS);
    }
    assert_eq!(control.window(), AutomaticWindow::new(256).window());
}

#[test]
fn the_limit_holds() {
    let mut stages = vec![stage(MS)];
    stages[0].wire_ns = 1_000 * MS;
    let mut control = AutomaticWindow::new(7);
    let outcome = simulate(&mut stages, 2_000, &mut control);
    assert_eq!((outcome.most_under_way, outcome.last_window), (7, 7));
}

#[test]
fn short_trips_climb_to_what_brings_more_through() {
    // Waking costs twenty times what the stage does, and is paid once for all tokens under way.
    let rate = |window: usize| window as f64 / (20.0 + window as f64);
    let mut control = AutomaticWindow::new(256);
    let (mut now, mut tokens) = (0.0, 0u64);
    while tokens < 200_000 {
        control.note_full();
        now += 1_000.0 / rate(control.window());
        tokens += 1;
        let now_ns = now as u64;
        control.merged(
            TripReport { split_ns: now_ns.saturating_sub(50_000), ..TripReport::default() },
            now_ns,
        );
    }
    let share = rate(control.window());
    assert!(share > 0.8, "{share:.2} with window {}", control.window());
    assert!(control.window() < 256, "no more than it is worth: {}", control.window());
}
