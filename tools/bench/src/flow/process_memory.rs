//! The memory of this process, as the kernel reports it.

use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Memory in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMemory {
    /// The resident memory now.
    pub resident_kib: u64,
    /// The peak so far, or since [`forget_peak`].
    pub peak_kib: u64,
}

impl ProcessMemory {
    /// Reads the memory of this process.
    pub fn now() -> Result<Self> {
        Self::parse(&fs::read_to_string("/proc/self/status")?)
    }

    fn parse(status: &str) -> Result<Self> {
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            let number = number.and_then(|number| number.parse().ok());
            number.with_context(|| format!("the kernel does not tell {name}"))
        };
        Ok(Self { resident_kib: kib("VmRSS:")?, peak_kib: kib("VmHWM:")? })
    }
}

/// Resets the peak.
pub fn forget_peak() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("forgetting the peak of memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_parsed() {
        let memory =
            ProcessMemory::parse("Name:\tx\nVmHWM:\t  9000 kB\nVmRSS:\t   123 kB\n").unwrap();
        assert_eq!(memory, ProcessMemory { resident_kib: 123, peak_kib: 9000 });
        assert!(ProcessMemory::parse("VmHWM: 1 kB").is_err());
    }

    #[test]
    fn the_kernel_tells_a_peak() {
        let before = ProcessMemory::now().unwrap();
        drop(std::hint::black_box(vec![1u8; 64 << 20]));
        let after = ProcessMemory::now().unwrap();
        assert!(after.peak_kib >= before.resident_kib + (60 << 10));
    }
}
