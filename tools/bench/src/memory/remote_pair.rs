//! A team of two: this process, which measures, and a second one. Both run on this machine and are
//! configured to be on different ones, so that all bytes go over TCP on loopback.

use std::net::{Ipv4Addr, TcpListener};
use std::process;

use anyhow::{Context, Result, bail};
use pario::Job;
use pario::memory::Key;

use crate::partner::{ParentProcess, PartnerProcess};

/// The second process, seen from the first.
#[derive(Debug)]
pub struct RemotePair {
    partner: PartnerProcess,
    job: String,
    address: String,
    key: String,
}

impl RemotePair {
    /// Starts the second process in a role, with some arguments behind those that it needs to meet.
    pub fn start(role: &str, words: &[&str]) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        // The port is free from now on.
        let address = listener.local_addr()?.to_string();
        let (job, key) = (format!("{role} {}", process::id()), Key::random().to_hex());
        let meeting = [&*job, &address, &key];
        let partner = PartnerProcess::start(role, &[&meeting, words].concat())?;
        Ok(Self { partner, job, address, key })
    }

    /// Meets the second process, as rank 0.
    pub fn meet(&self) -> Result<Job> {
        meet(&self.job, &self.address, &self.key, 0)
    }

    /// Releases the second process.
    pub fn part(&mut self) -> Result<()> {
        self.partner.send_line("leave")
    }
}

/// The second process.
pub struct SecondRank {
    job: Job,
    parent: ParentProcess,
}

impl SecondRank {
    /// Meets the first process, as rank 1; returns the remaining arguments.
    pub fn take(words: &[String]) -> Result<(Self, &[String])> {
        let parent = ParentProcess::listen();
        let [job, address, key, rest @ ..] = words else {
            bail!("needs a job, an address and a key");
        };
        Ok((Self { job: meet(job, address, key, 1)?, parent }, rest))
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Waits until the first process releases it.
    pub fn stay(self) -> Result<()> {
        self.parent.receive_line().map(drop)
    }
}

fn meet(job: &str, address: &str, key: &str, rank: u32) -> Result<Job> {
    let address = address.parse().context("an address")?;
    let options = Job::options().meet_at(address, Key::from_hex(key)?);
    let job = options.machine(format!("machine {rank}")).join(job, 2, rank)?;
    job.barrier()?;
    Ok(job)
}
