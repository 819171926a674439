//! The descriptors of the process, which a node divides between sockets and open subfiles.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything but links and kept subfiles: the namespace, logs, job memories, and
/// short-lived ones.
const RESERVE: u64 = 256;

/// The most descriptors of an open subfile: data, journal and index of extents.
const PER_SUBFILE: u64 = 4;

/// The limit of subfiles of one disk that stay open although no request uses them.
const SUBFILES: u64 = 1024;

/// The minimum of kept subfiles, however few descriptors there are.
const FEWEST_SUBFILES: u64 = 8;

/// Raises the limit of open descriptors to the maximum of this process, for a node that listens.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "cannot raise the limit of open descriptors");
    }
}

/// Returns the number of subfiles of each disk that stay open. Half of the descriptors beside the
/// reserve are for sockets.
pub fn kept_subfiles(disks: usize) -> usize {
    kept_of(getrlimit(Resource::Nofile).current, disks)
}

fn kept_of(descriptors: Option<u64>, disks: usize) -> usize {
    let Some(descriptors) = descriptors else { return usize::try_from(SUBFILES).unwrap_or(1) };
    let for_subfiles = descriptors.saturating_sub(RESERVE) / 2;
    let each = for_subfiles / PER_SUBFILE / (disks.max(1) as u64);
    usize::try_from(each.clamp(FEWEST_SUBFILES, SUBFILES)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subfiles_leave_descriptors_for_sockets() {
        assert_eq!(kept_of(None, 4), 1024);
        assert_eq!(kept_of(Some(1 << 20), 4), 1024);
        assert_eq!(kept_of(Some(4096), 4), 120);
        assert_eq!(kept_of(Some(64), 4), 8);
        for (descriptors, disks) in [(1024, 1), (1024, 4), (4096, 16), (65_536, 64)] {
            let kept = kept_of(Some(descriptors), disks) as u64 * disks as u64 * PER_SUBFILE;
            assert!(kept + RESERVE <= descriptors / 2 + RESERVE, "{kept} of {descriptors}");
        }
    }
}
