//! Small tokens one way to another process, over TCP: of 1 KiB against a bare socket with one
//! `write` and one `read` per token, of 64 bytes against ZeroMQ.
//!
//! A turn ends when the last token has arrived.

use anyhow::Result;

use super::bare_socket::BareSocket;
use super::sockets::Transport;
use super::spaces::Spaces;
use super::zero_mq::ZeroMq;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;

/// Measures `tcp-tokens-1k`.
pub fn run_1k(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let count = setting.choose(200_000, 40_000);
    let turns = setting.choose(61, 21);
    let name = "tcp-tokens-1k";
    let dir = setting.subdir(name)?;
    let mut ours = Spaces::start(Transport::Tcp, &dir)?;
    let mut theirs = BareSocket::start(Transport::Tcp, &dir)?;
    let comparison = alternate(turns, &mut || ours.stream_large(1024, count), &mut || {
        theirs.stream(1024, count)
    })?;
    report.measured(name, comparison, Quantity::Tokens(count as f64), 5.0);
    Ok(())
}

/// Measures `tokens-64`.
pub fn run_64(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let count = setting.choose(2_000_000, 400_000);
    let turns = setting.choose(61, 21);
    let name = "tokens-64";
    let dir = setting.subdir(name)?;
    let mut theirs = match ZeroMq::start(&dir)? {
        Ok(theirs) => theirs,
        Err(reason) => {
            report.skipped(name, reason);
            return Ok(());
        }
    };
    let mut ours = Spaces::start(Transport::Tcp, &dir)?;
    let comparison =
        alternate(turns, &mut || ours.stream_small(count), &mut || theirs.stream(count))?;
    report.measured(name, comparison, Quantity::Tokens(count as f64), 1.5);
    Ok(())
}
