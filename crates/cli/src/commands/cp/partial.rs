//! Names of files that are not whole yet.
//!
//! A copy is written under a hidden name beside its target and gets the target's name when it is
//! whole, so that half a file never looks like a whole one. There are two kinds:
//!
//! ```text
//! .NAME.xRANDOM.pario-part            begun anew every time
//! .NAME.SIZE-TIME-DONE.pario-part     of a large file: can be continued
//! ```
//!
//! The second kind says in hexadecimal digits which version of the source it is a copy of, by size
//! and time of change, and how many bytes at its beginning are durable.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const ENDING: &str = ".pario-part";

/// Longer names are shortened, so that the whole name is one that every file system takes.
const NAME_LIMIT_BYTES: usize = 150;

/// Which version of a source a copy is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its size.
    pub len: u64,
    /// When it last changed.
    pub modified_ns: u64,
}

/// Whether a file of this name is not whole.
pub fn is_partial(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(ENDING.as_bytes())
}

/// A name that no other copy uses.
pub fn unique(name: &OsStr) -> String {
    format!(".{}.x{:016x}{ENDING}", stem(name), fastrand::u64(..))
}

/// The name of a copy that can be continued.
pub fn continuable(name: &OsStr, version: Version, done: u64) -> String {
    let Version { len, modified_ns } = version;
    format!(".{}.{len:x}-{modified_ns:x}-{done:x}{ENDING}", stem(name))
}

/// If a file is such a copy of what will be called `name`: of which version, and how much of it is
/// there.
pub fn parse(name: &OsStr, file: &str) -> Option<(Version, u64)> {
    let rest = file.strip_prefix('.')?.strip_prefix(&stem(name))?.strip_prefix('.')?;
    let mut numbers = rest.strip_suffix(ENDING)?.split('-').map(|digits| {
        let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u64::from_str_radix(digits, 16).ok().filter(|_| is_plain)
    });
    let (len, modified_ns, done) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (numbers.next().is_none() && done <= len).then_some((Version { len, modified_ns }, done))
}

/// The name itself, or a short text that stands for it.
fn stem(name: &OsStr) -> String {
    match name.to_str() {
        Some(text) if text.len() <= NAME_LIMIT_BYTES => text.to_owned(),
        _ => {
            let hash = blake3::hash(name.as_bytes()).to_hex();
            let text: String = name.to_string_lossy().chars().take(NAME_LIMIT_BYTES / 5).collect();
            format!("{text}~{}", &hash[..16])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_is_a_part_of() {
        let version = Version { len: 5_000_000_000, modified_ns: 1_700_000_000_123_456_789 };
        for name in ["x", "results.h5", "a-b.c", "ä", &"n".repeat(255)] {
            let name = OsStr::new(name);
            let file = continuable(name, version, 77);
            assert!(is_partial(file.as_bytes()) && file.len() <= 255, "{file}");
            assert_eq!(parse(name, &file), Some((version, 77)));
            assert_eq!(parse(OsStr::new("other"), &file), None);
            assert_eq!(parse(name, &unique(name)), None);
            assert!(is_partial(unique(name).as_bytes()));
        }
        assert_eq!(parse(OsStr::new("x"), ".x.5-1-6.pario-part"), None, "more than there is");
        assert_eq!(parse(OsStr::new("x"), ".x.5-1.pario-part"), None);
        assert!(!is_partial(b"pario-part") && !is_partial(b".hidden"));
    }
}
