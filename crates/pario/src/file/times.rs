//! The times of files and directories.

use pario_proto::{NamespaceRequest, Request, SubfileLocation};

use super::File;
use crate::cluster::Cluster;
use crate::connection::Waiting;
use crate::error::Error;

impl File {
    /// Sets the time of the last change, in nanoseconds since 1970. The next write sets it anew.
    /// The time survives the end of any process, but not always a power loss.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/data")?;
    /// file.write_at(b"measured long ago", 0)?;
    /// file.set_modified(1_000_000_000_000_000_000)?;
    /// assert_eq!(file.metadata()?.modified_ns, 1_000_000_000_000_000_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_modified(&self, modified_ns: u64) -> Result<(), Error> {
        self.striped("set the time of")?;
        self.check_writable()?;
        self.note_write();
        self.for_all_parts(|grant, part| Request::SetModified { grant, part, modified_ns })
            .map(|_| ())
    }

    /// Starts to set the time of some subfiles.
    pub(super) fn start_setting_time(
        &self,
        parts: &[SubfileLocation],
        modified_ns: u64,
    ) -> Result<Vec<Waiting>, Error> {
        let grant = self.grant();
        let start = |part: &SubfileLocation| {
            let shared = &self.state.cluster.shared;
            let request = Request::SetModified { grant: grant.clone(), part: *part, modified_ns };
            shared.node(shared.node_of(part.disk)?).start(request, Vec::new())
        };
        parts.iter().map(start).collect()
    }

    /// Waits until the time is set. Repeats a request that a node has refused because of the grant.
    pub(super) fn finish_setting_time(
        &self,
        started: Result<Vec<Waiting>, Error>,
        modified_ns: u64,
    ) -> Result<(), Error> {
        let mut set = Ok(());
        for waiting in started? {
            set = set.and(waiting.wait().map(|_| ()));
        }
        match set {
            Err(error) if error.needs_renewal() => self.set_modified(modified_ns),
            set => set.map_err(|error| error.of_file(self.state.path.as_str())),
        }
    }
}

impl Cluster {
    /// Sets the time of the last change of names in a directory, in nanoseconds since 1970. Only
    /// its owner and root may do that.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.make_directory("/old")?;
    /// cluster.set_directory_time("/old", 1_000_000_000_000_000_000)?;
    /// assert_eq!(cluster.metadata("/old")?.modified_ns, 1_000_000_000_000_000_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_directory_time(&self, path: &str, changed_ns: u64) -> Result<(), Error> {
        let path = pario_proto::FilePath::new(path)?;
        self.names(NamespaceRequest::SetDirectoryTime { path, changed_ns }).map(|_| ())
    }
}
