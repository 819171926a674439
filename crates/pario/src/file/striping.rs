//! Another striping for a file that is still empty.

use pario_proto::{DiskChoice, DiskId, LayoutChoice, NamespaceRequest};

use super::File;
use crate::error::Error;

impl File {
    /// Gives an empty file another striping unit and other disks. A new file takes the name, the
    /// owner and the permissions: open the name again, because this object stands for the file
    /// before, which has no name any more.
    ///
    /// Fails if the file has bytes, if it is not open for writing, and while it is open elsewhere.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use pario::DiskId;
    ///
    /// let file = cluster.create("/data")?;
    /// file.set_striping(1 << 20, &[DiskId(2), DiskId(0)])?;
    /// drop(file);
    /// assert_eq!(cluster.metadata("/data")?.subfiles.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_striping(&self, unit_bytes: u64, disks: &[DiskId]) -> Result<(), Error> {
        self.striped("replace")?;
        self.check_writable()?;
        let len = self.len()?;
        if len > 0 {
            return Err(Error::invalid(format!(
                "{}: the striping of a file can only change while it is empty, and it has {len} \
                 bytes: copy it to a new file",
                self.state.path
            )));
        }
        let disks = DiskChoice::These(disks.to_vec());
        let layout = LayoutChoice::Striped { unit_bytes: Some(unit_bytes), disks };
        let request = NamespaceRequest::SetLayout { handle: self.state.handle, layout };
        self.state.cluster.names(request).map(|_| ())
    }
}
