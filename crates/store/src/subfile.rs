//! What a subfile is and whose: its identity and its description on the disk.
//!
//! Each subfile carries a description block, so that everything about a disk's content can be
//! learnt from the disk alone. The block is written once, at creation, with a checksum over all
//! of it.

use std::fmt;

use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::checksum::checksum;

/// The newest description format this program reads and the one it writes.
pub(crate) const DESCRIPTION_VERSION: u16 = 1;

/// Layout and path together fit into this many bytes.
pub const DESCRIPTION_LIMIT_BYTES: usize = 60 << 10;

/// What a subfile is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Role {
    /// It holds data of its file.
    Data,
}

impl Role {
    const ALL: [(Self, u8, &'static str); 1] = [(Self::Data, 0, "data")];

    fn code(self) -> u8 {
        Self::ALL.iter().find(|known| known.0 == self).expect("all roles are listed").1
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|known| known.0 == self).expect("all roles are listed").2
    }
}

/// How a subfile stores its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Bytes at offsets, read and written in place.
    Flat,
    /// Extents of any size under indices, replaced as a whole.
    Extents,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flat => "flat",
            Self::Extents => "extents",
        })
    }
}

/// The identity of a subfile: whose it is, which one, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubfileId {
    /// The parallel file it belongs to.
    pub file: u128,
    /// Its number in that file.
    pub index: u32,
    /// What it is for.
    pub role: Role,
}

impl SubfileId {
    /// The data subfile number `index` of `file`.
    pub const fn data(file: u128, index: u32) -> Self {
        Self { file, index, role: Role::Data }
    }

    /// Its name in the directory of a disk.
    pub(crate) fn stem(self) -> String {
        format!("{:032x}-{}-{}", self.file, self.index, self.role.name())
    }

    /// Reads what [`SubfileId::stem`] writes, and nothing else.
    pub(crate) fn from_stem(stem: &str) -> Option<Self> {
        let mut parts = stem.splitn(3, '-');
        let file = u128::from_str_radix(parts.next()?, 16).ok()?;
        let index = parts.next()?.parse().ok()?;
        let role = parts.next()?;
        let role = Role::ALL.iter().find(|known| known.2 == role)?.0;
        let id = Self { file, index, role };
        (id.stem() == stem).then_some(id)
    }
}

impl fmt::Display for SubfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "subfile {} of file {:032x}", self.index, self.file)?;
        if self.role != Role::Data { write!(f, " ({})", self.role.name()) } else { Ok(()) }
    }
}

/// What the creator of a subfile says about it, kept on the disk with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Whose subfile it is.
    pub id: SubfileId,
    /// How it stores its bytes.
    pub kind: Kind,
    /// The layout of the parallel file; the store does not look into it.
    pub layout: Vec<u8>,
    /// The path the parallel file had when it was created.
    pub path: String,
    /// When it was created, in seconds since 1970.
    pub created_s: u64,
    /// Extents start at multiples of this many bytes (one for flat subfiles).
    pub granule_bytes: u32,
}

/// The fixed part of a description block; layout and path follow it.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Head {
    magic: [u8; 8],
    checksum: U64,
    version: U16,
    kind: u8,
    role: u8,
    index: U32,
    file: U128,
    created_s: U64,
    granule_bytes: U32,
    layout_len: U32,
    path_len: U32,
    reserved: [u8; 4],
}

const MAGIC: [u8; 8] = *b"PARIOSUB";
const HEAD_BYTES: usize = size_of::<Head>();
/// The checksum covers everything from here on.
const CHECKED_FROM: usize = 16;

/// The largest description block.
pub(crate) const DESCRIPTION_MAX_BYTES: usize = HEAD_BYTES + DESCRIPTION_LIMIT_BYTES;

/// Why a block is not a description.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadDescription {
    NotOurs,
    Newer(u16),
    Damaged(&'static str),
}

impl Description {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let length = |bytes: usize| U32::new(u32::try_from(bytes).expect("checked at creation"));
        let mut head = Head {
            magic: MAGIC,
            checksum: U64::ZERO,
            version: U16::new(DESCRIPTION_VERSION),
            kind: match self.kind {
                Kind::Flat => 1,
                Kind::Extents => 2,
            },
            role: self.id.role.code(),
            index: U32::new(self.id.index),
            file: U128::new(self.id.file),
            created_s: U64::new(self.created_s),
            granule_bytes: U32::new(self.granule_bytes),
            layout_len: length(self.layout.len()),
            path_len: length(self.path.len()),
            reserved: [0; 4],
        };
        let rest = [&head.as_bytes()[CHECKED_FROM..], &self.layout, self.path.as_bytes()];
        head.checksum = U64::new(checksum(&rest));
        [head.as_bytes(), &self.layout, self.path.as_bytes()].concat()
    }

    /// Reads a block; bytes behind it are ignored.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadDescription> {
        let (head, rest) = Head::ref_from_prefix(bytes).map_err(|_| BadDescription::NotOurs)?;
        if head.magic != MAGIC {
            return Err(BadDescription::NotOurs);
        }
        if head.version.get() > DESCRIPTION_VERSION {
            return Err(BadDescription::Newer(head.version.get()));
        }
        let layout_len = head.layout_len.get() as usize;
        let total = layout_len.saturating_add(head.path_len.get() as usize);
        if total > DESCRIPTION_LIMIT_BYTES || total > rest.len() {
            return Err(BadDescription::Damaged("the lengths in its description"));
        }
        if checksum(&[&bytes[CHECKED_FROM..HEAD_BYTES + total]]) != head.checksum.get() {
            return Err(BadDescription::Damaged("the checksum of its description"));
        }
        let kind = match head.kind {
            1 => Kind::Flat,
            2 => Kind::Extents,
            _ => return Err(BadDescription::Damaged("an unknown kind")),
        };
        let role = Role::ALL.iter().find(|known| known.1 == head.role);
        let role = role.ok_or(BadDescription::Damaged("an unknown role"))?.0;
        let path = std::str::from_utf8(&rest[layout_len..total])
            .map_err(|_| BadDescription::Damaged("a path that is not UTF-8"))?;
        Ok(Self {
            id: SubfileId { file: head.file.get(), index: head.index.get(), role },
            kind,
            layout: rest[..layout_len].to_vec(),
            path: path.to_owned(),
            created_s: head.created_s.get(),
            granule_bytes: head.granule_bytes.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Description {
        Description {
            id: SubfileId::data(0xfeed_beef, 3),
            kind: Kind::Extents,
            layout: vec![1, 2, 3, 4, 5],
            path: "/runs/7/body".into(),
            created_s: 1_700_000_000,
            granule_bytes: 4096,
        }
    }

    #[test]
    fn names_are_read_back_and_nothing_else_is() {
        let id = example().id;
        assert_eq!(SubfileId::from_stem(&id.stem()), Some(id));
        for other in ["", "x", "00-0-data", "fe-1", "000000000000000000000000feedbeef-03-data"] {
            assert_eq!(SubfileId::from_stem(other), None, "{other}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_description_is_found() {
        let block = example().encode();
        assert_eq!(Description::decode(&block), Ok(example()));
        for bit in 0..block.len() * 8 {
            let mut damaged = block.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Description::decode(&damaged).is_err(), "bit {bit}");
        }
        for len in 0..block.len() {
            assert!(Description::decode(&block[..len]).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut block = example().encode();
        block[16] = 9;
        assert_eq!(Description::decode(&block), Err(BadDescription::Newer(9)));
    }
}
