//! Large tokens one way to another process, against a bare socket with a `write` and a `read` loop
//! of the same sizes.
//!
//! A turn ends when the receiver has acknowledged the last token. Both sides send the same bytes
//! over and over, and neither reads what it has received.

use anyhow::Result;

use super::bare_socket::BareSocket;
use super::sockets::Transport;
use super::spaces::Spaces;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;

const GOAL: f64 = 0.95;

/// Measures `tcp-stream-64k` and `tcp-stream-1m`.
pub fn run_tcp(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, Transport::Tcp, Some(GOAL))
}

/// Measures `unix-stream-64k` and `unix-stream-1m`.
pub fn run_unix(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, Transport::Unix, None)
}

fn run(
    setting: &RunSettings,
    report: &mut Report,
    transport: Transport,
    goal: Option<f64>,
) -> Result<()> {
    let turn_bytes: usize = setting.choose(512 << 20, 128 << 20);
    let turns = setting.choose(61, 21);
    for (suffix, token_bytes) in [("64k", 64 << 10), ("1m", 1 << 20)] {
        let name = format!("{}-stream-{suffix}", transport.name());
        let dir = setting.subdir(&name)?;
        let mut ours = Spaces::start(transport, &dir)?;
        let mut theirs = BareSocket::start(transport, &dir)?;
        let count = (turn_bytes / token_bytes) as u64;
        let comparison =
            alternate(turns, &mut || ours.stream_large(token_bytes, count), &mut || {
                theirs.stream(token_bytes, count)
            })?;
        let quantity = Quantity::Megabytes((turn_bytes / token_bytes * token_bytes) as f64);
        report.measured(&name, comparison, quantity, goal);
    }
    Ok(())
}
