//! A token to another process and back, against the same bytes over a bare socket.
//!
//! Both sides have two processes and one token under way. The other process of the side that has
//! no turn waits in the kernel. Nothing is bound to a core: where the threads sit is up to the
//! kernel, on both sides.

use anyhow::Result;

use super::bare_socket::BareSocket;
use super::sockets::Transport;
use super::spaces::Spaces;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;

/// At most 1.3 times as long.
const GOAL: f64 = 1.0 / 1.3;
const TOKEN_BYTES: usize = 64;
/// Round trips before the measurement, which wake a sleeping core.
const BEFORE: u64 = 20;

/// Measures `tcp-round-trip`.
pub fn run_tcp(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, Transport::Tcp)
}

/// Measures `unix-round-trip`.
pub fn run_unix(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, Transport::Unix)
}

fn run(setting: &RunSettings, report: &mut Report, transport: Transport) -> Result<()> {
    let count = setting.choose(500, 200);
    let turns = setting.choose(201, 61);
    let name = format!("{}-round-trip", transport.name());
    let dir = setting.subdir(&name)?;
    let mut ours = Spaces::start(transport, &dir)?;
    let mut theirs = BareSocket::start(transport, &dir)?;
    let comparison = alternate(turns, &mut || ours.round_trips(count, BEFORE), &mut || {
        theirs.round_trips(TOKEN_BYTES, count, BEFORE)
    })?;
    report.measured(&name, comparison, Quantity::Operations(count as f64), GOAL);
    Ok(())
}
