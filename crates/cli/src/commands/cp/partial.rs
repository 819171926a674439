//! Names of incomplete files.
//!
//! A copy is written under a hidden name beside its target and gets the target's name when it is
//! complete, so that an incomplete file never looks like a complete one. There are two kinds:
//!
//! ```text
//! .NAME.xRANDOM.pario-part            written from the beginning every time
//! .NAME.SIZE-TIME-DONE.pario-part     a large file that can be continued
//! ```
//!
//! The second kind holds, in hexadecimal, the size and modification time of the source, and the
//! number of bytes that are synced.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const ENDING: &str = ".pario-part";

/// Limit for the name part; longer names are shortened so that every file system accepts the whole.
const NAME_LIMIT_BYTES: usize = 150;

/// The version of a source that a copy is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceVersion {
    /// The source's size.
    pub len: u64,
    /// The source's modification time.
    pub modified_ns: u64,
}

/// Returns whether the name is that of an incomplete file.
pub fn is_partial(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(ENDING.as_bytes())
}

/// Returns a name that no other copy uses.
pub fn unique(name: &OsStr) -> String {
    format!(".{}.x{:016x}{ENDING}", stem(name), fastrand::u64(..))
}

/// Returns the name of a copy that can be continued.
pub fn continuable(name: &OsStr, version: SourceVersion, done: u64) -> String {
    let SourceVersion { len, modified_ns } = version;
    format!(".{}.{len:x}-{modified_ns:x}-{done:x}{ENDING}", stem(name))
}

/// Parses the name of a continuable copy of `name`: its source version and the bytes that are
/// synced.
pub fn parse(name: &OsStr, file: &str) -> Option<(SourceVersion, u64)> {
    let rest = file.strip_prefix('.')?.strip_prefix(&stem(name))?.strip_prefix('.')?;
    let mut numbers = rest.strip_suffix(ENDING)?.split('-').map(|digits| {
        let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u64::from_str_radix(digits, 16).ok().filter(|_| is_plain)
    });
    let (len, modified_ns, done) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (numbers.next().is_none() && done <= len).then_some((SourceVersion { len, modified_ns }, done))
}

/// Returns the name itself, or a short substitute for a long one.
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
        let version = SourceVersion { len: 5_000_000_000, modified_ns: 1_700_000_000_123_456_789 };
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
