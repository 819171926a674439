//! The processes of one side, which take turns together.
//!
//! They may be processes of ours, of plain files or of MPI, on this machine or in namespaces: each
//! connects to a socket of its side and gets the same lines. In a turn each process prepares and
//! reports that it is ready; then all get the time at which they begin, sleep until then, and
//! report the time at which they were done. The time of a turn runs from the common beginning until
//! the last process is done. Between turns they wait for a line and use no processor.

use std::fmt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::line_socket::LineSocket;
use super::monotonic_time::MonotonicTime;
use crate::namespaces::text;
use crate::partner::PartnerProcess;

/// The time limit for all processes to connect: sixty-four MPI processes take a while.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The delay from the line to the common beginning; each process adds a little.
const LEAD: Duration = Duration::from_millis(1);
const LEAD_OF_EACH: Duration = Duration::from_micros(100);

/// The socket to which the processes of a side connect.
#[derive(Debug)]
pub struct TurnListener {
    listener: UnixListener,
    path: PathBuf,
}

impl TurnListener {
    /// Creates the socket.
    pub fn open(dir: &Path, name: &str) -> Result<Self> {
        let path = dir.join(name);
        let listener = UnixListener::bind(&path);
        let listener = listener.with_context(|| format!("listening at {}", path.display()))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path })
    }

    /// Its path.
    pub fn path(&self) -> Result<&str> {
        text(&self.path)
    }

    /// Waits until all processes have connected; they live as long as `keepers`.
    pub fn gather(self, size: usize, mut keepers: Vec<PartnerProcess>) -> Result<TurnProcesses> {
        let start = Instant::now();
        let mut members = Vec::with_capacity(size);
        while members.len() < size {
            if let Ok((stream, _)) = self.listener.accept() {
                members.push(LineSocket::accepted(stream)?);
                continue;
            }
            let came = members.len();
            ensure!(
                keepers.iter_mut().all(PartnerProcess::is_running),
                "a process ended at its start; {came} of {size} came"
            );
            ensure!(start.elapsed() < TIME_LIMIT, "only {came} of {size} processes came");
            thread::sleep(Duration::from_millis(2));
        }
        Ok(TurnProcesses { members, _keepers: keepers })
    }
}

impl Drop for TurnListener {
    fn drop(&mut self) {
        // The whole directory is removed at the end.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Processes that take turns together. The fields are dropped in order: a process that has lost its
/// connection ends by itself.
#[derive(Debug)]
pub struct TurnProcesses {
    members: Vec<LineSocket>,
    _keepers: Vec<PartnerProcess>,
}

impl TurnProcesses {
    /// The number of processes.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Lets them take a turn; returns its time.
    pub fn turn(&mut self, order: &impl fmt::Display) -> Result<Duration> {
        let line = order.to_string();
        self.members.iter_mut().try_for_each(|member| member.send_line(&line))?;
        for member in &mut self.members {
            let said = member.receive_line()?;
            if said != "ready" {
                bail!("a process sent the line {said:?}");
            }
        }
        let each = u32::try_from(self.size()).unwrap_or(u32::MAX);
        let begin = MonotonicTime::now().after(LEAD + LEAD_OF_EACH * each);
        let line = begin.ns().to_string();
        self.members.iter_mut().try_for_each(|member| member.send_line(&line))?;
        let mut end = begin;
        for member in &mut self.members {
            end = end.max(MonotonicTime::of_ns(member.receive_value()?));
        }
        Ok(end.since(begin))
    }
}
