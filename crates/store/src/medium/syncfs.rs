//! Whether `syncfs` reports failed writes.
//!
//! Linux reports them since 5.8, for file systems that write through the page cache. Others (network
//! file systems, FUSE, overlays) may return before the bytes are durable, or hide a failure.

use std::fs::{self, File};

/// `f_type` of ext2 to ext4, XFS, Btrfs and F2FS.
const KNOWN: [u64; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010];

/// The first Linux that reports failures.
const SINCE: (u32, u32) = (5, 8);

/// Whether `syncfs` reports failures of the file system that a file is on.
pub fn reports_failures(file: &File) -> bool {
    let Ok(found) = rustix::fs::fstatfs(file) else { return false };
    #[expect(clippy::cast_sign_loss, reason = "a magic number; its type differs by platform")]
    let kind = found.f_type as u64 & 0xFFFF_FFFF;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    KNOWN.contains(&kind) && version_of(&release).is_some_and(|version| version >= SINCE)
}

/// The first two numbers of a release such as `6.1.0-18-amd64`.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        for (release, is_enough) in [
            ("5.7.19\n", false),
            ("5.8.0-rc1", true),
            ("5.10.0-28-amd64", true),
            ("6.1.0", true),
            ("4.19.0", false),
        ] {
            assert_eq!(version_of(release).unwrap() >= SINCE, is_enough, "{release}");
        }
        assert_eq!(version_of("unknown"), None);
    }
}
