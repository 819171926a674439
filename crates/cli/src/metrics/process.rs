//! The resource usage of the node's process.

use std::fs;
use std::io;
use std::time::SystemTime;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// This process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMetrics {
    started: SystemTime,
}

/// Its resource usage.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUsage {
    /// Start time, in seconds since 1970.
    pub start_seconds: f64,
    /// CPU time.
    pub cpu_seconds: f64,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Address space.
    pub virtual_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Limit for open descriptors, if there is one.
    pub descriptor_limit: Option<u64>,
}

impl ProcessMetrics {
    /// Records the start of this process.
    pub fn begin() -> Self {
        Self { started: SystemTime::now() }
    }

    /// Returns the current usage.
    pub fn usage(&self) -> io::Result<ProcessUsage> {
        let status = fs::read_to_string("/proc/self/status")?;
        let since_1970 = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Ok(ProcessUsage {
            start_seconds: since_1970.as_secs_f64(),
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            resident_bytes: field(&status, "VmRSS:") << 10,
            virtual_bytes: field(&status, "VmSize:") << 10,
            threads: field(&status, "Threads:"),
            descriptors: fs::read_dir("/proc/self/fd")?.count() as u64,
            descriptor_limit: getrlimit(Resource::Nofile).current,
        })
    }
}

/// Returns the number in a line of `/proc/self/status`; 0 if there is none.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_takes_something_of_everything() {
        let usage = ProcessMetrics::begin().usage().unwrap();
        assert!(usage.start_seconds > 1.7e9 && usage.cpu_seconds > 0.0, "{usage:?}");
        assert!(usage.resident_bytes > 100_000, "{usage:?}");
        assert!(usage.virtual_bytes >= usage.resident_bytes, "{usage:?}");
        assert!(usage.threads > 0 && usage.descriptors > 2, "{usage:?}");
    }
}
