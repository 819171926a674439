//! `pario.disk`: the file that makes a directory a disk, and carries its id, version and lock.

use std::io;

use zerocopy::little_endian::{U16, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::checksum::checksum;
use crate::error::{DiskPlace, StoreError};
use crate::medium::{Medium, OpenHow};

/// The name of the mark in the directory of a disk.
pub(crate) const MARK: &str = "pario.disk";
/// The name under which a new mark is written.
pub(crate) const NEW_MARK: &str = "new-pario.disk";
/// The newest disk format this program reads and the one it writes.
pub(crate) const DISK_VERSION: u16 = 2;

const MAGIC: [u8; 8] = *b"PARIODSK";
const CHECKED_FROM: usize = 16;

/// What `pario.disk` holds.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Bytes {
    magic: [u8; 8],
    checksum: U64,
    version: U16,
    reserved: [u8; 14],
    id: U128,
}

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) id: u128,
    pub(crate) version: u16,
}

impl Mark {
    /// The mark of a new disk.
    pub(crate) fn new() -> io::Result<Self> {
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self { id: u128::from_le_bytes(id), version: DISK_VERSION })
    }

    /// Writes the mark under its new name, durably; [`put_in_place`] makes it count.
    pub(crate) fn write(self, medium: &dyn Medium) -> io::Result<()> {
        let mut bytes = Bytes {
            magic: MAGIC,
            checksum: U64::ZERO,
            version: U16::new(self.version),
            reserved: [0; 14],
            id: U128::new(self.id),
        };
        bytes.checksum = U64::new(checksum(&[&bytes.as_bytes()[CHECKED_FROM..]]));
        match medium.remove_file(NEW_MARK) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let how = OpenHow { create: true, write: true, direct_alignment: None };
        let file = medium.open(NEW_MARK, how)?;
        file.write_all_at(bytes.as_bytes(), 0)?;
        file.sync()
    }

    /// Reads the mark of a disk.
    pub(crate) fn read(medium: &dyn Medium, place: &DiskPlace) -> Result<Self, StoreError> {
        let mut bytes = [0; size_of::<Bytes>()];
        let read =
            medium.open(MARK, OpenHow::default()).and_then(|file| file.read_at(&mut bytes, 0));
        let count = read.map_err(|error| not_a_disk(place, error))?;
        let strange = |why: &str| StoreError::NotADisk {
            disk: place.disk.clone(),
            why: format!("its {MARK} {why}"),
        };
        let mark = Bytes::ref_from_bytes(&bytes).expect("just as long");
        if count < bytes.len() || mark.magic != MAGIC {
            return Err(strange("is another file"));
        }
        let version = mark.version.get();
        if version > DISK_VERSION {
            let (disk, name) = (place.disk.clone(), MARK.to_owned());
            let (found, known) = (version, DISK_VERSION);
            return Err(StoreError::NewerVersion { disk, name, found, known });
        }
        if checksum(&[&bytes[CHECKED_FROM..]]) != mark.checksum.get() {
            return Err(strange("is damaged"));
        }
        Ok(Self { id: mark.id.get(), version })
    }
}

/// Lets the mark that was written count: from now on the directory is what it says.
pub(crate) fn put_in_place(medium: &dyn Medium) -> io::Result<()> {
    medium.rename(NEW_MARK, MARK)?;
    medium.sync_dir("")
}

/// Why a directory is no disk.
pub(crate) fn not_a_disk(place: &DiskPlace, error: io::Error) -> StoreError {
    let disk = place.disk.clone();
    match error.kind() {
        io::ErrorKind::NotFound => {
            StoreError::NotADisk { disk, why: format!("there is no {MARK} in it") }
        }
        io::ErrorKind::NotADirectory => {
            StoreError::NotADisk { disk, why: "it is not a directory".into() }
        }
        _ => place.io(error, "open it"),
    }
}
