//! Making a file longer without cutting what others write meanwhile.

use pario_proto::Request;

use super::File;
use crate::error::Error;

impl File {
    /// Makes the file at least so long; what is added reads as zeros. A file that is longer stays as
    /// it is, also if somebody makes it longer at this moment.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/data")?;
    /// file.grow(1_000_000)?;
    /// file.grow(10)?;
    /// assert_eq!(file.len()?, 1_000_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn grow(&self, len: u64) -> Result<(), Error> {
        let striped = self.striped("resize")?;
        self.check_writable()?;
        self.range(len, 0)?;
        self.note_write();
        let lens: Vec<u64> = striped.subfile_lens_bytes(len).collect();
        self.for_all_parts(|grant, part| Request::Grow {
            grant,
            part,
            len: lens[part.subfile.0 as usize],
        })
        .map(|_| ())
    }
}
