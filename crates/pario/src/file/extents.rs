//! Extents of a file of extents.

use std::collections::VecDeque;

use bytes::Bytes;
use pario_net::Bulk;
use pario_proto::{
    ExtentIndex, ExtentMeasure, ExtentPlacement, FileKind, Grant, Reply, Request, SubfileIndex,
    SubfileLocation,
};

use super::File;
use crate::connection::strange;
use crate::error::Error;

/// Extents of one page.
const PAGE: u32 = 4096;

/// An extent: a header and a body that are read together and replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The header.
    pub header: Bytes,
    /// The body.
    pub body: Bytes,
}

impl File {
    /// An extent, if it is there.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use pario::{ExtentIndex, ExtentPlacement, SubfileIndex};
    ///
    /// let tiles =
    ///     cluster.options().read(true).write(true).create(true).extents().open("/tiles")?;
    /// let place = ExtentPlacement { subfile: SubfileIndex(2), extent: ExtentIndex(7) };
    /// tiles.write_extent(place, b"64x64", &[0; 4096])?;
    /// let tile = tiles.read_extent(place)?.expect("written above");
    /// assert_eq!(&tile.header[..], b"64x64");
    /// assert!(tiles.delete_extent(place)?);
    /// assert!(tiles.read_extent(place)?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_extent(&self, place: ExtentPlacement) -> Result<Option<Extent>, Error> {
        self.check_readable()?;
        let (reply, data) = self.extent_call(place, Vec::new(), |grant, part| {
            Request::ReadExtent { grant, disk: part.disk, place }
        })?;
        match (reply, data.as_slice()) {
            (Reply::Extent { is_there: false }, _) => Ok(None),
            (Reply::Extent { is_there: true }, [header, body]) => Ok(Some(Extent {
                header: header.clone().into_bytes(),
                body: body.clone().into_bytes(),
            })),
            _ => Err(strange("storage")),
        }
    }

    /// Replaces an extent, at once: whoever reads it sees the old or the new one.
    pub fn write_extent(
        &self,
        place: ExtentPlacement,
        header: &[u8],
        body: &[u8],
    ) -> Result<(), Error> {
        self.check_writable()?;
        self.note_write();
        let data = vec![Bulk::from(header.to_vec()), Bulk::from(body.to_vec())];
        self.extent_call(place, data, |grant, part| Request::WriteExtent {
            grant,
            disk: part.disk,
            place,
        })
        .map(|_| ())
    }

    /// Deletes an extent; whether it was there.
    pub fn delete_extent(&self, place: ExtentPlacement) -> Result<bool, Error> {
        self.check_writable()?;
        self.note_write();
        let (reply, _) = self.extent_call(place, Vec::new(), |grant, part| {
            Request::DeleteExtent { grant, disk: part.disk, place }
        })?;
        match reply {
            Reply::Deleted { was_there } => Ok(was_there),
            _ => Err(strange("storage")),
        }
    }

    /// All extents, subfile after subfile, each in order. They come in pages, so that many can be
    /// listed.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # use pario::{ExtentIndex, ExtentPlacement, SubfileIndex};
    /// let tiles =
    ///     cluster.options().read(true).write(true).create(true).extents().open("/tiles")?;
    /// for extent in 0..3 {
    ///     let place = ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(extent) };
    ///     tiles.write_extent(place, b"", &[1; 100])?;
    /// }
    /// for found in tiles.list_extents()? {
    ///     let (place, extent) = found?;
    ///     println!("{} {}: {} bytes", place.subfile, place.extent, extent.body_len);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_extents(&self) -> Result<Extents<'_>, Error> {
        self.check_readable()?;
        self.all_extents()
    }

    /// The same, also for those who may only write.
    pub(super) fn all_extents(&self) -> Result<Extents<'_>, Error> {
        self.check_extents()?;
        Ok(Extents { file: self, next: Some(first_of(0)), page: VecDeque::new() })
    }

    fn check_extents(&self) -> Result<(), Error> {
        if self.record.kind == FileKind::Extents {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{}: this is a file of bytes, it has no extents; create files of extents with \
             `extents()`",
            self.path
        )))
    }

    fn extent_call(
        &self,
        place: ExtentPlacement,
        data: Vec<Bulk>,
        request: impl Fn(Grant, SubfileLocation) -> Request,
    ) -> Result<(Reply, Vec<Bulk>), Error> {
        self.check_extents()?;
        let Some(part) = self.parts.get(place.subfile.0 as usize).copied() else {
            return Err(Error::invalid(format!(
                "{}: there is no {}; the file has {}, numbered from 0",
                self.path,
                place.subfile,
                self.parts.len()
            )));
        };
        let grant = self.grant();
        let shared = &self.cluster.shared;
        self.with_renewal(grant, |grant| {
            let node = shared.node(shared.node_of(part.disk)?);
            node.start(request(grant, part), data.clone())?.wait()
        })
    }
}

/// The extents of a file; made by [`File::list_extents`].
#[derive(Debug)]
pub struct Extents<'f> {
    file: &'f File,
    /// Where the next page begins.
    next: Option<ExtentPlacement>,
    page: VecDeque<(ExtentPlacement, ExtentMeasure)>,
}

fn first_of(subfile: u32) -> ExtentPlacement {
    ExtentPlacement { subfile: SubfileIndex(subfile), extent: ExtentIndex(0) }
}

impl Extents<'_> {
    fn fetch(&mut self, from: ExtentPlacement) -> Result<(), Error> {
        let (reply, _) = self.file.extent_call(from, Vec::new(), |grant, part| {
            Request::ListExtents { grant, disk: part.disk, from, limit: PAGE }
        })?;
        let Reply::Extents(found) = reply else { return Err(strange("storage")) };
        let is_full = found.len() == PAGE as usize;
        let last = found.last().map(|measure| measure.extent.0);
        let subfile = from.subfile;
        let placed =
            |measure: ExtentMeasure| (ExtentPlacement { subfile, extent: measure.extent }, measure);
        self.page.extend(found.into_iter().map(placed));
        self.next = match last {
            Some(last) if is_full && last + 1 < ExtentIndex::LIMIT => {
                Some(ExtentPlacement { subfile, extent: ExtentIndex(last + 1) })
            }
            _ if (subfile.0 as usize) + 1 < self.file.parts.len() => Some(first_of(subfile.0 + 1)),
            _ => None,
        };
        Ok(())
    }
}

impl Iterator for Extents<'_> {
    type Item = Result<(ExtentPlacement, ExtentMeasure), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.page.pop_front() {
                return Some(Ok(found));
            }
            let from = self.next?;
            if let Err(error) = self.fetch(from) {
                self.next = None;
                return Some(Err(error));
            }
        }
    }
}
