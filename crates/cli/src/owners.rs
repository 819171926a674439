//! Users, groups and permissions as text.

use pario::{FilePath, RightsChanged};
use uzers::{Groups, Users, UsersCache};

/// A cache of the users and groups of this machine.
#[derive(Default)]
pub struct Owners {
    known: UsersCache,
}

impl Owners {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self { known: UsersCache::new() }
    }

    /// Returns the name of a user, or the number if this machine has no name for it.
    pub fn user(&self, uid: u32) -> String {
        let user = self.known.get_user_by_uid(uid);
        user.map_or_else(|| uid.to_string(), |user| user.name().to_string_lossy().into_owned())
    }

    /// Returns the name of a group, or the number if this machine has no name for it.
    pub fn group(&self, gid: u32) -> String {
        let group = self.known.get_group_by_gid(gid);
        group.map_or_else(|| gid.to_string(), |group| group.name().to_string_lossy().into_owned())
    }

    /// Returns the user with a name or number.
    pub fn uid(&self, text: &str) -> Option<u32> {
        text.parse().ok().or_else(|| self.known.get_user_by_name(text).map(|user| user.uid()))
    }

    /// Returns the group with a name or number.
    pub fn gid(&self, text: &str) -> Option<u32> {
        text.parse().ok().or_else(|| self.known.get_group_by_name(text).map(|group| group.gid()))
    }
}

/// The sticky bit: in such a directory only the owner of an entry, the owner of the directory and
/// root may delete, rename or replace the entry.
const STICKY: u32 = 0o1000;

/// Warns about nodes that have not acknowledged a change of rights.
pub fn warn_unacknowledged(path: &FilePath, outcome: &RightsChanged) {
    if let Some(warning) = unacknowledged_warning(path, &outcome.untold) {
        eprintln!("pario: {warning}");
    }
}

fn unacknowledged_warning(path: &FilePath, untold: &[String]) -> Option<String> {
    let nodes = match untold {
        [] => return None,
        [node] => format!("node {node} has"),
        nodes => format!("nodes {} have", nodes.join(", ")),
    };
    Some(format!(
        "{path}: the rights are changed, but {nodes} not acknowledged it: there, processes that \
         have the file open keep their old rights until the node reaches the interface node \
         again; a restarted node refuses them until then"
    ))
}

/// Formats permissions as nine letters; the last one is `t` or `T` with the sticky bit.
pub fn mode_letters(mode: u32) -> String {
    let letters = "rwxrwxrwx".chars().enumerate();
    let shown = |(place, letter)| if mode >> (8 - place) & 1 == 1 { letter } else { '-' };
    let mut shown: String = letters.map(shown).collect();
    if mode & STICKY != 0 {
        let last = shown.pop();
        shown.push(if last == Some('x') { 't' } else { 'T' });
    }
    shown
}

/// Applies a mode in the notation of `chmod`: `640`, `1777`, `u+w`, `go-rwx`, `a=r`, `+t`; commas
/// separate several.
pub fn change_mode(mode: u32, text: &str) -> Result<u32, String> {
    if !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()) {
        return u32::from_str_radix(text, 8)
            .ok()
            .filter(|mode| *mode <= STICKY | 0o777)
            .ok_or_else(|| format!("{text:?} is not a mode from 000 to 1777"));
    }
    text.split(',').try_fold(mode, change_clause).ok_or_else(|| {
        format!("{text:?} is not a mode; write digits such as 640, or changes such as u+w,go-rwx")
    })
}

fn change_clause(mode: u32, clause: &str) -> Option<u32> {
    let sign = clause.find(['+', '-', '='])?;
    let (who, what) = (&clause[..sign], &clause[sign + 1..]);
    let mut places = if who.is_empty() { 0o777 } else { 0 };
    for letter in who.chars() {
        places |= match letter {
            'u' => 0o700,
            'g' => 0o070,
            'o' => 0o007,
            'a' => 0o777,
            _ => return None,
        };
    }
    let mut rights = 0;
    for letter in what.chars() {
        rights |= match letter {
            'r' => 0o444,
            'w' => 0o222,
            'x' => 0o111,
            't' => {
                places |= STICKY;
                STICKY
            }
            _ => return None,
        };
    }
    let rights = rights & places;
    Some(match &clause[sign..=sign] {
        "+" => mode | rights,
        "-" => mode & !rights,
        _ => (mode & !places) | rights,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_were_not_told_are_named() {
        let path = FilePath::new("/f").unwrap();
        assert_eq!(unacknowledged_warning(&path, &[]), None);
        let one = unacknowledged_warning(&path, &["beta".to_owned()]).unwrap();
        assert!(one.starts_with("/f: the rights are changed, but node beta has not"), "{one}");
        let two = unacknowledged_warning(&path, &["beta".to_owned(), "gamma".to_owned()]).unwrap();
        assert!(two.contains("nodes beta, gamma have not acknowledged"), "{two}");
    }

    #[test]
    fn modes_are_letters() {
        assert_eq!(mode_letters(0o640), "rw-r-----");
        assert_eq!(mode_letters(0o751), "rwxr-x--x");
        assert_eq!(mode_letters(0), "---------");
        assert_eq!(
            (mode_letters(0o1777), mode_letters(0o1770)),
            ("rwxrwxrwt".into(), "rwxrwx--T".into())
        );
    }

    #[test]
    fn modes_change_as_told() {
        for (text, mode) in [
            ("640", 0o640),
            ("0", 0),
            ("u-w", 0o444),
            ("+x", 0o755),
            ("go-rwx", 0o600),
            ("a=r", 0o444),
            ("u=rwx,g=,o+w", 0o706),
            ("u=", 0o044),
            ("1777", 0o1777),
            ("+t", 0o1644),
            ("a+rwx,o+t", 0o1777),
        ] {
            assert_eq!(change_mode(0o644, text), Ok(mode), "{text}");
        }
        assert_eq!(change_mode(0o1777, "-t"), Ok(0o777));
        assert_eq!(
            change_mode(0o1777, "go="),
            Ok(0o1700),
            "the sticky bit is not part of the clause"
        );
        for text in ["", "888", "7777", "2777", "u", "z+r", "u+q", "u+w,"] {
            assert!(change_mode(0o644, text).is_err(), "{text}");
        }
    }

    #[test]
    fn root_has_a_name_and_strangers_have_numbers() {
        let owners = Owners::new();
        assert_eq!(owners.user(0), "root");
        assert_eq!(owners.uid("root"), Some(0));
        assert_eq!(owners.gid("0"), Some(0));
        assert_eq!(owners.user(3_999_999_999), "3999999999");
        assert_eq!(owners.uid("no such user"), None);
        assert_eq!(owners.group(0), "root");
    }
}
