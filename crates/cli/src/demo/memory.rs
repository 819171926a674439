//! How much memory the extents in the cache may take.

use std::fs;

/// What is assumed to be available where the system does not say.
const ASSUMED_BYTES: u64 = 4 << 30;

/// A limit for a cache that is to hold `size_bytes` of extents: ample, because the cache is
/// divided into shards that do not fill up evenly, but at most half of the memory available.
pub fn cache_limit_bytes(size_bytes: u64) -> u64 {
    let available = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| available_bytes(&text))
        .unwrap_or(ASSUMED_BYTES);
    let ample = size_bytes.saturating_mul(2).saturating_add(16 << 20);
    ample.min(available / 2)
}

/// The line `MemAvailable` of `/proc/meminfo`.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read() {
        let text = "MemTotal:       24689164 kB\nMemAvailable:   24117248 kB\n";
        assert_eq!(available_bytes(text), Some(24_117_248 << 10));
        assert_eq!(available_bytes("MemTotal: 1 kB\n"), None);
        assert_eq!(available_bytes("MemAvailable: much\n"), None);
    }

    #[test]
    fn a_cache_never_takes_all_memory() {
        assert!(cache_limit_bytes(u64::MAX) < u64::MAX / 2);
        assert!(cache_limit_bytes(1 << 20) >= 1 << 20);
    }
}
