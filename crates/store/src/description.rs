//! The description of a subfile on its disk, as a value and as bytes.
//!
//! Descriptions hold everything that a rebuild of the namespace needs: the layout, which never
//! changes, and path, owner, mode and first-synced subfiles, which do. A description has a separate
//! file, so that a descriptor of the subfile's bytes never reaches it.
//!
//! The file has two slots; the valid slot with the larger generation counts. A change writes the
//! other slot and syncs it. So a crash at any moment leaves the old description or the new one,
//! whole.
//!
//! The slots of a short description share a block of the file system: the file takes one block, and
//! a change allocates nothing, so that its sync is one write. The sectors of the slot that counts
//! are only rewritten with the bytes that they hold. A rename can make a short description long, or
//! a long one short. The slots then change their positions, and a new file replaces the old one. Its
//! flag [`Description::is_replacement`] says so: a process that is killed before it syncs the
//! directory leaves a name that a power loss can undo, and the next change syncs the directory.

use std::io;

use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::checksum::checksum;
use crate::medium::MediumFile;
use crate::subfile::{SubfileId, SubfileKind, SubfileRole};

/// The newest description format that this program reads, and the one that it writes.
pub(crate) const DESCRIPTION_VERSION: u16 = 2;

/// The limit of layout and path together.
pub const DESCRIPTION_LIMIT_BYTES: usize = 60 << 10;

/// The most subfiles of a file that a synced set can name.
pub const SYNCED_SET_LIMIT: usize = 8 << 10;

/// The position of the second slot of a short description.
const SHORT_SLOT: u64 = 2048;
/// The largest length of the file of a short description.
const SHORT_FILE_BYTES: u64 = 2 * SHORT_SLOT;
/// The limit of layout and path of a short description: it fits into its slot with every synced
/// set.
const SHORT_LIMIT_BYTES: usize = 896;
/// The position of the second slot of a long description.
const LONG_SLOT: u64 = 128 << 10;
/// The length of the file of a long description.
const LONG_FILE_BYTES: u64 = 2 * LONG_SLOT;

/// Owner and mode of a file at some version of the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The permission bits.
    pub mode: u32,
    /// The number of changes of the three above.
    pub version: u32,
}

/// The description of a subfile: what a rebuild of the namespace needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The identity of the subfile.
    pub id: SubfileId,
    /// How it stores its bytes.
    pub kind: SubfileKind,
    /// The layout of the parallel file; the store does not interpret it.
    pub layout: Vec<u8>,
    /// The path of the parallel file at creation or after its last rename. A rename of a directory
    /// above it does not count.
    pub path: String,
    /// The number of renames of the parallel file.
    pub path_version: u32,
    /// When it was created, in seconds since 1970.
    pub created_s: u64,
    /// Extents start at multiples of this many bytes (one for flat subfiles).
    pub granule_bytes: u32,
    /// Owner and mode of the parallel file; unknown on a disk of version 1.
    pub rights: Option<Rights>,
    /// The first-synced subfiles of the parallel file: bit `i % 64` of word
    /// `i / 64`. Unknown on a disk of version 1.
    pub synced: Option<Vec<u64>>,
    /// Whether a sync of this subfile has failed, so that bytes written before may be lost.
    pub is_poisoned: bool,
    /// Whether its file has replaced another one, so that its name may not be durable.
    pub(crate) is_replacement: bool,
    /// The number of changes of this description.
    pub generation: u64,
}

/// The fixed part of a block of version 1; layout and path follow it.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct DescriptionHead {
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
    /// Zero in version 1.
    flags: U32,
}

/// The fields that version 2 adds behind the head; synced set, layout and path follow it.
#[derive(Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct VersionTwoFields {
    generation: U64,
    uid: U32,
    gid: U32,
    mode: U32,
    rights_version: U32,
    synced_words: U32,
    path_version: U32,
}

const MAGIC: [u8; 8] = *b"PARIOSUB";
const HEAD_BYTES: usize = size_of::<DescriptionHead>();
/// The first byte that the checksum covers.
const CHECKED_FROM: usize = 16;

const HAS_RIGHTS: u32 = 1;
const HAS_SYNCED: u32 = 2;
const IS_POISONED: u32 = 4;
const IS_REPLACEMENT: u32 = 8;

/// The largest description block.
pub(crate) const DESCRIPTION_MAX_BYTES: usize =
    HEAD_BYTES + size_of::<VersionTwoFields>() + SYNCED_SET_LIMIT / 8 + DESCRIPTION_LIMIT_BYTES;

const _: () = assert!(DESCRIPTION_MAX_BYTES as u64 <= LONG_SLOT);
const _: () = assert!(
    (DESCRIPTION_MAX_BYTES - DESCRIPTION_LIMIT_BYTES + SHORT_LIMIT_BYTES) as u64 <= SHORT_SLOT
);

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
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let flags = flag(self.rights.is_some(), HAS_RIGHTS)
            | flag(self.synced.is_some(), HAS_SYNCED)
            | flag(self.is_poisoned, IS_POISONED)
            | flag(self.is_replacement, IS_REPLACEMENT);
        let mut head = DescriptionHead {
            magic: MAGIC,
            checksum: U64::ZERO,
            version: U16::new(DESCRIPTION_VERSION),
            kind: match self.kind {
                SubfileKind::Flat => 1,
                SubfileKind::Extents => 2,
            },
            role: self.id.role.code(),
            index: U32::new(self.id.index),
            file: U128::new(self.id.file),
            created_s: U64::new(self.created_s),
            granule_bytes: U32::new(self.granule_bytes),
            layout_len: length(self.layout.len()),
            path_len: length(self.path.len()),
            flags: U32::new(flags),
        };
        let words = self.synced.as_deref().unwrap_or_default();
        let mut changing = VersionTwoFields {
            generation: U64::new(self.generation),
            synced_words: length(words.len()),
            path_version: U32::new(self.path_version),
            ..VersionTwoFields::default()
        };
        if let Some(Rights { uid, gid, mode, version }) = self.rights {
            changing.uid = U32::new(uid);
            changing.gid = U32::new(gid);
            changing.mode = U32::new(mode);
            changing.rights_version = U32::new(version);
        }
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let rest = [changing.as_bytes(), &words, &self.layout, self.path.as_bytes()].concat();
        head.checksum = U64::new(checksum(&[&head.as_bytes()[CHECKED_FROM..], &rest]));
        [head.as_bytes(), &rest].concat()
    }

    /// Decodes a block of version 1 or 2; ignores bytes behind it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadDescription> {
        let damaged = |what| Err(BadDescription::Damaged(what));
        let (head, rest) =
            DescriptionHead::ref_from_prefix(bytes).map_err(|_| BadDescription::NotOurs)?;
        if head.magic != MAGIC {
            return Err(BadDescription::NotOurs);
        }
        let version = head.version.get();
        if version > DESCRIPTION_VERSION {
            return Err(BadDescription::Newer(version));
        }
        let none = VersionTwoFields::default();
        let (changing, rest) = match version {
            0 | 1 => (&none, rest),
            _ => match VersionTwoFields::ref_from_prefix(rest) {
                Ok(found) => found,
                Err(_) => return damaged("an impossible length"),
            },
        };
        let set_len = (changing.synced_words.get() as usize).saturating_mul(8);
        let layout_len = head.layout_len.get() as usize;
        let named = layout_len.saturating_add(head.path_len.get() as usize);
        let total = set_len.saturating_add(named);
        if set_len > SYNCED_SET_LIMIT / 8 || named > DESCRIPTION_LIMIT_BYTES || total > rest.len() {
            return damaged("impossible lengths");
        }
        let end = bytes.len() - rest.len() + total;
        if checksum(&[&bytes[CHECKED_FROM..end]]) != head.checksum.get() {
            return damaged("a wrong checksum");
        }
        let kind = match head.kind {
            1 => SubfileKind::Flat,
            2 => SubfileKind::Extents,
            _ => return damaged("an unknown kind"),
        };
        let Some(role) = SubfileRole::of_code(head.role) else { return damaged("an unknown role") };
        let (words, rest) = rest.split_at(set_len);
        let words = words.chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let Ok(path) = std::str::from_utf8(&rest[layout_len..named]) else {
            return damaged("a path that is not UTF-8");
        };
        let has = |flag| version > 1 && head.flags.get() & flag != 0;
        let rights = Rights {
            uid: changing.uid.get(),
            gid: changing.gid.get(),
            mode: changing.mode.get(),
            version: changing.rights_version.get(),
        };
        Ok(Self {
            id: SubfileId { file: head.file.get(), index: head.index.get(), role },
            kind,
            layout: rest[..layout_len].to_vec(),
            path: path.to_owned(),
            path_version: changing.path_version.get(),
            created_s: head.created_s.get(),
            granule_bytes: head.granule_bytes.get(),
            rights: has(HAS_RIGHTS).then_some(rights),
            synced: has(HAS_SYNCED).then(|| words.collect()),
            is_poisoned: has(IS_POISONED),
            is_replacement: has(IS_REPLACEMENT),
            generation: changing.generation.get(),
        })
    }

    /// Whether the slots of its file are short.
    pub(crate) fn is_short(&self) -> bool {
        self.layout.len() + self.path.len() <= SHORT_LIMIT_BYTES
    }

    /// Sets the path that the parallel file has since its rename of this number, unless the
    /// description has a later one. A path that does not fit beside the layout is ignored.
    pub fn set_path(&mut self, path: &str, version: u32) {
        let is_fitting = self.layout.len() + path.len() <= DESCRIPTION_LIMIT_BYTES;
        if self.path_version <= version && is_fitting {
            self.path = path.to_owned();
            self.path_version = version;
        }
    }

    /// Adds subfiles to the synced set, which is known from then on; returns whether that changed it.
    pub fn add_synced(&mut self, synced: &[u64]) -> bool {
        let before = self.synced.clone();
        let set = self.synced.get_or_insert_default();
        if set.len() < synced.len() {
            set.resize(synced.len(), 0);
        }
        for (word, more) in set.iter_mut().zip(synced) {
            *word |= more;
        }
        self.synced != before
    }
}

/// Reads both slots of a description file; returns the description of the larger generation.
pub(crate) fn read_slots(file: &dyn MediumFile) -> io::Result<Result<Description, BadDescription>> {
    let len = file.len()?;
    let first = read_slot(file, 0, len)?;
    let second_at = match &first {
        // A description of version 1: its file has no second slot.
        Ok(long) if !long.is_short() && len <= SHORT_FILE_BYTES => return Ok(first),
        _ if len <= SHORT_FILE_BYTES => SHORT_SLOT,
        _ => LONG_SLOT,
    };
    let second = read_slot(file, second_at, len)?;
    Ok(match (first, second) {
        // A newer program has written the file: the other slot may be out of date.
        (Err(newer @ BadDescription::Newer(_)), _) => Err(newer),
        (_, Err(newer @ BadDescription::Newer(_))) => Err(newer),
        (Ok(first), Ok(second)) if first.generation >= second.generation => Ok(first),
        (_, Ok(second)) => Ok(second),
        (first, Err(_)) => first,
    })
}

fn read_slot(
    file: &dyn MediumFile,
    at: u64,
    len: u64,
) -> io::Result<Result<Description, BadDescription>> {
    let wanted = usize::try_from(len.saturating_sub(at)).unwrap_or(usize::MAX);
    let mut block = vec![0; wanted.min(DESCRIPTION_MAX_BYTES)];
    let count = file.read_at(&mut block, at)?;
    Ok(Description::decode(&block[..count]))
}

/// Writes a description to the slot of its generation; a sync puts it into effect.
pub(crate) fn write_slot(file: &dyn MediumFile, description: &Description) -> io::Result<()> {
    let second = if description.is_short() { SHORT_SLOT } else { LONG_SLOT };
    if !description.is_short() && file.len()? < LONG_FILE_BYTES {
        file.set_len(LONG_FILE_BYTES)?;
    }
    file.write_all_at(&description.encode(), description.generation % 2 * second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Description {
        Description {
            id: SubfileId::data(0xfeed_beef, 3),
            kind: SubfileKind::Extents,
            layout: vec![1, 2, 3, 4, 5],
            path: "/runs/7/body".into(),
            path_version: 2,
            created_s: 1_700_000_000,
            granule_bytes: 4096,
            rights: Some(Rights { uid: 1000, gid: 100, mode: 0o640, version: 3 }),
            synced: Some(vec![5, 1 << 63]),
            is_poisoned: false,
            is_replacement: false,
            generation: 8,
        }
    }

    #[test]
    fn what_is_unknown_stays_unknown() {
        let bare = Description {
            rights: None,
            synced: None,
            is_poisoned: true,
            is_replacement: true,
            ..example()
        };
        assert_eq!(Description::decode(&bare.encode()), Ok(bare));
        let none = Description { synced: Some(Vec::new()), ..example() };
        assert_eq!(Description::decode(&none.encode()), Ok(none));
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

    /// The path of a long description may hold another whole description, which is no slot.
    #[test]
    fn a_description_within_a_path_is_not_believed() {
        use crate::medium::{Medium as _, MediumOpenMode, MemoryMedium};
        let forged = Description { generation: 99, path: "/forged".into(), ..example() };
        let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
        for generation in [0, 1] {
            let mut long = Description { generation, path: "/a".repeat(2000), ..example() };
            let file = MemoryMedium::new().open("description", mode).unwrap();
            write_slot(&*file, &long).unwrap();
            // Where the second slot of a short one would be.
            file.write_all_at(&forged.encode(), SHORT_SLOT).unwrap();
            if generation == 1 {
                assert_eq!(read_slots(&*file).unwrap(), Ok(long.clone()));
            }
            long.generation += 1;
            write_slot(&*file, &long).unwrap();
            assert_eq!(read_slots(&*file).unwrap().unwrap().path, long.path);
        }
    }

    #[test]
    fn an_older_rename_does_not_count() {
        let mut description = example();
        for (path, version, expected) in [
            ("/older", 1, "/runs/7/body"),
            ("/newer", 4, "/newer"),
            ("/older", 3, "/newer"),
            ("/moved/newer", 4, "/moved/newer"),
            (&"/a".repeat(DESCRIPTION_LIMIT_BYTES / 2), 5, "/moved/newer"),
        ] {
            description.set_path(path, version);
            assert_eq!(description.path, expected);
        }
        assert_eq!(description.path_version, 4);
    }

    #[test]
    fn a_synced_set_only_grows() {
        let mut description = Description { synced: None, ..example() };
        assert!(description.add_synced(&[]), "it is known now");
        assert!(description.add_synced(&[2, 1]) && !description.add_synced(&[2]));
        assert!(description.add_synced(&[1]));
        assert_eq!(description.synced, Some(vec![3, 1]));
    }
}
