//! The identity of a subfile: its parallel file, number, role and kind.

use std::fmt;

/// The purpose of a subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SubfileRole {
    /// It holds data of its parallel file.
    Data,
}

impl SubfileRole {
    const ALL: [(Self, u8, &'static str); 1] = [(Self::Data, 0, "data")];

    /// The number of the role in a description.
    pub(crate) fn code(self) -> u8 {
        Self::ALL.iter().find(|known| known.0 == self).expect("all roles are listed").1
    }

    /// The role that a number in a description means.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.iter().find(|known| known.1 == code).map(|known| known.0)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|known| known.0 == self).expect("all roles are listed").2
    }
}

/// How a subfile stores its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SubfileKind {
    /// Bytes at offsets, read and written in place.
    Flat,
    /// Extents of any size under indices, replaced as a whole.
    Extents,
}

impl fmt::Display for SubfileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flat => "flat",
            Self::Extents => "extents",
        })
    }
}

/// The identity of a subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubfileId {
    /// The parallel file it belongs to.
    pub file: u128,
    /// Its number in that file.
    pub index: u32,
    /// Its role.
    pub role: SubfileRole,
}

impl SubfileId {
    /// The data subfile number `index` of `file`.
    pub const fn data(file: u128, index: u32) -> Self {
        Self { file, index, role: SubfileRole::Data }
    }

    /// Its name in the directory of a disk, without a suffix.
    pub(crate) fn stem(self) -> String {
        format!("{:032x}-{}-{}", self.file, self.index, self.role.name())
    }

    /// Parses a name that [`SubfileId::stem`] has written; `None` for all others.
    pub(crate) fn from_stem(stem: &str) -> Option<Self> {
        let mut parts = stem.splitn(3, '-');
        let file = u128::from_str_radix(parts.next()?, 16).ok()?;
        let index = parts.next()?.parse().ok()?;
        let role = parts.next()?;
        let role = SubfileRole::ALL.iter().find(|known| known.2 == role)?.0;
        let id = Self { file, index, role };
        (id.stem() == stem).then_some(id)
    }
}

impl fmt::Display for SubfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "subfile {} of file {:032x}", self.index, self.file)?;
        if self.role != SubfileRole::Data { write!(f, " ({})", self.role.name()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_nothing_else_is() {
        let id = SubfileId::data(0xfeed_beef, 3);
        assert_eq!(SubfileId::from_stem(&id.stem()), Some(id));
        for other in ["", "x", "00-0-data", "fe-1", "000000000000000000000000feedbeef-03-data"] {
            assert_eq!(SubfileId::from_stem(other), None, "{other}");
        }
    }
}
