//! STUB
use anyhow::Result;
use std::path::Path;
use std::time::Duration;
pub struct Farm;
impl Farm {
    pub fn start(_: usize, _: &Path) -> Result<Self> {
        Ok(Self)
    }
    pub fn run(&mut self, _: u64, tasks: u64) -> Result<Duration> {
        Ok(Duration::from_nanos(tasks * 1000))
    }
}
