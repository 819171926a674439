//! The five-stage pipeline of the thesis on CAP, section 3.10, at a tenth of its times: each window
//! against its predicted time, and the automatic window against the best fixed one.
//!
//! The stages wait instead of computing, because there are more of them than cores. The accuracy of
//! the waits is measured first. The `ratio` of a fixed window is its closeness to the prediction,
//! from either side: a window that lets more tokens through than it should is as wrong as a slow
//! one. The predictions need no turns; each turn runs all windows, in alternating order.

use anyhow::Result;
use pario_flow::Window;

use super::prediction::execution_time;
use super::stages::{Pipelines, STAGES};
use super::waits::lateness_us;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::Comparison;
use std::time::Duration;

const FIXED: [usize; 5] = [1, 2, 3, 4, 10];
/// Within 1 % of the prediction.
const GOAL: f64 = 0.99;
/// Within 2 % of the best fixed window.
const GOAL_AUTOMATIC: f64 = 0.98;
/// The limit of tokens under way with the automatic window.
const MOST_UNDER_WAY: f64 = 8.0;

/// Measures all figures that begin with `pipeline`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let (tokens, turns) = setting.choose((200, 5), (60, 1));
    let (middle, most) = lateness_us(&STAGES, 20);
    eprintln!("  timed waits end {middle:.1} us late in the median, {most:.0} us at most");

    let mut windows: Vec<Window> = FIXED.map(Window::fixed).into();
    windows.push(Window::automatic());
    let automatic = FIXED.len();
    let pipelines = Pipelines::start(&windows[..automatic])?;
    pipelines.run(0, 2)?;

    let mut seconds = vec![Vec::with_capacity(turns); windows.len()];
    let mut under_way: Vec<f64> = Vec::with_capacity(turns);
    for turn in 0..turns {
        for place in 0..windows.len() {
            let which = if turn % 2 == 0 { place } else { windows.len() - 1 - place };
            // The automatic window begins without knowledge from earlier turns.
            let seen = if which == automatic {
                Pipelines::start(&windows[automatic..])?.run(0, tokens)?
            } else {
                pipelines.run(which, tokens)?
            };
            seconds[which].push(seen.elapsed.as_secs_f64());
            if which == automatic {
                under_way.push(seen.most_under_way as f64);
            } else if seen.most_under_way > FIXED[which] as u64 {
                let (window, most) = (FIXED[which], seen.most_under_way);
                eprintln!("  window {window} had {most} tokens under way");
            }
        }
    }

    let operations = Quantity::Operations(tokens as f64);
    for (window, ours_s) in FIXED.iter().zip(&seconds) {
        let predicted = execution_time(&STAGES, Duration::ZERO, usize::try_from(tokens)?, *window);
        let mut nearness = Comparison::new(ours_s, &vec![predicted.as_secs_f64(); turns]);
        nearness.ratio = nearness.ratio.min(nearness.ratio.recip());
        report.measured(&format!("pipeline-window-{window}"), nearness, operations, GOAL);
    }
    let best_s: Vec<f64> = (0..turns)
        .map(|turn| seconds[..automatic].iter().map(|all| all[turn]).fold(f64::INFINITY, f64::min))
        .collect();
    let comparison = Comparison::new(&seconds[automatic], &best_s);
    report.measured("pipeline-automatic", comparison, operations, GOAL_AUTOMATIC);

    // The worst turn counts, not the median.
    let most = under_way.iter().copied().fold(0.0, f64::max);
    let comparison = Comparison::new(&[most], &[MOST_UNDER_WAY]);
    report.measured("pipeline-automatic-under-way", comparison, Quantity::Amount("tokens"), 1.0);
    Ok(())
}
