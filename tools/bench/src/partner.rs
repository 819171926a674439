//! A second process of this program, for figures that need two.
//!
//! It is the same program, called with a hidden argument that names its role. The two talk in
//! lines over the pipes that are its standard input and output. When the first one ends, in
//! whatever way, the pipe is closed and the partner ends as well.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::{FromStr, SplitWhitespace};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result, bail};

/// How long a partner that is told to end may take.
const END_LIMIT: Duration = Duration::from_secs(2);

/// What a partner can be.
pub struct PartnerRole {
    /// How it is called.
    pub name: &'static str,
    /// What it does with the words it was started with. Unless something else ends it together
    /// with whoever started it, it has to [listen](ParentProcess::listen).
    pub run: fn(&[String]) -> Result<()>,
}

/// The other process, seen from the one that started it. It ends when this is dropped.
#[derive(Debug)]
pub struct PartnerProcess {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl PartnerProcess {
    /// Starts this program once more, in a role.
    pub fn start<S: AsRef<str>>(role: &str, words: &[S]) -> Result<Self> {
        let program = env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        command.arg("--partner").arg(role).args(words.iter().map(AsRef::as_ref));
        Self::spawn(&mut command)
    }

    /// Starts another program that keeps to the same custom.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a second process")?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("its output is a pipe")?);
        Ok(Self { child, orders, answers })
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Tells it something.
    pub fn send_line(&mut self, line: impl AsRef<str>) -> Result<()> {
        let orders = self.orders.as_mut().context("the second process was told to end")?;
        writeln!(orders, "{}", line.as_ref()).context("the second process does not listen")
    }

    /// Waits for a line.
    pub fn receive_line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("listening to the second process")?;
        match line.strip_suffix('\n') {
            Some(line) => Ok(line.to_owned()),
            None => bail!("the second process has ended"),
        }
    }

    /// Waits for a line that is a number, or whatever else.
    pub fn receive_value<T: FromStr>(&mut self) -> Result<T> {
        let line = self.receive_line()?;
        line.parse().ok().with_context(|| format!("the second process said {line:?}"))
    }
}

impl Drop for PartnerProcess {
    fn drop(&mut self) {
        drop(self.orders.take());
        let end = Instant::now() + END_LIMIT;
        while self.is_running() {
            if Instant::now() > end {
                // It may have ended meanwhile.
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Whoever started this process, seen from the partner.
#[derive(Debug)]
pub struct ParentProcess {
    orders: mpsc::Receiver<String>,
}

impl ParentProcess {
    /// Listens from now on. The process ends at the end of its standard input, whatever it does.
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

    /// Waits for an order.
    pub fn receive_line(&self) -> Result<String> {
        self.orders.recv().context("there are no more orders")
    }

    /// Says something.
    pub fn send_line(&self, line: impl AsRef<str>) -> Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", line.as_ref())?;
        Ok(out.flush()?)
    }
}

/// Plays the role that the first word names.
pub fn play(roles: &[&[PartnerRole]], words: &[String]) -> Result<()> {
    let (name, words) = words.split_first().context("a partner needs a role")?;
    let role = roles.iter().copied().flatten().find(|role| role.name == name);
    let role = role.with_context(|| format!("there is no role {name}"))?;
    (role.run)(words).with_context(|| format!("second process, {name}"))
}

/// The next word, as a number or whatever else.
pub fn next_word<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Result<T> {
    let word = words.next().context("an order lacks a word")?;
    word.parse().ok().with_context(|| format!("an order has the word {word:?}"))
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
