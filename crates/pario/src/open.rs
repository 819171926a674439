//! Options for opening and creating files.

use pario_proto::{
    Access, DiskChoice, DiskId, FilePath, Layout, LayoutChoice, NamespaceRequest, Reply,
};

use crate::cluster::Cluster;
use crate::connection::strange;
use crate::error::{Error, ErrorKind};
use crate::file::File;

/// Options for opening or creating a file; made by [`Cluster::options`].
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// let file = cluster
///     .options()
///     .read(true)
///     .write(true)
///     .create_new(true)
///     .unit(1 << 20) // one MiB per disk in turn
///     .disk_count(2)
///     .mode(0o600)
///     .open("/large")?;
/// assert_eq!(file.metadata()?.subfiles.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it opens nothing until `open` is called"]
pub struct OpenOptions<'c> {
    cluster: &'c Cluster,
    access: Access,
    is_create: bool,
    is_new: bool,
    has_parents: bool,
    is_truncate: bool,
    is_atomic: bool,
    is_append: bool,
    mode: u32,
    unit_bytes: Option<u64>,
    disks: DiskSelection,
    is_extents: bool,
    layout: Option<Layout>,
}

#[derive(Clone, Debug)]
/// The disks of a new file, as the caller names them.
enum DiskSelection {
    All,
    Count(u32),
    These(Vec<String>),
}

impl<'c> OpenOptions<'c> {
    pub(crate) fn new(cluster: &'c Cluster) -> Self {
        Self {
            cluster,
            access: Access::LOOK,
            is_create: false,
            is_new: false,
            has_parents: false,
            is_truncate: false,
            is_atomic: false,
            is_append: false,
            mode: 0o644,
            unit_bytes: None,
            disks: DiskSelection::All,
            is_extents: false,
            layout: None,
        }
    }

    /// Opens the file for reading.
    pub fn read(mut self, yes: bool) -> Self {
        self.access.read = yes;
        self
    }

    /// Opens the file for writing.
    pub fn write(mut self, yes: bool) -> Self {
        self.access.write = yes;
        self
    }

    /// Creates the file if it does not exist.
    pub fn create(mut self, yes: bool) -> Self {
        self.is_create = yes;
        self
    }

    /// Creates the file; fails if it exists.
    pub fn create_new(mut self, yes: bool) -> Self {
        self.is_new = yes;
        self
    }

    /// Creates the missing directories above a new file. Has no effect on a file that exists.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let options = cluster.options().write(true).create_new(true);
    /// let error = options.clone().open("/runs/7/state").unwrap_err();
    /// assert!(error.to_string().contains("create_parents"));
    /// options.create_parents(true).open("/runs/7/state")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_parents(mut self, yes: bool) -> Self {
        self.has_parents = yes;
        self
    }

    /// Empties a file that exists.
    pub fn truncate(mut self, yes: bool) -> Self {
        self.is_truncate = yes;
        self
    }

    /// Makes all accesses through the file atomic. Accesses of all processes that have opened the
    /// file in this way, or in mode M_UNIX, never mix: a read returns what one or the other of two
    /// writes has left, and never parts of both. Accesses through files that were opened otherwise
    /// may mix with them.
    ///
    /// A process that has the file open alone pays no message for it. If a second one opens it, each
    /// access asks the home node of the file first. See docs/coordination.md.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let state = cluster.options().read(true).write(true).create(true).atomic(true);
    /// state.open("/state")?.write_at(&[7; 1_000_000], 0)?; // all of it, or nothing
    /// # Ok(())
    /// # }
    /// ```
    pub fn atomic(mut self, yes: bool) -> Self {
        self.is_atomic = yes;
        self
    }

    /// Opens the file for writing at its end. Each write at the pointer, and each
    /// [`append`](File::append), goes to the end that the file has at that time, whichever processes
    /// append to it. Accesses are atomic, as with [`atomic`](Self::atomic).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use std::io::Write;
    ///
    /// let options = cluster.options().append(true).create(true);
    /// let (mut log, mut same) = (options.clone().open("/log")?, options.open("/log")?);
    /// writeln!(log, "first")?;
    /// writeln!(same, "second")?;
    /// writeln!(log, "third")?;
    /// assert_eq!(log.len()?, 19);
    /// # Ok(())
    /// # }
    /// ```
    pub fn append(mut self, yes: bool) -> Self {
        self.is_append = yes;
        self.access.write |= yes;
        self
    }

    /// Sets the permissions of a new file: `0o644` by default.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the striping unit of a new file: the number of consecutive bytes on one disk. 64 KiB by
    /// default.
    pub fn unit(mut self, bytes: u64) -> Self {
        self.unit_bytes = Some(bytes);
        self
    }

    /// Sets the number of disks of a new file: all by default.
    pub fn disk_count(mut self, count: u32) -> Self {
        self.disks = DiskSelection::Count(count);
        self
    }

    /// Sets the disks of a new file, in this order: names like `local/disk2`, or their numbers.
    pub fn disks<I: IntoIterator<Item = S>, S: Into<String>>(mut self, disks: I) -> Self {
        self.disks = DiskSelection::These(disks.into_iter().map(Into::into).collect());
        self
    }

    /// Creates a new file as one of extents instead of bytes.
    pub fn extents(mut self) -> Self {
        self.is_extents = true;
        self
    }

    /// Sets the complete layout of a new file.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Opens the file.
    pub fn open(self, path: &str) -> Result<File, Error> {
        let path = FilePath::new(path)?;
        let access = self.checked_access(&path)?;
        let reply = match self.creation(&path)? {
            Some((is_new, mode, layout)) => {
                self.make_parents(&path)?;
                let wanted = path.clone();
                let create =
                    NamespaceRequest::Create { path: wanted, access, is_new, mode, layout };
                self.cluster.names(create).map_err(|error| error.of_creation(&path))
            }
            None => self.cluster.names(NamespaceRequest::Open { path: path.clone(), access }),
        };
        let Reply::Opened(opened) = reply? else {
            return Err(strange("interface"));
        };
        let is_created = opened.is_created;
        let file = File::new(self.cluster, path, access, opened);
        self.prepare(&file, is_created)?;
        Ok(file)
    }

    /// Prepares a file that was opened: makes it atomic, and empties it, if the options say so.
    pub(crate) fn prepare(&self, file: &File, is_created: bool) -> Result<(), Error> {
        if self.is_atomic || self.is_append {
            file.open_atomically(self.is_append)?;
        }
        if self.is_truncate && !is_created {
            file.empty()?;
        }
        Ok(())
    }

    /// The cluster that the file is in.
    pub(crate) fn cluster(&self) -> &Cluster {
        self.cluster
    }

    /// The access that is requested; fails if it contradicts the other options.
    pub(crate) fn checked_access(&self, path: &FilePath) -> Result<Access, Error> {
        let access = self.access;
        if (self.is_create || self.is_new || self.is_truncate) && !access.write {
            return Err(Error::invalid(format!(
                "{path}: a file that is created or emptied must be opened for writing too"
            )));
        }
        if !access.read && !access.write {
            return Err(Error::invalid(format!(
                "{path}: open it for reading, for writing, or both"
            )));
        }
        Ok(access)
    }

    /// Creates the missing directories above a new file, if the options say so.
    pub(crate) fn make_parents(&self, path: &FilePath) -> Result<(), Error> {
        if !self.has_parents || !(self.is_create || self.is_new) {
            return Ok(());
        }
        let Some(parent) = path.parent().filter(|parent| !parent.is_root()) else { return Ok(()) };
        match self.cluster.metadata(parent.as_str()) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.cluster.make_directories(parent.as_str())
            }
            // The creation of the file reports every other error.
            _ => Ok(()),
        }
    }

    /// For a creation: whether the file must be new, its permissions and its layout.
    pub(crate) fn creation(
        &self,
        path: &FilePath,
    ) -> Result<Option<(bool, u32, LayoutChoice)>, Error> {
        if !self.is_create && !self.is_new {
            return Ok(None);
        }
        Ok(Some((self.is_new, self.mode, self.layout_choice(path)?)))
    }

    fn layout_choice(&self, path: &FilePath) -> Result<LayoutChoice, Error> {
        if let Some(layout) = &self.layout {
            return Ok(LayoutChoice::Exactly(layout.clone()));
        }
        let disks = match &self.disks {
            DiskSelection::All => DiskChoice::All,
            DiskSelection::Count(count) => DiskChoice::Count(*count),
            DiskSelection::These(names) => {
                let ids: Result<Vec<DiskId>, Error> =
                    names.iter().map(|name| self.disk_of(path, name)).collect();
                DiskChoice::These(ids?)
            }
        };
        if self.is_extents {
            return Ok(LayoutChoice::Extents { disks });
        }
        Ok(LayoutChoice::Striped { unit_bytes: self.unit_bytes, disks })
    }

    fn disk_of(&self, path: &FilePath, name: &str) -> Result<DiskId, Error> {
        let map = self.cluster.map();
        let disks = map.nodes.iter().flat_map(|node| &node.disks);
        let found = disks.clone().find(|disk| {
            map.disk_name(disk.id) == name || name.parse().is_ok_and(|id: u32| disk.id.0 == id)
        });
        match found {
            Some(disk) => Ok(disk.id),
            None => {
                let known: Vec<String> = disks.map(|disk| map.disk_name(disk.id)).collect();
                Err(Error::invalid(format!(
                    "{path}: the cluster has no disk {name:?}; it has {}",
                    known.join(", ")
                )))
            }
        }
    }
}
