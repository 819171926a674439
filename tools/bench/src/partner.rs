//! A second process of this program, for figures that need two.
//!
//! It is the same program, called with a hidden argument that names its role. The two exchange
//! lines over the pipes that are its standard input and output. When the first process ends for any
//! reason, the pipe is closed and the partner ends as well.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::{FromStr, SplitWhitespace};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result, bail};

/// The time limit for a partner to end after its standard input was closed.
const END_LIMIT: Duration = Duration::from_secs(2);

/// A role of a partner.
pub struct PartnerRole {
    /// Its name on the command line.
    pub name: &'static str,
    /// Runs the role with its arguments. Unless something else ends the process together with its
    /// parent, the role has to [listen](ParentProcess::listen).
    pub run: fn(&[String]) -> Result<()>,
}

/// The partner, seen from the process that started it. Dropping it ends the partner.
#[derive(Debug)]
pub struct PartnerProcess {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl PartnerProcess {
    /// Starts this program again in a role.
    pub fn start<S: AsRef<str>>(role: &str, words: &[S]) -> Result<Self> {
        let program = env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        command.arg("--partner").arg(role).args(words.iter().map(AsRef::as_ref));
        Self::spawn(&mut command)
    }

    /// Starts another program that follows the same rules.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a second process")?;
        let orders = child.stdin.take();
        let answers =
            BufReader::new(child.stdout.take().context("the second process has no output pipe")?);
        Ok(Self { child, orders, answers })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the partner still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a line.
    pub fn send_line(&mut self, line: impl AsRef<str>) -> Result<()> {
        let orders = self.orders.as_mut().context("the second process was ended before")?;
        writeln!(orders, "{}", line.as_ref()).context("sending a line to the second process")
    }

    /// Waits for a line.
    pub fn receive_line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("reading from the second process")?;
        match line.strip_suffix('\n') {
            Some(line) => Ok(line.to_owned()),
            None => bail!("the second process has ended"),
        }
    }

    /// Waits for a line, and parses it.
    pub fn receive_value<T: FromStr>(&mut self) -> Result<T> {
        let line = self.receive_line()?;
        line.parse().ok().with_context(|| format!("the second process sent the line {line:?}"))
    }
}

impl Drop for PartnerProcess {
    fn drop(&mut self) {
        drop(self.orders.take());
        let end = Instant::now() + END_LIMIT;
        while self.is_running() {
            if Instant::now() > end {
                // It may have ended by itself.
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The parent process, seen from the partner.
#[derive(Debug)]
pub struct ParentProcess {
    orders: mpsc::Receiver<String>,
}

impl ParentProcess {
    /// Starts to listen. At the end of its standard input the process exits, even in the middle of
    /// its work.
    pub fn listen() -> Self {
        let (sender, orders) = mpsc::channel();
        thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
            process::exit(0);
        });
        Self { orders }
    }

    /// Waits for a line.
    pub fn receive_line(&self) -> Result<String> {
        self.orders.recv().context("the parent process has ended")
    }

    /// Sends a line.
    pub fn send_line(&self, line: impl AsRef<str>) -> Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", line.as_ref())?;
        Ok(out.flush()?)
    }
}

/// Runs the role that the first word names.
pub fn play(roles: &[&[PartnerRole]], words: &[String]) -> Result<()> {
    let (name, words) = words.split_first().context("a partner needs a role")?;
    let role = roles.iter().copied().flatten().find(|role| role.name == name);
    let role = role.with_context(|| format!("{name} is not a role of a second process"))?;
    (role.run)(words).with_context(|| format!("second process, {name}"))
}

/// Parses the next word.
pub fn next_word<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Result<T> {
    let word = words.next().context("a line ends too early")?;
    word.parse().ok().with_context(|| format!("a line has the unexpected word {word:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_talk_in_lines_and_the_second_ends() {
        let mut cat = PartnerProcess::spawn(&mut Command::new("cat")).unwrap();
        cat.send_line("one").unwrap();
        cat.send_line("2").unwrap();
        assert_eq!(cat.receive_line().unwrap(), "one");
        assert_eq!(cat.receive_value::<u32>().unwrap(), 2);
    }

    #[test]
    fn a_partner_that_has_ended_is_an_error() {
        let mut none = PartnerProcess::spawn(&mut Command::new("true")).unwrap();
        assert!(none.receive_line().is_err());
    }

    #[test]
    fn a_partner_that_does_not_listen_is_ended() {
        let mut command = Command::new("sleep");
        let start = Instant::now();
        drop(PartnerProcess::spawn(command.arg("100")).unwrap());
        assert!(start.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn words_are_parsed() {
        let mut words = "7 x".split_whitespace();
        assert_eq!(next_word::<u64>(&mut words).unwrap(), 7);
        assert!(next_word::<u64>(&mut words).is_err());
        assert!(next_word::<u64>(&mut words).is_err());
    }
}
