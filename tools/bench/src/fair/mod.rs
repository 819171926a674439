//! Fairness between the clients of a node: how long one waits beside others that flood the node with
//! cheap questions, against how long it waits beside as many processes that only use a processor, and
//! against the bound: beside clients that flood another node, so that the processors are as busy.

mod bystander;
mod questions;

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::area::{Area, Family, Setting, nothing};
use crate::cluster::node::NodeProcess;
use crate::figure::Quantity;
use crate::partner::Role;
use crate::report::Report;
use crate::turns::alternate;
use bystander::{Bystander, Deed};
use questions::RawClient;

/// The area of fairness.
pub const AREA: Area = Area {
    name: "fair",
    draw: nothing,
    families: &[
        Family {
            name: "beside-1",
            what: "99th percentile of a question beside a client that floods, against a process \
                   that spins",
            run: |setting, report| run(setting, report, 1),
        },
        Family {
            name: "beside-4",
            what: "the same beside four of each",
            run: |setting, report| run(setting, report, 4),
        },
    ],
};

/// What the second processes of these figures are.
pub const ROLES: &[Role] = &[bystander::ROLE];

/// The questions whose 99th percentile is one turn.
const QUESTIONS: usize = 500;

/// A client that floods asks at least this many questions while the other one is measured.
const FLOOD: u64 = 400_000;

/// At most three times what a client waits beside processes that spin.
const GOAL: f64 = 1.0 / 3.0;

/// Of what the processors allow: beside floods of another node.
const BOUND_GOAL: f64 = 0.9;

fn run(setting: &Setting, report: &mut Report, count: usize) -> Result<()> {
    let dir = setting.subdir(&format!("fair-{count}"))?;
    let node = NodeProcess::start(&dir)?;
    let address = node.unix_address()?;
    let client = RawClient::connect(&address)?;
    let of = |deed, address: &str| -> Result<Vec<Bystander>> {
        (0..count).map(|_| Bystander::start(deed, address)).collect()
    };
    let (mut floods, mut spins) = (of(Deed::Flood, &address)?, of(Deed::Spin, &address)?);
    let mut asked = 0;
    let compared = alternate(
        setting.choose(41, 21),
        &mut || {
            let (p99, questions) = beside(&client, &mut floods)?;
            asked += questions;
            Ok(p99)
        },
        &mut || Ok(beside(&client, &mut spins)?.0),
    )?;
    let each = asked / count as u64;
    eprintln!("  each flood has asked {each} questions while the client asked");
    ensure!(setting.quick || each >= FLOOD, "a flood of {each} questions is none");
    report.measured(&format!("beside-{count}"), compared, Quantity::Operations(1.0), GOAL);

    // The bound: floods that keep the processors as busy, and another node instead of this one.
    let elsewhere = NodeProcess::start(&setting.subdir(&format!("fair-{count}-elsewhere"))?)?;
    let mut floods_elsewhere = of(Deed::Flood, &elsewhere.unix_address()?)?;
    let compared = alternate(
        setting.choose(41, 21),
        &mut || Ok(beside(&client, &mut floods)?.0),
        &mut || Ok(beside(&client, &mut floods_elsewhere)?.0),
    )?;
    let name = format!("beside-{count}-bound");
    report.measured(&name, compared, Quantity::Operations(1.0), BOUND_GOAL);
    Ok(())
}

/// The 99th percentile of the client's questions while bystanders are at work, and what these have
/// asked.
fn beside(client: &RawClient, bystanders: &mut [Bystander]) -> Result<(Duration, u64)> {
    for bystander in bystanders.iter_mut() {
        bystander.begin()?;
    }
    let mut times: Vec<Duration> = (0..QUESTIONS).map(|_| client.ask()).collect::<Result<_>>()?;
    let mut asked = 0;
    for bystander in bystanders.iter_mut() {
        asked += bystander.end()?;
    }
    times.sort_unstable();
    let p99 = times.get(QUESTIONS * 99 / 100).copied().context("there are questions")?;
    Ok((p99, asked))
}
