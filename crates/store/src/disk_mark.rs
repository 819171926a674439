//! The disk mark `pario.disk`: the file that makes a directory a disk. It holds the disk's id and
//! format version, and the process that opens the disk locks it.

use std::io;

use zerocopy::little_endian::{U16, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::checksum::checksum;
use crate::error::{DiskContext, StoreError};
use crate::medium::{Medium, MediumOpenMode};

/// The name of the mark in the directory of a disk.
pub(crate) const MARK_FILE: &str = "pario.disk";
/// The temporary name of a new mark, until [`publish`] renames it.
pub(crate) const NEW_MARK_FILE: &str = "new-pario.disk";
/// The newest disk format that this program reads, and the one that it writes.
pub(crate) const DISK_VERSION: u16 = 2;

const MAGIC: [u8; 8] = *b"PARIODSK";
const CHECKED_FROM: usize = 16;

/// The bytes of `pario.disk`.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawDiskMark {
    magic: [u8; 8],
    checksum: U64,
    version: U16,
    reserved: [u8; 14],
    id: U128,
}

/// The id and the format version of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskMark {
    pub(crate) id: u128,
    pub(crate) version: u16,
}

impl DiskMark {
    /// The mark of a new disk, with a random id.
    pub(crate) fn new() -> io::Result<Self> {
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self { id: u128::from_le_bytes(id), version: DISK_VERSION })
    }

    /// Writes the mark under its temporary name and syncs it; [`publish`] puts it into effect.
    pub(crate) fn write(self, medium: &dyn Medium) -> io::Result<()> {
        let mut bytes = RawDiskMark {
            magic: MAGIC,
            checksum: U64::ZERO,
            version: U16::new(self.version),
            reserved: [0; 14],
            id: U128::new(self.id),
        };
        bytes.checksum = U64::new(checksum(&[&bytes.as_bytes()[CHECKED_FROM..]]));
        match medium.remove_file(NEW_MARK_FILE) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
        let file = medium.open(NEW_MARK_FILE, mode)?;
        file.write_all_at(bytes.as_bytes(), 0)?;
        file.sync()
    }

    /// Reads the mark of a disk.
    pub(crate) fn read(medium: &dyn Medium, context: &DiskContext) -> Result<Self, StoreError> {
        let mut bytes = [0; size_of::<RawDiskMark>()];
        let read = medium
            .open(MARK_FILE, MediumOpenMode::default())
            .and_then(|file| file.read_at(&mut bytes, 0));
        let count = read.map_err(|error| not_a_disk(context, error))?;
        let invalid = |why: &str| StoreError::NotADisk {
            disk: context.name.clone(),
            why: format!("its {MARK_FILE} {why}"),
        };
        let mark = RawDiskMark::ref_from_bytes(&bytes).expect("just as long");
        if count < bytes.len() || mark.magic != MAGIC {
            return Err(invalid("is another file"));
        }
        let version = mark.version.get();
        if version > DISK_VERSION {
            let (disk, name) = (context.name.clone(), MARK_FILE.to_owned());
            let (found, known) = (version, DISK_VERSION);
            return Err(StoreError::NewerVersion { disk, name, found, known });
        }
        if checksum(&[&bytes[CHECKED_FROM..]]) != mark.checksum.get() {
            return Err(invalid("is damaged"));
        }
        Ok(Self { id: mark.id.get(), version })
    }
}

/// Puts the mark that [`DiskMark::write`] has written into effect, durably.
pub(crate) fn publish(medium: &dyn Medium) -> io::Result<()> {
    medium.rename(NEW_MARK_FILE, MARK_FILE)?;
    medium.sync_dir("")
}

/// The error of a directory that cannot be opened as a disk.
pub(crate) fn not_a_disk(context: &DiskContext, error: io::Error) -> StoreError {
    let disk = context.name.clone();
    match error.kind() {
        io::ErrorKind::NotFound => {
            StoreError::NotADisk { disk, why: format!("there is no {MARK_FILE} in it") }
        }
        io::ErrorKind::NotADirectory => {
            StoreError::NotADisk { disk, why: "it is not a directory".into() }
        }
        _ => context.io(error, "open its directory"),
    }
}
