//! One process uses the memory of another, which sleeps: put, get, accumulate and fetch-and-add,
//! against Global Arrays.
//!
//! Two processes on each side, doubles on both, and always the same address, so that the caches
//! help both alike. A turn ends when everything is in the memory of the other process.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use pario::memory::Segments;

use super::arrays;
use super::team_member::{self, TeamMember};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::partner::{PartnerRole, next_word};
use crate::report::Report;
use crate::turns::{Comparison, rotate};

/// A process of ours.
pub const ROLE: PartnerRole = PartnerRole { name: "memory-one-sided", run: serve };

/// The goal of each figure, and of the geometric mean of all.
const GOAL: f64 = 0.9;
const MEAN_GOAL: f64 = 1.2;
/// The rank whose memory is used.
const OTHER: u32 = 1;
const LARGEST_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OneSidedCall {
    Put,
    Get,
    Accumulate,
    FetchAdd,
}

impl OneSidedCall {
    const ALL: [Self; 4] = [Self::Put, Self::Get, Self::Accumulate, Self::FetchAdd];

    fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Accumulate => "accumulate",
            Self::FetchAdd => "fetch-add",
        }
    }
}

/// A turn: a number of calls, of a number of bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OneSidedTurn {
    call: OneSidedCall,
    bytes: usize,
    calls: u64,
}

impl fmt::Display for OneSidedTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.call.name(), self.bytes, self.calls)
    }
}

impl FromStr for OneSidedTurn {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let name: String = next_word(&mut words)?;
        let call = OneSidedCall::ALL.into_iter().find(|call| call.name() == name);
        let call = call.with_context(|| format!("{name} is not a kind of access"))?;
        Ok(Self { call, bytes: next_word(&mut words)?, calls: next_word(&mut words)? })
    }
}

/// Measures all figures.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let dir = setting.subdir("one-sided")?;
    let mut ours = team_member::start(ROLE.name, "one-sided", &dir, 2, &[])?;
    let mut theirs = match arrays::start(&dir)? {
        Ok(theirs) => theirs,
        Err(why) => {
            report.skipped("one-sided", why);
            return Ok(());
        }
    };
    let turns = setting.choose(101, 21);
    let mut orders = Vec::new();
    for call in [OneSidedCall::Put, OneSidedCall::Get, OneSidedCall::Accumulate] {
        let calls = setting.choose((100_000, 300), (50_000, 100));
        for (suffix, bytes, calls) in [("64", 64, calls.0), ("1m", LARGEST_BYTES, calls.1)] {
            orders.push((format!("{}-{suffix}", call.name()), OneSidedTurn { call, bytes, calls }));
        }
    }
    let order = OneSidedTurn { call: OneSidedCall::FetchAdd, bytes: 8, calls: 200_000 };
    orders.push((OneSidedCall::FetchAdd.name().to_owned(), order));
    let mut ratios: Vec<Vec<f64>> = Vec::new();
    for (name, order) in orders {
        let seconds = rotate(turns, &mut [&mut || ours.turn(&order), &mut || theirs.turn(&order)])?;
        let [ours_s, theirs_s] = &seconds[..] else { bail!("there are two sides") };
        let quantity = if order.bytes == LARGEST_BYTES {
            Quantity::Gigabytes(order.calls as f64 * order.bytes as f64)
        } else {
            Quantity::ShortOperations(order.calls as f64)
        };
        let figure = format!("one-sided-{name}");
        report.measured(&figure, Comparison::new(ours_s, theirs_s), quantity, GOAL);
        ratios.push(ours_s.iter().zip(theirs_s).map(|(ours, theirs)| theirs / ours).collect());
    }
    report_mean(report, &ratios);
    Ok(())
}

/// The geometric mean of all figures, turn by turn.
fn report_mean(report: &mut Report, ratios: &[Vec<f64>]) {
    let turns = ratios.first().map_or(0, Vec::len);
    let mean = |turn: usize| {
        let sum: f64 = ratios.iter().map(|ratios| ratios[turn].ln()).sum();
        (sum / ratios.len() as f64).exp()
    };
    let theirs: Vec<f64> = (0..turns).map(mean).collect();
    let comparison = Comparison::new(&vec![1.0; turns], &theirs);
    report.measured("one-sided-mean", comparison, Quantity::Amount("relative"), MEAN_GOAL);
}

fn serve(words: &[String]) -> Result<()> {
    let (member, _) = TeamMember::take(words)?;
    let job = member.meet()?;
    let segments = job.segments(LARGEST_BYTES)?;
    let counters = job.segments(8)?;
    let mut memory = OneSidedBuffers::new();
    let mut expected = 0;
    let is_first = member.rank() == 0;
    member.take_turns(|line, begin| {
        let order: OneSidedTurn = line.parse()?;
        begin.wait()?;
        if !is_first {
            return Ok(());
        }
        match order.call {
            OneSidedCall::FetchAdd => {
                for _ in 0..order.calls {
                    let was = counters.fetch_add(1_u64, OTHER, 0)?;
                    ensure!(was == expected, "fetch-and-add returned a wrong number");
                    expected += 1;
                }
                Ok(())
            }
            _ => memory.use_segments(&segments, order),
        }
    })
}

/// The memory of the calling process.
struct OneSidedBuffers {
    numbers: Vec<f64>,
    bytes: Vec<u8>,
}

impl OneSidedBuffers {
    fn new() -> Self {
        let count = u32::try_from(LARGEST_BYTES / 8).unwrap_or(0);
        let numbers: Vec<f64> = (0..count).map(f64::from).collect();
        let bytes = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        Self { numbers, bytes }
    }

    fn use_segments(&mut self, segments: &Segments, order: OneSidedTurn) -> Result<()> {
        let OneSidedTurn { call, bytes, calls } = order;
        let Some(memory) = self.bytes.get_mut(..bytes) else { bail!("too many bytes") };
        for _ in 0..calls {
            match call {
                OneSidedCall::Put => segments.put(memory, OTHER, 0)?,
                OneSidedCall::Get => segments.get(memory, OTHER, 0)?,
                OneSidedCall::Accumulate => {
                    segments.accumulate(&self.numbers[..bytes / 8], 1.0, OTHER, 0)?;
                }
                OneSidedCall::FetchAdd => bail!("is no access to many numbers"),
            }
        }
        segments.fence(OTHER)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_told_in_a_line() {
        for call in OneSidedCall::ALL {
            let order = OneSidedTurn { call, bytes: 64, calls: 1000 };
            assert_eq!(order.to_string().parse::<OneSidedTurn>().unwrap(), order);
        }
        assert!("sing 1 2".parse::<OneSidedTurn>().is_err());
    }
}
