//! The peers: a Python process that takes slices on request.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::body;
use crate::area::RunSettings;

/// The libraries that a Python user would choose.
pub const PEERS: [&str; 3] = ["tensorstore", "zarr", "memmap"];

/// A Python process.
pub struct Python {
    process: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    /// Installs what is missing, creates the volume and starts the process; the inner error says
    /// why that is impossible here.
    pub fn start(setting: &RunSettings, dir: &Path) -> Result<Result<Self, String>> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let [raw, installed] = [dir.join("volume.raw"), dir.join("installed")];
        if !installed.exists() {
            let tried = Command::new(here.join("peers.sh")).arg("slices").arg(dir).output();
            let tried = tried.context("calling peers.sh")?;
            if !tried.status.success() {
                let said = String::from_utf8_lossy(&tried.stderr);
                return Ok(Err(said.lines().last().unwrap_or("peers.sh failed").to_owned()));
            }
            fs::write(&installed, "")?;
        }
        let sides = body::sides(setting);
        if !raw.exists() {
            body::write_raw(&raw, sides)?;
        }
        let mut process = Command::new(dir.join("python/bin/python"))
            .arg(here.join("peers/slices.py"))
            .arg(dir)
            .args(sides.map(|side| side.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting Python")?;
        let (Some(asked), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("Python has no pipes");
        };
        let mut python = Self { process, asked, answers: BufReader::new(answers) };
        if python.answer()? != "ready" {
            return Ok(Err("the Python program has not started".to_owned()));
        }
        Ok(Ok(python))
    }

    /// Lets the process take a slice; returns its time.
    pub fn take(&mut self, request: &str) -> Result<Duration> {
        writeln!(self.asked, "{request}").context("asking Python")?;
        let answer = self.answer()?;
        let seconds: f64 =
            answer.parse().with_context(|| format!("Python sent the line {answer:?}"))?;
        Ok(Duration::from_secs_f64(seconds))
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("reading from Python")?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The path of a peer's picture, for comparison.
pub fn picture(dir: &Path) -> PathBuf {
    dir.join("picture.raw")
}
