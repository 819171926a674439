//! A filter at the nodes, against the same filter at the caller, over cables of 1 Gbit/s.
//!
//! The image is spread over four machines with a node each; the caller is on a fifth. Either the
//! nodes filter the image to a new one, or the caller reads the image, filters it with the same
//! code and writes the new one. Both end when the new image is durable.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::near_lab::{self, NODES};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::namespaces::{self, text};
use crate::partner::{PartnerProcess, next_word};
use crate::report::Report;
use crate::statistics::median;
use crate::turns::{Comparison, rotate};

const TURNS: usize = 15;
const GOAL: f64 = 5.0;
/// Both images, and removed ones whose space is not free yet.
const NEEDED_BYTES: u64 = 4 << 30;
const FIGURES: [&str; 2] = ["near", "near-streamed"];

/// Measures the figures and reports them.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let reason = match setting.lacks_space(NEEDED_BYTES)? {
        None => measure(setting, report)?,
        reason => reason,
    };
    if let Some(reason) = reason {
        FIGURES.iter().for_each(|figure| report.skipped(figure, &*reason));
    }
    Ok(())
}

/// Measures the figures; returns the reason if that is impossible here.
fn measure(setting: &RunSettings, report: &mut Report) -> Result<Option<String>> {
    let dir = setting.subdir("near")?;
    let [width, height] = setting.choose([8192, 4096], [2048, 2048]);
    let words = [text(&dir)?.to_owned(), width.to_string(), height.to_string()];
    let mut lab = namespaces::start(near_lab::ROLE.name, &words)?;
    match lab.receive_line() {
        Ok(said) if said == "ready" => {}
        Ok(why) => return Ok(Some(format!("no namespaces: {why}"))),
        Err(_) => return Ok(Some("namespaces are not possible here".to_owned())),
    }
    let mut sides =
        ["nodes", "caller", "streamed"].map(|way| FilterSide { way, crossed: Vec::new() });
    let seconds = {
        let lab = std::cell::RefCell::new(&mut lab);
        let [a, b, c] = &mut sides;
        let mut turns = [a, b, c].map(|side| || side.turn(&mut lab.borrow_mut()));
        let [a, b, c] = &mut turns;
        rotate(TURNS, &mut [a, b, c])?
    };
    let image_bytes = f64::from(width) * f64::from(height) * 3.0;
    for side in &sides {
        let (crossed, way) = (median(&side.crossed), side.way);
        let share = crossed / image_bytes;
        let crossed = crossed / 1e6;
        eprintln!("  {way}: {crossed:.1} MB crossed, {share:.3} of the image, {NODES} nodes");
    }
    for (figure, (theirs, goal)) in FIGURES.into_iter().zip([(1, Some(GOAL)), (2, None)]) {
        let compared = Comparison::new(&seconds[0], &seconds[theirs]);
        report.measured(figure, compared, Quantity::Megabytes(image_bytes), goal);
    }
    Ok(None)
}

/// A way to filter, and the bytes that crossed the network in each turn.
struct FilterSide {
    way: &'static str,
    crossed: Vec<f64>,
}

impl FilterSide {
    fn turn(&mut self, lab: &mut PartnerProcess) -> Result<Duration> {
        lab.send_line(self.way)?;
        let line = lab.receive_line()?;
        let mut words = line.split_whitespace();
        let said: String = next_word(&mut words)?;
        ensure!(said == "took", "the lab sent the line {line:?}");
        let (seconds, crossed): (f64, f64) = (next_word(&mut words)?, next_word(&mut words)?);
        self.crossed.push(crossed);
        Duration::try_from_secs_f64(seconds).context("the lab sent an impossible time")
    }
}
