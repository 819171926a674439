//! What a process takes of the machine: resident memory and descriptors.

use std::fs;

use anyhow::{Context, Result};

/// Resident memory and open descriptors of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Resident memory.
    pub resident_bytes: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

/// What may be left of a flood in memory: allocators keep some, and subfiles and buffers are cached.
pub const LEFT_BYTES: u64 = 192 << 20;

/// Descriptors that may be left: subfiles stay open.
pub const LEFT_DESCRIPTORS: u64 = 64;

impl Vitals {
    /// Those of a process now.
    pub fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))
            .with_context(|| format!("process {pid} is gone"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|text| text.trim().strip_suffix(" kB"));
        let kib: u64 = kib.context("the kernel says how much is resident")?.trim().parse()?;
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
        Ok(Self { resident_bytes: kib << 10, descriptors })
    }

    /// The larger of each.
    pub fn most(self, other: Self) -> Self {
        Self {
            resident_bytes: self.resident_bytes.max(other.resident_bytes),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }

    /// Whether a process is back where it was before the floods.
    pub fn is_back_at(self, before: Self) -> bool {
        self.resident_bytes <= before.resident_bytes + LEFT_BYTES
            && self.descriptors <= before.descriptors + LEFT_DESCRIPTORS
    }
}
