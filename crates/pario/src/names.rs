//! Files and directories by name.

use pario_proto::{FilePath, FileRecord, NamespaceRequest, Reply};

use crate::cluster::Cluster;
use crate::connection::strange;
use crate::error::{Error, ErrorKind};
use crate::file::File;
use crate::listing::Listing;
use crate::metadata::Metadata;
use crate::open::OpenOptions;

/// The outcome of a change of owner, group or mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RightsChanged {
    /// Nodes that hold a part of the file and have not acknowledged the change in time. Clients
    /// that had the file open may use it there as before, until the node reaches the interface node
    /// again.
    pub untold: Vec<String>,
}

impl Cluster {
    /// Opens a file for reading.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// assert!(cluster.open("/missing").is_err());
    /// cluster.create("/there")?;
    /// assert!(cluster.open("/there")?.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(&self, path: &str) -> Result<File, Error> {
        self.options().read(true).open(path)
    }

    /// Opens a file for reading and writing. Creates it if it does not exist, and empties it if it
    /// does.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/result")?;
    /// file.write_at(b"42", 0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(&self, path: &str) -> Result<File, Error> {
        self.options().read(true).write(true).create(true).truncate(true).open(path)
    }

    /// Like [`create`](Self::create), and creates the missing directories above the file.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.create_all("/runs/2026/7/result")?.write_at(b"42", 0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_all(&self, path: &str) -> Result<File, Error> {
        let options = self.options().read(true).write(true).create(true).truncate(true);
        options.create_parents(true).open(path)
    }

    /// Returns options for opening or creating a file in any other way.
    pub fn options(&self) -> OpenOptions<'_> {
        OpenOptions::new(self)
    }

    /// Returns the size, times, rights and subfiles of a file or directory.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.create("/data")?.write_at(&[1; 300_000], 0)?;
    /// let data = cluster.metadata("/data")?;
    /// assert_eq!(data.len, 300_000);
    /// assert_eq!(data.subfiles.len(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn metadata(&self, path: &str) -> Result<Metadata, Error> {
        let path = FilePath::new(path)?;
        Metadata::of_path(self, path)
    }

    /// Returns the record of a file or directory. Asks no disk, so it is cheaper than
    /// [`metadata`](Self::metadata), and works while nodes that hold disks are down.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.create("/data")?;
    /// assert_eq!(cluster.record("/data")?.mode, 0o644);
    /// assert!(cluster.record("/missing").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn record(&self, path: &str) -> Result<FileRecord, Error> {
        let path = FilePath::new(path)?;
        match self.names(NamespaceRequest::Stat { path })? {
            Reply::Stat { record, .. } => Ok(record),
            _ => Err(strange("interface")),
        }
    }

    /// Lists a directory in order of names, with sizes. The listing fetches pages, so that a large
    /// directory takes little memory.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.make_directory("/runs")?;
    /// cluster.create("/runs/a")?;
    /// cluster.create("/runs/b")?;
    /// let names: Vec<String> =
    ///     cluster.list("/runs")?.map(|entry| Ok(entry?.name)).collect::<Result<_, pario::Error>>()?;
    /// assert_eq!(names, ["a", "b"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, path: &str) -> Result<Listing, Error> {
        Listing::begin(self, FilePath::new(path)?, true)
    }

    /// Like [`list`](Self::list), without sizes, and so without requests to disks.
    pub fn list_names(&self, path: &str) -> Result<Listing, Error> {
        Listing::begin(self, FilePath::new(path)?, false)
    }

    /// Creates a directory.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.make_directory("/runs")?;
    /// assert!(cluster.make_directory("/runs").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn make_directory(&self, path: &str) -> Result<(), Error> {
        self.make_directory_with_mode(path, 0o755)
    }

    /// Like [`make_directory`](Self::make_directory), with these permissions instead of `0o755`.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.make_directory_with_mode("/private", 0o700)?;
    /// assert_eq!(cluster.record("/private")?.mode, 0o700);
    /// # Ok(())
    /// # }
    /// ```
    pub fn make_directory_with_mode(&self, path: &str, mode: u32) -> Result<(), Error> {
        let path = FilePath::new(path)?;
        self.names(NamespaceRequest::MakeDirectory { path, mode }).map(|_| ())
    }

    /// Creates a directory and the missing directories above it.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.make_directories("/runs/2026/7")?;
    /// cluster.make_directories("/runs/2026/7")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn make_directories(&self, path: &str) -> Result<(), Error> {
        let mut reached = FilePath::root();
        for name in FilePath::new(path)?.names() {
            reached = reached.join(name)?;
            match self.make_directory(reached.as_str()) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        if self.metadata(path)?.is_directory() {
            return Ok(());
        }
        Err(pario_proto::Failure::NotADirectory { path: reached }.into())
    }

    /// Removes an empty directory.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.make_directory("/old")?;
    /// cluster.remove_directory("/old")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_directory(&self, path: &str) -> Result<(), Error> {
        let path = FilePath::new(path)?;
        self.names(NamespaceRequest::RemoveDirectory { path }).map(|_| ())
    }

    /// Deletes a file. Processes that have it open can use it until they close it.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/scratch")?;
    /// cluster.remove("/scratch")?;
    /// file.write_at(b"still mine", 0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove(&self, path: &str) -> Result<(), Error> {
        let path = FilePath::new(path)?;
        self.names(NamespaceRequest::Remove { path }).map(|_| ())
    }

    /// Renames a file or directory. Replaces an existing file atomically, and an empty directory by
    /// a directory.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.create("/result.new")?;
    /// cluster.rename("/result.new", "/result")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let (from, to) = (FilePath::new(from)?, FilePath::new(to)?);
        self.names(NamespaceRequest::Rename { from, to }).map(|_| ())
    }

    /// Sets the permissions of a file or directory. They hold at every node from then on, except at
    /// those that the outcome names.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.create("/secret")?;
    /// cluster.set_mode("/secret", 0o600)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_mode(&self, path: &str, mode: u32) -> Result<RightsChanged, Error> {
        self.set_rights(path, Some(mode), None, None)
    }

    /// Changes the owner or the group of a file or directory.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.create("/shared")?;
    /// let group = cluster.identity()?.gids[0];
    /// cluster.set_owner("/shared", None, Some(group))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_owner(
        &self,
        path: &str,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<RightsChanged, Error> {
        self.set_rights(path, None, uid, gid)
    }

    fn set_rights(
        &self,
        path: &str,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<RightsChanged, Error> {
        let path = FilePath::new(path)?;
        match self.names(NamespaceRequest::SetRights { path, mode, uid, gid })? {
            Reply::RightsSet { untold } => Ok(RightsChanged { untold }),
            _ => Err(strange("interface")),
        }
    }
}
