//! What a pipeline with a window should take.
//!
//! For a pipeline whose stages have threads of their own, with N tokens of which at most w are
//! under way, a round trip R (all stages one after the other) and a slowest stage S, the thesis on
//! CAP gives
//!
//! - the serial time `N R` for w = 1 (equation 3-3),
//! - `(w - 1) S + N/w R` as long as the window is too small to keep the slowest stage busy
//!   (3-4 and 3-5),
//! - `R + (N - 1) S` once it does, `(w - 1) S ≥ R - S` (3-2 and 3-6 to 3-8).
//!
//! All of them follow from two rules: a stage takes the next token when it is done with the last
//! one and the stage before is done with the next, and a token enters when the one w before it has
//! left. [`execution_time`] applies the rules, and so holds for any window and any number of
//! tokens. It differs from 3-5 where N is not a multiple of w: that equation counts the last, partly
//! filled round as a full one (0.2 % of its example). The figures leave the communication out of
//! what they predict, so that it counts against us.

use std::time::Duration;

/// The time until the last token has left a pipeline. Behind each stage a token needs
/// `communication`, during which the stage takes the next one.
pub fn execution_time(
    stages: &[Duration],
    communication: Duration,
    tokens: usize,
    window: usize,
) -> Duration {
    assert!(window > 0, "nothing goes through a window of zero");
    // The time at which each stage is done with its latest token.
    let mut done = vec![Duration::ZERO; stages.len()];
    // The time at which each token has left.
    let mut left: Vec<Duration> = Vec::with_capacity(tokens);
    for token in 0..tokens {
        let mut at = token.checked_sub(window).map_or(Duration::ZERO, |earlier| left[earlier]);
        for (stage, done) in stages.iter().zip(&mut done) {
            *done = at.max(*done) + *stage;
            at = *done + communication;
        }
        left.push(at);
    }
    left.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_give_the_equations_of_the_thesis() {
        let stages = [50, 160, 200, 100, 150].map(Duration::from_millis);
        let communication = Duration::from_micros(530);
        let predicted_ms = |window| {
            let time = execution_time(&stages, communication, 1000, window);
            (time.as_secs_f64() * 1e3).round()
        };
        assert_eq!(predicted_ms(1), 662_650.0); // 3-3
        assert_eq!(predicted_ms(2), 331_525.0); // 3-4
        // Equation 3-5 counts the last round as full, but it has one token, which nothing delays.
        assert_eq!(predicted_ms(3), 221_325.0);
        assert_eq!(predicted_ms(4), 200_463.0); // 3-6
        assert_eq!(predicted_ms(10), 200_463.0);
    }

    #[test]
    fn the_scaled_pipeline_gives_the_same_equations() {
        let stages = [5, 16, 20, 10, 15].map(Duration::from_millis);
        let predicted = |window| execution_time(&stages, Duration::ZERO, 200, window).as_millis();
        let (round_trip, slowest) = (66, 20);
        assert_eq!(predicted(1), 200 * round_trip);
        assert_eq!(predicted(2), slowest + 100 * round_trip);
        // 66 full rounds and one with two tokens.
        assert_eq!(predicted(3), slowest + 67 * round_trip);
        for saturated in [4, 10, 200, 1000] {
            assert_eq!(predicted(saturated), round_trip + 199 * slowest);
        }
    }

    #[test]
    fn one_stage_and_no_tokens_are_fine() {
        let second = Duration::from_secs(1);
        let predicted =
            |stages: &[Duration], tokens| execution_time(stages, Duration::ZERO, tokens, 3);
        assert_eq!(predicted(&[second], 7), 7 * second);
        assert_eq!(predicted(&[second], 0), Duration::ZERO);
        assert_eq!(predicted(&[], 7), Duration::ZERO);
    }
}
