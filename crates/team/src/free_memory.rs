//! Shared memory, only as much as the machine has free.

use std::fs;

use pario_net::{SharedMemory, SharedMemoryShape};

/// Allocates shared memory, if the machine can hold all of it.
pub fn allocate(shape: SharedMemoryShape) -> Result<SharedMemory, String> {
    let wanted = (shape.words as u64)
        .checked_mul(4)
        .and_then(|words| words.checked_add(shape.bytes as u64))
        .unwrap_or(u64::MAX);
    if let Some(left) = free_bytes().filter(|left| wanted > *left) {
        return Err(format!(
            "{} are wanted, and the machine has {} left; ask for less, or use more machines",
            human_size(wanted),
            human_size(left)
        ));
    }
    SharedMemory::new(shape).map_err(|error| error.to_string())
}

/// The memory of this machine in bytes, or the limit of this process if that is less; none if the
/// system does not tell.
pub fn total_memory() -> Option<u64> {
    let told = fs::read_to_string("/proc/meminfo").ok()?;
    let machine = parse_bytes(&told, "MemTotal:")?;
    Some(limit("memory.max").map_or(machine, |most| most.min(machine)))
}

/// Free bytes, as the kernel estimates and as the limits of this process allow.
fn free_bytes() -> Option<u64> {
    let told = fs::read_to_string("/proc/meminfo").ok()?;
    let machine = parse_bytes(&told, "MemAvailable:")?;
    let allowed = limit("memory.max")
        .zip(limit("memory.current"))
        .map(|(most, used)| most.saturating_sub(used));
    Some(allowed.map_or(machine, |allowed| allowed.min(machine)))
}

/// A number of bytes of this process' control group.
fn limit(name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
    text.trim().parse().ok()
}

/// Parses a line of `/proc/meminfo`.
fn parse_bytes(told: &str, name: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// A size for people.
fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = UNITS.len();
    while unit > 0 && bytes < 1 << (10 * unit) {
        unit -= 1;
    }
    if unit == 0 {
        return format!("{bytes} bytes");
    }
    let tenths = (u128::from(bytes) * 10) >> (10 * unit);
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_for_people() {
        assert_eq!(human_size(1023), "1023 bytes");
        assert_eq!(human_size(1024), "1.0 KiB");
        assert_eq!(human_size(5 << 29), "2.5 GiB");
        assert_eq!(human_size(u64::MAX), "16383.9 PiB");
    }

    #[test]
    fn what_the_kernel_says_is_understood() {
        let told = "MemTotal:       24590000 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(parse_bytes(told, "MemAvailable:"), Some(20_000_000 * 1024));
        assert_eq!(parse_bytes(told, "MemTotal:"), Some(24_590_000 * 1024));
        assert_eq!(parse_bytes("MemTotal: 1 kB\n", "MemAvailable:"), None);
    }
}
