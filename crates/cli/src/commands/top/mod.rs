//! `pario top`: shows live rates and states.
//!
//! `rates` compares two snapshots of the cluster, `page` formats them as lines, `screen` shows the
//! lines on a terminal.

mod page;
mod rates;
mod screen;

use std::io::{IsTerminal, Write, stdin, stdout};
use std::time::Duration;

use clap::Args;

use super::status;
use crate::arguments::GlobalOptions;
use crate::interrupt::Interrupt;
use crate::{reach, terminal};
use rates::ClusterSnapshot;

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario top\n  pario top --interval 0.2\n  pario top --once | grep disk0";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Print one page and exit; also done if stdout is not a terminal
    #[arg(long)]
    once: bool,

    /// Seconds between two snapshots
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = parse_interval)]
    interval: Duration,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let cluster = reach::cluster(global)?;
    let within = reach::answer_limit(global);
    let is_live = !options.once && !global.json && stdout().is_terminal() && stdin().is_terminal();
    if is_live {
        return screen::run(&cluster, options.interval, within);
    }
    let interrupt = Interrupt::watch()?;
    let before = ClusterSnapshot::at(&cluster, within);
    let due = before.at + options.interval;
    while let Some(left) = due.checked_duration_since(std::time::Instant::now()) {
        interrupt.check()?;
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    let snapshot = ClusterSnapshot::at(&cluster, within);
    if global.json {
        let mut json = status::as_json(&snapshot.cluster, &snapshot.nodes);
        rates::add_to_json(&mut json, &snapshot.rates_since(&before));
        return terminal::print_json(&json);
    }
    let mut out = terminal::output();
    for line in page::lines(&snapshot, &snapshot.rates_since(&before)) {
        writeln!(out, "{}", line.text)?;
    }
    Ok(out.flush()?)
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    seconds
        .filter(|seconds| (0.01..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "it must be a number of seconds from 0.01 to 3600".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "0", "-1", "nan", "inf", "1e9"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }
}
