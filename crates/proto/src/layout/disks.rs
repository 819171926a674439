//! The disks of a file, in the order of its subfiles.
//!
//! Invariants: at least one disk, at most [`Disks::MAX`], none twice. The order is part of the
//! layout: subfile `i` lies on disk number `i` of the list.

use std::collections::HashMap;

use thiserror::Error;

use crate::ids::{DiskId, SubfileIndex};

/// An ordered list of different disks, never empty.
///
/// ```
/// use pario_proto::{DiskId, Disks, SubfileIndex};
///
/// let disks = Disks::new([DiskId(7), DiskId(3)])?;
/// assert_eq!(disks.count(), 2);
/// assert_eq!(disks.disk_of(SubfileIndex(1)), Some(DiskId(3)));
/// assert_eq!(disks.subfile_on(DiskId(7)), Some(SubfileIndex(0)));
/// assert!(Disks::new([DiskId(7), DiskId(7)]).is_err());
/// # Ok::<(), pario_proto::DisksError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Disks {
    ids: Vec<DiskId>,
}

/// Why a list of disks cannot carry a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DisksError {
    /// The list was empty.
    #[error("the list of disks is empty: a file needs at least one disk")]
    Empty,
    /// A disk was named a second time.
    #[error(
        "{disk} is named twice, as number {first} and number {second} of the list: name each disk once"
    )]
    Twice {
        /// The disk concerned.
        disk: DiskId,
        /// Its first place in the list, from 0.
        first: usize,
        /// Its second place in the list, from 0.
        second: usize,
    },
    /// The list was longer than [`Disks::MAX`].
    #[error("the list names more than {} disks: spread the file over fewer disks", Disks::MAX)]
    TooMany,
}

impl Disks {
    /// The largest number of disks one file is spread over: its layout still fits into the
    /// description that each of its subfiles carries.
    pub const MAX: u32 = 8_192;

    /// Checks and takes a list of disks; subfile `i` will lie on the `i`-th of them.
    pub fn new(disks: impl IntoIterator<Item = DiskId>) -> Result<Disks, DisksError> {
        let mut ids = Vec::new();
        let mut places = HashMap::new();
        for (place, disk) in disks.into_iter().enumerate() {
            if place >= Disks::MAX as usize {
                return Err(DisksError::TooMany);
            }
            if let Some(first) = places.insert(disk, place) {
                return Err(DisksError::Twice { disk, first, second: place });
            }
            ids.push(disk);
        }
        if ids.is_empty() {
            return Err(DisksError::Empty);
        }
        Ok(Disks { ids })
    }

    /// The number of disks, which is the number of subfiles: at least 1.
    #[expect(clippy::cast_possible_truncation, reason = "at most Disks::MAX, checked in new")]
    pub fn count(&self) -> u32 {
        self.ids.len() as u32
    }

    /// The disk of a subfile; `None` if the file has no such subfile.
    pub fn disk_of(&self, subfile: SubfileIndex) -> Option<DiskId> {
        self.ids.get(subfile.0 as usize).copied()
    }

    /// The subfile on a disk; `None` if the file is not spread over that disk.
    pub fn subfile_on(&self, disk: DiskId) -> Option<SubfileIndex> {
        (0..).zip(&self.ids).find(|&(_, &id)| id == disk).map(|(subfile, _)| SubfileIndex(subfile))
    }

    /// The disks in the order of the subfiles.
    pub fn as_slice(&self) -> &[DiskId] {
        &self.ids
    }

    /// Whether the file has this subfile.
    pub fn has_subfile(&self, subfile: SubfileIndex) -> bool {
        subfile.0 < self.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_lists_are_refused_with_a_sentence() {
        assert_eq!(Disks::new([]), Err(DisksError::Empty));
        let twice = Disks::new([DiskId(4), DiskId(9), DiskId(4)]).unwrap_err();
        assert_eq!(
            twice.to_string(),
            "disk 4 is named twice, as number 0 and number 2 of the list: name each disk once"
        );
        let all = Disks::new((0..Disks::MAX).map(DiskId)).unwrap();
        assert_eq!(all.count(), Disks::MAX);
        assert_eq!(Disks::new((0..).map(DiskId)), Err(DisksError::TooMany));
    }
}
