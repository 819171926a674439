//! STUB.
use crate::net::Transport;
use crate::partner::{Role, Starter};
use anyhow::{Result, bail};
use std::path::Path;
use std::time::Duration;

/// The process at the far end.
pub const ROLE: Role = Role { name: "space", run: serve };
#[derive(Debug)]
pub struct Spaces {}
impl Spaces {
    pub fn start(_: Transport, _: &Path) -> Result<Self> {
        Ok(Self {})
    }
    pub fn round_trips(&mut self, _: u64, _: u64) -> Result<Duration> {
        Ok(Duration::from_millis(1))
    }
    pub fn stream_bulk(&mut self, _: usize, _: u64) -> Result<Duration> {
        Ok(Duration::from_millis(1))
    }
    pub fn stream_1k(&mut self, _: u64) -> Result<Duration> {
        Ok(Duration::from_millis(1))
    }
    pub fn stream_64(&mut self, _: u64) -> Result<Duration> {
        Ok(Duration::from_millis(1))
    }
}
fn serve(_: &[String], _: &Starter) -> Result<()> {
    bail!("stub")
}
