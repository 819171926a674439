//! The resources of a process: resident memory and descriptors.

use std::fs;

use anyhow::{Context, Result};

/// Resident memory and open descriptors of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Resident memory.
    pub resident_bytes: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

/// Bytes that a node may keep after a flood: allocators keep some, and the node caches subfiles and
/// buffers.
pub const LEFT_BYTES: u64 = 192 << 20;

/// Descriptors that a node may keep after a flood, because subfiles stay open.
pub const LEFT_DESCRIPTORS: u64 = 64;

impl ResourceUsage {
    /// Reads the resources of a process.
    pub fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))
            .with_context(|| format!("reading the memory of process {pid}"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|text| text.trim().strip_suffix(" kB"));
        let kib = kib.with_context(|| format!("/proc/{pid}/status has no line VmRSS in kB"))?;
        let kib: u64 = kib.trim().parse()?;
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
        Ok(Self { resident_bytes: kib << 10, descriptors })
    }

    /// The maximum of both, for each resource.
    pub fn most(self, other: Self) -> Self {
        Self {
            resident_bytes: self.resident_bytes.max(other.resident_bytes),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }

    /// Whether a process has released what it used during the floods.
    pub fn is_back_at(self, before: Self) -> bool {
        self.resident_bytes <= before.resident_bytes + LEFT_BYTES
            && self.descriptors <= before.descriptors + LEFT_DESCRIPTORS
    }
}
