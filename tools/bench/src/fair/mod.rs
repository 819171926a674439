//! Fairness between the clients of a node: how long a client waits beside others that flood the
//! node with cheap requests, against how long it waits beside as many processes that only keep a
//! processor busy, and against a bound: beside clients that flood another node, so that the
//! processors are as busy.

mod bystander;
mod requests;

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::area::{BenchArea, FigureFamily, RunSettings, nothing};
use crate::cluster::node::NodeProcess;
use crate::figure::Quantity;
use crate::partner::PartnerRole;
use crate::report::Report;
use crate::turns::alternate;
use bystander::{Bystander, BystanderLoad};
use requests::RequestClient;

/// The area of fairness.
pub const AREA: BenchArea = BenchArea {
    name: "fair",
    draw: nothing,
    families: &[
        FigureFamily {
            name: "beside-1",
            description: "99th percentile of a request beside a client that floods, against a process \
                   that spins",
            run: |setting, report| run(setting, report, 1),
        },
        FigureFamily {
            name: "beside-4",
            description: "the same beside four of each",
            run: |setting, report| run(setting, report, 4),
        },
    ],
};

/// The roles of second processes in these figures.
pub const ROLES: &[PartnerRole] = &[bystander::ROLE];

/// The requests whose 99th percentile is one turn.
const REQUESTS: usize = 500;

/// The least number of requests of a flooding client while the other one is measured.
const FLOOD: u64 = 400_000;

/// A client waits at most three times as long as beside processes that spin.
const GOAL: f64 = 1.0 / 3.0;

/// The share of the bound: of the speed beside floods of another node.
const BOUND_GOAL: f64 = 0.9;

fn run(setting: &RunSettings, report: &mut Report, count: usize) -> Result<()> {
    let dir = setting.subdir(&format!("fair-{count}"))?;
    let node = NodeProcess::start(&dir)?;
    let address = node.unix_address()?;
    let client = RequestClient::connect(&address)?;
    let of = |deed, address: &str| -> Result<Vec<Bystander>> {
        (0..count).map(|_| Bystander::start(deed, address)).collect()
    };
    let (mut floods, mut spins) =
        (of(BystanderLoad::Flood, &address)?, of(BystanderLoad::Spin, &address)?);
    let mut asked = 0;
    let compared = alternate(
        setting.choose(41, 21),
        &mut || {
            let (p99, requests) = beside(&client, &mut floods)?;
            asked += requests;
            Ok(p99)
        },
        &mut || Ok(beside(&client, &mut spins)?.0),
    )?;
    let each = asked / count as u64;
    eprintln!("  each flood has sent {each} requests while the client was measured");
    ensure!(setting.quick || each >= FLOOD, "{each} requests are too few for a flood");
    report.measured(&format!("beside-{count}"), compared, Quantity::Operations(1.0), GOAL);

    // The bound: floods of another node keep the processors as busy.
    let elsewhere = NodeProcess::start(&setting.subdir(&format!("fair-{count}-elsewhere"))?)?;
    let mut floods_elsewhere = of(BystanderLoad::Flood, &elsewhere.unix_address()?)?;
    let compared = alternate(
        setting.choose(41, 21),
        &mut || Ok(beside(&client, &mut floods)?.0),
        &mut || Ok(beside(&client, &mut floods_elsewhere)?.0),
    )?;
    let name = format!("beside-{count}-bound");
    report.measured(&name, compared, Quantity::Operations(1.0), BOUND_GOAL);
    Ok(())
}

/// The 99th percentile of the client's requests beside bystanders, and the number of the
/// bystanders' requests.
fn beside(client: &RequestClient, bystanders: &mut [Bystander]) -> Result<(Duration, u64)> {
    for bystander in bystanders.iter_mut() {
        bystander.begin()?;
    }
    let mut times: Vec<Duration> = (0..REQUESTS).map(|_| client.ask()).collect::<Result<_>>()?;
    let mut asked = 0;
    for bystander in bystanders.iter_mut() {
        asked += bystander.end()?;
    }
    times.sort_unstable();
    let p99 = times.get(REQUESTS * 99 / 100).copied().context("no request was measured")?;
    Ok((p99, asked))
}
