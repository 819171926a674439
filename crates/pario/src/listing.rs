//! The listing of a directory, page by page.

use std::collections::VecDeque;

use pario_proto::{FilePath, FileRecord, NamespaceRequest, Reply};

use crate::cluster::Cluster;
use crate::connection::strange;
use crate::error::Error;
use crate::metadata::{Metadata, measure};

/// Names of one page.
const PAGE: u32 = 1000;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its name.
    pub name: String,
    /// Its record in the namespace.
    pub record: FileRecord,
    /// Size and times, if the caller asked for them and the disks have answered.
    pub measured: Option<Metadata>,
}

/// The entries of a directory, in order of their names; made by [`Cluster::list`].
///
/// Names that are created or removed during the listing may or may not be among them; every other
/// name is listed once.
#[derive(Debug)]
pub struct Listing {
    cluster: Cluster,
    path: FilePath,
    with_sizes: bool,
    page: VecDeque<ListedEntry>,
    /// The last name of the page.
    last: Option<String>,
    is_more: bool,
}

impl Listing {
    pub(crate) fn begin(
        cluster: &Cluster,
        path: FilePath,
        with_sizes: bool,
    ) -> Result<Self, Error> {
        let cluster = cluster.clone();
        let page = VecDeque::new();
        let mut listing = Self { cluster, path, with_sizes, page, last: None, is_more: true };
        listing.fetch()?;
        Ok(listing)
    }

    fn fetch(&mut self) -> Result<(), Error> {
        let after = self.last.clone();
        let request = NamespaceRequest::List { path: self.path.clone(), after, limit: PAGE };
        let Reply::Entries { entries, grants, is_more } = self.cluster.names(request)? else {
            return Err(strange("interface"));
        };
        self.is_more = is_more;
        self.last = entries.last().map(|entry| entry.name.clone());
        let mut measured = vec![None; entries.len()];
        if self.with_sizes {
            let records = entries.iter().map(|entry| entry.record.clone());
            let asked = records.zip(grants).collect();
            // The sizes of a node that does not answer are missing; the names are not.
            let all = measure(&self.cluster.shared, asked);
            measured = all.into_iter().map(Result::ok).collect();
        }
        let listed = entries.into_iter().zip(measured).map(|(entry, measured)| ListedEntry {
            name: entry.name,
            record: entry.record,
            measured,
        });
        self.page.extend(listed);
        Ok(())
    }
}

impl Iterator for Listing {
    type Item = Result<ListedEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.is_empty()
            && self.is_more
            && let Err(error) = self.fetch()
        {
            self.is_more = false;
            return Some(Err(error));
        }
        self.page.pop_front().map(Ok)
    }
}
