//! Extents of a file of extents.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use bytes::Bytes;
use pario_net::{Bulk, StartedRequest};
use pario_proto::{
    ExtentIndex, ExtentMeasure, ExtentPlacement, FileKind, Grant, Reply, Request, SubfileIndex,
    SubfileLocation,
};

use super::File;
use super::started::{WriteContent, poll_reply};
use crate::connection::{Waiting, answered, strange};
use crate::error::Error;
use crate::pending::Pending;

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
    /// Reads an extent; none if the file does not have it.
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
    /// tiles.write_extent(b"64x64", &[0; 4096], place)?;
    /// let tile = tiles.read_extent(place)?.expect("written above");
    /// assert_eq!(&tile.header[..], b"64x64");
    /// assert!(tiles.delete_extent(place)?);
    /// assert!(tiles.read_extent(place)?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_extent(&self, place: ExtentPlacement) -> Result<Option<Extent>, Error> {
        self.check_readable()?;
        extent_of(self.extent_call(place, Vec::new(), |grant, part| Request::ReadExtent {
            grant,
            disk: part.disk,
            place,
        })?)
    }

    /// Replaces an extent atomically: a reader gets the old extent or the new one.
    pub fn write_extent(
        &self,
        header: &[u8],
        body: &[u8],
        place: ExtentPlacement,
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

    /// Starts to read an extent. Any number of reads may be under way.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use pario::{ExtentIndex, ExtentPlacement, SubfileIndex};
    ///
    /// let tiles =
    ///     cluster.options().read(true).write(true).create(true).extents().open("/tiles")?;
    /// let place = |extent| ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(extent) };
    /// let writes: Vec<_> = (0..4)
    ///     .map(|number| tiles.start_write_extent(&b""[..], vec![7; 1000], place(number)))
    ///     .collect::<Result<_, _>>()?; // four are under way
    /// for write in writes {
    ///     write.wait()?;
    /// }
    /// let (first, last) = (tiles.start_read_extent(place(0))?, tiles.start_read_extent(place(3))?);
    /// assert_eq!(first.wait()?, last.wait()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_read_extent(
        &self,
        place: ExtentPlacement,
    ) -> Result<Pending<Option<Extent>>, Error> {
        self.check_readable()?;
        let part = self.part_of(place)?;
        let request = Request::ReadExtent { grant: self.grant(), disk: part.disk, place };
        let request = Some(self.start_extent_call(part, request, Vec::new())?);
        Ok(Pending::started(StartedExtentRead { file: self.share(), place, request }))
    }

    /// Starts to replace an extent atomically. Header and body are sent from where they are. Any
    /// number of writes may be under way; of two writes of one extent, either may be the last.
    pub fn start_write_extent(
        &self,
        header: impl Into<Bytes>,
        body: impl Into<Bytes>,
        place: ExtentPlacement,
    ) -> Result<Pending<()>, Error> {
        self.check_writable()?;
        let part = self.part_of(place)?;
        self.note_write();
        let (header, body) = (header.into(), body.into());
        let data = vec![Bulk::from(header.clone()), Bulk::from(body.clone())];
        let request = Request::WriteExtent { grant: self.grant(), disk: part.disk, place };
        let request = self.start_extent_call(part, request, data)?;
        Ok(self.pending_write(vec![request], WriteContent::Extent { header, body, place }))
    }

    /// Deletes an extent. Returns whether the file had it.
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

    /// Lists all extents, subfile after subfile, each in order. The listing fetches pages, so that
    /// the file may have any number of them.
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
    ///     tiles.write_extent(b"", &[1; 100], place)?;
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

    /// Lists all extents, also for a file that was opened for writing only.
    pub(super) fn all_extents(&self) -> Result<Extents<'_>, Error> {
        self.check_extents()?;
        Ok(Extents { file: self, next: Some(first_of(0)), page: VecDeque::new() })
    }

    fn check_extents(&self) -> Result<(), Error> {
        if self.state.record.kind == FileKind::Extents {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{}: this is a file of bytes, it has no extents; create files of extents with \
             `extents()`",
            self.state.path
        )))
    }

    /// The subfile of an extent.
    fn part_of(&self, place: ExtentPlacement) -> Result<SubfileLocation, Error> {
        self.check_extents()?;
        self.state.parts.get(place.subfile.0 as usize).copied().ok_or_else(|| {
            Error::invalid(format!(
                "{}: there is no {}; the file has {}, numbered from 0",
                self.state.path,
                place.subfile,
                self.state.parts.len()
            ))
        })
    }

    fn extent_call(
        &self,
        place: ExtentPlacement,
        data: Vec<Bulk>,
        request: impl Fn(Grant, SubfileLocation) -> Request,
    ) -> Result<(Reply, Vec<Bulk>), Error> {
        let part = self.part_of(place)?;
        let shared = &self.state.cluster.shared;
        self.with_renewal(self.grant(), |grant| {
            let node = shared.node(shared.node_of(part.disk)?);
            node.start(request(grant, part), data.clone())?.wait()
        })
    }

    fn start_extent_call(
        &self,
        part: SubfileLocation,
        request: Request,
        data: Vec<Bulk>,
    ) -> Result<Waiting, Error> {
        let shared = &self.state.cluster.shared;
        let node = shared.node_of(part.disk).map(|node| shared.node(node));
        let started = node.and_then(|node| node.start(request, data));
        started.map_err(|error| error.of_file(self.state.path.as_str()))
    }
}

/// A started read of an extent.
struct StartedExtentRead {
    file: File,
    place: ExtentPlacement,
    /// Present until the reply is taken.
    request: Option<Waiting>,
}

impl StartedExtentRead {
    /// The extent in a reply. A read that a node has refused because of the grant is repeated with
    /// a new one.
    fn finish(&self, reply: Result<(Reply, Vec<Bulk>), Error>) -> Result<Option<Extent>, Error> {
        match reply {
            Ok(reply) => extent_of(reply),
            Err(error) if error.needs_renewal() => self.file.read_extent(self.place),
            Err(error) => Err(error.of_file(self.file.state.path.as_str())),
        }
    }
}

impl StartedRequest<Option<Extent>, Error> for StartedExtentRead {
    fn is_done(&self) -> bool {
        self.request.as_ref().is_none_or(|request| request.pending.is_done())
    }

    fn wait(mut self: Box<Self>) -> Result<Option<Extent>, Error> {
        match self.request.take() {
            Some(request) => self.finish(request.wait()),
            None => Err(strange("storage")),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Extent>, Error>> {
        let Some(request) = &mut self.request else {
            return Poll::Ready(Err(strange("storage")));
        };
        let reply = std::task::ready!(poll_reply(&mut request.pending, context));
        let reply = answered(request.node(), reply);
        self.request = None;
        Poll::Ready(self.finish(reply))
    }
}

/// The extent in the reply of a node.
fn extent_of((reply, data): (Reply, Vec<Bulk>)) -> Result<Option<Extent>, Error> {
    match (reply, data.as_slice()) {
        (Reply::Extent { is_there: false }, _) => Ok(None),
        (Reply::Extent { is_there: true }, [header, body]) => Ok(Some(Extent {
            header: header.clone().into_bytes(),
            body: body.clone().into_bytes(),
        })),
        _ => Err(strange("storage")),
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
            _ if (subfile.0 as usize) + 1 < self.file.state.parts.len() => {
                Some(first_of(subfile.0 + 1))
            }
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
