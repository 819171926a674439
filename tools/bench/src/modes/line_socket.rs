//! Lines over a Unix socket, between whoever measures and a process that is measured.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// How long an answer may take. A turn takes far less.
const PATIENCE: Duration = Duration::from_secs(90);

/// One end of the socket.
#[derive(Debug)]
pub struct Lines {
    stream: BufReader<UnixStream>,
}

impl Lines {
    /// The end of whoever measures.
    pub fn accepted(stream: UnixStream) -> Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// The end of a process.
    pub fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path);
        let stream = stream.with_context(|| format!("connecting to {}", path.display()))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a line.
    pub fn tell(&mut self, line: impl AsRef<str>) -> Result<()> {
        let line = format!("{}\n", line.as_ref());
        self.stream.get_mut().write_all(line.as_bytes()).context("nobody listens")
    }

    /// Waits for a line; nothing if the other end is gone.
    pub fn next(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        let count = self.stream.read_line(&mut line).context("no answer")?;
        Ok((count > 0).then(|| line.trim_end().to_owned()))
    }

    /// Waits for a line; that something has failed is an error.
    pub fn hear(&mut self) -> Result<String> {
        let line = self.next()?.context("a process has ended")?;
        match line.strip_prefix("failed: ") {
            Some(why) => bail!("{why}"),
            None => Ok(line),
        }
    }

    /// Waits for a line that is a number, or whatever else.
    pub fn hear_value<T: FromStr>(&mut self) -> Result<T> {
        let line = self.hear()?;
        line.parse().ok().with_context(|| format!("a process said {line:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_both_ways_and_failures_are_errors() {
        let (one, other) = UnixStream::pair().unwrap();
        let mut near = Lines::accepted(one).unwrap();
        let mut far = Lines { stream: BufReader::new(other) };
        near.tell("7").unwrap();
        assert_eq!(far.hear_value::<u32>().unwrap(), 7);
        far.tell("failed: open: no such file").unwrap();
        assert_eq!(near.hear().unwrap_err().to_string(), "open: no such file");
        drop(far);
        assert_eq!(near.next().unwrap(), None);
        assert!(near.hear().is_err());
    }
}
