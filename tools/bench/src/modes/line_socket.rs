//! Lines over a Unix socket, between the measuring process and a measured one.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The time limit of a reply. A turn takes far less.
const TIME_LIMIT: Duration = Duration::from_secs(90);

/// One end of the socket.
#[derive(Debug)]
pub struct LineSocket {
    stream: BufReader<UnixStream>,
}

impl LineSocket {
    /// The end of the measuring process.
    pub fn accepted(stream: UnixStream) -> Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(TIME_LIMIT))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// The end of a measured process.
    pub fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path);
        let stream = stream.with_context(|| format!("connecting to {}", path.display()))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a line.
    pub fn send_line(&mut self, line: impl AsRef<str>) -> Result<()> {
        let line = format!("{}\n", line.as_ref());
        self.stream.get_mut().write_all(line.as_bytes()).context("sending a line")
    }

    /// Waits for a line; `None` if the other end is gone.
    pub fn next(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        let count = self.stream.read_line(&mut line).context("waiting for a line")?;
        Ok((count > 0).then(|| line.trim_end().to_owned()))
    }

    /// Waits for a line; a line that reports a failure becomes an error.
    pub fn receive_line(&mut self) -> Result<String> {
        let line = self.next()?.context("a process has ended")?;
        match line.strip_prefix("failed: ") {
            Some(why) => bail!("{why}"),
            None => Ok(line),
        }
    }

    /// Waits for a line, and parses it.
    pub fn receive_value<T: FromStr>(&mut self) -> Result<T> {
        let line = self.receive_line()?;
        line.parse().ok().with_context(|| format!("a process sent the line {line:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_both_ways_and_failures_are_errors() {
        let (one, other) = UnixStream::pair().unwrap();
        let mut near = LineSocket::accepted(one).unwrap();
        let mut far = LineSocket { stream: BufReader::new(other) };
        near.send_line("7").unwrap();
        assert_eq!(far.receive_value::<u32>().unwrap(), 7);
        far.send_line("failed: open: no such file").unwrap();
        assert_eq!(near.receive_line().unwrap_err().to_string(), "open: no such file");
        drop(far);
        assert_eq!(near.next().unwrap(), None);
        assert!(near.receive_line().is_err());
    }
}
